"""The catalogue: games, their instances and betting limits (spec §2.5 to §2.7)."""

from typing import Annotated, ClassVar

from pydantic import FailFast, Field

from game_operator.codes import GameStatus, Genre
from game_operator.models.wire import Amount, Flag, Text, WireModel


class BetConfig(WireModel, frozen=True):
    """
    The betting limits of a game instance (spec §2.7).

    All amounts are exact ``Decimal`` currency units, not cents.
    """

    min_wager: Amount
    max_wager: Amount
    default_wager: Amount
    currency: Text
    max_win: Amount


class GameInstance(WireModel, frozen=True):
    """A game as configured for the operator (spec §2.6)."""

    nested: ClassVar[str] = "bet_config"

    id: Text
    name: Text
    active: Flag
    bet_config: BetConfig


class GameInfo(WireModel, frozen=True):
    """
    A game of the catalogue (spec §2.5).

    A ``status`` or ``genre`` that this version does not know arrives as plain ``str``. ``rtp`` is the
    return-to-player percentage, exact.
    """

    nested: ClassVar[str] = "instances"

    id: Text
    name: Text
    status: Annotated[GameStatus | str, Field(union_mode="left_to_right")]
    thumbnail_url: Text | None = None
    provider_name: Text
    rtp: Amount | None = None
    genre: Annotated[Genre | str, Field(union_mode="left_to_right")]
    instances: Annotated[tuple[GameInstance, ...], FailFast()]
