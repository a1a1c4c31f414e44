"""
The state of a catalogue: the last good list of games, and the instances that are gone. Pure.

A fetch turns a state into the next one. The state is written as one JSON document, in which every amount is exact.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final, Literal

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


def encode_state(state: CatalogueState) -> bytes:
    """Return *state* as the bytes of its document."""
    return state.model_dump_json().encode()


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
