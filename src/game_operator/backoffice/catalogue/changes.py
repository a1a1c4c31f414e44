"""
What differs between two lists of games, as one value for each difference (spec §2.5 to §2.7). Pure.

Games and instances are compared by id. Their order is not a difference. A game that is added or gone stands for its
instances, too, so that each difference appears once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from game_operator.models import GameInfo, GameInstance
from game_operator.models.wire import WireModel

#: The fields whose differences have separate kinds; the others are details.
_NO_DETAILS = frozenset({"id", "status", "rtp", "instances", "active", "bet_config"})


class ChangeKind(StrEnum):
    """What changed, and what stands before and after it."""

    GAME_ADDED = "game_added"
    """The service lists a game that it did not list before: None, the GameInfo with its instances."""
    GAME_GONE = "game_gone"
    """The service lists a game no more, whose instances stay accepted: the GameInfo, None."""
    GAME_STATUS_CHANGED = "game_status_changed"
    """A game has another status (spec §2.5): a ``GameStatus``, or text that this version does not know."""
    RTP_CHANGED = "rtp_changed"
    """A game has another return to player: ``Decimal`` percent, or None where the service gives none."""
    GAME_DETAILS_CHANGED = "game_details_changed"
    """Something else about a game differs, such as its name: dictionaries of the fields that differ."""
    INSTANCE_ADDED = "instance_added"
    """A game that was listed before has one more instance: None, the GameInstance."""
    INSTANCE_GONE = "instance_gone"
    """A game that is still listed has an instance no more, which stays accepted: the GameInstance, None."""
    INSTANCE_SWITCHED = "instance_switched"
    """An instance was switched on (*after* is True) or off."""
    LIMITS_CHANGED = "limits_changed"
    """An instance has other limits or another currency (spec §2.7): both BetConfig."""
    INSTANCE_DETAILS_CHANGED = "instance_details_changed"
    """Something else about an instance differs, such as its name: dictionaries of the fields that differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueChange:
    """
    One difference between two lists of games.

    Attributes:
        kind: What changed.
        game_id: The game, or the game of the instance.
        instance_id: The instance; None for a change of a game.
        before, after: The values, as ``ChangeKind`` says.
        at_millis: When the difference was seen, in Unix milliseconds.
    """

    kind: ChangeKind
    game_id: str
    instance_id: str | None = None
    before: Any = None  # Any: as the kind says.
    after: Any = None
    at_millis: int

    def as_dict(self) -> dict[str, object]:
        """Return the change as plain values, such as JSON has; amounts and percentages as ``Decimal``."""
        about: dict[str, object] = {"kind": str(self.kind), "game_id": self.game_id}
        if self.instance_id is not None:
            about["instance_id"] = self.instance_id
        return about | {"before": _plain(self.before), "after": _plain(self.after), "at_millis": self.at_millis}


def changes_between(before: Sequence[GameInfo], after: Sequence[GameInfo], *, at_millis: int) -> list[CatalogueChange]:
    """Return what differs between two lists of games; ids stand once in each list."""
    return list(_changes(before, after, at_millis))


def _changes(before: Sequence[GameInfo], after: Sequence[GameInfo], at: int) -> Iterator[CatalogueChange]:
    earlier, later = {game.id: game for game in before}, {game.id for game in after}
    for game in before:
        if game.id not in later:
            yield CatalogueChange(kind=ChangeKind.GAME_GONE, game_id=game.id, before=game, at_millis=at)
    for game in after:
        known = earlier.get(game.id)
        if known is None:
            yield CatalogueChange(kind=ChangeKind.GAME_ADDED, game_id=game.id, after=game, at_millis=at)
        elif known != game:
            yield from _changes_of_game(known, game, at)


def _changes_of_game(before: GameInfo, after: GameInfo, at: int) -> Iterator[CatalogueChange]:
    change = partial(CatalogueChange, game_id=after.id, at_millis=at)
    if before.status != after.status:
        yield change(kind=ChangeKind.GAME_STATUS_CHANGED, before=before.status, after=after.status)
    if before.rtp != after.rtp:
        yield change(kind=ChangeKind.RTP_CHANGED, before=before.rtp, after=after.rtp)
    details = _details_of(before, after)
    if any(details):
        yield change(kind=ChangeKind.GAME_DETAILS_CHANGED, before=details[0], after=details[1])
    earlier, later = ({each.id: each for each in game.instances} for game in (before, after))
    for gone in (each for each in before.instances if each.id not in later):
        yield change(kind=ChangeKind.INSTANCE_GONE, instance_id=gone.id, before=gone)
    for instance in after.instances:
        known = earlier.get(instance.id)
        if known is None:
            yield change(kind=ChangeKind.INSTANCE_ADDED, instance_id=instance.id, after=instance)
        else:
            yield from _changes_of_instance(after.id, known, instance, at)


def _changes_of_instance(game_id: str, before: GameInstance, after: GameInstance, at: int) -> Iterator[CatalogueChange]:
    change = partial(CatalogueChange, game_id=game_id, instance_id=after.id, at_millis=at)
    if before.active != after.active:
        yield change(kind=ChangeKind.INSTANCE_SWITCHED, before=before.active, after=after.active)
    if before.bet_config != after.bet_config:
        yield change(kind=ChangeKind.LIMITS_CHANGED, before=before.bet_config, after=after.bet_config)
    details = _details_of(before, after)
    if any(details):
        yield change(kind=ChangeKind.INSTANCE_DETAILS_CHANGED, before=details[0], after=details[1])


def _details_of(before: WireModel, after: WireModel) -> tuple[dict[str, object], dict[str, object]]:
    """Return the details that differ on both sides, fields that the models do not know included."""
    sides = before.model_dump(), after.model_dump()
    names = [name for name in dict.fromkeys((*sides[1], *sides[0])) if name not in _NO_DETAILS]
    differing = [name for name in names if _side(sides[0], name) != _side(sides[1], name)]
    earlier, later = ({name: side[name] for name in differing if name in side} for side in sides)
    return earlier, later


def _side(side: dict[str, object], name: str) -> tuple[object, ...]:
    return (side[name],) if name in side else ()


def _plain(value: object) -> object:
    """Return *value* as plain values: a model as a dictionary of its fields, amounts as ``Decimal``."""
    return value.model_dump() if isinstance(value, WireModel) else value
