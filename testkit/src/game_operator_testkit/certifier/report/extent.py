"""
How much of a run a report shows, so that it stays below 300 kB however much a wallet answers.

A report is written as fully as fits. What shows what is wrong is left out last: first the calls of scenarios that
passed, then those around a mistake, then the ends of long bodies.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from game_operator_testkit.certifier.report.verdicts import Exchange, Note, Outcome, Verdict

#: The most bytes of a report in any form, in UTF-8.
MOST_BYTES: Final = 300_000


@dataclass(frozen=True, slots=True)
class Extent:
    """
    How much a report shows.

    Attributes:
        passed: Exchanges of a scenario that did not fail.
        failed: Exchanges of a failed scenario, beside those that show what is wrong.
        wrong: Notes of a scenario, and exchanges that show what is wrong.
        body_bytes: Of a body.
        header_bytes: Of the value of a header.
        headers: Headers of a message.
        line: Characters of a line for the shell, of an exchange that shows what is wrong.
        text: Characters of a sentence.
        causes: Mistakes that are described in full; of the others, the scenario has the words.
    """

    passed: int
    failed: int
    wrong: int
    body_bytes: int
    header_bytes: int = 500
    headers: int = 20
    line: int = 100_000
    text: int = 2_000
    causes: int = 100


#: From the fullest to the briefest. Each shows no more than the one before it.
EXTENTS: Final = (
    Extent(passed=12, failed=20, wrong=100, body_bytes=2_000),
    Extent(passed=6, failed=20, wrong=60, body_bytes=2_000),
    Extent(passed=4, failed=20, wrong=60, body_bytes=2_000),
    Extent(passed=3, failed=16, wrong=40, body_bytes=2_000),
    Extent(passed=2, failed=12, wrong=40, body_bytes=1_500),
    Extent(passed=1, failed=12, wrong=30, body_bytes=1_500),
    Extent(passed=1, failed=8, wrong=20, body_bytes=1_000),
    Extent(passed=0, failed=8, wrong=20, body_bytes=1_000),
    Extent(passed=0, failed=6, wrong=12, body_bytes=800, header_bytes=200, headers=12, causes=40),
    Extent(passed=0, failed=4, wrong=8, body_bytes=600, header_bytes=150, headers=12, causes=40),
    Extent(passed=0, failed=2, wrong=4, body_bytes=500, header_bytes=100, headers=12, text=1_000, causes=20),
    Extent(passed=0, failed=1, wrong=2, body_bytes=400, header_bytes=100, headers=8, text=1_000, causes=20),
    Extent(passed=0, failed=0, wrong=1, body_bytes=400, header_bytes=60, headers=6, text=600, causes=20),
    Extent(passed=0, failed=0, wrong=1, body_bytes=200, header_bytes=40, headers=4, text=400, causes=5),
    # The line alone has the call, too.
    Extent(passed=0, failed=0, wrong=1, body_bytes=100, header_bytes=0, headers=0, text=200, causes=5),
    Extent(passed=0, failed=0, wrong=1, body_bytes=0, header_bytes=0, headers=0, line=6_000, text=200, causes=5),
    Extent(passed=0, failed=0, wrong=1, body_bytes=0, header_bytes=0, headers=0, line=2_000, text=100, causes=1),
    Extent(passed=0, failed=0, wrong=0, body_bytes=0, header_bytes=0, headers=0, line=0, text=100, causes=1),
)


def fitting(write: Callable[[Extent], str]) -> tuple[Extent, str]:
    """Return the fullest extent at which what *write* returns is no longer than ``MOST_BYTES``, and what it returns."""
    low, high = 0, len(EXTENTS) - 1
    found = EXTENTS[high], ""
    while low <= high:
        middle = (low + high) // 2
        text = write(EXTENTS[middle])
        if len(text.encode(errors="backslashreplace")) <= MOST_BYTES:
            found, high = (EXTENTS[middle], text), middle - 1
        else:
            low = middle + 1
    # The briefest has no call at all, so only a run of another size than ours would not fit.
    return found if found[1] else (found[0], write(found[0]))


class Shown(NamedTuple):
    """
    An exchange in a report.

    Attributes:
        number: Its place among all that were kept, from 1.
        exchange: The exchange.
        times: How many there were in succession that sent and answered the same; the others are left out.
        decided: Whether it decided.
        reasons: What else it shows to be wrong.
    """

    number: int
    exchange: Exchange
    times: int
    decided: bool
    reasons: Sequence[str]

    @property
    def shows_what_is_wrong(self) -> bool:
        """Whether it decided, or a note names it."""
        return self.decided or bool(self.reasons)


def shown_notes(verdict: Verdict, extent: Extent) -> tuple[Note, ...]:
    """Return the notes of *verdict* that are shown, the heaviest of them first."""
    return verdict.notes[: max(1, extent.wrong)]


def shown_exchanges(verdict: Verdict, extent: Extent) -> list[Shown]:
    """Return the exchanges of *verdict* that are shown: all that show what is wrong, and some around them."""
    reasons: defaultdict[int, list[str]] = defaultdict(list)
    for note in shown_notes(verdict, extent) if extent.wrong else ():
        if note.exchange is not None:
            reasons[note.exchange].append(note.reason)
    decisive = verdict.notes[0].exchange if verdict.notes and extent.wrong else None
    runs = list(_runs(verdict.exchanges, frozenset(reasons)))
    wrong = {place for place, _ in runs if place in reasons}
    others = [place for place, _ in runs if place not in reasons]
    picked = wrong | set(_picked(others, decisive, verdict, extent))
    return [
        Shown(place + 1, verdict.exchanges[place], times, place == decisive, tuple(reasons[place][place == decisive :]))
        for place, times in runs
        if place in picked
    ]


def _picked(others: Sequence[int], decisive: int | None, verdict: Verdict, extent: Extent) -> Sequence[int]:
    """Return the places of exchanges beside those that show what is wrong: the first ones, and the last before it."""
    if verdict.outcome is not Outcome.FAILED:
        return others[: extent.passed]
    before = [place for place in others if decisive is None or place < decisive]
    most = extent.failed
    if len(before) > most:
        return [*before[: most // 2], *before[len(before) - (most - most // 2) :]]
    return others[:most]


def _runs(exchanges: Sequence[Exchange], apart: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield the place of each exchange that is not a repeat of the one before it, and how many there are with it."""
    first, times = 0, 0
    for place, exchange in enumerate(exchanges):
        is_repeat = times and not {first, place} & apart and _content(exchange) == _content(exchanges[first])
        if times and not is_repeat:
            yield first, times
        first, times = (first, times + 1) if is_repeat else (place, 1)
    if times:
        yield first, times


def _content(exchange: Exchange) -> tuple[object, ...]:
    """Return what was sent, and what the answer says."""
    sent = (exchange.title, exchange.method, exchange.path, exchange.request_body, exchange.manner)
    return (*sent, exchange.at, exchange.signed_by, exchange.status, exchange.told)
