"""A report in a few lines of Markdown, for the summary of a job in CI."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from game_operator.text import clean
from game_operator_testkit.certifier.report.comparison import Comparison
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.summary import Summary

__all__ = ["markdown"]

_MOST_ROWS: Final = 100
_LONGEST: Final = 600
#: What could begin markup, an element, a link to somewhere or to an issue, or a mention.
_MARKUP: Final = re.compile(r"[\\`*_{}\[\]#!|~$^]")
_ENTITIES: Final = re.compile(r"[<>&@]|:(?=//)|(?<=www)\.")


def markdown(report: Report, comparison: Comparison | None = None) -> str:
    """
    Return how *report* ended, the first cause, and a table of what failed, or of what changed if it is compared.

    Nothing that a wallet answered is markup in it.
    """
    summary = Summary(report)
    parts = [f"### Certification of a wallet: {summary.state.lower()}", _plain(summary.headline)]
    if comparison is not None:
        parts += [f"**{_plain(comparison.headline)}** {comparison.summary_line}."]
        parts += map(_plain, comparison.remarks)
    parts += _first_cause(summary)
    rows = list(_failures(summary) if comparison is None else _changes(comparison))
    if rows:
        headings = ("", "Scenario", "A failure costs")
        lines = [_row(headings), _row(("---",) * len(headings)), *map(_row, rows[:_MOST_ROWS])]
        parts.append("\n".join(lines))
    if len(rows) > _MOST_ROWS:
        parts.append(f"… and {len(rows) - _MOST_ROWS} more.")
    parts.append(summary.line)
    return "\n\n".join(parts) + "\n\n"


def _first_cause(summary: Summary) -> Iterator[str]:
    if not summary.causes:
        return
    first = summary.causes[0]
    yield f"**Fix first:** {_plain(first.title)}. Seen in {_plain(first.verdict.name)}: {_plain(first.verdict.reason)}"
    yield f"**What it means:** {_plain(summary.meaning(first))}"
    yield f"**How to fix it:** {_plain(first.fix)}"


def _failures(summary: Summary) -> Iterator[Sequence[str]]:
    for cause in summary.causes:
        for verdict in (cause.verdict, *cause.others):
            if verdict.failed:
                yield "failed", _plain(verdict.name), verdict.cost


def _changes(comparison: Comparison) -> Iterator[Sequence[str]]:
    for kind, changes in comparison.groups.items():
        for change in changes:
            yield kind, _plain(change.name), change.weight.value


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Return *text* as one line in which no character is markup."""
    text = " ".join(text[:_LONGEST].split()) + ("…" if len(text) > _LONGEST else "")
    escaped = _MARKUP.sub(r"\\\g<0>", clean(text))
    return _ENTITIES.sub(lambda found: f"&#{ord(found[0])};", escaped)
