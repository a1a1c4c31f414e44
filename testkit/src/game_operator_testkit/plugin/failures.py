"""What pytest shows of a certification: its report as a message, and the errors that the wallet raised or logged."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from traceback import format_exception

from game_operator.text import visible
from game_operator_testkit.certifier import Cause, Report, Verdict
from game_operator_testkit.certifier.report.summary import Summary, ids_in_words, shown_calls

#: How many different errors of one scenario are shown, how many frames of each, and how long each may be.
_MOST_ERRORS, _FRAMES, _LONGEST_ERROR = 3, 6, 2_000


class ReportText:
    """
    A report as the message of a failed test, and what else there is to say; no headers, for cookies.

    Args:
        report: The report.
        seen: By scenario, what the wallet raised or logged as an error meanwhile; each is shown once.
    """

    def __init__(self, report: Report, seen: Mapping[str, tuple[str, ...]]) -> None:
        self._summary = Summary(report)
        self._seen = seen
        self._shown: set[str] = set()

    def failure(self) -> str:
        """Return what fails the test: how the run ended, and the causes in the order in which to fix them; or ""."""
        summary = self._summary
        if not summary.causes and not summary.undone:
            return ""
        parts = [f"{summary.headline}\n{summary.urgency}".rstrip(), *summary.remarks]
        for number, cause in enumerate(summary.causes, start=1):
            parts += self._of_cause(number, cause)
        return "\n\n".join(parts)

    def beside(self) -> Iterator[str]:
        """Yield advice, and what the wallet raised or logged and no failure has shown."""
        for verdict in self._summary.report.verdicts:
            if verdict.is_advice:
                yield from (f"Advice, {verdict.name}: {note.reason}" for note in verdict.notes)
            yield from (f"{verdict.name}: {verdict.outcome}\n{text}" for text in self._raised(verdict))

    def _of_cause(self, number: int, cause: Cause) -> Iterator[str]:
        verdict = cause.verdict
        yield f"{number}. {self._summary.failure(verdict)}\n{verdict.name} ({verdict.cost})"
        if verdict.exchanges:  # Else it was not begun, so all that is to be said stands in the reason.
            yield "\n".join(self._summary.explanation(verdict))
            yield from shown_calls(verdict, with_headers=False)
        yield from self._raised(verdict)
        if others := [each for each in cause.others if each.failed]:
            yield f"The same mistake fails {ids_in_words(others)} too."

    def _raised(self, verdict: Verdict) -> Iterator[str]:
        for text in self._seen.get(verdict.id, ()):
            if text not in self._shown:
                self._shown.add(text)
                yield "\n".join(["The wallet raised or logged:", *(f"    {line}" for line in text.splitlines())])


class ErrorRecorder(logging.Handler):
    """
    Keeps, as a context, the text of errors that are raised and logged in this process.

    They are shown with their scenario. Exceptions are not kept, because they keep the variables of their frames alive.
    Records of our own loggers do not propagate meanwhile: a receiver logs hundreds of refusals, and pytest would print
    them all below a single failure.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._seen: list[str] = []
        self._ours = logging.getLogger("game_operator")
        self._propagated = self._ours.propagate

    def __enter__(self) -> "ErrorRecorder":
        self._ours.propagate = False
        for logger in (self._ours, logging.getLogger()):
            logger.addHandler(self)
        return self

    def __exit__(self, *_exc: object) -> None:
        for logger in (self._ours, logging.getLogger()):
            logger.removeHandler(self)
        self._ours.propagate = self._propagated

    def emit(self, record: logging.LogRecord) -> None:
        """Remember a line of the log, with its traceback if it has one."""
        failed = record.exc_info[1] if record.exc_info else None
        self._keep(record.getMessage() + ("" if failed is None else f"\n{_traceback(failed)}"))

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Remember what the wallet raises in here."""
        try:
            yield
        except Exception as failed:  # A wallet may raise anything, and it passes on.
            self._keep(_traceback(failed))
            raise

    def taken(self) -> tuple[str, ...]:
        """Return what was seen since this was last asked, each once."""
        seen, self._seen = list(dict.fromkeys(self._seen)), []
        more = [f"… and {len(seen) - _MOST_ERRORS} more"] if len(seen) > _MOST_ERRORS else []
        return *seen[:_MOST_ERRORS], *more

    def _keep(self, text: str) -> None:
        text = visible(text.strip().encode(errors="backslashreplace"))
        self._seen.append(text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…")


def _traceback(failed: BaseException) -> str:
    # The innermost frames: what is between the certifier and the wallet's own lines explains nothing.
    return "".join(format_exception(failed, limit=-_FRAMES))
