"""
When a call is delivered, and with which faults: retries, the agenda of what is due, and the faults drawn for each call.

The specification shows no retries (spec §6). The presets are the habits of existing services, from none at all to
endless (assumed, docs/decisions/0017).
"""

import heapq
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

from game_operator.errors import ConfigurationError, shown
from game_operator.models.webhooks import MovingCall, WithdrawCall
from game_operator.protocol.webhook import BodyWriter
from game_operator_testkit.provider.delivery import Post
from game_operator_testkit.provider.faults import Fault, FaultPlan
from game_operator_testkit.sandbox.dealing.dealt import Dealt, PendingCall

_ON_THE_WIRE: Final = (Fault.REQUEST_LOST, Fault.REPLY_LOST, Fault.TIMEOUT, Fault.RESET, Fault.SLOW)
#: What can occur in a delivery that is not the first one.
_OF_REPEATS: Final = (*_ON_THE_WIRE, Fault.DUPLICATE)
#: The call, for which None stands, and what may be sent beside it.
_IN_ORDER: Final = (Fault.FORGED, Fault.OLD_KEY, None, Fault.DUPLICATE, Fault.RESERIALISED)
#: What may occur in any call.
_OF_ANY_CALL: Final = (*_OF_REPEATS, Fault.FORGED, Fault.RESERIALISED, Fault.OLD_KEY)
#: Faults that show in no post: of the order and the time in which calls are sent, and of what the service reports.
_NOT_IN_POSTS: Final = frozenset({Fault.EARLY_ROLLBACK, Fault.EARLY_DEPOSIT, Fault.LATE_DEPOSIT, Fault.OTHER_WON})
#: How often a fault is laid on calls if each must occur: at once, and so many times in 1,000 bets more, up to the most.
#: That is more than ``least_of_each`` says, because some calls are never sent: their bet is refused.
_LAID_PER_THOUSAND: Final = 7
_MOST_LAID: Final = 8
#: How often a storm needs each fault: so many times in 1,000 bets, fewer in a smaller storm, and no more in a larger.
_LEAST: Final = 5
#: From this delivery of a call on the network is calm, at any rate of faults: a fault never replaces a call.
_CALM_FROM: Final = 6


@dataclass(frozen=True, slots=True)
class RetryPreset:
    """
    The waits between one delivery of a call and the next.

    Attributes:
        name: What it is chosen by.
        title: What it does, for people.
        brief: The same in a few words.
        waits_millis: The first waits.
        then_millis: The wait after those, for ever; None gives up.
    """

    name: str
    title: str
    brief: str
    waits_millis: Sequence[int]
    then_millis: int | None = None

    def wait_millis(self, attempts: int) -> int | None:
        """Return how long to wait after *attempts* deliveries; None if there is no further one."""
        return self.waits_millis[attempts - 1] if attempts <= len(self.waits_millis) else self.then_millis


#: By name; retries.toml has them.
RETRY_PRESETS: Final = MappingProxyType(
    {
        name: RetryPreset(name, **entry)
        for name, entry in tomllib.loads(Path(__file__).with_name("retries.toml").read_text(encoding="utf-8")).items()
    }
)
DEFAULT_RETRIES: Final = "three"


def retry_preset(name: str) -> RetryPreset:
    """Return the preset called *name*; raise ConfigurationError if it is unknown."""
    try:
        return RETRY_PRESETS[name]
    except KeyError:
        known = ", ".join(RETRY_PRESETS)
        raise ConfigurationError(f"The retries {shown(name)} are unknown. Pass one of {known}.") from None


class Agenda:
    """
    Calls that are due at some time, the earliest first, and of one time in the order in which they were added.

    No two that wait have the same name.
    """

    def __init__(self) -> None:
        self._added = 0
        #: When each is due, its number and its name; those that were taken by name are still in here.
        self._heap: list[tuple[int, int, str]] = []
        #: By name, the number and the call.
        self._waiting: dict[str, tuple[int, PendingCall]] = {}

    def add(self, at_millis: int, pending: PendingCall) -> None:
        """Let *pending* be due."""
        self._added += 1
        name = pending.name
        heapq.heappush(self._heap, (at_millis, self._added, name))
        self._waiting[name] = self._added, pending

    def first(self) -> tuple[int, PendingCall] | None:
        """Return when the earliest call is due, and the call; None if nothing is due."""
        while self._heap:
            at_millis, number, name = self._heap[0]
            if name in self._waiting and self._waiting[name][0] == number:
                return at_millis, self._waiting[name][1]
            heapq.heappop(self._heap)
        return None

    def pop(self) -> tuple[int, PendingCall]:
        """Take and return what ``first`` returned."""
        at_millis, _, name = heapq.heappop(self._heap)
        return at_millis, self._waiting.pop(name)[1]

    def take(self, name: str) -> PendingCall | None:
        """Take and return the call named *name*, whenever it is due, or None if it does not wait."""
        return self._waiting.pop(name, (0, None))[1]


def least_of_each(bets: int) -> int:
    """Return how often each fault must occur in so many *bets* to count as tried: 5 in 1,000, and at least 1."""
    return min(_LEAST, max(1, bets * _LEAST // 1_000))


class FaultDraws:
    """
    Draws faults by *seed* and a call's number, and writes the posts that show them.

    With *each_occurs* a fault that chance has drawn too seldom is laid on the next call in which it can occur. Which
    call that is depends on the calls before it alone, so that a longer run of the same seed begins as a shorter one.
    """

    def __init__(self, faults: FaultPlan, seed: int | str, writer: BodyWriter, *, each_occurs: bool = False) -> None:
        self._writer = writer
        self._each_occurs = each_occurs
        self._bets = 0
        self._laid: Counter[Fault] = Counter()
        #: What may occur, and how often.
        self.plan: FaultPlan = faults
        self._seed = seed
        self._waiting_nth = dict(faults.nth)
        self._serials = count(1)
        #: How many calls were planned so far; faults that wait for the Nth call count these.
        self.calls: int = 0
        #: How often each fault occurred.
        self.struck: Counter[Fault] = Counter()
        #: The faults that waited for the Nth call and have occurred.
        self.struck_nth: list[Fault] = []

    def planned(self, dealt: Dealt, call: MovingCall, *of_this_call: Fault) -> PendingCall:
        """Return the next call of the plan, with what is laid over its first delivery."""
        self.calls += 1
        # By its number in the plan and not by its id, so that another run of the same seed meets the same faults.
        draw = f"{self._seed}:{self.calls}"
        possible = (*_OF_ANY_CALL, *of_this_call)
        struck_nth = [fault for fault, nth in self._waiting_nth.items() if self.calls >= nth and fault in possible]
        for fault in struck_nth:
            del self._waiting_nth[fault]
        self.struck_nth += struck_nth
        faults = (*self.plan.struck(draw, possible), *struck_nth)
        if self._each_occurs:
            self._bets += isinstance(call, WithdrawCall)
            faults = (*faults, *self._too_seldom(faults, possible))
            # Of several on the wire only the first occurs.
            on_the_wire = [fault for fault in _ON_THE_WIRE if fault in faults]
            self._laid.update(fault for fault in faults if fault not in on_the_wire[1:])
        return PendingCall(dealt, call, draw, tuple(dict.fromkeys(faults)))

    def _too_seldom(self, drawn: Sequence[Fault], possible: Sequence[Fault]) -> Iterator[Fault]:
        """Yield the fault that a call gets besides those *drawn* for it; at most one, first what few calls can have."""
        due = min(_MOST_LAID, 1 + self._bets * _LAID_PER_THOUSAND // 1_000)
        taken = {*drawn, *(_ON_THE_WIRE if any(fault in _ON_THE_WIRE for fault in drawn) else ())}
        for fault in reversed(possible):
            if self.plan.rates.get(fault) and self._laid[fault] < due and fault not in taken:
                yield fault
                return

    def posts(self, calls: tuple[MovingCall, ...], pending: PendingCall) -> tuple[Post, ...]:
        """Return what is posted to deliver *calls*, in order; the faults are those of *pending*, the first of them."""
        faults = pending.faults
        if pending.attempts > 1 and not pending.again:
            calm = pending.attempts >= _CALM_FROM
            faults = () if calm else self.plan.struck(f"{pending.draw}:{pending.attempts}", _OF_REPEATS)
        manner = next((fault for fault in _ON_THE_WIRE if fault in faults), None)
        attempt = max(1, pending.attempts)
        posts = tuple(
            Post(calls, next(self._serials), attempt, manner if extra is None else None, extra, self._writer)
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
