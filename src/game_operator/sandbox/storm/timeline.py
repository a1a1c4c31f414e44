"""What a storm sent and what it heard, in the order of sending: for its trace, and to say where a wallet went away."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from game_operator.errors import DeliveryInDoubtError, RequestNotSentError, TransportError
from game_operator.models.webhooks import MovingCall
from game_operator.provider.carriers.http import Courier
from game_operator.provider.delivery import NO_HELP, Answer, Post
from game_operator.provider.faults import Fault
from game_operator.sandbox.dealing.steps import Order
from game_operator.sandbox.storm.trace import TraceHead, head_line, traced

__all__ = ["Minute", "Minutes"]

_GENUINE: Final = frozenset({None, Fault.DUPLICATE})


@dataclass(frozen=True, slots=True)
class Minute:
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


class Minutes:
    """
    Keeps what is sent and heard.

    Attributes:
        posts: How many posts left, whatever became of them.
        last_answered: The last one that was answered definitely, or None.
    """

    def __init__(self) -> None:
        self.posts = 0
        self.last_answered: Minute | None = None
        self._orders: list[Order] = []
        self._answers: dict[int, tuple[Answer, ...]] = {}
        self._open: dict[tuple[MovingCall, ...], Minute] = {}

    def order(self, order: Order) -> None:
        """Note an *order* that is carried from now on."""
        self._orders.append(order)

    def of(self, courier: Courier) -> Courier:
        """Return a courier that carries by *courier*, and notes what is heard."""
        return _Noting(courier, self)

    @property
    def unanswered(self) -> tuple[Minute, ...]:
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
        if post.extra not in _GENUINE:
            return
        definite = next((each for each in answers if each.reply is not None and each.code not in NO_HELP), None)
        if definite is not None:
            self._open.pop(post.calls, None)
            self.last_answered = Minute(post, str(definite))
        elif post.manner is None:
            self._open.setdefault(
                post.calls,
                Minute(post, str(answers[-1]).removesuffix(f" {DeliveryInDoubtError('').remedy}").rstrip(".")),
            )

    def broke_off(self, post: Post, problem: str, *, left: bool) -> None:
        """Note that nobody waits for an answer to *post* any more; *left* tells whether the wallet may have it."""
        self.posts += left
        if post.extra in _GENUINE:
            self._open.setdefault(post.calls, Minute(post, problem))


class _Noting:
    """Carries posts, and notes what is heard."""

    def __init__(self, courier: Courier, minutes: Minutes) -> None:
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
