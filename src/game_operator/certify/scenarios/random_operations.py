"""Random play, with a model of what is due: every call is answered as its bet's history has it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from game_operator.certify.engine.stage import Judging, Stage
from game_operator.certify.report.verdicts import Weight
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import WebhookCall, WithdrawCall
from game_operator.provider.bets import Bet, Player
from game_operator.provider.requests import Heard

__all__ = ["played_at_random"]

#: After so many operations both balances are asked for.
_EVERY: Final = 50
#: So many bets and calls are remembered, that a later call may come back to.
_REMEMBERED: Final = 1_000
_OPEN_AT_MOST: Final = 12

T = TypeVar("T")


def played_at_random(at: Stage, count: int) -> Judging:
    """Play *count* operations at random, the same ones for the same run."""
    # The ids of a run begin with its own, so they differ between runs, and a run can be repeated.
    table = _Table(at, Random(at.fresh("seed")))  # noqa: S311 - nothing is kept secret by it
    for number in range(1, count + 1):
        yield from table.operation()
        if any(note.weight is not Weight.ADVICE for note in at.notes):
            return
        at.notes.clear()  # The same advice would be noted a thousand times, and other scenarios give it.
        if number % _EVERY == 0:
            yield from at.holds()


@dataclass
class _Table:
    """Bets that are open, and calls that were answered, each with what was heard at first."""

    at: Stage
    random: Random
    open: list[tuple[Bet, Heard]] = field(default_factory=list)
    #: What can no more move money, and how it is refused: a rollback of a bet that was paid, and the like.
    too_late: list[tuple[WebhookCall, str]] = field(default_factory=list)
    answered: list[tuple[WebhookCall, Heard]] = field(default_factory=list)

    def operation(self) -> Judging:
        """Play one."""
        possible: list[Callable[[], Judging]] = [self._place, self._overdraw]
        if "JACKPOT" in self.at.claim_types:
            possible.append(self._jackpot)
        if len(self.open) > _OPEN_AT_MOST:
            possible = []
        if self.open:
            possible += [self._settle, self._settle, self._cancel]
        if self.answered:
            possible += [self._repeat, self._repeat]
        if self.too_late:
            possible.append(self._come_late)
        yield from self.random.choice(possible)()

    def _place(self) -> Judging:
        player = self._player()
        most = min(3 * self.at.unit_cents, player.due_cents)
        if most < 1:
            yield from self._overdraw()
            return
        bet = self.at.bet(player, self.random.randint(1, most))
        title = "a random withdraw"
        heard = yield from self.at.accepts(bet.withdraw(), title, moves=-bet.wager_cents, unless_limited=True)
        self.open.append((bet, heard))

    def _overdraw(self) -> Judging:
        player = self._player()
        bet = self.at.bet(player, player.due_cents + self.random.randint(1, 1_000))
        refused = WebhookErrorCode.INSUFFICIENT_BALANCE
        heard = yield from self.at.refuses(bet.withdraw(), "a withdraw of more than there is", refused)
        self._keep(self.answered, (bet.withdraw(), heard))

    def _jackpot(self) -> Judging:
        claim = self.at.claim(self.random.randint(1, self.at.unit_cents), "JACKPOT", player=self._player())
        yield from self._moves(claim, "a random jackpot", claim.amount_cents)

    def _settle(self) -> Judging:
        bet, placed = self._taken()
        call = bet.deposit(self.random.choice((0, bet.wager_cents, self.random.randint(0, 3 * bet.wager_cents))))
        yield from self._moves(call, "a random deposit", call.amount_cents)
        self._keep(self.answered, (bet.withdraw(), placed))
        self._keep(self.too_late, (bet.rollback(), WebhookErrorCode.BET_ALREADY_CLOSED))

    def _cancel(self) -> Judging:
        bet, _ = self._taken()
        yield from self._moves(bet.rollback(), "a random rollback", bet.wager_cents)
        for call in (bet.withdraw(), bet.deposit(bet.wager_cents * 2)):
            self._keep(self.too_late, (call, WebhookErrorCode.BET_ROLLED_BACK))

    def _repeat(self) -> Judging:
        call, first = self.random.choice(self.answered)
        yield from self.at.again(call, first, f"{first.request.title}, again")

    def _come_late(self) -> Judging:
        call, code = self.random.choice(self.too_late)
        # A withdraw that was answered SUCCESS may be so again once its bet is rolled back, if it moves nothing.
        known = isinstance(call, WithdrawCall)
        title = f"a {call.operation} that comes too late"
        yield from self.at.refuses(call, title, code, success_is_sound=known)

    def _moves(self, call: WebhookCall, title: str, cents: int) -> Judging:
        heard = yield from self.at.accepts(call, title, moves=cents)
        self._keep(self.answered, (call, heard))

    def _keep(self, kept: list[T], new: T) -> None:
        if len(kept) < _REMEMBERED:
            kept.append(new)
        else:
            kept[self.random.randrange(_REMEMBERED)] = new

    def _player(self) -> Player:
        return self.random.choice((self.at.player, self.at.other))

    def _taken(self) -> tuple[Bet, Heard]:
        return self.open.pop(self.random.randrange(len(self.open)))
