"""Scenarios: what each tries and what a failure costs, which of them are played, and the verdict of one that was."""

import importlib
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from game_operator.certify.engine.stage import Stage
from game_operator.certify.engine.steps import NotTried, Stopped, Undone
from game_operator.certify.report.report import ALL
from game_operator.certify.report.verdicts import GROUPS, Exchange, Note, Outcome, Verdict, Weight, mistake_of
from game_operator.errors import ConfigurationError, shown
from game_operator.provider.diagnosis import text_of

#: In this order.
STAGES: Final = ("in turn", "at once", "hostile", "load", "at the end")
#: The stage whose answers are measured.
LOAD: Final = STAGES[3]


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    What is tried.

    Attributes:
        id: Such as ``B01``.
        title: What happens, in a few words.
        weight: What a failure costs.
        rests_on: Sections such as ``spec §4.1``, and decision notes such as ``decision 0014`` for what is assumed.
        means: What a failure means: who loses money, and when.
        fix: How it is usually fixed.
        play: Plays it.
        needs: What the user must supply, by the names of ``Supplies``.
        stage: When it is tried.
        explains: Scenarios that fail by the same mistake, where this one shows it best; or ``*`` for all.
        begin: Plays what comes before all other scenarios, if it has such a part.
    """

    id: str
    title: str
    weight: Weight
    rests_on: tuple[str, ...]
    means: str
    fix: str
    play: Callable[[Stage], object]
    needs: tuple[str, ...] = ()
    stage: str = STAGES[0]
    explains: tuple[str, ...] = ()
    begin: Callable[[Stage], object] | None = None

    @property
    def group(self) -> str:
        """The letter of its group."""
        return self.id[0]


#: Imported at once: an import later would put the package in the place of ``game_operator.certify.scenarios()``.
_PACKAGE: Final = importlib.import_module("game_operator.certify.scenarios")
#: A file of TOML for each group, or each part of one. It says what each function of the module beside it tries.
_TEXTS: Final = Path(__file__).parents[1] / "scenarios"


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Return all scenarios in the order of their ids."""
    found = []
    for file in sorted(_TEXTS.glob("*.toml")):
        module = importlib.import_module(f"{_PACKAGE.__name__}.{file.stem}")
        for scenario_id, given in tomllib.loads(file.read_text(encoding="utf-8")).items():
            entry = _in_words(given)
            # Any: TOML has strings and lists of them here, and each scenario's test fails where it has not.
            fields: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
            }
            own = {"id": scenario_id, "weight": Weight(entry["weight"]), "play": getattr(module, scenario_id.lower())}
            begin = getattr(module, f"{scenario_id.lower()}_begin", None)
            found.append(Scenario(**fields | own, begin=begin))
    return tuple(sorted(found, key=lambda scenario: scenario.id))


def _in_words(entry: dict[str, Any]) -> dict[str, Any]:  # Any: as above.
    """Return *entry* with what its mistake means, and how it is fixed, if it names one that the storm knows too."""
    if "mistake" not in entry:
        return entry
    text = text_of(entry["mistake"])
    return {name: value for name, value in entry.items() if name != "mistake"} | {
        "means": text.means,
        "fix": text.fix,
    }


def selected(only: Iterable[str], skip: Iterable[str]) -> tuple[Scenario, ...]:
    """
    Return the scenarios named by *only*, or all, without those named by *skip*: by groups (``B``) or ids (``B05``).

    In a text there are commas or spaces between them; one of letters alone names groups (``ABC``).

    Raises:
        ConfigurationError: There is no such group or scenario, or nothing is left.
    """
    wanted, unwanted = _checked(only), _checked(skip)
    left = tuple(
        each
        for each in scenarios()
        if (not wanted or not wanted.isdisjoint((each.id, each.group))) and unwanted.isdisjoint((each.id, each.group))
    )
    if not left:
        raise ConfigurationError("No scenario is left to be played. Pass other groups or ids.")
    return left


def in_playing_order(chosen: Iterable[Scenario]) -> list[Scenario]:
    """Return *chosen* by stage: in turn, at once, hostile, load, at the end."""
    return sorted(chosen, key=lambda each: (STAGES.index(each.stage), each.id))


def _checked(names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        names = tuple(names) if names.isalpha() else names.replace(",", " ").split()
    upper = frozenset(name.upper() for name in names)
    known = {*GROUPS, *(each.id for each in scenarios())}
    for name in sorted(upper - known):
        raise ConfigurationError(
            f"There is no scenario or group {shown(name)}. Groups are {', '.join(GROUPS)}; `--plan` lists the ids."
        )
    return upper


def verdict_of(
    scenario: Scenario, notes: Sequence[Note], kept: Mapping[int, Exchange], cut: NotTried | None
) -> Verdict:
    """Return the verdict of a scenario that found *notes*, and ended early if *cut* says why."""
    verdict = Verdict(
        id=scenario.id,
        title=scenario.title,
        weight=scenario.weight,
        outcome=Outcome.PASSED,
        exchanges=tuple(kept.values()),
        rests_on=scenario.rests_on,
        means=scenario.means,
        fix=scenario.fix,
        is_stopped=isinstance(cut, Stopped),
    )
    # A scenario that was broken off may fail, but advice on half of it is not a verdict.
    is_half = isinstance(cut, Stopped | Undone) and all(note.weight is Weight.ADVICE for note in notes)
    if cut and (is_half or not notes):
        return replace(verdict, outcome=Outcome.SKIPPED, reason=str(cut), is_undone=isinstance(cut, Undone))
    if not notes:
        return verdict
    indices = {place: index for index, place in enumerate(kept)}
    placed = [replace(note, exchange=None if note.exchange is None else indices.get(note.exchange)) for note in notes]
    folded = _folded(sorted(placed, key=lambda note: note.weight.rank))
    reason, weight = folded[0].reason, folded[0].weight
    verdict = replace(verdict, outcome=Outcome.FAILED, reason=reason, weight=weight, notes=folded)
    mistake = mistake_of(folded[0].cause)
    is_own = mistake is not None and mistake.only_in_the_plainest and ALL not in scenario.explains
    if mistake is None or is_own or mistake.general_from > 1:
        return verdict
    return replace(verdict, means=mistake.means, fix=mistake.fix)


def _folded(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return *notes*, one for each cause and weight: a hundred calls at once can all go wrong alike."""
    alike: dict[tuple[str, Weight], list[Note]] = {}
    for note in notes:
        alike.setdefault((note.cause or note.reason, note.weight), []).append(note)
    return tuple(
        replace(first, reason=f"{first.reason} (and {len(more)} more like it)") if more else first
        for first, *more in alike.values()
    )
