"""The bets of a round, as a union tagged by ``status`` (spec §2.8)."""

from typing import Annotated, ClassVar, Literal

from pydantic import FailFast, Field

from game_operator.models._base import Text, WholeNumber, WireModel
from game_operator.models.bets import Bet

__all__ = ["RoundFound", "RoundLookup", "RoundNotFound"]

_LARGEST_ROUND_NO = 2**63 - 1


class RoundFound(WireModel, frozen=True):
    """
    A round with all its bets, which may be none (spec §2.8).

    ``round_no`` is the number shown to the player.
    """

    nested: ClassVar[str] = "bets"

    status: Literal["OK"] = "OK"
    round_id: Text
    round_no: Annotated[int, WholeNumber(-_LARGEST_ROUND_NO - 1, _LARGEST_ROUND_NO)]
    instance_id: Text
    game: Text
    bets: Annotated[tuple[Bet, ...], FailFast()]


class RoundNotFound(WireModel, frozen=True):
    """No such round, another instance's, or older than 90 days (spec §2.8, §4.2)."""

    status: Literal["NOT_FOUND"] = "NOT_FOUND"


#: What a round look-up answers with HTTP 200.
RoundLookup = Annotated[RoundFound | RoundNotFound, Field(discriminator="status")]
