"""A report as messages that a person reads in the output of pytest."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from game_operator.certify import Cause, Exchange, Report, Verdict
from game_operator.certify.report.summary import Summary
from game_operator.protocol.printable import visible

__all__ = ["ReportTold"]

_LONGEST: Final = 600
_MOST_STEPS: Final = 8


class ReportTold:
    """
    A report in messages: what failed, what costs most first, and what else there is to say.

    Bodies are shown, and no header: signatures and cookies stay out of logs.

    Args:
        report: The report.
        seen: By scenario, what the wallet raised or logged as an error meanwhile.
    """

    def __init__(self, report: Report, seen: Mapping[str, tuple[str, ...]]) -> None:
        self._report = report
        self._summary = Summary(report)
        self._seen = seen
        # What was told already, by the scenario that it was told of.
        self._told: dict[str, str] = {}

    def failures(self) -> list[tuple[Verdict, str]]:
        """Return what fails a test, each with its message; the first one begins with how the whole run ended."""
        ordered = [
            (each, self._failure(each, cause))
            for cause in self._report.causes
            for each in (cause.verdict, *cause.others)
            if each.failed
        ]
        ordered += [(each, f"{each.name}: could not be tried\n{each.reason}") for each in self._summary.undone]
        # pytest itself writes "Failed: " before it.
        ended = self._summary.headline.removeprefix("Failed: ")
        head = "\n".join(filter(None, (ended[:1].upper() + ended[1:], self._summary.urgency)))
        return [(each, text if place else f"{head}\n\n{text}") for place, (each, text) in enumerate(ordered)]

    def at_once(self, failing: Sequence[tuple[Verdict, str]]) -> str:
        """Return the messages of *failing* as one."""
        tried = len(self._report.verdicts) - len(self._report.skipped)
        head = f"{len(self._report.failures)} of {tried} scenarios failed"
        return "\n\n\n".join([head, *(text for _, text in failing)])

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

    def _failure(self, verdict: Verdict, cause: Cause) -> str:
        head = f"{verdict.name} ({verdict.cost})\n{verdict.reason}"
        if not verdict.exchanges:  # It was not begun, so all that is to be said stands in the reason.
            return head
        return "\n\n".join([head, *_explained(verdict, cause), *_shown(verdict), *self._raised(verdict)])

    def _raised(self, verdict: Verdict) -> Iterator[str]:
        for text in self._seen.get(verdict.id, ()):
            first = self._told.setdefault(text, verdict.id)
            # The same traceback would else stand below each scenario.
            yield _raised(text if first == verdict.id else f"{text.splitlines()[-1]} (as in {first})")


def _explained(verdict: Verdict, cause: Cause) -> Iterator[str]:
    if verdict is cause.verdict or verdict.means != cause.verdict.means:
        lines = [f"It means: {verdict.means}", f"To mend it: {verdict.mend}", f"It rests on: {_grounds(verdict)}"]
    else:
        lines = []
    if verdict is not cause.verdict:
        lines.append(f"Probably the same mistake as {cause.verdict.id}; begin there.")
    yield "\n".join(lines)
    if len(verdict.notes) > 1:
        yield "\n".join(f"And: {note.reason} ({note.weight})" for note in verdict.notes[1:])


def _grounds(verdict: Verdict) -> str:
    grounds = (each if each.startswith("spec ") else f"{each} (assumed)" for each in verdict.rests_on)
    return ", ".join(grounds)


def _shown(verdict: Verdict) -> Iterator[str]:
    if verdict.decisive is not None:
        yield _exchange(verdict.decisive)
        return
    # No single answer is wrong, but what they come to.
    steps = [f"    {each.title}: {each.told}" for each in verdict.exchanges[-_MOST_STEPS:]]
    earlier = len(verdict.exchanges) - len(steps)
    yield "\n".join(["What was sent" + (f", after {earlier} more calls:" if earlier else ":"), *steps])


def _exchange(exchange: Exchange) -> str:
    answer = f"HTTP {exchange.status}" if exchange.status else exchange.problem
    lines = [f"{exchange.method} {exchange.path}", *_body(exchange.request_body, exchange.request_bytes)]
    lines += [f"-> {answer}", *_body(exchange.answer_body, len(exchange.answer_body))]
    return "\n".join([f"{exchange.title}:", *(f"    {line}" for line in lines)])


def _body(body: bytes, length: int) -> list[str]:
    more = [f"… {length:,} bytes in all"] if length > _LONGEST else []
    return [*visible(body[:_LONGEST]).splitlines(), *more]


def _raised(text: str) -> str:
    return "\n".join(["The wallet raised or logged:", *(f"    {line}" for line in text.splitlines())])
