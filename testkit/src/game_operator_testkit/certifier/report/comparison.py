"""
Two certifications of a wallet compared by the ids of their scenarios: what got worse, what got better, what remains.

The one before may be a file that an older version, or somebody else, wrote, so it is read strictly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from game_operator.errors import ConfigurationError, shown
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.verdicts import Outcome, Verdict, Weight

__all__ = ["Baseline", "Change", "Comparison", "compared", "read_baseline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How a scenario ended in the run before."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True)

    id: Annotated[str, Field(pattern="^[A-Z][0-9]{2,3}$")]
    outcome: Outcome
    weight: Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """
    The run before, as far as runs are compared.

    Attributes:
        format: Of the report, which is 1.
        version: Of the package that wrote it.
        verdicts: Of all scenarios.
        profile: What was assumed of the wallet, where it is not the usual.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True)

    format: Literal[1]
    version: str
    verdicts: Annotated[tuple[Judged, ...], Field(min_length=1)]
    profile: Mapping[str, str]


_BASELINE: Final = TypeAdapter(Baseline)


@dataclass(frozen=True, slots=True)
class Change:
    """
    A scenario that failed in one of the runs.

    Attributes:
        id: Of the scenario, such as ``B01``.
        title: What happens in it; "" if it was not played now.
        before: What the failure cost, ``passed``, or ``not tried``.
        now: The same of this run.
    """

    id: str
    title: str
    before: str
    now: str

    @property
    def name(self) -> str:
        """Its id and title."""
        return f"{self.id} {self.title}".rstrip()


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    What changed from one run to the next.

    Attributes:
        worse: Fail now and did not fail before, or cost more now.
        better: Failed before, and do not fail now, or cost less.
        remaining: Failed before, and fail alike now or were not tried.
        remarks: Why the runs may not be comparable, a sentence each.
    """

    worse: tuple[Change, ...]
    better: tuple[Change, ...]
    remaining: tuple[Change, ...]
    remarks: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing got worse. Old failures may remain."""
        return not self.worse

    @property
    def groups(self) -> Mapping[str, tuple[Change, ...]]:
        """The changes by the words for them."""
        return {"worse": self.worse, "better": self.better, "remains": self.remaining}

    @property
    def summary_line(self) -> str:
        """The numbers in one line, which keeps its form from version to version."""
        return f"{len(self.worse)} worse, {len(self.better)} better, {len(self.remaining)} remaining"


def compared(before: Baseline | Report, after: Report) -> Comparison:
    """Return what changed from the run *before* to the run *after*."""
    old = {each.id: each for each in before.verdicts}
    new = {each.id: each for each in after.verdicts}
    changes: dict[str, list[Change]] = {"worse": [], "better": [], "remaining": []}
    for scenario_id in sorted(old.keys() | new.keys()):
        was, now = old.get(scenario_id), new.get(scenario_id)
        if group := _group(was, now):
            title = now.title if now else ""
            changes[group].append(Change(scenario_id, title, _ended(was), _ended(now)))
    found = {group: tuple(listed) for group, listed in changes.items()}
    return Comparison(**found, remarks=tuple(_remarks(before, after)))


def read_baseline(path: Path) -> Baseline:
    """
    Return what is compared of the report in the file *path*, which ``certify --json-file`` wrote.

    Raises:
        ConfigurationError: It cannot be read, or is not such a report.
    """
    try:
        return _BASELINE.validate_json(path.read_bytes())
    except OSError as failed:
        problem = failed.strerror or str(failed)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        place = ".".join(str(each) for each in first["loc"])
        problem = shown(f"{place}: {first['msg']}")[1:-1]
    raise ConfigurationError(
        f"The baseline {shown(str(path))} cannot be used: {problem}.",
        setting="baseline",
        remedy="Pass a file that `game-operator certify --json-file` wrote.",
    )


def _group(was: Judged | Verdict | None, now: Judged | Verdict | None) -> str:
    """Return how a scenario changed; "" if it failed in neither run."""
    before, after = _cost(was), _cost(now)
    if after is None:
        return "remaining" if before else ""
    if after == (before or 0):
        return "remaining" if after else ""
    return "worse" if after > (before or 0) else "better"


def _cost(judged: Judged | Verdict | None) -> int | None:
    """Return 0 if it did not fail, and more the more it costs; None if nobody knows."""
    if judged is None or judged.outcome is Outcome.SKIPPED:
        return None
    return Weight.ADVICE.rank - judged.weight.rank if judged.outcome is Outcome.FAILED else 0


def _ended(judged: Judged | Verdict | None) -> str:
    cost = _cost(judged)
    if judged is None or cost is None:
        return "not tried"
    return judged.weight.value if cost else "passed"


def _remarks(before: Baseline | Report, after: Report) -> Sequence[str]:
    remarks = []
    if before.version != after.version:
        remarks.append(f"The baseline is of version {shown(before.version)}, and this run of {after.version}.")
    if dict(before.profile) != dict(after.profile):
        remarks.append("The runs have different profiles, so they expect different answers.")
    return remarks
