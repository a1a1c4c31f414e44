"""
How much of a run a report shows, so that no answer of a wallet can make it large.

The rule: of each scenario a few exchanges, of each text its beginning, and how much is left out.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from game_operator import text as words
from game_operator.protocol.http import HeaderPairs
from game_operator_testkit.certifier.report.verdicts import Exchange, Note, Outcome, Verdict
from game_operator_testkit.provider import message_text

#: Exchanges of a scenario that did not fail, and of one that did.
PASSED: Final = 2
FAILED: Final = 8
#: Notes of a scenario.
NOTES: Final = 10
#: Of a body and of the value of a header, in bytes; and headers of a message.
BODY_BYTES: Final = 1_000
HEADER_BYTES: Final = 300
HEADERS: Final = 10
#: Characters of a sentence, and of a line for the shell.
TEXT: Final = 600
LINE: Final = 6_000


class Shown(NamedTuple):
    """
    An exchange in a report.

    Attributes:
        number: Its place among all that were kept, from 1.
        exchange: The exchange.
        decided: Whether it decided.
        reasons: What else it shows to be wrong.
    """

    number: int
    exchange: Exchange
    decided: bool
    reasons: Sequence[str]


def shown_notes(verdict: Verdict) -> tuple[Note, ...]:
    """Return the notes of *verdict* that are shown, the heaviest of them first."""
    return verdict.notes[:NOTES]


def shown_exchanges(verdict: Verdict) -> list[Shown]:
    """Return the exchanges of *verdict* that are shown: those that show what is wrong, and what led to the first."""
    notes = [note for note in shown_notes(verdict) if note.exchange is not None]
    decisive = verdict.notes[0].exchange if verdict.notes else None
    return [
        Shown(
            place + 1,
            verdict.exchanges[place],
            place == decisive,
            [note.reason for note in notes if note.exchange == place and note is not verdict.notes[0]],
        )
        for place in sorted(_places(verdict, [note.exchange for note in notes if note.exchange is not None]))
    ]


def _places(verdict: Verdict, wrong: Sequence[int]) -> Sequence[int]:
    kept = range(len(verdict.exchanges))
    if verdict.outcome is not Outcome.FAILED:
        return kept[:PASSED]
    first = wrong[0] if wrong else len(kept)
    # What led to the first mistake, the nearest first; then the others that are wrong, and what followed.
    in_order = [*wrong[: FAILED // 2], *reversed(kept[:first]), *wrong, *kept[first:]]
    return list(dict.fromkeys(in_order))[:FAILED]


def cut(text: str) -> str:
    """Return the beginning of *text*."""
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def message(first: str, pairs: HeaderPairs, data: bytes) -> str:
    """Return the beginning of a request or an answer as text, with *first* as its first line."""
    head = [words.clean(first)]
    if pairs:
        head.append(message_text.headers(pairs[:HEADERS], longest=HEADER_BYTES))
    if len(pairs) > HEADERS:
        head.append(f"… and {len(pairs) - HEADERS} more headers")
    return "\n".join([*head, "", message_text.body(data, longest=BODY_BYTES)]).rstrip()
