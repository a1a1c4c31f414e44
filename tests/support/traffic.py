"""
Plausible traffic of a casino, made from a seed: what the service sends, in the order it might arrive.

Each story is one bet or one claim, with the states it may end in. Calls of all stories are interleaved, some are sent
more than once, and some overtake others, as a service that retries makes them (spec §6 promises no order).
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, TypeAlias

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import Outcome
from game_operator.models.webhooks import BalanceCall, MovingCall, RollbackCall, WebhookCall, WithdrawCall
from tests.support.calls import deposit, rollback, withdraw
from tests.support.seeds import random_of

#: A player without an account.
STRANGER = "stranger"
TOO_DEAR_CENTS = 10**14

Apply: TypeAlias = Callable[[WebhookCall], Outcome]


class Answer(NamedTuple):
    """What a call was answered with, and between which moments of the monotonic clock."""

    call: WebhookCall
    code: str | None
    balance_cents: int | None
    at_millis: int | None
    asked_at: float = 0.0
    answered_at: float = 0.0

    @property
    def definite(self) -> bool:
        """Whether the service would send the call no more."""
        return self.code != "SYSTEM_ERROR"


#: What was answered; threads append to it.
Log: TypeAlias = list[Answer]


class Story(NamedTuple):
    """One bet, or one claim: its calls in the order they happened, and the states a bet may end in."""

    bet_id: str
    player_id: str
    calls: tuple[MovingCall, ...]
    ends: frozenset[str]


@dataclass(frozen=True, slots=True)
class Traffic:
    """
    Stories of *players*, made from *seed*.

    Args:
        seed: The same seed makes the same traffic.
        players: Who plays; each must have an account that can pay all their wagers, unless *poor*.
        bets: How many stories.
        poor: Players may run out of money, so that any bet may be declined.
        name: How ids begin: traffic with two names never meets.
    """

    seed: int
    players: Sequence[str]
    bets: int
    poor: bool = False
    name: str = "t"
    stories: list[Story] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        random = random_of(self.seed)
        self.stories.extend(self._story(f"{self.name}-{self.seed}-{number}", random) for number in range(self.bets))

    def arrivals(self) -> list[WebhookCall]:
        """Return all calls in an order in which they might arrive: interleaved, repeated, some before their turn."""
        random = random_of(self.seed + 1)
        timed: list[tuple[float, int, WebhookCall]] = []
        for start, story in enumerate(self.stories):
            at = start + random.random()
            for call in story.calls:
                at += random.expovariate(0.5)
                late = random.expovariate(0.1) if random.random() < 0.15 else 0.0
                timed.append((at + late, len(timed), call))
                while random.random() < 0.3:
                    timed.append((at + random.expovariate(0.2), len(timed), call))
            if random.random() < 0.2:
                timed.append((at, len(timed), BalanceCall(player_id=random.choice(self.players))))
        return [call for _, _, call in sorted(timed)]

    def in_order(self) -> Iterator[MovingCall]:
        """Yield all calls once more, each story in the order it happened, as a service that never gives up."""
        for story in self.stories:
            yield from story.calls

    def _story(self, bet_id: str, random: Random) -> Story:
        player_id = random.choice(self.players)
        kinds: list[Callable[[str, str, Random], Story]] = [_won, _lost, _cancelled, _left_open, _contested, _rain]
        kinds += [_too_dear, _claim, _jackpot, _stranger]
        story = random.choices(kinds, (30, 25, 15, 5, 10, 3, 3, 4, 2, 1))[0](bet_id, player_id, random)
        return story._replace(ends=story.ends | {"DECLINED"}) if self.poor and story.ends else story


def _withdraw(bet_id: str, player_id: str, random: Random, *, action: str = "BET") -> WithdrawCall:
    return withdraw(bet_id, player_id, random.randint(1, 500), action=action, instance_id="i1", game="aviator")


def _rollback(call: WithdrawCall) -> RollbackCall:
    return rollback(call.bet_id, call.player_id, call.tx_id, action=call.action, round_id="r1")


def _won(bet_id: str, player_id: str, random: Random) -> Story:
    calls = _withdraw(bet_id, player_id, random), deposit(bet_id, player_id, random.randint(1, 1000), round_id="r1")
    return Story(bet_id, player_id, calls, frozenset({"CLOSED"}))


def _lost(bet_id: str, player_id: str, random: Random) -> Story:
    calls = _withdraw(bet_id, player_id, random), deposit(bet_id, player_id, 0, round_id="r1")
    return Story(bet_id, player_id, calls, frozenset({"CLOSED"}))


def _cancelled(bet_id: str, player_id: str, random: Random) -> Story:
    placed = _withdraw(bet_id, player_id, random)
    return Story(bet_id, player_id, (placed, _rollback(placed)), frozenset({"ROLLED_BACK", "TOMBSTONE"}))


def _left_open(bet_id: str, player_id: str, random: Random) -> Story:
    return Story(bet_id, player_id, (_withdraw(bet_id, player_id, random),), frozenset({"OPEN"}))


def _contested(bet_id: str, player_id: str, random: Random) -> Story:
    """A service that settles and cancels the same bet: whichever comes first stands."""
    placed = _withdraw(bet_id, player_id, random)
    calls = placed, deposit(bet_id, player_id, random.randint(1, 1000), round_id="r1"), _rollback(placed)
    return Story(bet_id, player_id, calls, frozenset({"CLOSED", "ROLLED_BACK", "TOMBSTONE"}))


def _rain(bet_id: str, player_id: str, random: Random) -> Story:
    placed = _withdraw(bet_id, player_id, random, action="RAIN")
    if random.random() < 0.5:
        return Story(bet_id, player_id, (placed,), frozenset({"SPENT"}))
    return Story(bet_id, player_id, (placed, _rollback(placed)), frozenset({"ROLLED_BACK", "TOMBSTONE"}))


def _too_dear(bet_id: str, player_id: str, random: Random) -> Story:
    """A wager that nobody can pay; its rollback, or a deposit that must never be credited, follows."""
    placed = withdraw(bet_id, player_id, TOO_DEAR_CENTS)
    after = random.choice((_rollback(placed), deposit(bet_id, player_id, 700, round_id="r1")))
    return Story(bet_id, player_id, (placed, after), frozenset({"DECLINED", "TOMBSTONE"}))


def _stranger(bet_id: str, _player_id: str, random: Random) -> Story:
    calls = (_withdraw(bet_id, STRANGER, random),)
    return Story(bet_id, STRANGER, calls, frozenset({"DECLINED"}))


def _claim(bet_id: str, player_id: str, random: Random) -> Story:
    call = deposit(bet_id, player_id, random.randint(1, 900), action="FREE_BET_CLAIM")
    return Story(bet_id, player_id, (call,), frozenset())


def _jackpot(bet_id: str, player_id: str, random: Random) -> Story:
    """A jackpot paid on an open bet's id, without a tx_id: the bet and the claim do not touch."""
    placed = _withdraw(bet_id, player_id, random)
    jackpot = deposit(bet_id, player_id, 10_000, action="JACKPOT")
    settled = deposit(bet_id, player_id, random.randint(0, 1000), round_id="r1")
    return Story(bet_id, player_id, (placed, jackpot, settled), frozenset({"CLOSED"}))


def answer_of(call: WebhookCall, outcome: Outcome, asked_at: float) -> Answer:
    """Return *outcome* as it is answered, now."""
    reply = outcome.reply()
    return Answer(call, reply.code, reply.balance_cents, reply.timestamp, asked_at, time.monotonic())


def deliver(apply: Apply, calls: Iterable[WebhookCall], log: Log, *, seconds: float = 60.0) -> None:
    """Send each call until it is answered definitely, as a service that never gives up."""
    until = time.monotonic() + seconds
    for call in calls:
        while True:
            asked_at = time.monotonic()
            try:
                answer = answer_of(call, apply(call), asked_at)
            except LedgerUnavailableError:
                answer = Answer(call, "SYSTEM_ERROR", None, None, asked_at, time.monotonic())
            log.append(answer)
            if answer.definite:
                break
            assert time.monotonic() < until, f"no definite answer within {seconds} s to {call}"


async def deliver_async(
    apply: Callable[[WebhookCall], Awaitable[Outcome]], calls: Iterable[WebhookCall], log: Log
) -> None:
    """``deliver`` for asyncio."""
    until = time.monotonic() + 60
    for call in calls:
        while True:
            asked_at = time.monotonic()
            try:
                answer = answer_of(call, await apply(call), asked_at)
            except LedgerUnavailableError:
                answer = Answer(call, "SYSTEM_ERROR", None, None, asked_at, time.monotonic())
            log.append(answer)
            if answer.definite:
                break
            assert time.monotonic() < until, f"no definite answer within 60 s to {call}"


def shares(calls: Sequence[WebhookCall], workers: int) -> list[list[WebhookCall]]:
    """Deal *calls* out to *workers*, in turn."""
    return [list(calls[number::workers]) for number in range(workers)]


def openings(players: Iterable[str], cents: int = 10**9) -> Mapping[str, int]:
    """Return an opening balance for each player."""
    return dict.fromkeys(players, cents)
