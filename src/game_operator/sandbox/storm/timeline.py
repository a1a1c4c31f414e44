"""What a storm sent and what it heard, in the order of sending: for its trace, and to say where a wallet went away."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from game_operator.errors import DeliveryInDoubtError, RequestNotSentError, TransportError
from game_operator.models.webhooks import MovingCall
from game_operator.provider.delivery import NO_HELP, Answer, Post
from game_operator.provider.http import Courier
from game_operator.sandbox.dealing.dealt import Order
from game_operator.sandbox.storm.trace import TraceHead, head_line, traced


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A post, and in words what was heard of it; "" if it was under way at the end."""

    post: Post
    heard: str

    @property
    def call(self) -> MovingCall:
        """Its call; the first one of a batch."""
        return self.post.calls[0]

    def __str__(self) -> str:
        what = f"bet {self.call.bet_id}" if self.call.bet_id else f"tx_id {self.call.tx_id}"
        more = f" and {len(self.post.calls) - 1} more" if len(self.post.calls) > 1 else ""
        return f"#{self.post.serial} {self.call.operation} of {what}{more} ({self.heard or 'no answer yet'})"


class Timeline:
    """
    Keeps what is sent and heard.

    Attributes:
        posts: How many posts left, whatever became of them.
        last_answered: The last one that was answered definitely, or None.
    """

    def __init__(self) -> None:
        self.posts = 0
        self.last_answered: TimelineEntry | None = None
        self._orders: list[Order] = []
        self._answers: dict[int, tuple[Answer, ...]] = {}
        self._open: dict[tuple[MovingCall, ...], TimelineEntry] = {}

    def order(self, order: Order) -> None:
        """Note an *order* that is carried from now on."""
        self._orders.append(order)

    def of(self, courier: Courier) -> Courier:
        """Return a courier that carries by *courier*, and notes what is heard."""
        return _Noting(courier, self)

    @property
    def unanswered(self) -> tuple[TimelineEntry, ...]:
        """The first post of each call that was never answered definitely, in the order in which that was noticed."""
        return tuple(self._open.values())

    def trace(self, head: TraceHead) -> tuple[str, ...]:
        """Return the lines of the trace of all orders so far; none if there are none."""
        return (head_line(head), *self._traced()) if self._orders else ()

    def _traced(self) -> Iterator[str]:
        # In the order of sending, which is that of causes too: whatever follows from an answer is sent after it.
        for order in sorted(self._orders, key=lambda order: order.posts[0].serial):
            yield traced(order, [self._answers.get(post.serial, ()) for post in order.posts])

    def heard(self, post: Post, answers: tuple[Answer, ...]) -> None:
        """Note what was heard of *post*."""
        self.posts += 1
        self._answers[post.serial] = answers
        if not post.is_genuine:
            return
        definite = next((each for each in answers if each.reply is not None and each.code not in NO_HELP), None)
        if definite is not None:
            self._open.pop(post.calls, None)
            self.last_answered = TimelineEntry(post, str(definite))
        elif post.manner is None:
            self._open.setdefault(
                post.calls,
                TimelineEntry(post, str(answers[-1]).removesuffix(f" {DeliveryInDoubtError('').remedy}").rstrip(".")),
            )

    def broke_off(self, post: Post, problem: str, *, left: bool) -> None:
        """Note that nobody waits for an answer to *post* any more; *left* tells whether the wallet may have it."""
        self.posts += left
        if post.is_genuine:
            self._open.setdefault(post.calls, TimelineEntry(post, problem))


class _Noting:
    """Carries posts, and notes what is heard."""

    def __init__(self, courier: Courier, minutes: Timeline) -> None:
        self._courier, self._minutes = courier, minutes

    async def post(self, post: Post) -> tuple[Answer, ...]:
        """Carry *post*; see ``Courier``."""
        try:
            answers = await self._courier.post(post)
        except TransportError as gone:
            self._minutes.broke_off(post, gone.reason, left=not isinstance(gone, RequestNotSentError))
            raise
        except BaseException:
            # The storm is over: another worker met a wallet that is gone, or somebody pressed Ctrl-C.
            self._minutes.broke_off(post, "", left=True)
            raise
        self._minutes.heard(post, answers)
        return answers


#: So many in a row are no reason to wait yet: a restart breaks off as many as were under way.
_FEW: Final = 16
_LONGER_SECONDS: Final = 0.01
_LONGEST_SECONDS: Final = 1.0


class PatientCourier:
    """
    Carries posts by *courier*, more and more slowly as long as the wallet answers none of use.

    Args:
        courier: Who carries them.
        seconds: How long that may go on.
    """

    def __init__(self, courier: Courier, seconds: float) -> None:
        self._courier, self._seconds = courier, seconds
        self._in_vain, self._since = 0, 0.0

    async def post(self, post: Post) -> tuple[Answer, ...]:
        """
        Carry *post*; see ``Courier``.

        Raises:
            TransportError: The wallet has given no answer of use for too long; its time is that of the whole wait.
        """
        began = time.monotonic()
        try:
            answers = await self._courier.post(post)
        except TransportError as gone:
            raise self._gone(gone, began) from gone
        if post.manner is not None or not post.is_genuine:
            return answers
        if any(answer.reply is not None and answer.code not in NO_HELP for answer in answers):
            self._in_vain = 0
            return answers
        if not self._in_vain:
            self._since = time.monotonic()
        self._in_vain += 1
        self._check(answers[-1])
        await asyncio.sleep(min(_LONGEST_SECONDS, _LONGER_SECONDS * max(0, self._in_vain - _FEW)))
        return answers

    def _gone(self, gone: TransportError, began: float) -> TransportError:
        """Return what is told of a wallet that nobody can reach: for how long, what was in vain before included."""
        since = self._since if self._in_vain else began
        return TransportError(
            f"The wallet cannot be reached any more: {gone.reason}",
            attempts=self._in_vain + 1,
            elapsed_seconds=time.monotonic() - since,
        )

    def _check(self, last: Answer) -> None:
        silent_seconds = time.monotonic() - self._since
        if silent_seconds > self._seconds:
            raise TransportError(
                f"The wallet gives no definite answer any more; the last was: {last}",
                attempts=self._in_vain,
                elapsed_seconds=silent_seconds,
            )
