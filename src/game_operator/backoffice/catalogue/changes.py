"""
What differs between two lists of games, as one typed value for each difference (spec §2.5 to §2.7). Pure.

Games and instances are compared by id. Their order is not a difference. A game that is added or gone stands for its
instances, too, so that each difference appears once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from game_operator.models import BetConfig, GameInfo, GameInstance
from game_operator.models.wire import WireModel

#: The fields whose differences have separate kinds; of the others, a change of details names those that differ.
_NO_DETAILS = frozenset({"id", "status", "rtp", "instances", "active", "bet_config"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueChange:
    """
    One difference between two lists of games; each kind is a class below.

    Attributes:
        kind: What changed, as a word for programs, such as "limits_changed".
        game_id: The game, or the game of the instance.
        before: The value before; None for what was added.
        after: The value after; None for what is gone.
        at_millis: When the difference was seen, in Unix milliseconds.
    """

    kind: ClassVar[str] = ""

    game_id: str
    before: object
    after: object
    at_millis: int

    def as_dict(self) -> dict[str, object]:
        """Return the change as plain values, such as JSON has; amounts and percentages as ``Decimal``."""
        about: dict[str, object] = {"kind": self.kind, "game_id": self.game_id}
        if isinstance(self, InstanceChange):
            about["instance_id"] = self.instance_id
        before, after = self.before, self.after
        if isinstance(self, GameDetailsChanged | InstanceDetailsChanged):
            before, after = _members_of(self.before, self.fields), _members_of(self.after, self.fields)
        return about | {"before": plain(before), "after": plain(after), "at_millis": self.at_millis}


@dataclass(frozen=True, slots=True, kw_only=True)
class GameAdded(CatalogueChange):
    """The service lists a game that it did not list before, with its instances."""

    kind: ClassVar[str] = "game_added"

    before: None = None
    after: GameInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class GameGone(CatalogueChange):
    """The service lists a game no more. Its instances stay accepted: its bets are still played out."""

    kind: ClassVar[str] = "game_gone"

    before: GameInfo
    after: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GameStatusChanged(CatalogueChange):
    """A game has another status (spec §2.5): a ``GameStatus``, or text that this version does not know."""

    kind: ClassVar[str] = "game_status_changed"

    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RtpChanged(CatalogueChange):
    """
    A game has another return to player.

    Attributes:
        before, after: In percent, exact; None where the service gives none.
    """

    kind: ClassVar[str] = "rtp_changed"

    before: Decimal | None
    after: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GameDetailsChanged(CatalogueChange):
    """Something else about a game differs: its name, genre, provider, thumbnail, or a field we do not know."""

    kind: ClassVar[str] = "game_details_changed"

    before: GameInfo
    after: GameInfo

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that differ."""
        return tuple(_differing(self.before, self.after))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceChange(CatalogueChange):
    """
    A difference in an instance of a game.

    Attributes:
        instance_id: The instance.
    """

    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceAdded(InstanceChange):
    """A game that was listed before has one more instance."""

    kind: ClassVar[str] = "instance_added"

    before: None = None
    after: GameInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGone(InstanceChange):
    """A game that is still listed has an instance no more, which stays accepted."""

    kind: ClassVar[str] = "instance_gone"

    before: GameInstance
    after: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSwitched(InstanceChange):
    """An instance was switched on (*after* is True) or off."""

    kind: ClassVar[str] = "instance_switched"

    before: bool
    after: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsChanged(InstanceChange):
    """An instance has other limits, in currency units, or another currency (spec §2.7)."""

    kind: ClassVar[str] = "limits_changed"

    before: BetConfig
    after: BetConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceDetailsChanged(InstanceChange):
    """Something else about an instance differs: its name, or a field we do not know."""

    kind: ClassVar[str] = "instance_details_changed"

    before: GameInstance
    after: GameInstance

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that differ."""
        return tuple(_differing(self.before, self.after))


def changes_between(before: Sequence[GameInfo], after: Sequence[GameInfo], *, at_millis: int) -> list[CatalogueChange]:
    """Return what differs between two lists of games; ids stand once in each list."""
    return list(_changes(before, after, at_millis))


def _changes(before: Sequence[GameInfo], after: Sequence[GameInfo], at: int) -> Iterator[CatalogueChange]:
    earlier, later = {game.id: game for game in before}, {game.id: game for game in after}
    for game in before:
        if game.id not in later:
            yield GameGone(game_id=game.id, before=game, at_millis=at)
    for game in after:
        known = earlier.get(game.id)
        if known is None:
            yield GameAdded(game_id=game.id, after=game, at_millis=at)
        elif known != game:
            yield from _changes_of_game(known, game, at)


def _changes_of_game(before: GameInfo, after: GameInfo, at: int) -> Iterator[CatalogueChange]:
    if before.status != after.status:
        yield GameStatusChanged(game_id=after.id, before=before.status, after=after.status, at_millis=at)
    if before.rtp != after.rtp:
        yield RtpChanged(game_id=after.id, before=before.rtp, after=after.rtp, at_millis=at)
    if any(_differing(before, after)):
        yield GameDetailsChanged(game_id=after.id, before=before, after=after, at_millis=at)
    earlier, later = ({each.id: each for each in game.instances} for game in (before, after))
    for gone in (each for each in before.instances if each.id not in later):
        yield InstanceGone(game_id=after.id, instance_id=gone.id, before=gone, at_millis=at)
    for instance in after.instances:
        known = earlier.get(instance.id)
        if known is None:
            yield InstanceAdded(game_id=after.id, instance_id=instance.id, after=instance, at_millis=at)
        else:
            yield from _changes_of_instance(after.id, known, instance, at)


def _changes_of_instance(game_id: str, before: GameInstance, after: GameInstance, at: int) -> Iterator[CatalogueChange]:
    if before.active != after.active:
        yield InstanceSwitched(
            game_id=game_id, instance_id=after.id, before=before.active, after=after.active, at_millis=at
        )
    if before.bet_config != after.bet_config:
        limits = before.bet_config, after.bet_config
        yield LimitsChanged(game_id=game_id, instance_id=after.id, before=limits[0], after=limits[1], at_millis=at)
    if any(_differing(before, after)):
        yield InstanceDetailsChanged(game_id=game_id, instance_id=after.id, before=before, after=after, at_millis=at)


def _differing(before: WireModel, after: WireModel) -> Iterator[str]:
    """Yield the names of the details that differ, fields that the models do not know included."""
    for name in type(after).model_fields:
        if name not in _NO_DETAILS and getattr(before, name) != getattr(after, name):
            yield name
    unknown = before.model_extra or {}, after.model_extra or {}
    for name in sorted({*unknown[0], *unknown[1]}):
        if name not in unknown[0] or name not in unknown[1] or unknown[0][name] != unknown[1][name]:
            yield name


def _members_of(model: WireModel, names: Iterable[str]) -> dict[str, object]:
    members = model.model_dump()
    return {name: members[name] for name in names if name in members}


def plain(value: object) -> object:
    """Return *value* as plain values: a model as a dictionary of its fields, amounts as ``Decimal``."""
    return value.model_dump() if isinstance(value, WireModel) else value
