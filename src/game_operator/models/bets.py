"""Bets in each of their states, and rounds of bets, as unions tagged by ``status`` (spec §2.4, §2.8)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import FailFast, Field

from game_operator.models.wire import CentsField, MillisField, Text, WholeNumber, WireModel
from game_operator.money import amount_from_cents

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _PlacedBet(WireModel, frozen=True):
    """What every bet that exists carries (spec §2.4); ``wager`` is in cents, ``timestamp`` in Unix milliseconds."""

    status: str
    reference_id: Text
    player_id: Text
    round_id: Text
    instance_id: Text
    game: Text
    wager: CentsField
    timestamp: MillisField

    @property
    def wager_amount(self) -> Decimal:
        """The wager in currency units, with two decimals."""
        return amount_from_cents(self.wager)

    @property
    def placed_at(self) -> datetime:
        """When the bet was placed, as an aware UTC datetime."""
        return _EPOCH + timedelta(milliseconds=self.timestamp)


class OpenBet(_PlacedBet, frozen=True):
    """A bet that is not settled yet (spec §2.4)."""

    status: Literal["OPEN"] = "OPEN"


class ClosedBet(_PlacedBet, frozen=True):
    """A settled bet (spec §2.4); ``won`` is the payout in cents, and 0 is a loss."""

    status: Literal["CLOSED"] = "CLOSED"
    won: CentsField

    @property
    def won_amount(self) -> Decimal:
        """The payout in currency units, with two decimals."""
        return amount_from_cents(self.won)


class RolledBackBet(_PlacedBet, frozen=True):
    """A bet that was cancelled before it started (spec §2.4, §3)."""

    status: Literal["ROLLED_BACK"] = "ROLLED_BACK"


class BetNotFound(WireModel, frozen=True):
    """The service knows no such bet, or it is older than 90 days (spec §2.4, §4.2)."""

    status: Literal["NOT_FOUND"] = "NOT_FOUND"


#: A bet that exists.
Bet = Annotated[OpenBet | ClosedBet | RolledBackBet, Field(discriminator="status")]
#: What a bet look-up answers.
BetLookup = Annotated[OpenBet | ClosedBet | RolledBackBet | BetNotFound, Field(discriminator="status")]

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
