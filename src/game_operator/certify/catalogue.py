"""All scenarios, and which of them are played."""

import importlib
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from game_operator.certify.engine.scenario import STAGES, Scenario
from game_operator.certify.report.verdicts import GROUPS, Weight
from game_operator.errors import ConfigurationError, shown

#: Imported at once: an import later would put the package in the place of ``game_operator.certify.scenarios()``.
_PACKAGE: Final = importlib.import_module("game_operator.certify.scenarios")
#: Each is a module of functions, and a file of TOML that says what each function tries.
_MODULES: Final = (
    "a_flows",
    "b_repeats",
    "c_order",
    "d_races",
    "e_callers",
    "f_hostile",
    "g_money",
    "h_time",
)


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Return all scenarios in the order of their ids."""
    return tuple(each for name in _MODULES for each in _of_module(name))


def selected(only: Iterable[str], skip: Iterable[str]) -> tuple[Scenario, ...]:
    """
    Return the scenarios named by *only*, or all, without those named by *skip*: by groups (``B``) or ids (``B05``).

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
    """Return *chosen* by stage: in turn, at once, hostile, load."""
    return sorted(chosen, key=lambda each: (STAGES.index(each.stage), each.id))


def _of_module(name: str) -> Iterator[Scenario]:
    module = importlib.import_module(f"{_PACKAGE.__name__}.{name}")
    entries = tomllib.loads((Path(__file__).parent / "scenarios" / f"{name}.toml").read_text(encoding="utf-8"))
    for scenario_id, entry in entries.items():
        # Any: TOML has strings and lists of them here, and each scenario's test fails where it has not.
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
        }
        fields["weight"] = Weight(fields["weight"])
        yield Scenario(id=scenario_id, play=getattr(module, scenario_id.lower()), **fields)


def _checked(names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        names = names.replace(",", " ").split()
    upper = frozenset(name.upper() for name in names)
    known = {*GROUPS, *(each.id for each in scenarios())}
    for name in sorted(upper - known):
        raise ConfigurationError(
            f"There is no scenario or group {shown(name)}. Groups are {', '.join(GROUPS)}; `--plan` lists the ids."
        )
    return upper
