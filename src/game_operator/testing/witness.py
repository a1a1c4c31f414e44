"""What goes wrong inside a wallet while it is certified: its exceptions and the errors that it logs, as short texts."""

import logging
from pathlib import Path
from traceback import StackSummary, TracebackException
from typing import Final

import game_operator
from game_operator.protocol.printable import visible

__all__ = ["Witness"]

_OURS: Final = str(Path(game_operator.__file__).parent)
#: How many different failures of one scenario are told, how many frames of each, and how long each may be.
_MOST, _FRAMES, _LONGEST = 3, 6, 2_000


class Witness(logging.Handler):
    """
    Remembers, as a context, what is raised and logged as an error in this process.

    Only texts are kept, and told where they belong; so *told_anyway*, which tells of all errors, gets none meanwhile.
    An exception would keep all the variables of its frames alive. What our own loggers say
    meanwhile goes no further: a receiver logs hundreds of refusals, which are what a certification is about, and pytest
    would print them all below a single failure.
    """

    def __init__(self, told_anyway: logging.Handler | None = None) -> None:
        super().__init__(logging.ERROR)
        self._told_anyway = told_anyway
        self._seen: list[str] = []
        self._ours = logging.getLogger("game_operator")
        self._propagated = True

    def __enter__(self) -> "Witness":
        self._propagated, self._ours.propagate = self._ours.propagate, False
        for logger in (self._ours, logging.getLogger()):
            logger.addHandler(self)
        if self._told_anyway is not None:
            self._told_anyway.addFilter(_is_no_error)
        return self

    def __exit__(self, *_exc: object) -> None:
        for logger in (self._ours, logging.getLogger()):
            logger.removeHandler(self)
        if self._told_anyway is not None:
            self._told_anyway.removeFilter(_is_no_error)
        self._ours.propagate = self._propagated

    def emit(self, record: logging.LogRecord) -> None:
        """Remember a line of the log, with its traceback if it has one."""
        failed = record.exc_info[1] if record.exc_info else None
        self._keep(record.getMessage() + ("" if failed is None else f"\n{_traceback(failed)}"))

    def raised(self, failed: BaseException) -> None:
        """Remember what the wallet raised."""
        self._keep(_traceback(failed))

    def taken(self) -> tuple[str, ...]:
        """Return what was seen since this was last asked, each once."""
        seen, self._seen = list(dict.fromkeys(self._seen)), []
        more = [f"… and {len(seen) - _MOST} more"] if len(seen) > _MOST else []
        return *seen[:_MOST], *more

    def _keep(self, text: str) -> None:
        text = visible(text.strip().encode(errors="backslashreplace"))
        self._seen.append(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _is_no_error(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR


def _traceback(failed: BaseException) -> str:
    told = TracebackException.from_exception(failed)
    link: TracebackException | None = told
    while link is not None:
        # What is between the certifier and the wallet's own lines explains nothing.
        theirs = [frame for frame in link.stack if not frame.filename.startswith(_OURS)]
        link.stack = StackSummary.from_list(theirs[-_FRAMES:])
        link = link.__cause__ or link.__context__
    return "".join(told.format())
