"""What reads the answers of the Operator API (spec §4.2): an adapter of pydantic for each endpoint."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, Final

from pydantic import FailFast, TypeAdapter

from game_operator.models.operator_api import BetLookup, GameInfo, GrantAccepted, RoundLookup
from game_operator.models.wire import WireModel, decode


# Names of fields repeat and are shared; ids do not, and looking each up would take a tenth of the reading.
class _Catalogue(WireModel, frozen=True, cache_strings="keys"):
    nested: ClassVar[str] = "games"

    # Without FailFast, pydantic would describe every fault of a body that is wrong a million times.
    games: Annotated[list[GameInfo], FailFast()]


def _games_reader() -> Callable[[bytes], list[GameInfo]]:
    _Catalogue.model_rebuild()  # An adapter that builds it by itself forgets cache_strings.
    adapter = TypeAdapter(_Catalogue)
    return lambda body: decode(adapter, body).games


#: What each endpoint answers with HTTP 200.
_ANSWERS: Final[dict[str, Any]] = {
    "fetch-bet": BetLookup,
    "fetch-round-bets": RoundLookup,
    "free-bet/grant": GrantAccepted,
}


def reader_of(endpoint: str) -> Callable[[bytes], Any]:
    """
    Return what reads the body of a 200 of *endpoint*, built anew: 3 ms, and 20 for the first.

    It raises a ``WireFormatError`` for a body that does not fit.
    """
    if endpoint == "fetch-games":
        return _games_reader()
    return partial(decode, TypeAdapter(_ANSWERS[endpoint]))
