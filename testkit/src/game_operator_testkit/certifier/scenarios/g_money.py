"""Group G, money: not a cent is lost to rounding, however small, odd or large the amounts (spec §2.1)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import DepositCall, MovingCall, WebhookCall, WithdrawCall
from game_operator.protocol.webhook_reply import fold_code
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found, NotTried, undone_by_errors
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import BetCalls

#: So many operations are tried, of a slow wallet as many as take about so long, and at least so many.
_OPERATIONS: Final = 1_500
_OPERATIONS_MS: Final = 5_000
_FEWEST_OPERATIONS: Final = 30
#: After so many operations both balances are asked for.
_EVERY: Final = 50
#: So many bets and calls are remembered, that a later call may come back to.
_REMEMBERED: Final = 1_000
_OPEN_AT_MOST: Final = 12

T = TypeVar("T")

_LAST_CENTS: Final = 100
_FEWEST_CENTS: Final = 12
_MUCH_CENTS: Final = 123_456_789_012
#: A win above it is won by a bet, and sent again: a column of 32 bits may be that of the bet alone.
_THIRTY_TWO_BITS: Final = 2**31 - 1
#: By how much a balance is multiplied on its way there.
_STEP: Final = 10
#: What is taken and won in turn: int(19.99 * 100) is 1998, and so with the others; 9.95 + 0.1 is no better. The whole
#: leaves the balance as it was.
_ODD_CENTS: Final = (115, 1_999, 435)


def g01(at: Stage) -> None:
    """From 1.00, a hundred withdraws of 0.01 lead to exactly 0.00, and each step is returned exactly."""
    last_cents = at.observed.times(_LAST_CENTS, _FEWEST_CENTS)
    most_cents = at.player.due_cents - last_cents
    if most_cents < 1:
        raise NotTried(f"the player has {units(at.player.due_cents)}, and more than {units(last_cents)} is needed")
    most = at.bet(wager_cents=most_cents)
    at.accepts(most.withdraw(), f"a withdraw of all but {units(last_cents)}", may_limit=True)
    for number in range(last_cents):
        at.accepts(at.bet(wager_cents=1).withdraw(), f"withdraw {number + 1} of 0.01", may_limit=True)
    at.accepts(most.deposit(most_cents), "the first one's deposit, of as much")


def g02(at: Stage) -> None:
    """Bets and wins of 1.15, 19.99 and 4.35 move exactly that."""
    _odd_amounts(at, lambda _: None)


def g03(at: Stage) -> None:
    """A balance of 1234567890.12 is returned exactly, digit for digit, and can be wagered again."""
    much_cents = _MUCH_CENTS - at.player.due_cents
    if much_cents < 1:
        raise NotTried(f"the player has {units(at.player.due_cents)}, and a smaller balance is tried")
    _check_understood(at, much_cents)
    _raise_balance(at)
    credit, back = _credit(at, _MUCH_CENTS - at.player.due_cents), at.bet(wager_cents=much_cents)
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


def _check_understood(at: Stage, much_cents: int) -> None:
    """Ask whether so much can be wagered: a credit that could not be taken back would stay with the player."""
    heard = at.ask(at.bet(wager_cents=much_cents).withdraw(), f"a withdraw of {units(much_cents)}, more than there is")
    if heard.code in (Code.INSUFFICIENT_BALANCE, at.observed.no_funds_code):
        return
    if heard.code in (Code.INVALID_REQUEST, Code.SYSTEM_ERROR):
        _check_win_is_read(at, much_cents, heard.code)
    at.check_unlimited(heard, asked=True)
    told = heard.code or "SUCCESS"
    raise NotTried(f"so much could not be taken back: {heard.request.title} was answered {told}")


def _check_win_is_read(at: Stage, much_cents: int, code: str) -> None:
    """Hold that a win of so much is not refused with *code*, as a withdraw is: it would never be paid."""
    win = at.ask(at.bet().deposit(much_cents), f"a win of {units(much_cents)}, of a bet that was never placed")
    if win.code == code != at.profile.early_deposit_code:
        told = f"refused with {code} instead of {at.profile.early_deposit_code}, as a withdraw of so much is"
        cause = KnownCause.TOO_LARGE if code == Code.SYSTEM_ERROR else ""
        raise Found(f"{told}. A real win of this amount would not be paid", win, cause=cause)


def _raise_balance(at: Stage) -> None:
    """Credit ten times what there is, until much is there; each time hold that all of it can be wagered again."""
    step = _STEP**2 if at.observed.is_slow else _STEP
    while True:
        whole = at.bet(wager_cents=at.player.due_cents)
        # A wallet may ask for a limit after the funds: with too little money nothing shows it.
        at.accepts(whole.withdraw(), f"a withdraw of all of {units(whole.wager_cents)}", may_limit=True)
        at.accepts(whole.rollback(), "its rollback")
        if at.player.due_cents * step >= _MUCH_CENTS:
            return
        more_cents = at.player.due_cents * (step - 1)
        is_long = more_cents > _THIRTY_TWO_BITS
        more = _win(at, more_cents) if is_long else _credit(at, more_cents)
        title = f"a {'win' if is_long else 'credit'} of {units(more.amount_cents)}"
        first = at.ask(more, title)
        _judge_step(at, first, more.amount_cents)
        if is_long:
            again = at.ask(more, f"{title}, again")
            at.check_same_outcome(again, first)
            _judge_step(at, again, 0)


def g04(at: Stage) -> None:
    """Whatever is played, both balances are what the answered calls have moved."""
    if not (operations := _operations(at)):
        raise NotTried("no random operations were asked for")
    # The ids of a run begin with its own, so they differ between runs, and a run can be repeated.
    table = _Table(at, Random(at.fresh("seed")))  # noqa: S311 - nothing is kept secret by it
    for number in range(1, operations + 1):
        table.operation()
        if any(note.weight is not Weight.ADVICE for note in at.notes):
            return
        at.notes.clear()  # The same advice would be noted a thousand times, and other scenarios give it.
        if number % _EVERY == 0:
            at.check_balances()


def _operations(at: Stage) -> int:
    """Return how many operations are tried: as many as were asked for, or about five seconds of them."""
    asked = at.supplies.random_operations
    usual_ms = at.observed.usual_ms
    most = _OPERATIONS if not usual_ms else round(_OPERATIONS_MS / usual_ms)
    return max(_FEWEST_OPERATIONS, min(_OPERATIONS, most)) if asked is None else asked


def g05(at: Stage) -> None:
    """After each bet and win of odd amounts, the operator's own balance is the one that the wallet returns."""
    ask = at.supplies.stored_cents
    assert ask is not None

    def check_stored(heard: Carried) -> None:
        at.pause(2 * at.observed.late_seconds)
        with undone_by_errors("stored_cents could not be asked"):
            stored, due = int(ask(at.player.id)), at.player.due_cents
        if stored != due:
            told = f"the operator's own books have {units(stored)}, and the wallet returned {units(due)}"
            raise Found(f"{told}, which is right", heard)

    _odd_amounts(at, check_stored)


def _odd_amounts(at: Stage, look: Callable[[Carried], object]) -> None:
    """Wager each odd amount and win the next one; *look* at what is heard of each call."""
    for wager_cents, won_cents in zip(_ODD_CENTS, (*_ODD_CENTS[1:], _ODD_CENTS[0]), strict=True):
        bet = at.bet(wager_cents=wager_cents)
        look(at.accepts(bet.withdraw(), f"a withdraw of {units(wager_cents)}", may_limit=True))
        look(at.accepts(bet.deposit(won_cents), f"a win of {units(won_cents)}"))


def _credit(at: Stage, much_cents: int) -> DepositCall:
    """Return the call that brings so much more: a jackpot if the profile has any, or else the win of a bet."""
    for jackpot in at.jackpots(much_cents):
        return jackpot
    return _win(at, much_cents)


def _win(at: Stage, more_cents: int) -> DepositCall:
    """Place a bet of a tenth of what there is, and return the win that brings so much more than there is now."""
    bet = at.bet(wager_cents=max(1, at.player.due_cents // _STEP))
    at.accepts(bet.withdraw(), "a withdraw", may_limit=True)
    return bet.deposit(more_cents + bet.wager_cents)


def _judge_step(at: Stage, heard: Carried, moves: int) -> None:
    _judge_large(at, heard, moves)
    if not _is_near(heard.balance_cents, at.player.due_cents):
        at.check_balances(at.player, after=heard)


def _judge_large(at: Stage, heard: Carried, moves: int) -> None:
    at.check_reply(heard)
    if heard.code == fold_code(Code.LIMIT_EXCEEDED, at.profile):
        raise NotTried(f"the wallet limits amounts: {heard.request.title} was refused with {heard.code}")
    at.check_success(heard)
    at.player.due_cents += moves
    if moves:
        at.moved_before, at.moving = at.moving, (heard, moves)
    told, due = heard.balance_cents, at.player.due_cents
    if told is not None and told != due:
        reason = f"returned a balance of {units(told)}; expected {units(due)}"
        cause = KnownCause.LAST_DIGITS if _is_near(told, due) else KnownCause.WRONG_BALANCE
        at.note(reason, Weight.CONTRACT_BROKEN, cause, heard)


def _is_near(told: int | None, due_cents: int) -> bool:
    """Return whether a balance in an answer is right but for its last digits, or is not known."""
    return told is None or abs(told - due_cents) <= due_cents // 1000


@dataclass
class _Table:
    """Bets that are open, and calls that were answered, each with what was heard at first."""

    at: Stage
    random: Random
    open: list[tuple[BetCalls, Carried]] = field(default_factory=list)
    #: What can no more move money, and how it is refused: a rollback of a bet that was paid, and the like.
    too_late: list[tuple[WebhookCall, str]] = field(default_factory=list)
    #: Withdraws whose bets were rolled back, and their first answers.
    cancelled: list[tuple[WithdrawCall, Carried]] = field(default_factory=list)
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
        if self.cancelled:
            possible.append(self._come_back)
        self.random.choice(possible)()

    def _place(self) -> None:
        player = self._player()
        unit_cents, limited = self.at.unit_cents, self.at.observed.is_limited
        least, most = (unit_cents, unit_cents) if limited else (1, 3 * unit_cents)
        if player.due_cents < least:
            self._overdraw()
            return
        bet = self.at.bet(player, self.random.randint(least, min(most, player.due_cents)))
        self.open.append((bet, self.at.accepts(bet.withdraw(), "a random withdraw", may_limit=True)))

    def _overdraw(self) -> None:
        player = self._player()
        bet = self.at.bet(player, player.due_cents + self.random.randint(1, 1_000))
        heard = self.at.refuses(bet.withdraw(), "a withdraw of more than there is", Code.INSUFFICIENT_BALANCE)
        self._keep(self.answered, (bet.withdraw(), heard))

    def _jackpot(self) -> None:
        claim = self.at.claim(self.random.randint(1, max(1, self.at.unit_cents // 5)), "JACKPOT", self._player())
        self._moves(claim, "a random jackpot")

    def _settle(self) -> None:
        bet, placed = self._taken()
        call = bet.deposit(self.random.choice((0, bet.wager_cents, self.random.randint(0, 3 * bet.wager_cents))))
        self._moves(call, "a random deposit")
        self._keep(self.answered, (bet.withdraw(), placed))
        self._keep(self.too_late, (bet.rollback(), Code.BET_ALREADY_CLOSED))

    def _cancel(self) -> None:
        bet, placed = self._taken()
        self._moves(bet.rollback(), "a random rollback")
        self._keep(self.too_late, (bet.deposit(bet.wager_cents * 2), Code.BET_ROLLED_BACK))
        self._keep(self.cancelled, (bet.withdraw(), placed))

    def _repeat(self) -> None:
        call, first = self.random.choice(self.answered)
        self.at.again(call, first, f"{first.request.title}, again")

    def _come_late(self) -> None:
        call, code = self.random.choice(self.too_late)
        self.at.refuses(call, f"a {call.operation} that comes too late", code)

    def _come_back(self) -> None:
        withdraw, first = self.random.choice(self.cancelled)
        self.at.stays_cancelled(withdraw, first, "a withdraw after its rollback")

    def _moves(self, call: MovingCall, title: str) -> None:
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
