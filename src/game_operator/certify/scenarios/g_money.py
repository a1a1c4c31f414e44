"""Group G, money: not a cent is lost to rounding, however small, odd or large the amounts (spec §2.1)."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from game_operator.certify.engine.stage import Player, Stage, units
from game_operator.certify.engine.steps import Found, NotTried, undone_by_errors
from game_operator.certify.report.verdicts import KnownCause, Weight
from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import DepositCall, WebhookCall, WithdrawCall
from game_operator.protocol.webhook_reply import fold_code
from game_operator.provider.delivery import Carried
from game_operator.provider.requests import BetCalls

#: After so many operations both balances are asked for.
_EVERY: Final = 50
#: So many bets and calls are remembered, that a later call may come back to.
_REMEMBERED: Final = 1_000
_OPEN_AT_MOST: Final = 12

T = TypeVar("T")

_LAST_CENTS: Final = 100
_MUCH_CENTS: Final = 123_456_789_012
#: What is taken and won in turn: int(19.99 * 100) is 1998, and so with the others; 9.95 + 0.1 is no better. The whole
#: leaves the balance as it was.
_ODD_CENTS: Final = (115, 1_999, 435)
#: A balance that is written with an exponent.
_EXPONENT: Final = re.compile(rb'"balance"\s*:\s*-?[0-9.]+[eE]')


def g01(at: Stage) -> None:
    """From 1.00, a hundred withdraws of 0.01 lead to exactly 0.00, and each step is returned exactly."""
    most_cents = at.player.due_cents - _LAST_CENTS
    if most_cents < 1:
        raise NotTried(f"the player has {units(at.player.due_cents)}, and more than 1.00 is needed")
    most = at.bet(cents=most_cents)
    at.accepts(most.withdraw(), "a withdraw of all but 1.00", may_limit=True)
    for number in range(_LAST_CENTS):
        at.accepts(at.bet(cents=1).withdraw(), f"withdraw {number + 1} of 0.01", may_limit=True)
    at.accepts(most.deposit(most_cents), "the first one's deposit, of as much")


def g02(at: Stage) -> None:
    """Bets and wins of 1.15, 19.99 and 4.35 move exactly that."""
    _odd_amounts(at, lambda _: None)


def g03(at: Stage) -> None:
    """A balance of 1234567890.12 is returned exactly, digit for digit, and can be wagered again."""
    much_cents = _MUCH_CENTS - at.player.due_cents
    if much_cents < 1:
        raise NotTried(f"the player has {units(at.player.due_cents)}, and a smaller balance is tried")
    # First ask whether so much can be wagered: a credit that could not be taken back would stay with the player.
    heard = at.ask(at.bet(cents=much_cents).withdraw(), "a withdraw of far more than there is")
    if heard.code != Code.INSUFFICIENT_BALANCE:
        said = heard.code or "SUCCESS"
        raise NotTried(f"so much could not be taken back: a withdraw of {units(much_cents)} was answered {said}")
    credit = _credit(at, much_cents)
    back = at.bet(cents=much_cents)
    steps = (
        (at.request(credit, f"a credit of {units(credit.amount_cents)}"), credit.amount_cents),
        (at.balance_request("the balance after it"), 0),
        (at.request(back.withdraw(), "a withdraw of as much"), -much_cents),
        (at.request(back.deposit(0), "its deposit of 0, a loss"), 0),
    )
    answers = [at.send(request) for request, _ in steps]
    # Not before: if answers with so large a balance cannot be read, it must be gone when the next scenario is played.
    for each, (_, moves) in zip(answers, steps, strict=True):
        _judge_large(at, each, moves)


def g04(at: Stage) -> None:
    """Whatever is played, both balances are what the answered calls have moved."""
    # The ids of a run begin with its own, so they differ between runs, and a run can be repeated.
    table = _Table(at, Random(at.fresh("seed")))  # noqa: S311 - nothing is kept secret by it
    for number in range(1, (at.supplies.random_operations or 0) + 1):
        table.operation()
        if any(note.weight is not Weight.ADVICE for note in at.notes):
            return
        at.notes.clear()  # The same advice would be noted a thousand times, and other scenarios give it.
        if number % _EVERY == 0:
            at.check_balances()


def g05(at: Stage) -> None:
    """After each bet and win of odd amounts, the operator's own balance is the one that the wallet returns."""
    ask = at.supplies.stored_cents
    assert ask is not None

    def check_stored(heard: Carried) -> None:
        with undone_by_errors("stored_cents could not be asked"):
            stored, due = int(ask(at.player.id)), at.player.due_cents
        if stored != due:
            told = f"the operator's own books have {units(stored)}, and the wallet returned {units(due)}"
            raise Found(f"{told}, which is right", heard)

    _odd_amounts(at, check_stored)


def _odd_amounts(at: Stage, look: Callable[[Carried], object]) -> None:
    """Wager each odd amount and win the next one; *look* at what is heard of each call."""
    for wager_cents, won_cents in zip(_ODD_CENTS, (*_ODD_CENTS[1:], _ODD_CENTS[0]), strict=True):
        bet = at.bet(cents=wager_cents)
        look(at.accepts(bet.withdraw(), f"a withdraw of {units(wager_cents)}", may_limit=True))
        look(at.accepts(bet.deposit(won_cents), f"a win of {units(won_cents)}"))


def _credit(at: Stage, much_cents: int) -> DepositCall:
    """Return the call that brings so much more: a jackpot if the profile has any, or else the win of a bet."""
    for jackpot in at.jackpots(much_cents):
        return jackpot
    bet = at.bet()
    at.accepts(bet.withdraw(), "a withdraw", may_limit=True)
    return bet.deposit(much_cents + bet.wager_cents)


def _judge_large(at: Stage, heard: Carried, moves: int) -> None:
    at.check_reply(heard)
    if heard.code == fold_code(Code.LIMIT_EXCEEDED, at.profile):
        raise NotTried(f"the wallet limits amounts: {heard.request.title} was refused with {heard.code}")
    at.check_success(heard)
    at.player.due_cents += moves
    told, due = heard.balance_cents, at.player.due_cents
    if told is not None and told != due:
        reason = f"returned a balance of {units(told)}; expected {units(due)}"
        at.note(reason, Weight.CONTRACT_BROKEN, KnownCause.WRONG_BALANCE, heard)
    if _EXPONENT.search(heard.body):
        at.advise("the balance is written with an exponent, which not every reader of money takes", heard)


@dataclass
class _Table:
    """Bets that are open, and calls that were answered, each with what was heard at first."""

    at: Stage
    random: Random
    open: list[tuple[BetCalls, Carried]] = field(default_factory=list)
    #: What can no more move money, and how it is refused: a rollback of a bet that was paid, and the like.
    too_late: list[tuple[WebhookCall, str]] = field(default_factory=list)
    answered: list[tuple[WebhookCall, Carried]] = field(default_factory=list)

    def operation(self) -> None:
        """Play one."""
        possible: list[Callable[[], None]] = [self._place, self._overdraw]
        if "JACKPOT" in self.at.writer.claim_types:
            possible.append(self._jackpot)
        if len(self.open) > _OPEN_AT_MOST:
            possible = []
        if self.open:
            possible += [self._settle, self._settle, self._cancel]
        if self.answered:
            possible += [self._repeat, self._repeat]
        if self.too_late:
            possible.append(self._come_late)
        self.random.choice(possible)()

    def _place(self) -> None:
        player = self._player()
        most = min(3 * self.at.unit_cents, player.due_cents)
        if most < 1:
            self._overdraw()
            return
        bet = self.at.bet(player, self.random.randint(1, most))
        self.open.append((bet, self.at.accepts(bet.withdraw(), "a random withdraw", may_limit=True)))

    def _overdraw(self) -> None:
        player = self._player()
        bet = self.at.bet(player, player.due_cents + self.random.randint(1, 1_000))
        heard = self.at.refuses(bet.withdraw(), "a withdraw of more than there is", Code.INSUFFICIENT_BALANCE)
        self._keep(self.answered, (bet.withdraw(), heard))

    def _jackpot(self) -> None:
        claim = self.at.claim(self.random.randint(1, self.at.unit_cents), "JACKPOT", self._player())
        self._moves(claim, "a random jackpot")

    def _settle(self) -> None:
        bet, placed = self._taken()
        call = bet.deposit(self.random.choice((0, bet.wager_cents, self.random.randint(0, 3 * bet.wager_cents))))
        self._moves(call, "a random deposit")
        self._keep(self.answered, (bet.withdraw(), placed))
        self._keep(self.too_late, (bet.rollback(), Code.BET_ALREADY_CLOSED))

    def _cancel(self) -> None:
        bet, _ = self._taken()
        self._moves(bet.rollback(), "a random rollback")
        for call in (bet.withdraw(), bet.deposit(bet.wager_cents * 2)):
            self._keep(self.too_late, (call, Code.BET_ROLLED_BACK))

    def _repeat(self) -> None:
        call, first = self.random.choice(self.answered)
        self.at.again(call, first, f"{first.request.title}, again")

    def _come_late(self) -> None:
        call, code = self.random.choice(self.too_late)
        # A withdraw that was answered SUCCESS may be so again once its bet is rolled back, if it moves nothing.
        known = isinstance(call, WithdrawCall)
        self.at.refuses(call, f"a {call.operation} that comes too late", code, success_is_advice=known)

    def _moves(self, call: WebhookCall, title: str) -> None:
        self._keep(self.answered, (call, self.at.accepts(call, title)))

    def _keep(self, kept: list[T], new: T) -> None:
        if len(kept) < _REMEMBERED:
            kept.append(new)
        else:
            kept[self.random.randrange(_REMEMBERED)] = new

    def _player(self) -> Player:
        return self.random.choice((self.at.player, self.at.other))

    def _taken(self) -> tuple[BetCalls, Carried]:
        return self.open.pop(self.random.randrange(len(self.open)))
