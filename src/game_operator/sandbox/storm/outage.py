"""
Waits for a wallet that answers nothing of use, and ends the wait.

Simulated time costs nothing: without a pause, a call would be repeated a hundred times in the second that a database
takes to come back. And a wallet that never comes back must not be called for ever.
"""

import asyncio
import time
from typing import Final

from game_operator.errors import TransportError
from game_operator.provider.carriers.http import Courier
from game_operator.provider.delivery import NO_HELP, Answer, Post
from game_operator.provider.faults import Fault

__all__ = ["PatientCourier"]

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
        if post.manner is not None or post.extra not in {None, Fault.DUPLICATE}:
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
