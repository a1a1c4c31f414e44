"""
Which faults occur in which call: drawn by a seed, and laid on other calls where chance is too sparing.

A fault that occurs twice in a storm shows little. A wallet without tombstones passes if the one rollback that came
early was lost on the way. So each fault that was asked for must occur as often as ``least_of_each`` says.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import count, islice
from typing import Final

from game_operator.models.webhooks import MovingCall, WithdrawCall
from game_operator_testkit.provider.bodies import BodyWriter
from game_operator_testkit.provider.delivery import Post
from game_operator_testkit.provider.faults import Fault, FaultPlan, FaultSwitches
from game_operator_testkit.sandbox.dealing.dealt import Dealt, PendingCall

_ON_THE_WIRE: Final = (Fault.REQUEST_LOST, Fault.REPLY_LOST, Fault.TIMEOUT, Fault.RESET, Fault.SLOW)
#: What can occur in a delivery that is not the first one.
_OF_REPEATS: Final = (*_ON_THE_WIRE, Fault.DUPLICATE)
#: The call, for which None stands, and what may be sent beside it.
_IN_ORDER: Final = (Fault.FORGED, Fault.OLD_KEY, None, Fault.DUPLICATE, Fault.RESERIALISED)
#: What may occur in any call.
_OF_ANY_CALL: Final = (*_OF_REPEATS, Fault.FORGED, Fault.RESERIALISED, Fault.OLD_KEY)
#: Faults that show in no post: of the order and the time in which calls are sent.
_NOT_IN_POSTS: Final = frozenset({Fault.EARLY_ROLLBACK, Fault.EARLY_DEPOSIT, Fault.LATE_DEPOSIT})
#: How often a storm needs each fault: so many times in 1,000 bets, fewer in a smaller storm, and no more in a larger.
_LEAST: Final = 5
#: How often each is laid on calls: once at first, so many times in 1,000 bets more, and no more than the most. That is
#: above what is needed, because some calls are never sent: their bet is refused.
_LAID_PER_THOUSAND: Final = 7
_MOST_LAID: Final = 8
#: From this delivery of a call on the network is calm, at any rate of faults: a fault never replaces a call.
_CALM_FROM: Final = 6


def least_of_each(bets: int) -> int:
    """Return how often each fault must occur in so many *bets* to count as tried: 5 in 1,000, and at least 1."""
    return min(_LEAST, max(1, bets * _LEAST // 1_000))


class _SparingChance:
    """
    Which faults of *plan* chance has laid on too few calls so far.

    That depends on the calls before alone, so that a longer run of the same seed begins as a shorter one.
    """

    def __init__(self, plan: FaultPlan) -> None:
        self._rates = plan.rates
        self._bets = 0
        self._laid: Counter[Fault] = Counter()

    def helped(self, call: MovingCall, drawn: tuple[Fault, ...], possible: Sequence[Fault]) -> tuple[Fault, ...]:
        """Return the faults of the next *call*: those *drawn*, and at most one more, first what few calls can have."""
        self._bets += isinstance(call, WithdrawCall)
        due = min(_MOST_LAID, 1 + self._bets * _LAID_PER_THOUSAND // 1_000)
        # Of several on the wire only the first occurs.
        on_the_wire = [fault for fault in _ON_THE_WIRE if fault in drawn]
        free = (fault for fault in reversed(possible) if not (on_the_wire and fault in _ON_THE_WIRE))
        lacking = (fault for fault in free if self._rates.get(fault) and fault not in drawn and self._laid[fault] < due)
        faults = (*drawn, *islice(lacking, 1))
        self._laid.update(fault for fault in faults if fault not in on_the_wire[1:])
        return faults

    def taken_off(self, faults: Sequence[Fault]) -> None:
        """Note that *faults* cannot occur in the call that they were laid on."""
        self._laid.subtract(faults)


class FaultDraws:
    """
    Draws faults by *seed* and a call's number, and writes the posts that show them.

    With *each_occurs* a fault that chance has drawn too seldom is laid on the next call in which it can occur.
    """

    def __init__(
        self, faults: FaultSwitches, seed: int | str, writer: BodyWriter, *, each_occurs: bool = False
    ) -> None:
        self._writer = writer
        self._switches, self._plan = faults, faults.plan
        self._chance = _SparingChance(self._plan) if each_occurs else None
        self._seed = seed
        self._serials = count(1)
        #: How many calls were planned so far.
        self.calls: int = 0
        #: How often each fault occurred.
        self.struck: Counter[Fault] = Counter()

    def planned(self, dealt: Dealt, call: MovingCall, *of_this_call: Fault) -> PendingCall:
        """Return the next call of the plan, with what is laid over its first delivery."""
        self.calls += 1
        # By its number in the plan and not by its id, so that another run of the same seed meets the same faults.
        draw = f"{self._seed}:{self.calls}"
        possible = (*_OF_ANY_CALL, *of_this_call)
        faults = (*self._plan.struck(draw, possible), *self._switches.strike_webhook(possible))
        if self._chance is not None:
            faults = self._chance.helped(call, faults, possible)
        return PendingCall(dealt, call, draw, tuple(dict.fromkeys(faults)))

    def take_off(self, pending: PendingCall, faults: Sequence[Fault]) -> None:
        """Take *faults* off a planned call, because they cannot occur."""
        if self._chance is not None:
            self._chance.taken_off([fault for fault in faults if fault in pending.faults])
        pending.faults = tuple(fault for fault in pending.faults if fault not in faults)

    def posts(self, pending: PendingCall) -> tuple[Post, ...]:
        """Return what is posted to deliver *pending*, in order."""
        faults = pending.faults
        if pending.attempts > 1 and not pending.again:
            calm = pending.attempts >= _CALM_FROM
            faults = () if calm else self._plan.struck(f"{pending.draw}:{pending.attempts}", _OF_REPEATS)
        manner = next((fault for fault in _ON_THE_WIRE if fault in faults), None)
        attempt = max(1, pending.attempts)
        posts = tuple(
            Post(pending.call, next(self._serials), attempt, manner if extra is None else None, extra, self._writer)
            for extra in (_IN_ORDER if pending.extra is None else (pending.extra,))
            if extra is pending.extra or extra in faults
        )
        shown = [fault for post in posts for fault in (post.manner, post.extra) if fault is not None]
        self.occurred(pending.dealt, *(fault for fault in faults if fault in _NOT_IN_POSTS), *shown)
        return posts

    def occurred(self, dealt: Dealt, *faults: Fault) -> None:
        """Count *faults*, and note them with their bet or claim."""
        self.struck.update(faults)
        dealt.faults.update(dict.fromkeys(faults))
