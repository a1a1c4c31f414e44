"""What pytest shows of a certification: its report as messages, and the errors that the wallet raised or logged."""

import logging
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from traceback import format_exception

from game_operator.text import visible
from game_operator_testkit.certifier import Cause, Report, Verdict
from game_operator_testkit.certifier.report.shown import cut, shown_notes
from game_operator_testkit.certifier.report.summary import Summary, shown_calls

#: How many different errors of one scenario are shown, how many frames of each, and how long each may be.
_MOST_ERRORS, _FRAMES, _LONGEST_ERROR = 3, 6, 2_000


class ReportText:
    """
    A report in messages: what failed, what costs most first, and what else there is to say; no headers, for cookies.

    Args:
        report: The report.
        seen: By scenario, what the wallet raised or logged as an error meanwhile.
    """

    def __init__(self, report: Report, seen: Mapping[str, tuple[str, ...]]) -> None:
        self._report, self._summary = report, Summary(report)
        self._seen = seen
        # Errors that were shown already, each with the scenario that they were shown for.
        self._shown: dict[str, str] = {}

    def failures(self) -> list[tuple[Verdict, str]]:
        """
        Return what fails a test, in the order in which to fix it, each with its message.

        A message begins with the id of the cause; the first one says how the whole run ended as well.
        """
        ended = [f"{self._summary.headline}\n{self._summary.urgency}".rstrip()]
        failures: list[tuple[Verdict, str]] = []
        for cause in self._summary.causes:
            for verdict in (cause.verdict, *cause.others):
                if verdict.failed:
                    failures.append((verdict, self._failure(verdict, cause, [] if failures else ended)))
        for verdict in self._summary.undone:
            text = f"{verdict.name}: could not be tried\n{verdict.reason}"
            failures.append((verdict, text if failures else "\n\n".join([text, *ended])))
        return failures

    def beside(self, failing: Container[str]) -> Iterator[str]:
        """Yield advice, and what the wallet raised or logged in a scenario whose id is not among the *failing*."""
        for verdict in self._report.verdicts:
            if verdict.id in failing:
                continue
            if verdict.is_advice:
                yield from (f"Advice, {verdict.name}: {note.reason}" for note in verdict.notes)
            elif self._seen.get(verdict.id):
                yield f"{verdict.name}: {verdict.outcome}"
            yield from self._raised(verdict)

    def _failure(self, verdict: Verdict, cause: Cause, ended: Sequence[str]) -> str:
        head = [f"{self._summary.failure(verdict)}\n{verdict.name} ({verdict.cost})", *ended]
        if not verdict.exchanges:  # It was not begun, so all that is to be said stands in the reason.
            return "\n\n".join(head)
        if verdict is cause.verdict:
            parts = [*head, "\n".join(self._summary.explanation(verdict))]
        else:
            parts = [*head, f"Probably the same mistake as {cause.verdict.id}; begin there."]
            parts += [f"Also: {cut(note.reason)}" for note in shown_notes(verdict)[1:]]
        return "\n\n".join([*parts, *shown_calls(verdict, with_headers=False), *self._raised(verdict)])

    def _raised(self, verdict: Verdict) -> Iterator[str]:
        for text in self._seen.get(verdict.id, ()):
            first = self._shown.setdefault(text, verdict.id)
            # Otherwise the same traceback would stand below each scenario.
            lines = text.splitlines() if first == verdict.id else [f"{text.splitlines()[-1]} (as in {first})"]
            yield "\n".join(["The wallet raised or logged:", *(f"    {line}" for line in lines)])


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
