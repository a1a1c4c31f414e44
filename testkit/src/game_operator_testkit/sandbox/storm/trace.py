"""
What a storm sent and what came back: kept while it runs, and written as a trace.

A trace has a JSON document on each line: how the plan was made, and then each call with its answer.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from game_operator.errors import RequestNotSentError, TransportError
from game_operator_testkit.provider.delivery import NO_HELP, Answer, Post
from game_operator_testkit.sandbox.dealing.carrying import Courier

#: Calls in a row without a useful answer after which it slows down: a restart breaks off as many as were under way.
_FEW: Final = 16
_LONGER_SECONDS: Final = 0.01
_LONGEST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHead:
    """
    How the plan was made: seed, start, players with what they had in cents, and the other settings.

    With *instance_id*, all games are played in that instance.
    """

    seed: int
    start_millis: int
    bets: int
    currency: str
    faults: str
    retries: str
    opening: Mapping[str, int]
    instance_id: str | None = None


class Timeline:
    """
    Carries posts, and keeps what was sent and what came back.

    As long as the wallet gives no useful answer, it carries more and more slowly.

    Args:
        patience: After so many seconds without a useful answer it gives up.

    Attributes:
        posts: How many posts left, answered or not.
    """

    def __init__(self, patience: float) -> None:
        self.posts: int = 0
        #: By their number, which is the order of sending and so that of causes too.
        self._sent: dict[int, tuple[Post, Answer | None]] = {}
        self._patience = patience
        self._in_vain, self._since = 0, 0.0

    def trace(self, head: TraceHead) -> tuple[str, ...]:
        """Return the lines of the trace so far; empty if nothing was sent."""
        sent = [_line(*self._sent[serial]) for serial in sorted(self._sent)]
        return (json.dumps(asdict(head)), *sent) if sent else ()

    async def carry(self, courier: Courier, post: Post) -> Answer:
        """
        Carry *post* by *courier*, and return its answer.

        Raises:
            TransportError: The wallet has given no useful answer for too long; its time is that of the whole wait.
        """
        self._sent[post.serial] = post, None
        answer = await self._answer_to(courier, post)
        self.posts += 1
        self._sent[post.serial] = post, answer
        if post.manner is not None or not post.is_genuine:
            return answer
        if answer.reply is None or answer.code in NO_HELP:
            await self._wait(f"The wallet gives no definite answer any more; the last was: {answer}")
        else:
            self._in_vain = 0
        return answer

    async def _answer_to(self, courier: Courier, post: Post) -> Answer:
        """Carry *post* until the wallet can be reached: it may be restarting."""
        while True:
            try:
                return await courier(post)
            except RequestNotSentError as gone:
                await self._wait(f"The wallet cannot be reached any more: {gone.reason}")
            except BaseException:
                # The storm is over: another worker met a wallet that is gone, or somebody pressed Ctrl-C.
                self.posts += 1
                raise

    async def _wait(self, reason: str) -> None:
        """Wait, each time a little longer, and raise TransportError for that *reason* once patience is at its end."""
        now = time.monotonic()
        if not self._in_vain:
            self._since = now
        self._in_vain += 1
        waited_seconds = now - self._since
        if waited_seconds > self._patience:
            raise TransportError(reason, attempts=self._in_vain, elapsed_seconds=waited_seconds)
        await asyncio.sleep(min(_LONGEST_SECONDS, _LONGER_SECONDS * max(0, self._in_vain - _FEW)))


def _line(post: Post, answer: Answer | None) -> str:
    """Return the line for a *post* and its answer; it holds no signature."""
    return json.dumps(
        {
            "serial": post.serial,
            "delivery": post.attempt,
            "faults": post.faults,
            "path": post.path,
            "body": post.body.decode(),
            "answer": None if answer is None else str(answer),
        }
    )
