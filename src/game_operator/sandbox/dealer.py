"""
The provider's mind: what is sent next, and what follows from the answer.

It plays the rounds of a plan against a wallet that it never sees: whoever carries the posts asks for ``next`` and tells
what was ``answered``. Time is simulated: it is wherever the next thing is due, so that hours pass at once. Asked for
one post at a time, the same plan and faults make the same posts in the same order; asked for several, the interleaving
is the network's, and rounds, outcomes and faults are still the same.

How a service repeats, and what it makes of an answer, is assumed (docs/decisions/0013, 0014, 0017).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import DepositCall, MovingCall, Reply, RollbackCall, WithdrawCall
from game_operator.sandbox.agenda import Agenda
from game_operator.sandbox.dealt import Dealt, DealtBet, DealtClaim, ServiceState, changed
from game_operator.sandbox.delivery import Answer, Post, Sent
from game_operator.sandbox.faults import NO_FAULTS, Fault, FaultPlan
from game_operator.sandbox.plan import BetEnd, PlannedClaim, PlannedItem, PlannedRound
from game_operator.sandbox.retries import DEFAULT_RETRIES, RetryPreset, retry_preset

__all__ = ["Dealer", "Listener", "Order"]

#: A wallet that never answers definitely is given up after as many deliveries of one call.
_MOST_ATTEMPTS: Final = 100
#: Most items of a batch (docs/decisions/0010).
_MOST_IN_A_BATCH: Final = 1_000
#: Whatever the rates, the network is calm from this delivery of a call on: a fault is never in a call's place.
_CALM_FROM: Final = 6
_LATE_MILLIS: Final = 9 * 60 * 60 * 1_000
_JACKPOT_AFTER_MILLIS: Final = 1_000

_ON_THE_WIRE: Final = (Fault.REQUEST_LOST, Fault.REPLY_LOST, Fault.TIMEOUT, Fault.RESET, Fault.SLOW)
_ANY: Final = (*_ON_THE_WIRE, Fault.DUPLICATE, Fault.FORGED, Fault.RESERIALISED, Fault.OLD_KEY)
#: Faults of the order and the time in which calls are sent.
_IN_TIME: Final = frozenset({Fault.EARLY_ROLLBACK, Fault.EARLY_DEPOSIT, Fault.LATE_DEPOSIT})
#: What a withdraw is answered once its bet is cancelled; the second where codes are few (docs/decisions/0013).
_CANCELLED: Final = frozenset({WebhookErrorCode.BET_ROLLED_BACK, WebhookErrorCode.BET_ALREADY_CLOSED})
#: What no withdraw of a bet that nobody cancelled is answered: there is no other call of its identity.
_NEVER_OF_A_NEW_BET: Final = _CANCELLED | {WebhookErrorCode.DUPLICATE_TRANSACTION}
#: Extras that a wallet must refuse.
_MUST_BE_REFUSED: Final = frozenset({Fault.FORGED, Fault.RESERIALISED, Fault.OLD_KEY, Fault.OTHER_CONTENT})


class Listener(Protocol):
    """Whoever wants to know what is asked of a player's balance, and what is told of it."""

    def begin(self, dealt: Dealt, may_move_cents: int) -> None:
        """A call is sent for the first time; it may move so much, less than 0 from the player."""

    def told(self, dealt: Dealt, reply: Reply, *, repeated: bool) -> None:
        """A reply was heard; *repeated* if the call had been answered definitely before."""

    def end(self, dealt: Dealt, moved_cents: int | None) -> None:
        """A call was answered definitely, and moved so much; None if it was given up and nobody knows."""


@dataclass(slots=True, eq=False)
class _Step:
    """
    One call on its way to a definite answer.

    Attributes:
        dealt: What it is about.
        call: The call.
        draw: What its faults are drawn by: its number in the plan.
        faults: What is laid over its first delivery.
        then: What follows once it succeeded, or None.
        attempts: How many deliveries there were.
        first: The first definite answer, or None before it.
        releases: What may be sent only after the first delivery of this: it was overtaken.
        extra: Set for a post that is sent besides a call: nothing follows from it.
    """

    dealt: Dealt
    call: MovingCall
    draw: str
    faults: tuple[Fault, ...] = ()
    then: "_Step | None" = None
    attempts: int = 0
    first: Answer | None = None
    releases: "_Step | None" = None
    extra: Fault | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """
    Posts to be carried now: one after the other, but a duplicate beside the post before it where that is possible.

    Attributes:
        steps: Whose calls they are; several in a batch.
        posts: The posts, in order.
        at_millis: The simulated time.
    """

    steps: tuple[_Step, ...] = field(repr=False)
    posts: tuple[Post, ...]
    at_millis: int

    @property
    def names(self) -> tuple[str, ...]:
        """What a trace calls its calls: bet, operation, action and why it is sent."""
        return tuple(map(name_of, self.steps))


class Dealer:
    """
    Plays *items* against a wallet.

    Args:
        items: Rounds and claims in the order of their times.
        faults: What is laid over the deliveries.
        retries: When an unanswered call is sent again.
        seed: What the faults are drawn by, together with a call's number.
        batches: Whether deposits that are due together go in a batch.
        on_change: Told of a bet or claim whenever its state changed.
        listener: Told of what moves balances.
        most_attempts: After as many deliveries a call that is never answered definitely is given up as a problem.
    """

    def __init__(
        self,
        items: Iterable[PlannedItem],
        *,
        faults: FaultPlan = NO_FAULTS,
        retries: RetryPreset | None = None,
        seed: int | str = 0,
        batches: bool = False,
        on_change: Callable[[Dealt], object] | None = None,
        listener: Listener | None = None,
        most_attempts: int = _MOST_ATTEMPTS,
    ) -> None:
        self._items: Iterator[PlannedItem] = iter(items)
        self._coming: PlannedItem | None = next(self._items, None)
        self._faults = faults
        self._waiting_nth = dict(faults.nth)
        self._retries = retries or retry_preset(DEFAULT_RETRIES)
        self._seed = seed
        self._batches = batches
        self._on_change = on_change or (lambda _dealt: None)
        self._listener = listener
        self._most_attempts = most_attempts
        self._due: Agenda[_Step] = Agenda(name_of)
        #: Calls that were sent and not answered definitely, in the order of their first sending.
        self._unanswered: dict[_Step, None] = {}
        self._serial = 0
        #: The simulated time, Unix milliseconds.
        self.now_millis = self._coming.at_millis if self._coming else 0
        #: Bets and claims, in the order they were dealt.
        self.dealt: list[Dealt] = []
        #: How many calls were planned so far; faults that wait for the Nth call count these.
        self.calls = 0
        #: How often each fault struck.
        self.struck: Counter[Fault] = Counter()
        #: The faults that waited for the Nth call and have struck.
        self.struck_nth: list[Fault] = []

    def next(self) -> Order | None:
        """Return what is to be sent now, or None while nothing is due: at the end, or until something is answered."""
        while True:
            self._deal_up_to_now()
            if self._due.first() is None:
                return None
            at_millis, step = self._due.pop()
            self.now_millis = max(self.now_millis, at_millis)
            if not self._is_moot(step):
                return self._order(step, at_millis)

    def take(self, names: Sequence[str], at_millis: int) -> Order | None:
        """
        Return the order of the calls *names*, whenever they are due, or None if none of them is waiting to be sent.

        What starts up to *at_millis* is dealt before. This is how a trace is replayed in its own order.
        """
        while self._coming is not None and self._coming.at_millis <= at_millis:
            self._deal()
        steps = [step for step in map(self._due.take, names) if step is not None and not self._is_moot(step)]
        if not steps:
            return None
        self.now_millis = max(self.now_millis, at_millis)
        return self._order(steps[0], at_millis, steps[1:])

    def answered(self, order: Order, answers: Sequence[Sequence[Answer]]) -> None:
        """Take in what was heard: for each post of *order* an answer for each of its calls."""
        for number, step in enumerate(order.steps):
            heard = [(post, each[number]) for post, each in zip(order.posts, answers, strict=True)]
            step.dealt.history.extend(Sent(post, answer, post.calls[number]) for post, answer in heard)
            self._judge(step, heard)
            if step.extra is None:
                self._follow(step, heard)

    def abandon(self) -> None:
        """Give up what was sent and not answered definitely, because nobody can carry it any more."""
        for step in tuple(self._unanswered):
            step.dealt.lost = True
            self._ended(step, None)

    # --- dealing -----------------------------------------------------------------------------------------------------

    def _deal_up_to_now(self) -> None:
        while self._coming is not None and ((first := self._due.first()) is None or self._coming.at_millis <= first[0]):
            self._deal()

    def _deal(self) -> None:
        item, self._coming = self._coming, next(self._items, None)
        assert item is not None
        self._deal_claim(item) if isinstance(item, PlannedClaim) else self._deal_round(item)

    def _deal_claim(self, planned: PlannedClaim) -> None:
        claim = DealtClaim(planned=planned)
        self.dealt.append(claim)
        self._push(planned.at_millis, self._planned(claim, claim.deposit(), (*_ANY, Fault.OTHER_CONTENT)))

    def _deal_round(self, planned: PlannedRound) -> None:
        for planned_bet in planned.bets:
            bet = DealtBet(planned=planned_bet, round=planned)
            self.dealt.append(bet)
            self._deal_bet(bet)

    def _deal_bet(self, bet: DealtBet) -> None:
        # All its calls are numbered here, in the order of the plan, whatever happens first on the wire.
        overtaken = {BetEnd.ROLLED_BACK: (Fault.EARLY_ROLLBACK,), BetEnd.CLOSED: (Fault.EARLY_DEPOSIT,)}
        possible = (*_ANY, Fault.OTHER_CONTENT, *overtaken.get(bet.planned.end, ()))
        withdraw = self._planned(bet, bet.withdraw(), possible)
        end = withdraw.then = self._end_of(bet)
        if end is not None and not {Fault.EARLY_ROLLBACK, Fault.EARLY_DEPOSIT}.isdisjoint(withdraw.faults):
            bet.hurried = True
            end.releases = withdraw
            self._push(bet.planned.at_millis, end)
        else:
            self._push(bet.planned.at_millis, withdraw)

    def _end_of(self, bet: DealtBet) -> _Step | None:
        if bet.planned.end is BetEnd.OPEN:
            return None
        if bet.planned.end is BetEnd.ROLLED_BACK:
            return self._planned(bet, bet.rollback(), _ANY)
        deposit = self._planned(bet, bet.deposit(), (*_ANY, Fault.OTHER_CONTENT, Fault.LATE_DEPOSIT))
        if bet.planned.jackpot_cents:
            deposit.then = self._planned(bet, bet.jackpot(), (*_ANY, Fault.OTHER_CONTENT))
        return deposit

    def _planned(self, dealt: Dealt, call: MovingCall, possible: Iterable[Fault]) -> _Step:
        self.calls += 1
        # By its number in the plan and not by its id, so that another run of the same seed meets the same faults.
        draw = f"{self._seed}:{self.calls}"
        possible = tuple(possible)
        faults = self._faults.struck(draw, possible) + self._struck_by_number(possible)
        return _Step(dealt, call, draw, tuple(dict.fromkeys(faults)))

    def _struck_by_number(self, possible: tuple[Fault, ...]) -> tuple[Fault, ...]:
        struck = tuple(fault for fault, nth in self._waiting_nth.items() if self.calls >= nth and fault in possible)
        for fault in struck:
            del self._waiting_nth[fault]
        self.struck_nth.extend(struck)
        return struck

    def _push(self, at_millis: int, step: _Step) -> None:
        self._due.add(at_millis, step)

    def _is_moot(self, step: _Step) -> bool:
        """Return whether *step* has lost its reason, and is let go: what was to be paid was never placed."""
        if (
            step.extra is not None
            or not isinstance(step.call, DepositCall)
            or step.dealt.state is not ServiceState.REFUSED
        ):
            return False
        self._ended(step, 0)
        return True

    # --- sending -----------------------------------------------------------------------------------------------------

    def _order(self, step: _Step, at_millis: int, beside: Sequence[_Step] | None = None) -> Order:
        if step.extra is not None:
            self.struck[step.extra] += 1
            return Order((step,), (self._post((step.call,), step, extra=step.extra),), at_millis)
        if beside is None:
            beside = tuple(self._beside(at_millis)) if self._may_go_in_a_batch(step) else ()
        steps = (step, *beside)
        for each in steps:
            each.attempts += 1
            self._begun(each)
        faults = step.faults
        if step.attempts > 1:
            calm = step.attempts >= _CALM_FROM
            faults = () if calm else self._faults.struck_again(f"{step.draw}:{step.attempts}")
        posts = tuple(self._posts(tuple(each.call for each in steps), step, faults))
        self.struck.update(fault for fault in faults if fault in _IN_TIME)
        self.struck.update(fault for post in posts for fault in (post.manner, post.extra) if fault is not None)
        return Order(steps, posts, at_millis)

    def _posts(self, calls: tuple[MovingCall, ...], step: _Step, faults: tuple[Fault, ...]) -> Iterator[Post]:
        for extra in (Fault.FORGED, Fault.OLD_KEY):
            if extra in faults:
                yield self._post(calls, step, extra=extra)
        manner = next((fault for fault in _ON_THE_WIRE if fault in faults), None)
        yield self._post(calls, step, manner=manner)
        for extra in (Fault.DUPLICATE, Fault.RESERIALISED):
            if extra in faults:
                yield self._post(calls, step, extra=extra)

    def _post(
        self, calls: tuple[MovingCall, ...], step: _Step, *, manner: Fault | None = None, extra: Fault | None = None
    ) -> Post:
        self._serial += 1
        return Post(calls, self._serial, max(1, step.attempts), manner, extra)

    def _may_go_in_a_batch(self, step: _Step) -> bool:
        if not self._batches or step.attempts or step.faults or step.extra is not None or step.releases is not None:
            return False
        return isinstance(step.dealt, DealtBet) and isinstance(step.call, DepositCall) and not step.call.is_claim

    def _beside(self, at_millis: int) -> Iterator[_Step]:
        """Yield the deposits that are due at the same moment, to go in a batch."""
        for _ in range(_MOST_IN_A_BATCH - 1):
            first = self._due.first()
            if first is None or first[0] != at_millis or not self._may_go_in_a_batch(first[1]):
                return
            _, other = self._due.pop()
            if not self._is_moot(other):
                yield other

    def _begun(self, step: _Step) -> None:
        """Settle or cancel the bet, for the service, as soon as the call that tells so is first sent."""
        bet = step.dealt
        if step.attempts > 1:
            return
        self._unanswered[step] = None
        if self._listener is not None:
            self._listener.begin(bet, _may_move_cents(step.call))
        if not isinstance(bet, DealtBet):
            return
        if isinstance(step.call, RollbackCall):
            self._change(bet, ServiceState.ROLLED_BACK)
        elif isinstance(step.call, DepositCall) and bet.state is ServiceState.OPEN:
            self._change(bet, ServiceState.CLOSED)

    # --- hearing -----------------------------------------------------------------------------------------------------

    def _judge(self, step: _Step, heard: list[tuple[Post, Answer]]) -> None:
        """Note what no sound wallet answers."""
        for post, answer in heard:
            if post.extra in _MUST_BE_REFUSED:
                if answer.succeeded:
                    step.dealt.problems.append(f"{step.call.operation} with the fault {post.extra} was accepted")
                continue
            if self._listener is not None and answer.reply is not None:
                self._listener.told(step.dealt, answer.reply, repeated=step.first is not None)
            if answer.settles(step.call):
                step.first = step.first or answer
                if not _agree(step, answer):
                    step.dealt.problems.append(
                        f"one {step.call.operation}, sent again, was answered {step.first} and {answer}"
                    )

    def _follow(self, step: _Step, heard: list[tuple[Post, Answer]]) -> None:
        definite = [
            answer for post, answer in heard if post.extra not in _MUST_BE_REFUSED and answer.settles(step.call)
        ]
        if step.releases is not None:
            self._overtook(step, definite)
            self._push(self.now_millis + 1, step.releases)
            step.releases = None
        if definite:
            # Of a withdraw that was doubled and cancelled in between, the SUCCESS tells more.
            self._settled(step, next((answer for answer in definite if answer.succeeded), definite[0]))
        else:
            self._send_again(step, heard)

    def _ended(self, step: _Step, moved_cents: int | None) -> None:
        """Tell the listener, if it was ever told that the call began."""
        if step in self._unanswered:
            del self._unanswered[step]
            if self._listener is not None:
                self._listener.end(step.dealt, moved_cents)

    def _overtook(self, step: _Step, definite: list[Answer]) -> None:
        """Note what was answered to a call whose withdraw was not sent yet."""
        if not definite or not isinstance(step.dealt, DealtBet):
            return
        if isinstance(step.call, RollbackCall):
            step.dealt.cancelled_unseen = True
        elif any(answer.succeeded for answer in definite):
            step.dealt.problems.append("its deposit was accepted before its withdraw was sent")

    def _send_again(self, step: _Step, heard: list[tuple[Post, Answer]]) -> None:
        wait_millis = self._retries.wait_millis(step.attempts)
        if wait_millis is None:
            self._given_up(step)
        elif step.attempts >= self._most_attempts:
            last = next((answer for _, answer in reversed(heard) if answer.reply is not None), heard[-1][1])
            step.dealt.problems.append(f"{step.call.operation} had no definite answer in {step.attempts} tries: {last}")
            self._given_up(step)
        else:
            self._push(self.now_millis + wait_millis, step)

    def _given_up(self, step: _Step) -> None:
        step.dealt.lost = True
        self._ended(step, None)
        bet = step.dealt
        if isinstance(step.call, WithdrawCall) and isinstance(bet, DealtBet) and not bet.hurried:
            # Nobody knows whether it was placed, so it does not take part: it is cancelled.
            self._push(self.now_millis, _Step(bet, bet.rollback(), f"{step.draw}:cancelled"))

    def _settled(self, step: _Step, answer: Answer) -> None:
        self._ended(step, _moved_cents(step, answer))
        if Fault.OTHER_CONTENT in step.faults:
            self._push(self.now_millis + 1, _Step(step.dealt, changed(step.call), step.draw, extra=Fault.OTHER_CONTENT))
        if isinstance(step.dealt, DealtClaim):
            self._change(step.dealt, ServiceState.PAID if answer.succeeded else ServiceState.REFUSED)
            self._expect_success(step, answer)
        elif isinstance(step.dealt, DealtBet):
            self._bet_settled(step.dealt, step, answer)

    def _bet_settled(self, bet: DealtBet, step: _Step, answer: Answer) -> None:
        match step.call:
            case WithdrawCall():
                self._placed(bet, step.then) if answer.succeeded else self._refused(bet, answer)
            case RollbackCall():
                self._cancelled(bet, answer)
            case DepositCall(is_claim=True):
                bet.jackpot_paid = answer.succeeded
                self._expect_success(step, answer)
            case DepositCall():
                self._expect_success(step, answer)
                bet.paid = answer.succeeded
                self._check_unpaid(bet)
                if answer.succeeded and step.then is not None:
                    self._push(self.now_millis + _JACKPOT_AFTER_MILLIS, step.then)

    def _placed(self, bet: DealtBet, end: _Step | None) -> None:
        bet.accepted = True
        if bet.state is ServiceState.ROLLED_BACK:
            if bet.cancelled_unseen:
                bet.problems.append("its withdraw was accepted after its rollback had been answered")
            return
        self._change(bet, ServiceState.OPEN)
        if bet.hurried:
            self._change(bet, ServiceState.CLOSED)
        elif end is not None:
            late_millis = _LATE_MILLIS if Fault.LATE_DEPOSIT in end.faults else 0
            self._push(max(self.now_millis, bet.planned.ends_at_millis) + late_millis, end)

    def _refused(self, bet: DealtBet, answer: Answer) -> None:
        if bet.state is not ServiceState.PLACING:
            return
        self._change(bet, ServiceState.REFUSED)
        if answer.code in _NEVER_OF_A_NEW_BET:
            bet.problems.append(f"its withdraw was refused with {answer.code}, and it is the only one of this bet")
        self._check_unpaid(bet)

    def _check_unpaid(self, bet: DealtBet) -> None:
        if bet.paid and bet.state is ServiceState.REFUSED:
            bet.problems.append("its deposit was accepted, and its withdraw refused")

    def _cancelled(self, bet: DealtBet, answer: Answer) -> None:
        if answer.code not in {None, WebhookErrorCode.BET_NOT_FOUND, WebhookErrorCode.PLAYER_NOT_FOUND}:
            bet.problems.append(f"its rollback was refused with {answer.code}, and the bet was never settled")
        elif answer.code is None:
            return
        elif bet.accepted:
            bet.problems.append(f"its rollback was answered {answer.code}, and its withdraw SUCCESS")
        else:
            bet.cancelled_unseen = True

    def _expect_success(self, step: _Step, answer: Answer) -> None:
        if not answer.succeeded:
            step.dealt.problems.append(f"its {step.call.action} deposit was refused with {answer.code}")

    def _change(self, dealt: Dealt, state: ServiceState) -> None:
        dealt.state = state
        self._on_change(dealt)


def name_of(step: _Step) -> str:
    """Return what a trace calls *step*; no two that wait have the same."""
    told = (step.dealt.key, step.call.operation, step.call.action, step.extra)
    return " ".join(filter(None, told))


def _agree(step: _Step, answer: Answer) -> bool:
    """Return whether a right wallet may answer so to a call it answered otherwise: it was cancelled in between."""
    assert step.first is not None
    if step.first.succeeded == answer.succeeded:
        return True
    return step.dealt.state is ServiceState.ROLLED_BACK and not _CANCELLED.isdisjoint({step.first.code, answer.code})


def _may_move_cents(call: MovingCall) -> int:
    return -call.amount_cents if isinstance(call, WithdrawCall) else call.amount_cents or 0


def _moved_cents(step: _Step, answer: Answer) -> int | None:
    """Return what the call moved, as far as its answer tells."""
    if not answer.succeeded:
        return 0
    if isinstance(step.call, RollbackCall) and not (isinstance(step.dealt, DealtBet) and step.dealt.accepted):
        # A wallet may say so of a bet that it never saw (docs/decisions/0014).
        return None
    return _may_move_cents(step.call)
