"""
Two certifications of a wallet compared by the ids of their scenarios: what got worse, what got better, what remains.

The one before may be a file that an older version, or somebody else, wrote, so it is read strictly.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from game_operator.errors import ConfigurationError, shown
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.verdicts import Outcome, Verdict, Weight

__all__ = ["Change", "Comparison", "compared", "read_baseline"]

_NOT_TRIED: Final = "not tried"
#: How bad it is that a scenario ended so.
_RANKS: Final = {
    _NOT_TRIED: 0,
    "passed": 0,
    Weight.CONTRACT_BROKEN.value: 1,
    Weight.MONEY_LOST.value: 2,
    Weight.MONEY_DOUBLED.value: 2,
}


class Judged(BaseModel):
    """How a scenario ended in the run before."""

    model_config = ConfigDict(strict=True, frozen=True)

    id: Annotated[str, Field(pattern="^[A-Z][0-9]{2,3}$")]
    outcome: Outcome
    weight: Weight


class Baseline(BaseModel):
    """
    The run before, as far as runs are compared; its fields are those of a report in JSON.

    Attributes:
        format: Of the report; another one is not read.
        version: The version of the testkit.
        verdicts: How each scenario ended; at least one.
        profile: The fields of the profile and their values, as text.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    format: Literal[1]
    version: str
    verdicts: Annotated[tuple[Judged, ...], Field(min_length=1)]
    profile: dict[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """
    A scenario that failed in one of the runs.

    Attributes:
        kind: ``worse`` if it fails now and did not fail before, or costs more now; ``better`` the other way round;
            ``remains`` if it fails alike, or was not tried now.
        id: Of the scenario, such as ``B01``.
        title: What happens in it; "" if it was not played now.
        before: What the failure cost, ``passed``, or ``not tried``.
        now: The same of this run.
    """

    kind: Literal["worse", "better", "remains"]
    id: str
    title: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    What changed from one run to the next.

    Attributes:
        changes: Of each scenario that failed in one of them: worse ones first, then better ones.
        remarks: Why the runs may not be comparable, a sentence each.
    """

    changes: tuple[Change, ...]
    remarks: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing got worse. Old failures may remain."""
        return all(change.kind != "worse" for change in self.changes)

    @property
    def summary_line(self) -> str:
        """The numbers in one line, which keeps its form from version to version."""
        counts = Counter(change.kind for change in self.changes)
        return f"{counts['worse']} worse, {counts['better']} better, {counts['remains']} remaining"


def compared(before: Baseline, after: Report) -> Comparison:
    """Return what changed from the run *before* to the run *after*."""
    old = {each.id: each for each in before.verdicts}
    new = {each.id: each for each in after.verdicts}
    changes = []
    for scenario_id in sorted(old.keys() | new.keys()):
        was, now = _ended(old.get(scenario_id)), _ended(new.get(scenario_id))
        if kind := _kind(was, now):
            title = new[scenario_id].title if scenario_id in new else ""
            changes.append(Change(kind, scenario_id, title, was, now))
    changes.sort(key=lambda change: ("worse", "better", "remains").index(change.kind))
    return Comparison(tuple(changes), tuple(_remarks(before, after)))


def read_baseline(path: Path) -> Baseline:
    """
    Return what is compared of the report in the file *path*, which ``certify --json-file`` wrote.

    Raises:
        ConfigurationError: It cannot be read, or is not such a report.
    """
    try:
        return Baseline.model_validate_json(path.read_bytes())
    except OSError as failed:
        problem = failed.strerror or str(failed)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        # What is not JSON has no place in it.
        place = "".join(f"{each}." for each in first["loc"]).rstrip(".")
        problem = shown(f"{place}: {first['msg']}" if place else first["msg"])[1:-1]
    raise ConfigurationError(
        f"The baseline {shown(str(path))} cannot be used: {problem}.",
        setting="baseline",
        remedy="Pass a file that `game-operator certify --json-file` wrote.",
    )


def _ended(judged: Judged | Verdict | None) -> str:
    """Return what the failure of a scenario costs, or how else it ended; advice passes."""
    if judged is None or judged.outcome is Outcome.SKIPPED:
        return _NOT_TRIED
    has_failed = judged.outcome is Outcome.FAILED and judged.weight is not Weight.ADVICE
    return judged.weight.value if has_failed else "passed"


def _kind(before: str, now: str) -> Literal["worse", "better", "remains"] | None:
    """Return how a scenario changed; None if it failed in neither run."""
    was, is_now = _RANKS[before], _RANKS[now]
    if was == is_now or now == _NOT_TRIED:
        return "remains" if was else None
    return "worse" if is_now > was else "better"


def _remarks(before: Baseline, after: Report) -> Iterator[str]:
    if before.version != after.version:
        yield f"The baseline is of version {shown(before.version)}, and this run of {after.version}."
    if before.profile != after.profile:
        yield "The runs have different profiles, so they expect different answers."
