"""All scenarios, and which of them are played in which order."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from types import ModuleType
from typing import Any, Final

from game_operator.errors import ConfigurationError, shown
from game_operator_testkit.certifier.engine.scenario import STAGES, Scenario
from game_operator_testkit.certifier.report.verdicts import GROUPS, Weight

# Above scenarios(): an import later would put the package in the place of this function.
from game_operator_testkit.certifier.scenarios import (
    a_flows,
    b_repeats,
    c_order,
    d_races,
    e_callers,
    f_bodies,
    f_ids,
    g_money,
    h_time,
)

#: Beside each is a file of TOML, which says what each of its functions tries.
_MODULES: Final = (a_flows, b_repeats, c_order, d_races, e_callers, f_bodies, f_ids, g_money, h_time)


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Return all scenarios in the order of their ids."""
    found = (
        _scenario(module, scenario_id, entry) for module in _MODULES for scenario_id, entry in _entries(module).items()
    )
    return tuple(sorted(found, key=lambda scenario: scenario.id))


# Any: TOML has strings and lists of them here, and each scenario's test fails where it has not.
def _entries(module: ModuleType) -> dict[str, dict[str, Any]]:
    name = module.__name__.rpartition(".")[2]
    return tomllib.loads(files("game_operator_testkit.certifier.scenarios").joinpath(f"{name}.toml").read_text("utf-8"))


def _scenario(module: ModuleType, scenario_id: str, entry: Mapping[str, Any]) -> Scenario:
    # Any: as above.
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    own = {
        "id": scenario_id,
        "weight": Weight(entry["weight"]),
        "play": getattr(module, scenario_id.lower()),
        "begin": getattr(module, f"{scenario_id.lower()}_begin", None),
    }
    return Scenario(**fields | own)


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
            f"There is no scenario or group {shown(name)}. Groups are {', '.join(GROUPS)}, and ids are such as B05."
        )
    return upper
