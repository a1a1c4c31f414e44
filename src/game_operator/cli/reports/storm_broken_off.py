"""What is told of a storm whose wallet went away after money may have moved."""

from pathlib import Path
from typing import TYPE_CHECKING

from game_operator.errors import GameOperatorError, TransportError, one_line

if TYPE_CHECKING:
    from game_operator.sandbox.storm.timeline import Minute, Minutes

__all__ = ["StormBrokenOffError"]


class StormBrokenOffError(TransportError):
    """
    A storm ended before its audit, and nothing else is wrong that is known.

    Attributes:
        calls_sent: How many calls left, repeats and extras included.
        last_answered: The last call that was answered definitely, and with what; None if none was.
        first_unanswered, last_unanswered: Of the calls that were never answered definitely; None if there is none.
        trace: Where the trace was written; None if it could not be.
    """

    def __init__(self, gone: GameOperatorError, minutes: "Minutes", trace: Path | None) -> None:
        reason = gone.reason if isinstance(gone, TransportError) else gone.what
        waited = gone.elapsed_seconds if isinstance(gone, TransportError) else 0.0
        attempts = gone.attempts if isinstance(gone, TransportError) else 1
        super().__init__(reason, attempts=attempts, elapsed_seconds=waited)
        unanswered = minutes.unanswered
        self.calls_sent = minutes.posts
        self.last_answered = _facts(minutes.last_answered)
        self.first_unanswered = _facts(unanswered[0] if unanswered else None)
        self.last_unanswered = _facts(unanswered[-1] if unanswered else None)
        self.trace = None if trace is None else str(trace)
        self._where = _where(minutes.last_answered, unanswered)

    def __str__(self) -> str:
        waited = f" It was waited for {self.elapsed_seconds:.1f} s." if self.elapsed_seconds else ""
        trace = "" if self.trace is None else f" What was sent until now is in {one_line(self.trace)}."
        return (
            f"{one_line(self.reason).rstrip('.')}.{waited} Money may have moved, and bets may be open: "
            f"{self.calls_sent} calls were sent. {self._where}{trace}"
        )


def _where(answered: "Minute | None", unanswered: "tuple[Minute, ...]") -> str:
    """Return, for people, which calls to look for in the wallet's log."""
    told = "None was answered." if answered is None else f"The last one answered is {_told(answered)}."
    if not unanswered:
        return told
    told += f" The first one without a definite answer is {_told(unanswered[0])}"
    return f"{told}, the last one {_told(unanswered[-1])}." if len(unanswered) > 1 else f"{told}."


def _told(minute: "Minute") -> str:
    return one_line(str(minute))


def _facts(minute: "Minute | None") -> dict[str, object] | None:
    if minute is None:
        return None
    return {
        "serial": minute.post.serial,
        "operation": minute.call.operation,
        "bet_id": minute.call.bet_id,
        "tx_id": minute.call.tx_id,
        "player_id": minute.call.player_id,
        "heard": minute.heard,
    }
