"""The form that plays a round: what was filled in, and what is wrong with it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypedDict

from game_operator.control_room.forms import Form
from game_operator.control_room.words import money
from game_operator.models import GameInstance
from game_operator.models.webhooks import LONGEST_ID, problem_of_id
from game_operator.money import cents_from_amount
from game_operator.sandbox.games import limits_of

__all__ = ["Outcome", "PlayForm", "RoundAsked", "read_play_form"]

#: Currency units, never through a float.
_AMOUNT: Final = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,2})?", re.ASCII)


class Outcome(StrEnum):
    """How a round may end."""

    RULES = "rules"
    WIN = "win"
    LOSS = "loss"
    CANCELLED = "cancelled"


class RoundAsked(TypedDict):
    """What ``Sandbox.play_round`` is asked."""

    player_id: str
    instance_id: str
    wager_cents: int
    won_cents: int | None
    cancel: bool


@dataclass(frozen=True, slots=True)
class PlayForm:
    """The form as it stands on the page: all values as they were typed, and a sentence for each that is wrong."""

    player_id: str = "p1"
    instance_id: str = ""
    wager: str = ""
    outcome: str = Outcome.RULES
    won: str = ""
    problems: dict[str, str] = field(default_factory=dict)


def read_play_form(form: Form, instances: Mapping[str, GameInstance]) -> tuple[PlayForm, RoundAsked | None]:
    """
    Return the form as it was filled in, and what it asks for, or None if it has problems.

    *instances* are those that can be played, by their ids.
    """
    problems: dict[str, str] = {}
    shown = PlayForm(
        player_id=form.get("player_id", ""),
        instance_id=form.text("instance_id"),
        wager=form.text("wager"),
        outcome=form.text("outcome", Outcome.RULES),
        won=form.text("won"),
        problems=problems,
    )
    instance = instances.get(shown.instance_id)
    if instance is None:
        problems["instance_id"] = "Choose a game that can be played now."
    wager_cents = _wager_cents(shown, instance, problems)
    won_cents = _won_cents(shown, instance, problems)
    problem = problem_of_id(shown.player_id, LONGEST_ID)
    if problem:
        problems["player_id"] = f"A player id {problem}."
    if shown.outcome not in set(Outcome):
        problems["outcome"] = "Choose one of the outcomes."
    if problems or wager_cents is None:
        return shown, None
    return shown, RoundAsked(
        player_id=shown.player_id,
        instance_id=shown.instance_id,
        wager_cents=wager_cents,
        won_cents=won_cents,
        cancel=shown.outcome == Outcome.CANCELLED,
    )


def _wager_cents(shown: PlayForm, instance: GameInstance | None, problems: dict[str, str]) -> int | None:
    cents = _cents(shown.wager, "wager", problems)
    if cents is not None and instance is not None:
        limits = limits_of(instance.bet_config)
        if not limits.min_cents <= cents <= limits.max_cents:
            bounds = f"{money(limits.min_cents)} to {money(limits.max_cents)} {instance.bet_config.currency}"
            problems["wager"] = f"This game takes {bounds}."
    return cents


def _won_cents(shown: PlayForm, instance: GameInstance | None, problems: dict[str, str]) -> int | None:
    if shown.outcome != Outcome.WIN:
        if shown.outcome == Outcome.RULES and shown.won:
            problems["won"] = "The amount won counts for Win only: choose Win, or leave it empty."
        return 0 if shown.outcome == Outcome.LOSS else None
    cents = _cents(shown.won, "won", problems)
    if cents == 0:
        problems["won"] = "Write an amount above 0, or choose Loss."
    if cents is not None and instance is not None and cents > (most := limits_of(instance.bet_config).max_win_cents):
        problems["won"] = f"The most that a bet wins here is {money(most)} {instance.bet_config.currency}."
    return cents


def _cents(text: str, name: str, problems: dict[str, str]) -> int | None:
    if _AMOUNT.fullmatch(text):
        return cents_from_amount(Decimal(text))
    problems[name] = "Write an amount in currency units with at most two decimals, such as 5 or 2.50."
    return None
