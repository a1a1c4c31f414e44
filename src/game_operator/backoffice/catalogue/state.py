"""
The state of a catalogue: the last good list of games, and the instances that are gone. Pure.

A fetch turns a state into the next one. The state is written as one JSON document, in which every amount is exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError

from game_operator.errors import ApiError, ConfigurationError, shown
from game_operator.models import GameInfo, GameInstance

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


def check_games(games: Sequence[GameInfo]) -> None:
    """
    Check that a list of games can be right: it has an instance, and each id once (spec §2.5, §2.6).

    Raises:
        ApiError: It has no instance at all, or a game or an instance stands twice.
    """
    if not any(game.instances for game in games):
        detail = "Nothing of it is used, because every call would be refused on its word. Ask the provider."
        raise ApiError("the list of games has no instance at all", status_code=200, detail=detail, attempts=1)
    _check_ids(games)


def _check_ids(games: Sequence[GameInfo]) -> None:
    seen = set[tuple[str, str]]()
    for game in games:
        for each in (("game", game.id), *(("instance", instance.id) for instance in game.instances)):
            if each in seen:
                what, its_id = each
                message = f"the list of games has two entries for the {what} {its_id[:_LONGEST_SHOWN]}"
                detail = "Ids are unique (spec §2.5, §2.6), so nothing of this list is used. Report it to the provider."
                raise ApiError(message, status_code=200, detail=detail, attempts=1)
            seen.add(each)


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
        _check_ids(state.games)
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


class ChangeKind(StrEnum):
    """What changed, and what stands before and after it."""

    GAME_ADDED = "game_added"
    """The service lists a game that it did not list before: None, the GameInfo with its instances."""
    GAME_GONE = "game_gone"
    """The service lists a game no more, whose instances stay accepted: the GameInfo, None."""
    GAME_CHANGED = "game_changed"
    """Something about a game differs that is not about its instances, such as its status: both GameInfo."""
    INSTANCE_ADDED = "instance_added"
    """A game that was listed before has one more instance: None, the GameInstance."""
    INSTANCE_GONE = "instance_gone"
    """A game that is still listed has an instance no more, which stays accepted: the GameInstance, None."""
    INSTANCE_CHANGED = "instance_changed"
    """Something about an instance differs, such as its limits or whether it is active: both GameInstance."""


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
    if before.model_copy(update={"instances": after.instances}) != after:
        yield change(kind=ChangeKind.GAME_CHANGED, before=before, after=after)
    earlier, later = ({each.id: each for each in game.instances} for game in (before, after))
    for gone in (each for each in before.instances if each.id not in later):
        yield change(kind=ChangeKind.INSTANCE_GONE, instance_id=gone.id, before=gone)
    for instance in after.instances:
        known = earlier.get(instance.id)
        if known is None:
            yield change(kind=ChangeKind.INSTANCE_ADDED, instance_id=instance.id, after=instance)
        elif known != instance:
            yield change(kind=ChangeKind.INSTANCE_CHANGED, instance_id=instance.id, before=known, after=instance)
