"""
The tables of scenarios in docs/how-to/certify.md, from the scenarios themselves.

``python -m testkit.tests.support.scenario_table`` writes them anew.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from game_operator_testkit.certifier import scenarios
from game_operator_testkit.certifier.report.verdicts import GROUPS
from game_operator_testkit.cli.hooks import HOOKS
from tests.support.documents import ROOT

__all__ = ["PAGE", "between_markers", "tables"]

PAGE: Final = ROOT / "docs" / "how-to" / "certify.md"
#: What each need is called at the command line; real HTTP is always there.
_NEEDS: Final = {
    "second_url": "`--second-url`",
    "old_key": "`--old-key`",
    "retired_key": "`--retired-key`",
    "elsewhere": "`--elsewhere`",
    "foreign_instance_id": "`--foreign-instance`",
    "batches": "`deposit_batch` in `--profile`",
    "wire": "real HTTP",
    "processes": "real HTTP, or `second_url`",
} | {name: f"`--hook {name}`" for name in HOOKS}
_BEGIN, _END = "<!-- scenarios: begin -->\n", "<!-- scenarios: end -->\n"


def tables() -> str:
    """Return a table for each group."""
    return "\n".join(_lines()) + "\n"


def between_markers(text: str) -> str:
    """Return what stands in a page between the markers."""
    return text.partition(_BEGIN)[2].partition(_END)[0]


def _lines() -> Iterator[str]:
    for group, grouped in groupby(scenarios(), key=lambda each: each.group):
        yield from ("", f"### {group}: {GROUPS[group]}", "")
        yield from ("| Id | What happens | A failure costs | Rests on | Needs |", "|---|---|---|---|---|")
        for each in grouped:
            needs = ", ".join(_NEEDS[need] for need in each.needs) or "-"
            yield f"| {each.id} | {each.title} | {each.weight} | {', '.join(each.rests_on)} | {needs} |"
    yield ""


def _write() -> None:
    text = PAGE.read_text()
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    PAGE.write_text(before + begin + tables() + end + after)


if __name__ == "__main__":
    _write()
