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
from typing import Final, Protocol

from game_operator.models.webhooks import DepositCall, Reply, RollbackCall, WithdrawCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import BodyWriter
from game_operator.provider.delivery import UNSEEN, Answer, Post, Sent
from game_operator.provider.faults import NO_FAULTS, Fault, FaultPlan
from game_operator.sandbox.dealing.accepted_mistakes import (
    check_cancelled,
    check_covered,
    check_early,
    check_intruder,
    check_overdrawn,
    check_paid,
    check_placed,
    check_refused,
    check_repeat,
    check_unpaid,
)
from game_operator.sandbox.dealing.dealt import (
    Dealt,
    DealtBet,
    DealtClaim,
    Order,
    ServiceState,
    Step,
    changed,
    may_move_cents,
    moved_cents,
    name_of,
)
from game_operator.sandbox.dealing.fault_draws import OF_ANY_CALL, FaultDraws
from game_operator.sandbox.dealing.plan import BetEnd, PlannedClaim, PlannedItem, PlannedRound
from game_operator.sandbox.dealing.timing import DEFAULT_RETRIES, Agenda, RetryPreset, retry_preset

#: A wallet that never answers definitely is given up after as many deliveries of one call.
_MOST_ATTEMPTS: Final = 100
#: Most items of a batch (docs/decisions/0010).
_MOST_IN_A_BATCH: Final = 1_000
_LATE_MILLIS: Final = 9 * 60 * 60 * 1_000
_JACKPOT_AFTER_MILLIS: Final = 1_000


class Listener(Protocol):
    """Whoever wants to know what is asked of a player's balance, and what is told of it."""

    def begin(self, dealt: Dealt, may_move_cents: int) -> None:
        """A call is sent for the first time; it may move so much, less than 0 from the player."""

    def told(self, dealt: Dealt, reply: Reply, *, repeated: bool) -> None:
        """A reply was heard; *repeated* if the call had been answered definitely before."""

    def end(self, dealt: Dealt, moved_cents: int | None) -> None:
        """A call was answered definitely, and moved so much; None if it was given up and nobody knows."""


class Dealer:
    """
    Plays *items* against a wallet.

    Args:
        items: Rounds and claims in the order of their times.
        faults: What is laid over the deliveries.
        retries: When an unanswered call is sent again.
        seed: What the faults are drawn by, together with a call's number.
        profile: Names the fields of the bodies; claims that it has no words for are not played.
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
        profile: Profile | None = None,
        batches: bool = False,
        on_change: Callable[[Dealt], object] | None = None,
        listener: Listener | None = None,
        most_attempts: int = _MOST_ATTEMPTS,
    ) -> None:
        self._items: Iterator[PlannedItem] = iter(items)
        self._coming: PlannedItem | None = next(self._items, None)
        self._retries = retries or retry_preset(DEFAULT_RETRIES)
        #: What is laid over the deliveries.
        self.faults = faults
        self._writer = BodyWriter(profile or Profile())
        self._fault_draws = FaultDraws(faults, seed, self._writer)
        self._batches = batches
        self._on_change = on_change or (lambda _dealt: None)
        self._listener = listener
        self._most_attempts = most_attempts
        self._due: Agenda[Step] = Agenda(name_of)
        #: Calls that were sent and not answered definitely, in the order of their first sending.
        self._unanswered: dict[Step, None] = {}
        #: By player, how many of these there are, and how many calls have begun or ended so far.
        self._under_way: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        #: The simulated time, Unix milliseconds.
        self.now_millis = self._coming.at_millis if self._coming else 0
        #: Bets and claims, in the order they were dealt.
        self.dealt: list[Dealt] = []

    @property
    def calls(self) -> int:
        """How many calls were planned so far; faults that wait for the Nth call count these."""
        return self._fault_draws.calls

    @property
    def struck(self) -> Counter[Fault]:
        """How often each fault struck."""
        return self._fault_draws.struck

    @property
    def struck_nth(self) -> list[Fault]:
        """The faults that waited for the Nth call and have struck."""
        return self._fault_draws.struck_nth

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
            self._hear(step, heard)
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
        if "FREE_BET_CLAIM" not in self._writer.claim_types:
            return
        claim = DealtClaim(planned=planned)
        self.dealt.append(claim)
        self._push(
            planned.at_millis, self._fault_draws.planned(claim, claim.deposit(), (*OF_ANY_CALL, Fault.OTHER_CONTENT))
        )

    def _deal_round(self, planned: PlannedRound) -> None:
        for planned_bet in planned.bets:
            bet = DealtBet(planned=planned_bet, round=planned, rollback_tx_id=self._writer.profile.rollback_tx_id)
            self.dealt.append(bet)
            self._deal_bet(bet)

    def _deal_bet(self, bet: DealtBet) -> None:
        # All its calls are numbered here, in the order of the plan, whatever happens first on the wire.
        overtaken = {BetEnd.ROLLED_BACK: (Fault.EARLY_ROLLBACK,), BetEnd.CLOSED: (Fault.EARLY_DEPOSIT,)}
        possible = (*OF_ANY_CALL, Fault.OTHER_CONTENT, *overtaken.get(bet.planned.end, ()))
        withdraw = self._fault_draws.planned(bet, bet.calls.withdraw(), possible)
        end = withdraw.then = self._end_of(bet)
        if end is not None and not {Fault.EARLY_ROLLBACK, Fault.EARLY_DEPOSIT}.isdisjoint(withdraw.faults):
            bet.hurried = True
            end.releases = withdraw
            self._push(bet.planned.at_millis, end)
        else:
            self._push(bet.planned.at_millis, withdraw)

    def _end_of(self, bet: DealtBet) -> Step | None:
        if bet.planned.end is BetEnd.OPEN:
            return None
        if bet.planned.end is BetEnd.ROLLED_BACK:
            return self._fault_draws.planned(bet, bet.calls.rollback(), OF_ANY_CALL)
        deposit = self._fault_draws.planned(
            bet, bet.calls.deposit(bet.planned.won_cents), (*OF_ANY_CALL, Fault.OTHER_CONTENT, Fault.LATE_DEPOSIT)
        )
        if bet.planned.jackpot_cents and "JACKPOT" in self._writer.claim_types:
            deposit.then = self._fault_draws.planned(
                bet, bet.calls.jackpot(bet.planned.jackpot_cents), (*OF_ANY_CALL, Fault.OTHER_CONTENT)
            )
        return deposit

    def _push(self, at_millis: int, step: Step) -> None:
        self._due.add(at_millis, step)

    def _is_moot(self, step: Step) -> bool:
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

    def _order(self, step: Step, at_millis: int, beside: Sequence[Step] | None = None) -> Order:
        if step.extra is not None:
            return Order((step,), (self._fault_draws.extra_post(step, step.extra),), at_millis)
        if beside is None:
            beside = tuple(self._beside(at_millis)) if self._may_go_in_a_batch(step) else ()
        steps = (step, *beside)
        for each in steps:
            each.attempts += 1
            self._begun(each)
        return Order(steps, self._fault_draws.posts(tuple(each.call for each in steps), step), at_millis)

    def _may_go_in_a_batch(self, step: Step) -> bool:
        if not self._batches or step.attempts or step.faults or step.extra is not None or step.releases is not None:
            return False
        return isinstance(step.dealt, DealtBet) and isinstance(step.call, DepositCall) and not step.call.is_claim

    def _beside(self, at_millis: int) -> Iterator[Step]:
        """Yield the deposits that are due at the same moment, to go in a batch."""
        for _ in range(_MOST_IN_A_BATCH - 1):
            first = self._due.first()
            if first is None or first[0] != at_millis or not self._may_go_in_a_batch(first[1]):
                return
            _, other = self._due.pop()
            if not self._is_moot(other):
                yield other

    def _begun(self, step: Step) -> None:
        """Settle or cancel the bet, for the service, as soon as the call that tells so is first sent."""
        bet = step.dealt
        if step.attempts > 1:
            return
        self._unanswered[step] = None
        self._turns[bet.player_id] += 1
        step.alone_since = None if self._under_way[bet.player_id] else self._turns[bet.player_id]
        self._under_way[bet.player_id] += 1
        if self._listener is not None:
            self._listener.begin(bet, may_move_cents(step.call))
        if not isinstance(bet, DealtBet):
            return
        if isinstance(step.call, RollbackCall):
            self._change(bet, ServiceState.ROLLED_BACK)
        elif isinstance(step.call, DepositCall) and bet.state is ServiceState.OPEN:
            self._change(bet, ServiceState.CLOSED)

    # --- hearing -----------------------------------------------------------------------------------------------------

    def _hear(self, step: Step, heard: list[tuple[Post, Answer]]) -> None:
        for post, answer in heard:
            if not post.is_genuine:
                check_intruder(step, post, answer)
                continue
            if self._listener is not None and answer.reply is not None:
                self._listener.told(step.dealt, answer.reply, repeated=step.first is not None)
            if answer.settles(step.call):
                step.first = step.first or answer
                check_repeat(step, answer)
                check_overdrawn(step, answer)
        if self._was_alone(step) and len(heard) == 1:
            check_covered(step, heard[0][1])

    def _was_alone(self, step: Step) -> bool:
        """Return whether this was the call's only delivery, and no other of its player overlapped with it."""
        return step.attempts == 1 and step.alone_since == self._turns[step.dealt.player_id]

    def _follow(self, step: Step, heard: list[tuple[Post, Answer]]) -> None:
        definite = [answer for post, answer in heard if post.is_genuine and answer.settles(step.call)]
        if step.releases is not None:
            self._overtook(step, definite)
            self._push(self.now_millis + 1, step.releases)
            step.releases = None
        if definite:
            # Of a withdraw that was doubled and cancelled in between, the SUCCESS tells more.
            self._settled(step, next((answer for answer in definite if answer.succeeded), definite[0]))
        else:
            self._send_again(step, heard)

    def _ended(self, step: Step, moved_cents: int | None) -> None:
        """Tell the listener, if it was ever told that the call began."""
        if step in self._unanswered:
            del self._unanswered[step]
            self._turns[step.dealt.player_id] += 1
            self._under_way[step.dealt.player_id] -= 1
            if self._listener is not None:
                self._listener.end(step.dealt, moved_cents)

    def _overtook(self, step: Step, definite: list[Answer]) -> None:
        """Note what was answered to a call whose withdraw was not sent yet."""
        if not definite or not isinstance(step.dealt, DealtBet):
            return
        check_early(step.dealt, step, definite)
        if isinstance(step.call, RollbackCall):
            step.dealt.cancelled_unseen = True

    def _send_again(self, step: Step, heard: list[tuple[Post, Answer]]) -> None:
        wait_millis = self._retries.wait_millis(step.attempts)
        if wait_millis is None:
            self._given_up(step)
        elif step.attempts >= self._most_attempts:
            last = next((answer for _, answer in reversed(heard) if answer.reply is not None), heard[-1][1])
            step.dealt.problems.append(f"{step.call.operation} had no definite answer in {step.attempts} tries: {last}")
            self._given_up(step)
        else:
            self._push(self.now_millis + wait_millis, step)

    def _given_up(self, step: Step) -> None:
        step.dealt.lost = True
        self._ended(step, None)
        bet = step.dealt
        if isinstance(step.call, WithdrawCall) and isinstance(bet, DealtBet) and not bet.hurried:
            # Nobody knows whether it was placed, so it does not take part: it is cancelled.
            self._push(self.now_millis, Step(bet, bet.calls.rollback(), f"{step.draw}:cancelled"))

    def _settled(self, step: Step, answer: Answer) -> None:
        self._ended(step, moved_cents(step, answer))
        if Fault.OTHER_CONTENT in step.faults:
            self._push(self.now_millis + 1, Step(step.dealt, changed(step.call), step.draw, extra=Fault.OTHER_CONTENT))
        if isinstance(step.dealt, DealtClaim):
            self._change(step.dealt, ServiceState.PAID if answer.succeeded else ServiceState.REFUSED)
            check_paid(step, answer)
        elif isinstance(step.dealt, DealtBet):
            self._bet_settled(step.dealt, step, answer)

    def _bet_settled(self, bet: DealtBet, step: Step, answer: Answer) -> None:
        match step.call:
            case WithdrawCall():
                self._placed(bet, step.then) if answer.succeeded else self._refused(bet, answer)
            case RollbackCall():
                check_cancelled(bet, answer)
                bet.cancelled_unseen |= answer.code in UNSEEN and not bet.accepted
            case DepositCall(is_claim=True):
                bet.jackpot_paid = answer.succeeded
                check_paid(step, answer)
            case DepositCall():
                check_paid(step, answer)
                bet.paid = answer.succeeded
                check_unpaid(bet)
                if answer.succeeded and step.then is not None:
                    self._push(self.now_millis + _JACKPOT_AFTER_MILLIS, step.then)

    def _placed(self, bet: DealtBet, end: Step | None) -> None:
        bet.accepted = True
        check_placed(bet)
        if bet.state is ServiceState.ROLLED_BACK:
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
        check_refused(bet, answer)
        check_unpaid(bet)

    def _change(self, dealt: Dealt, state: ServiceState) -> None:
        dealt.state = state
        self._on_change(dealt)
