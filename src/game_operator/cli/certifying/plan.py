"""What a certification would play, and what of it could not be tried: nothing is sent."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from game_operator.certify.catalogue import in_playing_order, selected
from game_operator.certify.engine.scenario import Scenario
from game_operator.certify.engine.supplies import Supplies, at_hand, missing_told
from game_operator.certify.report.verdicts import GROUPS
from game_operator.cli.certifying.wording import GROUNDS_TOLD, by_options
from game_operator.cli.output import say, write_document
from game_operator.cli.prose import tell
from game_operator.profile import Profile

__all__ = ["tell_plan"]

_INDENT: Final = " " * 9


def tell_plan(only: Iterable[str], skip: Iterable[str], supplies: Supplies, profile: Profile, *, as_json: bool) -> None:
    """Print the chosen scenarios by stage and group."""
    chosen = in_playing_order(selected(only, skip))
    there = at_hand(supplies, profile, on_wire=True)
    if as_json:
        write_document(_document(chosen, there))
        return
    for stage, staged in groupby(chosen, key=lambda each: each.stage):
        say(f"{stage.capitalize()}:", style="bold")
        for group, grouped in groupby(staged, key=lambda each: each.group):
            say(f"  {group} {GROUPS[group]}")
            for scenario in grouped:
                _tell_scenario(scenario, _missing(scenario, there))
    _tell_totals(chosen, there)


def _tell_scenario(scenario: Scenario, missing: tuple[str, ...]) -> None:
    told = f"{scenario.title} ({scenario.weight}; {', '.join(scenario.rests_on)})"
    tell(told, first=f"    {scenario.id}  ", indent=_INDENT)
    if missing:
        tell(f"not tried: {by_options(missing)}", indent=_INDENT, first=_INDENT, style="yellow")
    elif scenario.needs:
        tell(f"with {', '.join(scenario.needs)}", indent=_INDENT, first=_INDENT, style="dim")


def _tell_totals(chosen: list[Scenario], there: frozenset[str]) -> None:
    counts = _counts(chosen, there)
    number = f"{counts['scenarios']} scenario{'' if counts['scenarios'] == 1 else 's'}"
    weights = ", ".join(f"{count} {weight}" for weight, count in _weights(chosen).items())
    tell(
        f"{number}: {counts['played']} can be played, {counts['not_tried']} cannot. What a failure costs: {weights}. "
        "Nothing was sent."
    )
    tell(GROUNDS_TOLD, style="dim")
    tell("A few learn only from the wallet's answers that they cannot be tried on it; they are then skipped as well.")


def _missing(scenario: Scenario, there: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in scenario.needs if name not in there)


def _counts(chosen: list[Scenario], there: frozenset[str]) -> dict[str, int]:
    played = sum(not _missing(scenario, there) for scenario in chosen)
    return {"scenarios": len(chosen), "played": played, "not_tried": len(chosen) - played}


def _weights(chosen: list[Scenario]) -> dict[str, int]:
    return dict(Counter(str(scenario.weight) for scenario in sorted(chosen, key=lambda each: each.weight.rank)))


def _document(chosen: list[Scenario], there: frozenset[str]) -> dict[str, object]:
    return {
        "counts": _counts(chosen, there) | {"weights": _weights(chosen)},
        "scenarios": [_told(scenario, _missing(scenario, there)) for scenario in chosen],
    }


def _told(scenario: Scenario, missing: tuple[str, ...]) -> dict[str, object]:
    return {
        "id": scenario.id,
        "group": scenario.group,
        "stage": scenario.stage,
        "title": scenario.title,
        "weight": scenario.weight.value,
        "rests_on": list(scenario.rests_on),
        "means": scenario.means,
        "mend": scenario.mend,
        "needs": list(scenario.needs),
        "missing": list(missing),
        "reason": missing_told(missing) if missing else "",
    }
