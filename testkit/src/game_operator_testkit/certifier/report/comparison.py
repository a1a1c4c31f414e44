"""
Two certifications of a wallet compared: what is fixed, what is new, and what still fails.

The one before may be a file that an older version, or somebody else, wrote. It is read strictly, within bounds.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from game_operator.errors import ConfigurationError, shown
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.verdicts import Outcome, Verdict, Weight

__all__ = ["Baseline", "Change", "Comparison", "compared", "read_baseline"]

#: In bytes. Reports have at most 300 kB now; those of older versions have some megabytes.
_LARGEST: Final = 64 * 1024 * 1024
_MOST_SCENARIOS: Final = 200
_MOST_SETTINGS: Final = 50
_WHAT_TO_DO: Final = "Pass a file that `game-operator certify --json-file` wrote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How a scenario ended in the run before."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True)

    id: Annotated[str, Field(pattern="^[A-Z][0-9]{2,3}$")]
    title: Annotated[str, Field(max_length=200)]
    outcome: Outcome
    weight: Weight

    @property
    def failed(self) -> bool:
        """Whether it made the wallet fail."""
        return self.outcome is Outcome.FAILED and self.weight is not Weight.ADVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """
    The run before, as far as runs are compared.

    Attributes:
        format: Of the report, which is 1.
        version: Of the package that wrote it.
        verdicts: Of all scenarios.
        was_stopped: Whether somebody stopped the run.
        profile: What was assumed of the wallet, where it is not the usual; None in a report of an older version.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True)

    format: Literal[1]
    version: Annotated[str, Field(max_length=100)]
    verdicts: Annotated[tuple[Judged, ...], Field(max_length=_MOST_SCENARIOS)]
    was_stopped: bool = False
    profile: Annotated[Mapping[str, str], Field(max_length=_MOST_SETTINGS)] | None = None


_BASELINE: Final = TypeAdapter(Baseline)


@dataclass(frozen=True, slots=True)
class Change:
    """
    A scenario in both runs.

    Attributes:
        id: Of the scenario, such as ``B01``.
        title: What happens in it.
        weight: What its failure costs now; what it cost before, if it does not fail any more.
        was: How it ended before: ``passed``, ``failed``, ``advice``, ``not tried``, or "" if it was not there.
        now: How it ended now, in the same words; "" if it was not there.
        weight_before: What its failure cost before; None if it did not fail.
        reason: Why it fails, or was not tried, now; "" otherwise.
    """

    id: str
    title: str
    weight: Weight
    was: str
    now: str
    weight_before: Weight | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """Its id and title."""
        return f"{self.id} {self.title}"


@dataclass(frozen=True)
class Comparison:
    """
    What changed between two runs. Each scenario is in one of the five groups, or did not fail in either run.

    Attributes:
        fixed: Failed before, and do not fail any more.
        new: Fail now, and did not fail before; what the run before did not try is among them.
        costs_more: Failed before, and cost more now.
        still_failing: Failed before, and cost no more now.
        not_compared: Were judged before, and are not now: they may be fixed or not.
        remarks: Why the runs may not be comparable, a sentence each.
    """

    fixed: tuple[Change, ...]
    new: tuple[Change, ...]
    costs_more: tuple[Change, ...]
    still_failing: tuple[Change, ...]
    not_compared: tuple[Change, ...]
    remarks: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is new or costs more. Old failures may remain."""
        return not (self.new or self.costs_more)

    @property
    def groups(self) -> Mapping[str, tuple[Change, ...]]:
        """The changes by the words for their groups, the worst first; groups without any too."""
        return {
            "new": self.new,
            "costs more": self.costs_more,
            "still failing": self.still_failing,
            "fixed": self.fixed,
            "not compared": self.not_compared,
        }

    @property
    def remaining(self) -> tuple[Change, ...]:
        """What failed before and is not known to be fixed."""
        return *self.still_failing, *(each for each in self.not_compared if each.was == "failed")

    @cached_property
    def summary_line(self) -> str:
        """The numbers in one line, which keeps its form from version to version."""
        counts = {
            "fixed": len(self.fixed),
            "new": len(self.new),
            "cost more": len(self.costs_more),
            "still failing": len(self.still_failing),
            "not compared": len(self.not_compared),
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items())

    @cached_property
    def headline(self) -> str:
        """What it comes to, in a sentence or two."""
        if not self.passed:
            counts = (
                (len(self.new), "fails that did not fail before", "fail that did not fail before"),
                (len(self.costs_more), "costs more than before", "cost more than before"),
            )
            said = " and ".join(_scenarios(count, one, many) for count, one, many in counts if count)
            return f"Worse than the baseline: {said}."
        if not self.remaining:
            return "No worse than the baseline, and none of its failures remains."
        remain = "remains" if len(self.remaining) == 1 else "remain"
        return f"No worse than the baseline, but {len(self.remaining)} of its failures {remain}."


def compared(before: "Mapping[str, Any] | Report | Baseline", after: Report) -> Comparison:  # Any: of a JSON document.
    """
    Return what changed from the run *before* to the run *after*.

    Args:
        before: A report, what ``read_baseline`` returned, or a report as the dictionary that ``document`` returns.
        after: The newer report.

    Raises:
        ConfigurationError: *before* is a dictionary, and not of a report of this format.
    """
    baseline = _baseline(before)
    old = {each.id: each for each in baseline.verdicts}
    groups: dict[str, list[Change]] = {name: [] for name in ("fixed", "new", "costs_more", "still_failing")}
    not_compared = []
    for verdict in after.verdicts:
        known = old.pop(verdict.id, None)
        group = _group(known, verdict)
        if group == "not_compared":
            not_compared.append(_change(known, verdict))
        elif group:
            groups[group].append(_change(known, verdict))
    not_compared += (_gone(each) for each in old.values() if each.outcome is not Outcome.SKIPPED)
    by_weight = {name: tuple(sorted(found, key=_by_weight)) for name, found in groups.items()}
    return Comparison(
        **by_weight,
        # What failed before stands first.
        not_compared=tuple(sorted(not_compared, key=lambda each: (each.was != "failed", each.id))),
        remarks=tuple(_remarks(baseline, after)),
    )


def read_baseline(path: Path) -> Baseline:
    """
    Return what is compared of the report in the file *path*, which ``certify --json-file`` wrote.

    Raises:
        ConfigurationError: It cannot be read, or is not such a report.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as failed:
        raise _unreadable(path, getattr(failed, "strerror", None) or str(failed)) from None
    if len(content) > _LARGEST:
        raise _unreadable(path, f"it has more than {_LARGEST:,} bytes")
    if not content.strip():
        raise _unreadable(path, "it is empty")
    try:
        return _checked(content)
    except ValueError as wrong:
        raise _unreadable(path, str(wrong)) from None


def _baseline(before: "Mapping[str, Any] | Report | Baseline") -> Baseline:
    match before:
        case Baseline():
            return before
        case Report():
            return Baseline(
                format=1,
                version=before.version,
                verdicts=tuple(
                    Judged(id=each.id, title=each.title, outcome=each.outcome, weight=each.weight)
                    for each in before.verdicts
                ),
                was_stopped=before.was_stopped,
                profile=before.profile,
            )
    try:
        return _checked(json.dumps(before).encode())
    except (ValueError, TypeError, RecursionError) as wrong:
        raise ConfigurationError(f"The report to compare with cannot be used: {wrong}.") from None


def _checked(content: bytes) -> Baseline:
    """Return the baseline in *content*, or raise ValueError with what is wrong with it."""
    try:
        baseline = _BASELINE.validate_json(content)
    except ValidationError as wrong:
        raise ValueError(_problem(wrong)) from None
    ids = [each.id for each in baseline.verdicts]
    if not ids:
        raise ValueError("it has no verdict of any scenario")
    if repeated := next((each for each in ids if ids.count(each) > 1), None):
        raise ValueError(f"it has the scenario {repeated} twice")
    return baseline


def _problem(wrong: ValidationError) -> str:
    first = wrong.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return "it is not JSON"
    if not first["loc"]:
        return "it is not a JSON object"
    # Long names are the file's own.
    place = ".".join(str(each)[:40] for each in first["loc"])
    if place == "format" and first["type"] == "literal_error":
        return f"it is a report of format {shown(first['input'])}, and this version reads format 1"
    return f"{shown(place)[1:-1]}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _unreadable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"The baseline {shown(str(path))} cannot be used: {problem}.", setting="baseline", remedy=f"{_WHAT_TO_DO}."
    )


def _group(known: Judged | None, verdict: Verdict) -> str:
    """Return in which group of a comparison *verdict* is; "" if in none."""
    failed_before = known is not None and known.failed
    if verdict.outcome is Outcome.SKIPPED:
        return "not_compared" if known is not None and known.outcome is not Outcome.SKIPPED else ""
    if not verdict.failed:
        return "fixed" if failed_before else ""
    if known is None or not failed_before:
        return "new"
    return "costs_more" if verdict.weight.rank < known.weight.rank else "still_failing"


def _change(known: Judged | None, verdict: Verdict) -> Change:
    failed_before = known is not None and known.failed
    return Change(
        id=verdict.id,
        title=verdict.title,
        weight=known.weight if known is not None and failed_before and not verdict.failed else verdict.weight,
        was="" if known is None else _ended(known),
        now=_ended(verdict),
        weight_before=known.weight if known is not None and failed_before else None,
        reason=verdict.reason,
    )


def _gone(known: Judged) -> Change:
    """Return the change of a scenario that the run after does not have."""
    reason = "this run did not play it, or this version does not have it"
    weight_before = known.weight if known.failed else None
    return Change(known.id, known.title, known.weight, _ended(known), "", weight_before, reason)


def _ended(judged: Judged | Verdict) -> str:
    match judged.outcome:
        case Outcome.FAILED:
            return "advice" if judged.weight is Weight.ADVICE else "failed"
        case Outcome.SKIPPED:
            return "not tried"
        case _:
            return "passed"


def _by_weight(change: Change) -> tuple[int, str]:
    return change.weight.rank, change.id


def _remarks(before: Baseline, after: Report) -> Iterable[str]:
    if before.version != after.version:
        yield (
            f"The baseline is of game-operator {shown(before.version)[1:-1]}, and this run of {after.version}: "
            "scenarios may judge otherwise."
        )
    if before.profile is not None and dict(before.profile) != dict(after.profile):
        names = sorted(name for name in {*before.profile, *after.profile} if _differs(name, before.profile, after))
        said = ", ".join(shown(name[:40])[1:-1] for name in names)
        yield f"The runs have different profiles ({said}), so they expect different answers."
    if before.was_stopped:
        yield "The baseline's run was stopped, so it judged only a part."


def _differs(name: str, before: Mapping[str, str], after: Report) -> bool:
    return before.get(name) != after.profile.get(name)


def _scenarios(number: int, one: str, many: str) -> str:
    return f"1 scenario {one}" if number == 1 else f"{number} scenarios {many}"
