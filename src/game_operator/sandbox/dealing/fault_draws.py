"""What goes wrong with which call: drawn by its number in the plan, and laid over its deliveries."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from game_operator.models.webhooks import MovingCall
from game_operator.protocol.webhook import BodyWriter
from game_operator.provider.delivery import Post
from game_operator.provider.faults import Fault, FaultPlan
from game_operator.sandbox.dealing.dealt import Dealt, Step

_ON_THE_WIRE: Final = (Fault.REQUEST_LOST, Fault.REPLY_LOST, Fault.TIMEOUT, Fault.RESET, Fault.SLOW)
#: What may strike any call.
OF_ANY_CALL: Final = (*_ON_THE_WIRE, Fault.DUPLICATE, Fault.FORGED, Fault.RESERIALISED, Fault.OLD_KEY)
#: Faults of the order and the time in which calls are sent.
_IN_TIME: Final = frozenset({Fault.EARLY_ROLLBACK, Fault.EARLY_DEPOSIT, Fault.LATE_DEPOSIT})
#: Whatever the rates, the network is calm from this delivery of a call on: a fault is never in a call's place.
_CALM_FROM: Final = 6


class FaultDraws:
    """
    Draws faults, and writes the posts that show them.

    Args:
        faults: What may strike, and how often.
        seed: What is drawn by, together with a call's number.
        writer: Writes the bodies.
    """

    def __init__(self, faults: FaultPlan, seed: int | str, writer: BodyWriter) -> None:
        self._writer = writer
        self._faults = faults
        self._seed = seed
        self._waiting_nth = dict(faults.nth)
        self._serial = 0
        #: How many calls were planned so far; faults that wait for the Nth call count these.
        self.calls = 0
        #: How often each fault struck.
        self.struck: Counter[Fault] = Counter()
        #: The faults that waited for the Nth call and have struck.
        self.struck_nth: list[Fault] = []

    def planned(self, dealt: Dealt, call: MovingCall, possible: Iterable[Fault]) -> Step:
        """Return the step of the next call of the plan, with what is laid over its first delivery."""
        self.calls += 1
        # By its number in the plan and not by its id, so that another run of the same seed meets the same faults.
        draw = f"{self._seed}:{self.calls}"
        possible = tuple(possible)
        faults = self._faults.struck(draw, possible) + self._struck_by_number(possible)
        return Step(dealt, call, draw, tuple(dict.fromkeys(faults)))

    def posts(self, calls: tuple[MovingCall, ...], step: Step) -> tuple[Post, ...]:
        """Return what is posted to deliver *calls*, in order; the faults are those of *step*, the first of them."""
        faults = self._of_delivery(step)
        posts = tuple(self._posts(calls, step, faults))
        self.struck.update(fault for fault in faults if fault in _IN_TIME)
        self.struck.update(fault for post in posts for fault in (post.manner, post.extra) if fault is not None)
        return posts

    def extra_post(self, step: Step, extra: Fault) -> Post:
        """Return the post of a step that is sent besides a call."""
        self.struck[extra] += 1
        return self._post((step.call,), step, extra=extra)

    def _struck_by_number(self, possible: tuple[Fault, ...]) -> tuple[Fault, ...]:
        struck = tuple(fault for fault, nth in self._waiting_nth.items() if self.calls >= nth and fault in possible)
        for fault in struck:
            del self._waiting_nth[fault]
        self.struck_nth.extend(struck)
        return struck

    def _of_delivery(self, step: Step) -> tuple[Fault, ...]:
        if step.attempts == 1:
            return step.faults
        return () if step.attempts >= _CALM_FROM else self._faults.struck_again(f"{step.draw}:{step.attempts}")

    def _posts(self, calls: tuple[MovingCall, ...], step: Step, faults: tuple[Fault, ...]) -> Iterator[Post]:
        for extra in (Fault.FORGED, Fault.OLD_KEY):
            if extra in faults:
                yield self._post(calls, step, extra=extra)
        manner = next((fault for fault in _ON_THE_WIRE if fault in faults), None)
        yield self._post(calls, step, manner=manner)
        for extra in (Fault.DUPLICATE, Fault.RESERIALISED):
            if extra in faults:
                yield self._post(calls, step, extra=extra)

    def _post(
        self, calls: tuple[MovingCall, ...], step: Step, *, manner: Fault | None = None, extra: Fault | None = None
    ) -> Post:
        self._serial += 1
        return Post(calls, self._serial, max(1, step.attempts), manner, extra, self._writer)
