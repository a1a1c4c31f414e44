"""All scenarios, and which of them are played."""

import importlib
from collections.abc import Iterable
from functools import cache
from typing import Final

from game_operator.certify.engine.scenario import GROUPS, STAGES, Scenario, entered_scenarios
from game_operator.errors import ConfigurationError, shown

__all__ = ["in_playing_order", "scenarios", "selected"]

#: Imported at once: an import later would put the package in the place of ``game_operator.certify.scenarios()``.
_PACKAGE: Final = importlib.import_module("game_operator.certify.scenarios")
_MODULES: Final = (
    "a_flows",
    "b_repeats",
    "b_conflicts",
    "c_order",
    "d_races",
    "d_times",
    "e_callers",
    "f_hostile",
    "f_ids",
    "g_money",
    "h_time",
)


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Return all scenarios in the order of their ids."""
    for module in _MODULES:
        # Each enters its scenarios.
        importlib.import_module(f"{_PACKAGE.__name__}.{module}")
    return entered_scenarios()


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
