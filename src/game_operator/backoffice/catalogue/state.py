"""
The state of a catalogue: the last good list of games, and the instances that are gone. Pure.

A fetch turns a state into the next one. The state is written as one JSON document, in which every amount is exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError

from game_operator.errors import ApiError, ConfigurationError, shown
from game_operator.models import GameInfo, GameInstance
from game_operator.models.wire import WireModel

_LONGEST_SHOWN: Final = 100


class CatalogueState(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="constants"):
    """
    All that a catalogue knows.

    Attributes:
        format: The version of the document.
        service: Whose games they are: the service's address and the operator's id.
        games: The last good list.
        at_millis: When the service answered it, in Unix milliseconds; None until there is one.
        gone: The instances that were seen and are no longer listed, as they were last known, but switched off.
    """

    format: Literal[1] = 1
    service: str
    games: tuple[GameInfo, ...] = ()
    at_millis: int | None = None
    gone: tuple[GameInstance, ...] = ()

    @cached_property
    def listed(self) -> Mapping[str, GameInstance]:
        """The instances of the last good list, by id."""
        return {each.id: each for game in self.games for each in game.instances}

    @cached_property
    def instances(self) -> Mapping[str, GameInstance]:
        """All instances ever seen, by id."""
        return {each.id: each for each in self.gone} | dict(self.listed)

    def after(self, games: Sequence[GameInfo], at_millis: int) -> "CatalogueState":
        """Return the state in which *games*, which were fetched at a time, are the last good list."""
        listed = {each.id for game in games for each in game.instances}
        gone = (each.model_copy(update={"active": False}) for each in self.instances.values() if each.id not in listed)
        return CatalogueState(service=self.service, games=tuple(games), at_millis=at_millis, gone=tuple(gone))


def check_ids(games: Sequence[GameInfo]) -> None:
    """
    Check that each id stands once in *games* (spec §2.5, §2.6).

    Raises:
        ApiError: A game or an instance stands twice: which of the two counts, nobody can say.
    """
    seen = set[tuple[str, str]]()
    for game in games:
        for each in (("game", game.id), *(("instance", instance.id) for instance in game.instances)):
            if each in seen:
                what, its_id = each
                message = f"the list of games has two entries for the {what} {its_id[:_LONGEST_SHOWN]}"
                detail = "Ids are unique (spec §2.5, §2.6), so nothing of this list is used. Report it to the provider."
                raise ApiError(message, status_code=200, detail=detail, attempts=1)
            seen.add(each)


def why_absurd(state: CatalogueState, games: Sequence[GameInfo], most_gone: Decimal) -> str:
    """Return why *games* are probably an error of the service, if more than the share *most_gone* goes; or ""."""
    instances = {each.id for game in games for each in game.instances}
    # Without instances every call would be refused for good, so an empty first list is absurd, too.
    if not instances and most_gone < 1 and (state.at_millis is None or state.listed):
        return "It lists no instance at all."
    before = {game.id for game in state.games}, set(state.listed)
    for what, earlier, later in zip(
        ("games", "instances"), before, ({game.id for game in games}, instances), strict=True
    ):
        gone = len(earlier - later)
        if gone > most_gone * len(earlier):
            return f"{gone} of {len(earlier)} {what} would be gone, more than {_percent(most_gone)} %."
    return ""


def _percent(share: Decimal) -> str:
    text = f"{share * 100:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def decode_state(body: bytes | None, *, service: str) -> CatalogueState:
    """
    Return the state in *body*, which must be that of *service*; None is a catalogue that has seen nothing yet.

    Raises:
        ConfigurationError: The document is damaged, of a later version, or another service's.
    """
    if body is None:
        return CatalogueState(service=service)
    try:
        state = CatalogueState.model_validate_json(body)
        check_ids(state.games)
    except (ValidationError, ApiError) as damaged:
        problem = damaged.errors(include_url=False)[0]["msg"] if isinstance(damaged, ValidationError) else damaged.what
        raise ConfigurationError(
            f"The catalogue of {service} in the ledger's database cannot be read: {shown(problem)[1:-1]}. Restore it "
            "from a copy. If you delete it instead, the instances of games that are gone are forgotten, and late calls "
            "for them are refused.",
            setting="store",
        ) from None
    if state.service != service:
        raise ConfigurationError(
            f"The catalogue in the ledger's database is of {shown(state.service)}, not of {shown(service)}.",
            setting="store",
        )
    return state


#: The fields whose differences have separate kinds; the others are details.
_NO_DETAILS = {"id", "status", "rtp", "instances", "active", "bet_config"}


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
    earlier, later = before.model_dump(exclude=_NO_DETAILS), after.model_dump(exclude=_NO_DETAILS)
    return _differing(earlier, later), _differing(later, earlier)


def _differing(side: dict[str, object], other: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in side.items() if name not in other or other[name] != value}


def _plain(value: object) -> object:
    """Return *value* as plain values: a model as a dictionary of its fields, amounts as ``Decimal``."""
    return value.model_dump() if isinstance(value, WireModel) else value
