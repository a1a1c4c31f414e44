"""Free-bet grants: the limits, the answer, the refusal (spec §2.2, §2.3, §7.2, §8)."""

from typing import Annotated, Literal

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from game_operator.codes import GrantErrorCode
from game_operator.models.wire import MAX_WHOLE, Text, WholeNumber, WireModel

MAX_COUNT = 50
MAX_WAGER_AMOUNT_CENTS = 1_000_000
MAX_EXPIRE_DURATION_MILLIS = 2_592_000_000
MAX_ID_CHARACTERS = 100


def _boolean(value: object) -> object:
    # pydantic's Literal[True] takes 1 and 1.0 as well.
    if isinstance(value, bool):
        return value
    raise PydanticCustomError("boolean", "must be true or false")


class GrantAccepted(WireModel, frozen=True):
    """The free bets were granted (spec §2.3); ``free_bet_id`` identifies the grant."""

    success: Annotated[Literal[True], BeforeValidator(_boolean)]
    free_bet_id: Text
    message: Text


class GrantRefused(WireModel, frozen=True):
    """The body with which the service refuses a grant (spec §2.3)."""

    success: Annotated[Literal[False], BeforeValidator(_boolean)]
    message: Text
    error_code: Text


# Any size is read, so that the limits below, not the reader, say what is wrong with a number.
_AnyWhole = Annotated[int, WholeNumber(-MAX_WHOLE, MAX_WHOLE)]


class GrantRequest(WireModel, frozen=True):
    """What the operator asks for (spec §2.2): *count* free bets of *wager_amount_cents* each."""

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
