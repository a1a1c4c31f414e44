"""The page docs/reference/scenarios.md, from the scenarios themselves; git does not keep it."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from game_operator_testkit.certifier import scenarios
from game_operator_testkit.certifier.report.verdicts import GROUPS
from game_operator_testkit.cli.hooks import HOOKS

_HEAD: Final = """\
# The certifier's scenarios

For engineers who certify a wallet. Read first: [certify your wallet](../how-to/certify.md).

What `game-operator certify` plays, in groups. A failure costs at most [what the table
says](../how-to/certify.md#what-a-failure-costs). A scenario *rests on* sections of the specification and on decision
notes: what a note says is assumed. *Needs* names the option that a scenario needs. Without the option it is not
tried.
"""
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


def page() -> str:
    """Return the page, with a table for each group."""
    return _HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for group, grouped in groupby(scenarios(), key=lambda each: each.group):
        yield from ("", f"## {group}: {GROUPS[group]}", "")
        yield from ("| Id | What happens | A failure costs | Rests on | Needs |", "|---|---|---|---|---|")
        for each in grouped:
            needs = ", ".join(_NEEDS[need] for need in each.needs) or "-"
            yield f"| {each.id} | {each.title} | {each.weight} | {', '.join(each.rests_on)} | {needs} |"
