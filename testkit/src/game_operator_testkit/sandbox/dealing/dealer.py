"""
Decides what the service sends next, and what follows from each answer.

It plays the rounds of a plan. Its caller carries the posts: it asks for ``next`` and reports what was ``answered``.
Time is simulated: it is wherever the next thing is due, so that hours pass at once. Asked for one post at a time, the
same plan and faults make the same posts in the same order. Asked for several, the network decides their order, and
rounds, outcomes and faults are still the same.

How a service repeats, and what it makes of an answer, is assumed (docs/decisions/0013, 0014, 0017).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from typing import Final

from game_operator.models.webhooks import DepositCall, RollbackCall, WithdrawCall
from game_operator.profile import Profile
from game_operator_testkit.provider.bodies import BodyWriter
from game_operator_testkit.provider.delivery import UNSEEN, Answer, Post
from game_operator_testkit.provider.faults import LASTING_FAULTS, Fault, FaultSwitches
from game_operator_testkit.sandbox.dealing import accepted_mistakes
from game_operator_testkit.sandbox.dealing.balances import BalanceBoard
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtBet, DealtClaim, Order, PendingCall, ServiceState
from game_operator_testkit.sandbox.dealing.deliveries import DEFAULT_RETRIES, RetryPreset, retry_preset
from game_operator_testkit.sandbox.dealing.fault_draws import FaultDraws
from game_operator_testkit.sandbox.dealing.plan import BetEnd, PlannedClaim, PlannedItem

#: A wallet that never answers definitely is given up after as many deliveries of one call.
_MOST_ATTEMPTS: Final = 30
#: How a bet's end may overtake its withdraw.
_OVERTAKEN: Final = {BetEnd.ROLLED_BACK: (Fault.EARLY_ROLLBACK,), BetEnd.CLOSED: (Fault.EARLY_DEPOSIT,)}
_LATE_MILLIS: Final = 9 * 60 * 60 * 1_000
_JACKPOT_AFTER_MILLIS: Final = 1_000


class Dealer:
    """
    Plays *items* against a wallet.

    Args:
        items: Rounds and claims in the order of their times.
        faults: What is laid over the deliveries; the rates are those of now, to the end.
        retries: When an unanswered call is sent again.
        seed: What the faults are drawn by, together with a call's number.
        profile: Names the fields of the bodies; claims that it has no words for are not played.
        on_change: Called with a bet or claim whenever its state changed.
        balances: Records what calls move, and the balances that wallets report.
        each_fault_occurs: Whether a fault that is drawn too seldom is laid on a call all the same; see ``FaultDraws``.
        most_attempts: After as many deliveries a call that is never answered definitely is given up as a problem.
    """

    def __init__(
        self,
        items: Iterable[PlannedItem],
        *,
        faults: FaultSwitches | None = None,
        retries: RetryPreset | None = None,
        seed: int | str = 0,
        profile: Profile | None = None,
        on_change: Callable[[Dealt], object] | None = None,
        balances: BalanceBoard | None = None,
        each_fault_occurs: bool = False,
        most_attempts: int = _MOST_ATTEMPTS,
    ) -> None:
        self._items: Iterator[PlannedItem] = iter(items)
        self._coming: PlannedItem | None = next(self._items, None)
        self._retries = retries or retry_preset(DEFAULT_RETRIES)
        self._writer = BodyWriter(profile or Profile())
        #: What is laid over the deliveries, and how many calls were planned.
        self.faults: FaultDraws = FaultDraws(
            faults or FaultSwitches(), seed, self._writer, each_occurs=each_fault_occurs
        )
        self._on_change = on_change or (lambda _dealt: None)
        # A board that nobody reads costs little.
        self._balances = balances or BalanceBoard()
        self._most_attempts = most_attempts
        #: What is due, the earliest first, and of one time in the order in which it was added.
        self._due: list[tuple[int, int, PendingCall]] = []
        self._added = count()
        #: Calls that were sent and not answered definitely, in the order of their first sending.
        self._unanswered: dict[PendingCall, None] = {}
        #: The simulated time, Unix milliseconds.
        self.now_millis: int = self._coming.at_millis if self._coming else 0
        #: Bets and claims, in the order they were dealt.
        self.dealt: list[Dealt] = []
        #: How many bets these are.
        self.bets: int = 0
        #: The deposits and rollbacks that a lasting fault keeps back, in the order in which they were due.
        self.unsent: list[PendingCall] = []

    def next(self) -> Order | None:
        """Return what is to be sent now, or None while nothing is due: at the end, or until something is answered."""
        while True:
            while self._coming is not None and (not self._due or self._coming.at_millis <= self._due[0][0]):
                self._deal()
            if not self._due:
                return None
            at_millis, _, pending = heappop(self._due)
            self.now_millis = max(self.now_millis, at_millis)
            if not self._is_moot(pending) and not self._is_kept_back(pending):
                return self._order(pending)

    def release(self, *, lost: bool = False) -> None:
        """Let the settlements that were held be due now; with *lost* also those that were never to be sent."""
        kept = self.unsent
        self.unsent = []
        for pending in kept:
            dealt = pending.dealt
            if lost or (isinstance(dealt, DealtBet) and dealt.unsent is Fault.SETTLEMENT_HELD):
                self._add(self.now_millis, pending)
            else:
                self.unsent.append(pending)

    def repeat_earliest(self, most: int) -> None:
        """
        Let the earliest withdraws, rollbacks and claims be due once more, as many as *most* of each.

        They are those that were answered definitely. At the end this shows a wallet that forgets calls after some time,
        or after some number of others. Deposits are not among them: one that was never booked would be booked now, and
        nobody would see that its bet was left open.
        """
        left = Counter[str]()
        for dealt in self.dealt:
            # What is wrong already would only be wrong in other ways too.
            for call, answer in () if dealt.problems else tuple(dealt.definite()):
                kind = "claim" if isinstance(call, DepositCall) and call.is_claim else call.operation
                if kind != "deposit" and left[kind] < most:
                    left[kind] += 1
                    sent = sum(post.is_genuine and post.call == call for post, _ in dealt.history)
                    again = PendingCall(dealt, call, "", attempts=sent, first=answer, again=True)
                    self._add(self.now_millis + 1, again)

    def answered(self, order: Order, answers: Sequence[Answer]) -> None:
        """Take in the *answers* to the posts of *order*."""
        pending, answered = order.pending, list(zip(order.posts, answers, strict=True))
        pending.dealt.history.extend(answered)
        self._check(pending, answered)
        if pending.again:
            self._end_again(pending, answered)
        elif pending.extra is None:
            self._follow(pending, answered)

    @property
    def in_doubt(self) -> int:
        """How many calls were sent and not answered definitely: each may have moved money or not."""
        return len(self._unanswered)

    def abandon(self) -> None:
        """Give up what was sent and not answered definitely, because nobody can carry it any more."""
        for pending in tuple(self._unanswered):
            self._give_up(pending)

    def _add(self, at_millis: int, pending: PendingCall) -> None:
        """Let *pending* be due."""
        heappush(self._due, (at_millis, next(self._added), pending))

    def _deal(self) -> None:
        item, self._coming = self._coming, next(self._items, None)
        assert item is not None
        if isinstance(item, PlannedClaim):
            if "FREE_BET_CLAIM" in self._writer.claim_types:
                claim = DealtClaim(planned=item)
                self.dealt.append(claim)
                self._add(item.at_millis, self.faults.planned(claim, item.deposit(), Fault.OTHER_CONTENT))
            return
        for planned in item.bets:
            bet = DealtBet(planned=replace(planned, rollback_tx_id=self._writer.profile.rollback_tx_id))
            self.dealt.append(bet)
            self.bets += 1
            # All its calls are numbered here, in the order of the plan and not in that of the wire.
            overtaken = _OVERTAKEN.get(planned.end, ())
            first = withdraw = self.faults.planned(bet, bet.planned.withdraw(), Fault.OTHER_CONTENT, *overtaken)
            end = withdraw.then = self._end_of(bet)
            if end is not None and not {*LASTING_FAULTS, Fault.REQUEST_LOST}.isdisjoint(end.faults):
                # What does not arrive overtakes nothing.
                self.faults.take_off(withdraw, overtaken)
            elif end is not None and any(fault in withdraw.faults for fault in overtaken):
                bet.hurried, end.releases, first = True, withdraw, end
            self._add(planned.at_millis, first)

    def _end_of(self, bet: DealtBet) -> PendingCall | None:
        if bet.planned.end is BetEnd.OPEN:
            return None
        if bet.planned.end is BetEnd.ROLLED_BACK:
            return self._end(bet, self.faults.planned(bet, bet.planned.rollback(), *LASTING_FAULTS))
        call = bet.planned.deposit(bet.planned.won_cents)
        deposit = self.faults.planned(bet, call, Fault.OTHER_CONTENT, Fault.LATE_DEPOSIT, *LASTING_FAULTS)
        if bet.planned.jackpot_cents and "JACKPOT" in self._writer.claim_types:
            jackpot = bet.planned.jackpot(bet.planned.jackpot_cents)
            deposit.then = self.faults.planned(bet, jackpot, Fault.OTHER_CONTENT)
        return self._end(bet, deposit)

    def _end(self, bet: DealtBet, end: PendingCall) -> PendingCall:
        """Return *end* with what the plan itself asks for."""
        if bet.planned.settlement_fault is not None:
            end.faults = (*end.faults, bet.planned.settlement_fault)
        return end

    def _is_kept_back(self, pending: PendingCall) -> bool:
        """Settle or cancel the bet for the service alone, if a fault keeps *pending* back, and return whether."""
        bet, fault = pending.dealt, next((fault for fault in LASTING_FAULTS if fault in pending.faults), None)
        if fault is None or pending.extra is not None or not isinstance(bet, DealtBet):
            return False
        self.faults.occurred(bet, fault)
        # It has occurred: what is sent late is sent as any other call. The jackpot is not paid.
        pending.faults = tuple(each for each in pending.faults if each not in LASTING_FAULTS)
        pending.then, pending.is_late, bet.unsent = None, True, fault
        self.unsent.append(pending)
        self._change(bet, ServiceState.ROLLED_BACK if isinstance(pending.call, RollbackCall) else ServiceState.CLOSED)
        return True

    def _is_moot(self, pending: PendingCall) -> bool:
        """Return whether *pending* is not sent, because the bet that it pays was never placed."""
        is_payment = pending.extra is None and not pending.again and isinstance(pending.call, DepositCall)
        if not is_payment or pending.dealt.state is not ServiceState.REFUSED:
            return False
        self._ended(pending, 0)
        return True

    def _order(self, pending: PendingCall) -> Order:
        if pending.again:
            pending.attempts += 1
            # It may move nothing, and whatever it moves is found with its bet.
            self._balances.begin(pending.dealt.player_id, 0, pending.dealt)
        elif pending.extra is None:
            pending.attempts += 1
            self._begun(pending)
        return Order(pending, self.faults.posts(pending))

    def _begun(self, pending: PendingCall) -> None:
        """Settle or cancel the bet, for the service, as soon as the call that says so is first sent."""
        bet = pending.dealt
        if pending.attempts > 1:
            return
        self._unanswered[pending] = None
        self._balances.begin(bet.player_id, pending.may_move_cents, bet)
        if not isinstance(bet, DealtBet):
            return
        if isinstance(pending.call, RollbackCall):
            self._change(bet, ServiceState.ROLLED_BACK)
        elif isinstance(pending.call, DepositCall) and bet.state is ServiceState.OPEN:
            self._change(bet, ServiceState.CLOSED)

    def _check(self, pending: PendingCall, answered: list[tuple[Post, Answer]]) -> None:
        # It is its call's only delivery, with nothing else of its player under way.
        alone = pending.attempts == len(answered) == 1 and self._balances.is_alone(pending.dealt.player_id)
        for post, answer in answered:
            if not post.is_genuine:
                if answer.succeeded:
                    problem = f"{pending.call.operation} with the fault {post.extra} was accepted"
                    pending.dealt.problems.append(problem)
                continue
            if answer.reply is not None and answer.reply.balance_cents is not None:
                self._balances.reported(
                    pending.dealt.player_id,
                    answer.reply.balance_cents,
                    repeated=pending.first is not None,
                    number=answer.number,
                )
            if answer.settles(pending.call):
                pending.first = pending.first or answer
                accepted_mistakes.check_repeat(pending, answer)
                accepted_mistakes.check_funds(pending, answer, alone=alone)

    def _follow(self, pending: PendingCall, answered: list[tuple[Post, Answer]]) -> None:
        definite = [answer for post, answer in answered if post.is_genuine and answer.settles(pending.call)]
        if pending.releases is not None:
            # The withdraw was not sent yet.
            if definite and isinstance(pending.dealt, DealtBet):
                if isinstance(pending.call, RollbackCall):
                    pending.dealt.cancelled_unseen = True
                elif any(answer.succeeded for answer in definite):
                    pending.dealt.problems.append("its deposit was accepted before its withdraw was sent")
            self._add(self.now_millis + 1, pending.releases)
            pending.releases = None
        if definite:
            # Of a withdraw that was doubled and cancelled in between, the SUCCESS says more.
            self._settled(pending, next((answer for answer in definite if answer.succeeded), definite[0]))
        else:
            self._send_again_or_give_up(pending, answered)

    def _ended(self, pending: PendingCall, moved_cents: int | None) -> None:
        """Note that a call is over, if it ever began."""
        if pending in self._unanswered:
            del self._unanswered[pending]
            self._balances.end(pending.dealt.player_id, moved_cents, pending.dealt)

    def _end_again(self, pending: PendingCall, answered: list[tuple[Post, Answer]]) -> None:
        """Note what is wrong with the answer to a call that was over; whether it moved money, the audit finds."""
        self._balances.end(pending.dealt.player_id, 0, pending.dealt)
        _, answer = answered[-1]
        if answer.reply is not None and not answer.settles(pending.call):
            problem = f"one {pending.call.operation}, sent again at the end, had no definite answer: {answer}"
            pending.dealt.problems.append(problem)

    def _send_again_or_give_up(self, pending: PendingCall, answered: list[tuple[Post, Answer]]) -> None:
        bet = pending.dealt
        can_cancel = isinstance(pending.call, WithdrawCall) and isinstance(bet, DealtBet) and not bet.hurried
        wait_millis = self._retries.wait_millis(pending.attempts)
        if wait_millis is not None and (self._retries.repeats_withdraws or not can_cancel):
            if pending.attempts < self._most_attempts:
                self._add(self.now_millis + wait_millis, pending)
                return
            last = next((answer for _, answer in reversed(answered) if answer.reply is not None), answered[-1][1])
            bet.problems.append(f"{pending.call.operation} had no definite answer in {pending.attempts} tries: {last}")
        self._give_up(pending)
        if can_cancel and isinstance(bet, DealtBet):
            # Nobody knows whether it was placed, so it does not take part: it is cancelled.
            self._add(self.now_millis, PendingCall(bet, bet.planned.rollback(), f"{pending.draw}:cancelled"))

    def _give_up(self, pending: PendingCall) -> None:
        pending.dealt.lost = True
        self._ended(pending, None)
        if pending.is_late:
            # It may be released again.
            pending.attempts = 0
            self.unsent.append(pending)

    def _settled(self, pending: PendingCall, answer: Answer) -> None:
        self._ended(pending, pending.moved_cents(answer))
        if Fault.OTHER_CONTENT in pending.faults:
            self._add(self.now_millis + 1, pending.changed())
        bet = pending.dealt
        if isinstance(bet, DealtClaim):
            self._change(bet, ServiceState.PAID if answer.succeeded else ServiceState.REFUSED)
            accepted_mistakes.check_paid(pending, answer)
            return
        if pending.is_late:
            # A wallet that has settled the bet meanwhile may refuse it or not: only the books can show what is wrong.
            bet.unsent = None
            return
        match pending.call:
            case WithdrawCall() if answer.succeeded:
                self._placed(bet, pending.then)
            case WithdrawCall():
                if bet.state is ServiceState.PLACING:
                    self._change(bet, ServiceState.REFUSED)
                    accepted_mistakes.check_refused(bet, answer)
                    accepted_mistakes.check_unpaid(bet)
            case RollbackCall():
                accepted_mistakes.check_cancelled(bet, answer)
                bet.cancelled_unseen |= answer.code in UNSEEN and not bet.accepted
            case DepositCall(is_claim=True):
                bet.jackpot_paid = answer.succeeded
                accepted_mistakes.check_paid(pending, answer)
            case DepositCall():
                accepted_mistakes.check_paid(pending, answer)
                bet.paid = answer.succeeded
                accepted_mistakes.check_unpaid(bet)
                if answer.succeeded and pending.then is not None:
                    self._add(self.now_millis + _JACKPOT_AFTER_MILLIS, pending.then)

    def _placed(self, bet: DealtBet, end: PendingCall | None) -> None:
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
            self._add(max(self.now_millis, bet.planned.ends_at_millis) + late_millis, end)

    def _change(self, dealt: Dealt, state: ServiceState) -> None:
        dealt.state = state
        self._on_change(dealt)
