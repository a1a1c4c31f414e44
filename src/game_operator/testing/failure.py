"""A failed scenario as a message that a person reads in the output of pytest."""

from collections.abc import Iterable, Iterator
from typing import Final

from game_operator.certify import Cause, Exchange, Verdict
from game_operator.protocol.visible import visible

__all__ = ["advice_told", "failure_told", "title_of"]

_LONGEST: Final = 600
_MOST_STEPS: Final = 8


def title_of(verdict: Verdict) -> str:
    """Return what a subtest is called."""
    return f"{verdict.id} {verdict.title}"


def failure_told(verdict: Verdict, causes: Iterable[Cause], raised: Iterable[str]) -> str:
    """
    Return what is wrong, what it costs, how it is mended, and what was sent and answered.

    Bodies are shown, and no header: signatures and cookies stay out of logs.

    Args:
        verdict: One that failed.
        causes: Those of the report.
        raised: What the wallet raised or logged as an error meanwhile.
    """
    head = f"{title_of(verdict)} ({verdict.weight})\n{verdict.reason}"
    if not verdict.exchanges:  # It was not tried, so all that is to be said stands in the reason.
        return head
    return "\n\n".join([head, *_explained(verdict, causes), *_shown(verdict), *map(_raised, raised)])


def advice_told(verdict: Verdict, raised: Iterable[str]) -> str:
    """Return what could be better, and fails no test; *raised* as above."""
    advice = (f"Advice, {title_of(verdict)}: {note.reason}" for note in verdict.notes)
    return "\n".join([*advice, *map(_raised, raised)])


def _explained(verdict: Verdict, causes: Iterable[Cause]) -> Iterator[str]:
    lines = [f"It means: {verdict.means}", f"To mend it: {verdict.mend}", f"It rests on: {_grounds(verdict)}"]
    lines += [
        f"Probably the same mistake as {cause.verdict.id}; begin there." for cause in causes if verdict in cause.others
    ]
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
