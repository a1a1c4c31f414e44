"""
What will be played, as a seed decides it: rounds with their bets and outcomes, and claims of free bets between them.

A plan knows nothing of wallets, faults or replies, and so stays the same whether its calls succeed or not. It is read
lazily and as often as one likes; each time it yields the same. Times are simulated Unix milliseconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from random import Random
from typing import Any, Final, TypeAlias

from game_operator.codes import GameStatus
from game_operator.errors import ConfigurationError
from game_operator.models import GameInfo
from game_operator.models.webhooks import MAX_AMOUNT_CENTS, DepositCall, FreeBet
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.provider.requests import BetCalls
from game_operator_testkit.sandbox.games import Limits, bets_in_round, is_shared, limits_of, pick_wager, play

#: From the start of one round to that of the next, in ms, give or take the jitter.
_PACE: Final = 300
_JITTER: Final = 200
#: How often a bet is by the player of the round's bet before it.
_SAME_PLAYER: Final = 0.1
_RUN_DIGITS: Final = 16
_MOST_FREE_BETS: Final = 5
#: Of the bets, those that are cancelled; they are spread evenly, and the first comes early.
_ROLLED_BACK: Final = 0.08
#: Of the bets, those that never end.
_LEFT_OPEN: Final = 0.01
#: Of the bets that close, those that also hit a jackpot.
_JACKPOTS: Final = 0.01
#: Claims of free bets for each bet; they are spread evenly as well.
_CLAIMS: Final = 0.02


class BetEnd(StrEnum):
    """How a bet is planned to end (spec §3)."""

    CLOSED = "CLOSED"
    ROLLED_BACK = "ROLLED_BACK"
    OPEN = "OPEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBet(BetCalls):
    """
    One bet of a round, with its calls; its bet_id is unique in all plans.

    Attributes:
        end: What becomes of it.
        won_cents: What its deposit pays; 0 unless it is CLOSED, and for a loss.
        at_millis: When it is withdrawn.
        ends_at_millis: When it is deposited or rolled back; of an OPEN bet, when it would have been.
        jackpot_cents: What a jackpot pays besides, when the bet closes; 0 for none.
        settlement_fault: SETTLEMENT_LOST or SETTLEMENT_HELD to keep its deposit or rollback back; None to send it.
    """

    end: BetEnd
    won_cents: int
    at_millis: int
    ends_at_millis: int
    jackpot_cents: int = 0
    settlement_fault: Fault | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRound:
    """
    One round of a game, with its bets.

    Attributes:
        round_id: Unique in all plans.
        round_no: The round's number, where it can be looked up.
        instance_id, game: What is played: the ids of an instance and of its game.
        at_millis: When it starts.
        bets: At least one.
    """

    round_id: str
    instance_id: str
    game: str
    at_millis: int
    bets: tuple[PlannedBet, ...]
    round_no: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClaim:
    """
    Free bets that were played, to be paid by one deposit (spec §2.2).

    Attributes:
        free_bet_id: The grant; unique in all plans.
        player_id: Who played them.
        instance_id, game: Where.
        round_id: The round they were played in, which has no other bets.
        at_millis: When they are claimed.
        bets: The free bets.
        round_no: The round's number, where it can be looked up.
    """

    free_bet_id: str
    player_id: str
    instance_id: str
    game: str
    round_id: str
    at_millis: int
    bets: tuple[FreeBet, ...]
    round_no: int = field(default=0, repr=False)

    @property
    def won_cents(self) -> int:
        """What all the free bets won."""
        return sum(bet.won_cents or 0 for bet in self.bets)

    def deposit(self) -> DepositCall:
        """Return the call that claims the winnings."""
        return DepositCall(
            player_id=self.player_id,
            bet_id=self.free_bet_id,
            amount_cents=self.won_cents,
            action="FREE_BET_CLAIM",
            free_bets=self.bets,
            round_id=self.round_id,
            instance_id=self.instance_id,
            game=self.game,
        )


PlannedItem: TypeAlias = PlannedRound | PlannedClaim


@dataclass(frozen=True, slots=True)
class _Place:
    """Somewhere to play."""

    instance_id: str
    game: GameInfo
    limits: Limits


class Plan:
    """
    The rounds of one run, and the claims between them, in the order in which they start.

    Iterate over it, any number of times; each time yields the same. A longer plan of the same seed begins as a shorter
    one does, up to the shorter one's last round.

    Args:
        seed: What decides everything but ids and times.
        start_millis: When the first round starts; with *seed* it makes the ids, so that two runs share none.
        games: The catalogue. Active instances in *currency* of games that are ACTIVE are played.
        players: Who plays; all of them bet in *currency*.
        bets: How many bets the rounds have in all, exactly. Free bets come on top.
        currency: As in the instances' ``bet_config``.

    Raises:
        ConfigurationError: There are no players, no game can be played, or *bets* is negative.
    """

    def __init__(
        self,
        *,
        seed: int,
        start_millis: int,
        games: Sequence[GameInfo],
        players: Sequence[str],
        bets: int,
        currency: str = "EUR",
    ) -> None:
        if not players:
            raise ConfigurationError("A plan needs players. Pass at least one player_id.")
        if bets < 0:
            raise ConfigurationError(f"A plan cannot have {bets} bets. Pass 0 or more.")
        self.seed: int = seed
        self.start_millis: int = start_millis
        self.bets: int = bets
        self.run_id: str = run_id_of(seed, start_millis)
        self._players = tuple(players)
        self._places = tuple(
            _Place(instance.id, game, limits_of(instance.bet_config))
            for game in games
            if game.status == GameStatus.ACTIVE
            for instance in game.instances
            if instance.active and instance.bet_config.currency == currency
        )
        if not self._places:
            raise ConfigurationError(
                f"No game can be played in {currency}: no game with status ACTIVE has an active instance in that "
                "currency. Add one, or name another currency."
            )

    def __iter__(self) -> Iterator[PlannedItem]:
        """Yield the rounds and claims, each made when it is asked for."""
        number = placed = 0
        while placed < self.bets:
            # Each round has its own Random: what one draws changes nothing in the next.
            random = Random(f"{self.seed}:{number}")  # noqa: S311 - a plan must repeat, and guards nothing
            place = random.choice(self._places)
            planned = self._round(place, number, placed, random)
            yield planned
            for claim in range(_counted(placed, _CLAIMS), _counted(placed + len(planned.bets), _CLAIMS)):
                yield self._claim(place, number, claim, random)
            number += 1
            placed += len(planned.bets)

    def _round(self, place: _Place, number: int, placed: int, random: Random) -> PlannedRound:
        game, limits = place.game, place.limits
        at_millis = self.start_millis + number * _PACE + _between(0, _JITTER, random)
        wagers = [pick_wager(limits, random) for _ in range(min(bets_in_round(game.genre, random), self.bets - placed))]
        # None where each bet ends by itself.
        all_end_at = at_millis + _between(5_000, 15_000, random) if is_shared(game.genre) else None
        round_id = f"round-{self.run_id}-{number}"
        # Any: fields of round and bet.
        where: dict[str, Any] = {"round_id": round_id, "instance_id": place.instance_id, "game": game.id}
        bets: list[PlannedBet] = []
        player_id = ""
        for wager_cents, won_cents in zip(wagers, play(game, limits, wagers, random), strict=True):
            if not player_id or random.random() >= _SAME_PLAYER:
                player_id = self._players[_between(0, len(self._players), random)]
            # The outcome was drawn before, so that whether a bet ends says nothing about what it would have won.
            end = self._end(placed + len(bets), random)
            placed_at = at_millis + _between(20, 250, random)
            bet = PlannedBet(
                bet_id=storm_bet_id(self.run_id, number, len(bets)),
                player_id=player_id,
                wager_cents=wager_cents,
                end=end,
                won_cents=won_cents if end is BetEnd.CLOSED else 0,
                at_millis=placed_at,
                ends_at_millis=_ends_at(end, placed_at, all_end_at, random),
                jackpot_cents=self._jackpot(wager_cents, limits, random) if end is BetEnd.CLOSED else 0,
                **where,
            )
            bets.append(bet)
        return PlannedRound(at_millis=at_millis, bets=tuple(bets), **where)

    def _end(self, before: int, random: Random) -> BetEnd:
        """Return how a bet ends that has so many bets *before* it."""
        chance = random.random()
        if _counted(before + 1, _ROLLED_BACK) > _counted(before, _ROLLED_BACK):
            return BetEnd.ROLLED_BACK
        return BetEnd.OPEN if chance * (1 - _ROLLED_BACK) < _LEFT_OPEN else BetEnd.CLOSED

    def _jackpot(self, wager_cents: int, limits: Limits, random: Random) -> int:
        if random.random() >= _JACKPOTS:
            return 0
        return min(wager_cents * random.randint(50, 500), limits.max_win_cents)

    def _claim(self, place: _Place, number: int, claim: int, random: Random) -> PlannedClaim:
        count = random.randint(1, _MOST_FREE_BETS)
        limits = limits_of_claim(place.limits, count)
        won = play(place.game, limits, [limits.default_cents] * count, random)
        round_id = f"round-{self.run_id}-free-{claim}"
        return PlannedClaim(
            free_bet_id=f"free-bet-{self.run_id}-{claim}",
            player_id=random.choice(self._players),
            instance_id=place.instance_id,
            game=place.game.id,
            round_id=round_id,
            # After its round's start, and before the next one's.
            at_millis=self.start_millis + number * _PACE + _between(_JITTER, _PACE, random),
            bets=free_bets(f"free-{self.run_id}-{claim}", round_id, limits.default_cents, won),
        )


def limits_of_claim(limits: Limits, count: int) -> Limits:
    """Return *limits* for each of *count* free bets: one deposit pays for all, and may not move more than any call."""
    return replace(limits, max_win_cents=min(limits.max_win_cents, MAX_AMOUNT_CENTS // count))


def free_bets(prefix: str, round_id: str, wager_cents: int, won: Sequence[int]) -> tuple[FreeBet, ...]:
    """Return free bets of *wager_cents* each that have *won* so much; their ids begin with *prefix*."""
    return tuple(
        FreeBet(id=f"{prefix}-{number}", round_id=round_id, wager_cents=wager_cents, won_cents=won_cents)
        for number, won_cents in enumerate(won)
    )


def _counted(bets: int, share: float) -> int:
    """Return how many of the first *bets* a share is. Counted, not drawn: a short run has some."""
    return int(bets * share + 0.5)


def run_id_of(seed: int, start_millis: int) -> str:
    """Return what the ids of a run hold: hex digits that another seed or start would not give."""
    return sha256(f"{seed}:{start_millis}".encode()).hexdigest()[:_RUN_DIGITS]


def storm_bet_id(run_id: str, number: int, place: int) -> str:
    """Return the id of a bet: its run, its round and its place there; a reconciliation knows test bets by it."""
    return f"storm-bet-{run_id}-{number}-{place}"


def _ends_at(end: BetEnd, placed_at: int, all_end_at: int | None, random: Random) -> int:
    # A bet is cancelled before its game starts (spec §3), and so soon.
    if end is BetEnd.ROLLED_BACK:
        return placed_at + _between(100, 1_000, random)
    return placed_at + _between(1_500, 6_000, random) if all_end_at is None else all_end_at


def _between(least: int, above: int, random: Random) -> int:
    # Several times as fast as randrange, and even enough for times and names.
    return least + int(random.random() * (above - least))
