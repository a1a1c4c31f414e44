"""What the Operator API answers (spec §2), and what reads it: the catalogue, bets and rounds, and free-bet grants."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, FailFast, Field, TypeAdapter
from pydantic_core import PydanticCustomError

from game_operator.codes import GameStatus, Genre, GrantErrorCode
from game_operator.models.wire import (
    KNOWN_TEXT,
    Amount,
    CentsField,
    Flag,
    MillisField,
    Text,
    WireModel,
    decode,
    whole_number,
)
from game_operator.models.wire_format import MAX_WHOLE
from game_operator.money import amount_from_cents

#: The limits of a grant (spec §8).
MAX_COUNT = 50
MAX_WAGER_AMOUNT_CENTS = 1_000_000
MAX_EXPIRE_DURATION_MILLIS = 2_592_000_000
MAX_ID_CHARACTERS = 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST_ROUND_NO = 2**63 - 1


class BetConfig(WireModel, frozen=True):
    """
    The betting limits of a game instance (spec §2.7).

    All amounts are exact ``Decimal`` currency units, not cents.

    Attributes:
        min_wager: The smallest bet, in currency units.
        max_wager: The largest bet, in currency units.
        default_wager: The bet that the game proposes, in currency units.
        currency: The currency code, such as ``EUR``.
        max_win: The most that one bet can win, in currency units.
    """

    min_wager: Amount
    max_wager: Amount
    default_wager: Amount
    currency: Text
    max_win: Amount


class GameInstance(WireModel, frozen=True):
    """
    A game as configured for the operator (spec §2.6).

    Attributes:
        id: The unique instance id, which webhooks and grants name.
        name: The name to display.
        active: Whether the instance is switched on.
        bet_config: The betting limits.
    """

    nested: ClassVar[str] = "bet_config"

    id: Text
    name: Text
    active: Flag
    bet_config: BetConfig


class GameInfo(WireModel, frozen=True):
    """
    A game of the catalogue (spec §2.5).

    Attributes:
        id: The unique game id.
        name: The name to display.
        status: A ``GameStatus``; plain ``str`` when this version does not know the value.
        thumbnail_url: The address of the thumbnail image, or None.
        provider_name: Who makes the game.
        rtp: The return to player in percent, exact, or None.
        genre: A ``Genre``; plain ``str`` when this version does not know the value.
        instances: The instances of this game for the operator.
    """

    nested: ClassVar[str] = "instances"

    id: Text
    name: Text
    status: Annotated[GameStatus | str, Field(union_mode="left_to_right"), KNOWN_TEXT]
    thumbnail_url: Text | None = None
    provider_name: Text
    rtp: Amount | None = None
    genre: Annotated[Genre | str, Field(union_mode="left_to_right"), KNOWN_TEXT]
    instances: Annotated[tuple[GameInstance, ...], FailFast()]


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
    """
    A bet that is not settled yet (spec §2.4).

    Attributes:
        status: ``OPEN``.
        reference_id: The bet's unique id, the ``bet_id`` of webhooks.
        player_id: Who placed the bet.
        round_id: The round of the game.
        instance_id: The game instance.
        game: The game id.
        wager: The stake in cents.
        timestamp: When the bet was placed, in Unix milliseconds.
    """

    status: Literal["OPEN"] = "OPEN"


class ClosedBet(_PlacedBet, frozen=True):
    """
    A settled bet (spec §2.4).

    Attributes:
        status: ``CLOSED``.
        won: The payout in cents; 0 is a loss.
        reference_id, player_id, round_id, instance_id, game, wager, timestamp: As for an OpenBet.
    """

    status: Literal["CLOSED"] = "CLOSED"
    won: CentsField

    @property
    def won_amount(self) -> Decimal:
        """The payout in currency units, with two decimals."""
        return amount_from_cents(self.won)


class RolledBackBet(_PlacedBet, frozen=True):
    """
    A bet that was cancelled before it started (spec §2.4, §3).

    Attributes:
        status: ``ROLLED_BACK``.
        reference_id, player_id, round_id, instance_id, game, wager, timestamp: As for an OpenBet.
    """

    status: Literal["ROLLED_BACK"] = "ROLLED_BACK"


class BetNotFound(WireModel, frozen=True):
    """
    The service knows no such bet, or it is older than 90 days (spec §2.4, §4.2).

    Attributes:
        status: ``NOT_FOUND``.
    """

    status: Literal["NOT_FOUND"] = "NOT_FOUND"


Bet = Annotated[OpenBet | ClosedBet | RolledBackBet, Field(discriminator="status")]
"""A bet that exists, for pydantic: the class follows from ``status`` (spec §2.4)."""
AnyBet = OpenBet | ClosedBet | RolledBackBet | BetNotFound
"""What ``fetch_bet`` returns (spec §2.4)."""
BetLookup = Annotated[AnyBet, Field(discriminator="status")]
"""The same, for pydantic: the class follows from ``status``."""


class RoundFound(WireModel, frozen=True):
    """
    A round with all its bets, which may be none (spec §2.8).

    Attributes:
        status: ``OK``.
        round_id: The round.
        round_no: The number that is shown to the player.
        instance_id: The game instance.
        game: The game id.
        bets: All bets of the round, each an OpenBet, a ClosedBet or a RolledBackBet.
    """

    nested: ClassVar[str] = "bets"

    status: Literal["OK"] = "OK"
    round_id: Text
    round_no: Annotated[int, whole_number(-_LARGEST_ROUND_NO - 1, _LARGEST_ROUND_NO)]
    instance_id: Text
    game: Text
    bets: Annotated[tuple[Bet, ...], FailFast()]


class RoundNotFound(WireModel, frozen=True):
    """
    No such round, another instance's, or older than 90 days (spec §2.8, §4.2).

    Attributes:
        status: ``NOT_FOUND``.
    """

    status: Literal["NOT_FOUND"] = "NOT_FOUND"


AnyRound = RoundFound | RoundNotFound
"""What ``fetch_round_bets`` returns: the answers with HTTP 200 (spec §2.8)."""
RoundLookup = Annotated[AnyRound, Field(discriminator="status")]
"""The same, for pydantic: the class follows from ``status``."""


def _boolean(value: object) -> object:
    # pydantic's Literal[True] takes 1 and 1.0 as well.
    if isinstance(value, bool):
        return value
    raise PydanticCustomError("boolean", "must be true or false")


class GrantAccepted(WireModel, frozen=True):
    """
    The free bets were granted (spec §2.3).

    Attributes:
        success: True.
        free_bet_id: Identifies the grant.
        message: The service's text.
    """

    success: Annotated[Literal[True], BeforeValidator(_boolean)]
    free_bet_id: Text
    message: Text


# Any size is read, so that the limits below, not the reader, say what is wrong with a number.
_AnyWhole = Annotated[int, whole_number(-MAX_WHOLE, MAX_WHOLE)]


class GrantRequest(WireModel, frozen=True):
    """
    What the operator asks for (spec §2.2): *count* free bets of *wager_amount_cents* each.

    Attributes:
        player_id: Who gets them; at most 100 characters.
        instance_id: The game instance that they are for.
        count: How many, 1 to 50.
        wager_amount_cents: The stake of each, 1 to 1,000,000 cents.
        expire_duration_millis: How long they can be played, 1 to 2,592,000,000 milliseconds (30 days).
        reference_id: The operator's id of the grant, unique for the instance; at most 100 characters.
    """

    player_id: Text
    instance_id: Text
    count: _AnyWhole
    wager_amount_cents: _AnyWhole
    expire_duration_millis: _AnyWhole
    reference_id: Text


def refusal_of(grant: GrantRequest) -> GrantErrorCode | None:
    """
    Return the first limit of spec §8 that *grant* breaks, in the order of spec §7.2, or None.

    The client asks before it sends and the service before it grants, so both refuse alike. Characters are Unicode
    code points (assumed: the specification does not say). An instance id is left to the service: its format is not
    shown.
    """
    broken = (
        (grant.count < 1, GrantErrorCode.INVALID_COUNT),
        (grant.count > MAX_COUNT, GrantErrorCode.COUNT_TOO_HIGH),
        (grant.wager_amount_cents < 1, GrantErrorCode.INVALID_WAGER_AMOUNT),
        (grant.wager_amount_cents > MAX_WAGER_AMOUNT_CENTS, GrantErrorCode.WAGER_AMOUNT_TOO_HIGH),
        (grant.expire_duration_millis < 1, GrantErrorCode.INVALID_EXPIRE_DURATION),
        (grant.expire_duration_millis > MAX_EXPIRE_DURATION_MILLIS, GrantErrorCode.EXPIRE_DURATION_TOO_LONG),
        (not grant.player_id.strip(), GrantErrorCode.EMPTY_PLAYER_ID),
        (len(grant.player_id) > MAX_ID_CHARACTERS, GrantErrorCode.PLAYER_ID_TOO_LONG),
        (not grant.reference_id.strip(), GrantErrorCode.EMPTY_REFERENCE_ID),
        (len(grant.reference_id) > MAX_ID_CHARACTERS, GrantErrorCode.REFERENCE_ID_TOO_LONG),
    )
    return next((code for is_broken, code in broken if is_broken), None)


class _Catalogue(WireModel, frozen=True):
    nested: ClassVar[str] = "games"

    # Without FailFast, pydantic would describe every fault of a body that is wrong a million times.
    games: Annotated[list[GameInfo], FailFast()]


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
        catalogue = TypeAdapter(_Catalogue)
        return lambda body: decode(catalogue, body).games
    return partial(decode, TypeAdapter(_ANSWERS[endpoint]))
