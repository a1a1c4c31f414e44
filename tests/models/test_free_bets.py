"""Free-bet grants: request, answers, limits and their order (spec §2.2, §2.3, §7.2, §8)."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from game_operator.codes import GrantErrorCode
from game_operator.models import GrantAccepted, GrantRequest
from game_operator.models.operator_api import refusal_of
from game_operator.models.wire import decode
from game_operator.models.wire_format import WireFormatError
from tests.support.wire import JsonObject, assert_is_a_value, grant_request, granted, wire

# Any: the adapters of several models in one table.
REQUEST: TypeAdapter[Any] = TypeAdapter(GrantRequest)
ACCEPTED: TypeAdapter[Any] = TypeAdapter(GrantAccepted)

WORD_JOINER = "\u2060"

#: Every rule that needs no knowledge of the service, in the order of spec §7.2: a value that breaks it.
BREAKING: list[tuple[JsonObject, GrantErrorCode]] = [
    ({"count": 0}, GrantErrorCode.INVALID_COUNT),
    ({"count": 51}, GrantErrorCode.COUNT_TOO_HIGH),
    ({"wager_amount_cents": 0}, GrantErrorCode.INVALID_WAGER_AMOUNT),
    ({"wager_amount_cents": 1_000_001}, GrantErrorCode.WAGER_AMOUNT_TOO_HIGH),
    ({"expire_duration_millis": 0}, GrantErrorCode.INVALID_EXPIRE_DURATION),
    ({"expire_duration_millis": 2_592_000_001}, GrantErrorCode.EXPIRE_DURATION_TOO_LONG),
    ({"player_id": ""}, GrantErrorCode.EMPTY_PLAYER_ID),
    ({"player_id": "p" * 101}, GrantErrorCode.PLAYER_ID_TOO_LONG),
    ({"reference_id": ""}, GrantErrorCode.EMPTY_REFERENCE_ID),
    ({"reference_id": "r" * 101}, GrantErrorCode.REFERENCE_ID_TOO_LONG),
]


def _refusal(**changes: Any) -> GrantErrorCode | None:
    return refusal_of(GrantRequest(**grant_request(**changes)))


def test_all_fields_of_a_request() -> None:
    """A grant request has these six fields, all required (spec §2.2)."""
    assert list(GrantRequest.model_fields) == list(grant_request())
    assert decode(REQUEST, wire(grant_request())).model_dump() == grant_request()
    for field in grant_request():
        absent = {name: value for name, value in grant_request().items() if name != field}
        with pytest.raises(WireFormatError, match=rf"^{field}: Field required$"):
            decode(REQUEST, wire(absent))


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 5.5},
        {"count": True},
        {"count": None},
        {"wager_amount_cents": "100"},
        {"expire_duration_millis": 0.5},
        {"player_id": None},
        {"reference_id": ["r"]},
        {"instance_id": False},
    ],
    ids=str,
)
def test_fields_of_a_request_have_their_types(changes: JsonObject) -> None:
    """Strings are strings and numbers are whole numbers (spec §2.2)."""
    (field,) = changes
    with pytest.raises(WireFormatError, match=rf"^{field}: .*, not "):
        decode(REQUEST, wire(grant_request(**changes)))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"count": 1}, id="the smallest count"),
        pytest.param({"count": 50}, id="the largest count"),
        pytest.param({"wager_amount_cents": 1}, id="one cent"),
        pytest.param({"wager_amount_cents": 1_000_000}, id="10,000 units"),
        pytest.param({"expire_duration_millis": 1}, id="one millisecond"),
        pytest.param({"expire_duration_millis": 2_592_000_000}, id="30 days"),
        pytest.param({"player_id": "p" * 100}, id="a player of 100 letters"),
        pytest.param({"player_id": "🎲" * 100}, id="100 letters beyond the basic plane"),
        pytest.param({"reference_id": "r" * 100}, id="a reference of 100 letters"),
        pytest.param({"reference_id": " r "}, id="white space around a letter"),
        pytest.param({"player_id": WORD_JOINER}, id="no white space by Unicode's table"),
        pytest.param({"instance_id": ""}, id="an instance id is the service's to judge"),
    ],
)
def test_within_the_limits(changes: JsonObject) -> None:
    """Everything up to each limit is granted; characters are Unicode code points (spec §2.2, §8)."""
    assert _refusal(**changes) is None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        *BREAKING,
        ({"count": -1}, GrantErrorCode.INVALID_COUNT),
        ({"wager_amount_cents": -1}, GrantErrorCode.INVALID_WAGER_AMOUNT),
        ({"expire_duration_millis": -1}, GrantErrorCode.INVALID_EXPIRE_DURATION),
        ({"player_id": "\t\r\n\u00a0\u2003\u3000"}, GrantErrorCode.EMPTY_PLAYER_ID),
        ({"player_id": " " * 101}, GrantErrorCode.EMPTY_PLAYER_ID),
        ({"player_id": "p" * 100 + " "}, GrantErrorCode.PLAYER_ID_TOO_LONG),
        ({"player_id": "🎲" * 101}, GrantErrorCode.PLAYER_ID_TOO_LONG),
        ({"reference_id": "\n"}, GrantErrorCode.EMPTY_REFERENCE_ID),
        ({"reference_id": " " * 101}, GrantErrorCode.EMPTY_REFERENCE_ID),
        ({"reference_id": "é" * 101}, GrantErrorCode.REFERENCE_ID_TOO_LONG),
    ],
)
def test_beyond_the_limits(changes: JsonObject, code: GrantErrorCode) -> None:
    """One beyond each limit is refused with its code; white space alone counts as empty (spec §2.2, §7.2, §8)."""
    assert _refusal(**changes) is code


@pytest.mark.parametrize("first", range(len(BREAKING)), ids=lambda index: BREAKING[index][1])
def test_the_first_broken_rule_is_named(first: int) -> None:
    """When several rules are broken, the code is the first in the order of the table (spec §7.2)."""
    broken: JsonObject = {}
    for changes, _ in reversed(BREAKING[first:]):
        broken |= changes
    assert _refusal(**broken) is BREAKING[first][1]


def test_accepted() -> None:
    """A success says true, identifies the grant, and has a message (spec §2.3)."""
    found = decode(ACCEPTED, wire(granted()))
    assert list(GrantAccepted.model_fields) == ["success", "free_bet_id", "message"]
    assert found.success is True
    assert (found.free_bet_id, found.message) == ("free-bet-1", "Free bets granted")


_NO_TRUTH: list[object] = [False, None, 1, 1.0, "true", 0, [], "absent"]
_NO_TEXT: list[object] = [None, 5, [], "absent"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (name, value)
        for name in ("success", "free_bet_id", "message")
        for value in (_NO_TRUTH if name == "success" else _NO_TEXT)
    ],
)
def test_a_success_says_true_and_names_its_grant(field: str, value: object) -> None:
    """Anything but the boolean true is no success: 1 and "true" might mean something else (spec §2.3)."""
    document = granted(**{field: value})
    if value == "absent":
        del document[field]
    with pytest.raises(WireFormatError, match=rf"^{field}: "):
        decode(ACCEPTED, wire(document))


def test_unknown_fields_are_kept() -> None:
    """What a later version adds is in model_extra (spec §2.3, §9)."""
    assert decode(ACCEPTED, wire(granted(expires_at=1))).model_extra == {"expires_at": 1}


def test_grants_are_values() -> None:
    """Grants are frozen, hashable and comparable, and travel between processes (spec §2.2, §2.3)."""
    assert_is_a_value(decode(ACCEPTED, wire(granted(more={"a": [1]}))))
    assert_is_a_value(decode(REQUEST, wire(grant_request())))
