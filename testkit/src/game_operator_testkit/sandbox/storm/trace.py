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
    """How the plan was made: seed, start, players with what they had in cents, and the other settings."""

    seed: int
    start_millis: int
    bets: int
    currency: str
    faults: str
    retries: str
    opening: Mapping[str, int]


class Timeline:
    """
    Keeps what is sent and what comes back.

    Attributes:
        posts: How many posts left, answered or not.
    """

    def __init__(self) -> None:
        self.posts: int = 0
        #: By their number, which is the order of sending and so that of causes too.
        self._sent: dict[int, tuple[Post, Answer | None]] = {}

    def trace(self, head: TraceHead) -> tuple[str, ...]:
        """Return the lines of the trace so far; empty if nothing was sent."""
        sent = [_line(*self._sent[serial]) for serial in sorted(self._sent)]
        return (json.dumps(asdict(head)), *sent) if sent else ()

    def begin(self, post: Post) -> None:
        """Note that *post* is about to be sent."""
        self._sent[post.serial] = post, None

    def note(self, post: Post, answer: Answer) -> None:
        """Note the *answer* to a post."""
        self.posts += 1
        self._sent[post.serial] = post, answer


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


class NotingCourier:
    """
    Carries posts by *courier*, and notes them in *timeline*.

    With *patience* it carries more and more slowly as long as the wallet gives no useful answer, for so many seconds.
    """

    def __init__(self, courier: Courier, timeline: Timeline, patience: float | None = None) -> None:
        self._courier, self._timeline, self._patience = courier, timeline, patience
        self._in_vain, self._since = 0, 0.0

    async def post(self, post: Post) -> Answer:
        """
        Carry *post*, and return its answer.

        Raises:
            TransportError: The wallet has given no useful answer for too long; its time is that of the whole wait.
        """
        began = time.monotonic()
        self._timeline.begin(post)
        try:
            answer = await self._courier(post)
        except TransportError as gone:
            self._timeline.posts += not isinstance(gone, RequestNotSentError)
            if self._patience is None:
                raise
            since = self._since if self._in_vain else began
            reason = f"The wallet cannot be reached any more: {gone.reason}"
            raise _wallet_gone(reason, self._in_vain + 1, since) from gone
        except BaseException:
            # The storm is over: another worker met a wallet that is gone, or somebody pressed Ctrl-C.
            self._timeline.posts += 1
            raise
        self._timeline.note(post, answer)
        if self._patience is not None and post.manner is None and post.is_genuine:
            await self._wait_after(answer, self._patience)
        return answer

    async def _wait_after(self, answer: Answer, patience: float) -> None:
        if answer.reply is not None and answer.code not in NO_HELP:
            self._in_vain = 0
            return
        if not self._in_vain:
            self._since = time.monotonic()
        self._in_vain += 1
        if time.monotonic() - self._since > patience:
            reason = f"The wallet gives no definite answer any more; the last was: {answer}"
            raise _wallet_gone(reason, self._in_vain, self._since)
        await asyncio.sleep(min(_LONGEST_SECONDS, _LONGER_SECONDS * max(0, self._in_vain - _FEW)))


def _wallet_gone(reason: str, attempts: int, since: float) -> TransportError:
    return TransportError(reason, attempts=attempts, elapsed_seconds=time.monotonic() - since)
