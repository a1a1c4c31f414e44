"""
The state of a catalogue: the last good list of games, a held one, and the instances that are gone. Pure.

A fetch turns a state into the next one. The state is written as one JSON document, in which every amount is exact.
"""

import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from game_operator.errors import ApiError, ConfigurationError, shown
from game_operator.models import GameInfo, GameInstance

_FORMAT: Final = 1
#: Some hundred times the instances of a large operator. What is longer is rather a fault of the service.
_MOST_INSTANCES: Final = 100_000
_DIGEST_LENGTH: Final = 12
_LONGEST_SHOWN: Final = 100
_GAMES: Final = TypeAdapter(tuple[GameInfo, ...], config=ConfigDict(defer_build=True))


class _Value(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="constants"):
    """A frozen part of the document."""


class Snapshot(_Value, frozen=True):
    """
    A list of games, as the service answered it.

    Attributes:
        games: The games with their instances.
        at_millis: When it was fetched, in Unix milliseconds.
    """

    games: tuple[GameInfo, ...]
    at_millis: int

    @cached_property
    def instances(self) -> Mapping[str, tuple[str, GameInstance]]:
        """Each instance with its game's id, by its id."""
        return {each.id: (game.id, each) for game in self.games for each in game.instances}


class HeldSnapshot(Snapshot, frozen=True):
    """
    A list of games that waits for a person.

    Attributes:
        reason: Why it is held, as a sentence.
        digest: Names its content; a person accepts what has this digest.
    """

    reason: str
    digest: str


class GoneInstance(_Value, frozen=True):
    """
    An instance that was seen, and is listed no more.

    Attributes:
        game_id: Its game.
        instance: What was last known of it, switched off.
    """

    game_id: str
    instance: GameInstance


class CatalogueState(_Value, frozen=True):
    """
    All that a catalogue knows.

    Attributes:
        format: The version of the document.
        service: Whose games they are: the service's address and the operator's id.
        current: The last good list; None until there is one.
        held: A list that waits for a person.
        gone: The instances that are no longer listed, by id.
    """

    format: Literal[1] = _FORMAT
    service: str
    current: Snapshot | None = None
    held: HeldSnapshot | None = None
    gone: dict[str, GoneInstance] = {}

    @property
    def games(self) -> tuple[GameInfo, ...]:
        """The games of the last good list."""
        return self.current.games if self.current else ()


def checked(games: Sequence[GameInfo]) -> tuple[GameInfo, ...]:
    """
    Return *games*, in which each id stands once (spec §2.5, §2.6).

    Raises:
        ApiError: A game or an instance stands twice: which of the two counts, nobody can say.
    """
    seen_games, seen_instances = set[str](), set[str]()
    for game in games:
        if game.id in seen_games:
            raise _ambiguous("game", game.id)
        seen_games.add(game.id)
        for instance in game.instances:
            if instance.id in seen_instances:
                raise _ambiguous("instance", instance.id)
            seen_instances.add(instance.id)
    return tuple(games)


def _ambiguous(what: str, its_id: str) -> ApiError:
    message = f"the list of games has two entries for the {what} {its_id[:_LONGEST_SHOWN]}"
    detail = "Ids are unique (spec §2.5, §2.6), so nothing of this list is used. Report it to the provider."
    return ApiError(message, status_code=200, detail=detail, attempts=1)


def after_fetch(
    state: CatalogueState, games: Sequence[GameInfo], *, at_millis: int, most_gone: Decimal
) -> CatalogueState:
    """
    Return the state after the service has answered *games*: applied, or held where too much would disappear.

    Raises:
        ApiError: An id stands twice in *games*.
    """
    fetched = Snapshot(games=checked(games), at_millis=at_millis)
    reason = _why_held(state.current, fetched, most_gone)
    if not reason:
        return _applied(state, fetched)
    digest = hashlib.sha256(_GAMES.dump_json(fetched.games)).hexdigest()[:_DIGEST_LENGTH]
    if state.held is not None and state.held.digest == digest:
        return state  # It has been waiting since it was first seen.
    held = HeldSnapshot(games=fetched.games, at_millis=at_millis, reason=reason, digest=digest)
    return state.model_copy(update={"held": held})


def after_acceptance(state: CatalogueState, digest: str | None) -> CatalogueState:
    """
    Return the state after a person has accepted the held list.

    Raises:
        ConfigurationError: No list is held, or one with another digest.
    """
    held = state.held
    if held is None:
        raise ConfigurationError("No list of games is held, so there is nothing to accept.", setting="accept_held")
    if digest is not None and digest != held.digest:
        raise ConfigurationError(
            f"The list that is held is {held.digest}, not {shown(digest)}. Check the digest. If the service has "
            "answered another list since, look at that one before you accept it.",
            setting="accept_held",
        )
    return _applied(state, Snapshot(games=held.games, at_millis=held.at_millis))


def _applied(state: CatalogueState, fetched: Snapshot) -> CatalogueState:
    gone = dict(state.gone)
    for its_id, (game_id, instance) in (state.current.instances if state.current else {}).items():
        gone[its_id] = GoneInstance(game_id=game_id, instance=instance.model_copy(update={"active": False}))
    left = {its_id: each for its_id, each in gone.items() if its_id not in fetched.instances}
    return state.model_copy(update={"current": fetched, "held": None, "gone": left})


def _why_held(current: Snapshot | None, fetched: Snapshot, most_gone: Decimal) -> str:
    """Return why *fetched* must wait for a person, or ""."""
    if len(fetched.games) > _MOST_INSTANCES or len(fetched.instances) > _MOST_INSTANCES:
        return f"It lists more than {_MOST_INSTANCES} games or instances."
    # Without instances every call would be refused for good, so the first list is held, too.
    if not fetched.instances and (current is None or current.instances):
        return "It lists no instance at all."
    if current is None:
        return ""
    games = {game.id for game in current.games}, {game.id for game in fetched.games}
    for what, before, after in (("games", *games), ("instances", set(current.instances), set(fetched.instances))):
        gone = len(before - after)
        if gone > most_gone * len(before):
            return f"{gone} of {len(before)} {what} would be gone, more than {_percent(most_gone)} %."
    return ""


def _percent(share: Decimal) -> str:
    text = f"{share * 100:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def encode_state(state: CatalogueState) -> bytes:
    """Return *state* as the bytes of its document."""
    return state.model_dump_json().encode()


def decode_state(body: bytes | None, *, service: str, place: str) -> CatalogueState:
    """
    Return the state in *body*; None is a catalogue that has seen nothing yet.

    Args:
        body: What ``encode_state`` made.
        service: Whose games they must be.
        place: Where *body* comes from, for errors.

    Raises:
        ConfigurationError: The document is damaged, of a later version, or another service's.
    """
    if body is None:
        return CatalogueState(service=service)
    try:
        state = CatalogueState.model_validate_json(body)
        if state.current is not None:
            checked(state.current.games)
    except (ValidationError, ApiError) as damaged:
        problem = damaged.errors(include_url=False)[0]["msg"] if isinstance(damaged, ValidationError) else damaged.what
        raise ConfigurationError(
            f"{place} holds no catalogue that this version can read: {shown(problem)[1:-1]}. Restore it from a copy. "
            "If you delete it instead, the instances of games that are gone are forgotten, and late calls for them "
            "are refused.",
            setting="store",
        ) from None
    if state.service != service:
        raise ConfigurationError(
            f"{place} holds the games of {shown(state.service)}, not of {shown(service)}. Pass another store; or, if "
            'the service has only moved, change the member "service" in it.',
            setting="store",
        )
    return state
