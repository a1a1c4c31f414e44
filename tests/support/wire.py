"""Samples of the wire, written down from the specification, for tests to bend."""

import copy
import json
import pickle
import re
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings, strategies
from pydantic import BaseModel, ValidationError

from game_operator.models import GrantAccepted, GrantRequest
from game_operator.protocol.http import HttpReply, joined_headers
from game_operator.protocol.operations import Operation, grant_free_bet

#: Whatever a JSON object holds.
JsonObject = dict[str, Any]

T = TypeVar("T", bound=Callable[..., object])

_HOLE = "<here>"


def examples(count: int) -> Callable[[T], T]:
    """Try a property with *count* examples for the 100 of a usual run, more in a profile that asks for more."""
    count = max(1, count * settings().max_examples // 100)
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def bet(status: str = "OPEN", **changes: Any) -> JsonObject:
    """Return a bet with every field of spec §2.4."""
    fields = {
        "status": status,
        "reference_id": "bet-1",
        "player_id": "player-1",
        "round_id": "round-1",
        "instance_id": "instance-1",
        "game": "crash",
        "wager": 500,
        "timestamp": 1_700_000_000_123,
    }
    won = {"won": 1250} if status == "CLOSED" else {}
    return fields | won | changes


def round_of(*bets: JsonObject, **changes: Any) -> JsonObject:
    """Return a round with every field of spec §2.8."""
    fields = {"status": "OK", "round_id": "round-1", "round_no": 12, "instance_id": "instance-1", "game": "crash"}
    return fields | {"bets": list(bets)} | changes


def bet_config(**changes: Any) -> JsonObject:
    """Return betting limits with every field of spec §2.7."""
    fields = {"min_wager": 0.1, "max_wager": 100, "default_wager": 1, "currency": "EUR", "max_win": 10000}
    return fields | changes


def game_instance(**changes: Any) -> JsonObject:
    """Return a game instance with every field of spec §2.6."""
    return {"id": "instance-1", "name": "Crash EUR", "active": True, "bet_config": bet_config()} | changes


def game(**changes: Any) -> JsonObject:
    """Return a game with every field of spec §2.5."""
    fields = {
        "id": "crash",
        "name": "Crash",
        "status": "ACTIVE",
        "thumbnail_url": "https://cdn.example/crash.png",
        "provider_name": "Example Games",
        "rtp": 96.5,
        "genre": "Crash",
        "instances": [game_instance()],
    }
    return fields | changes


def granted(**changes: Any) -> JsonObject:
    """Return the success body of spec §2.3."""
    return {"success": True, "free_bet_id": "free-bet-1", "message": "Free bets granted"} | changes


def grant_request(**changes: Any) -> JsonObject:
    """Return a grant request with every field of spec §2.2, all within the limits of spec §8."""
    fields = {
        "player_id": "player-1",
        "instance_id": "instance-1",
        "count": 5,
        "wager_amount_cents": 100,
        "expire_duration_millis": 86_400_000,
        "reference_id": "welcome-7",
    }
    return fields | changes


def grant_operation(**changes: Any) -> Operation[GrantAccepted]:
    """Return the call that makes the grant of ``grant_request``; what does not fit is left to it to refuse."""
    return grant_free_bet(GrantRequest.model_construct(**grant_request(**changes)))


def hole() -> str:
    """Return a value whose place ``wire`` fills with raw JSON text."""
    return _HOLE


def wire(value: object, filling: str = "") -> bytes:
    """Return *value* as JSON, each hole replaced by *filling* as it stands."""
    return json.dumps(value, ensure_ascii=False).replace(f'"{_HOLE}"', filling).encode()


def response(status: int, body: object = b"", *headers: tuple[bytes, bytes], defect: str = "") -> HttpReply:
    """Return a response; a *body* that is not bytes is written as JSON."""
    content = body if isinstance(body, bytes) else wire(body)
    return HttpReply(status, joined_headers(headers), content, defect)


#: Every way to write a JSON number with up to 25 digits on each side of the point and an exponent of up to 3 digits.
NUMBER_TEXT = strategies.from_regex(
    re.compile(r"-?(?:0|[1-9][0-9]{0,24})(?:\.[0-9]{1,25})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII), fullmatch=True
)
#: The same, as money is usually written.
PLAIN_NUMBER_TEXT = strategies.from_regex(
    re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,4})?", re.ASCII), fullmatch=True
)
#: Text of any letters that UTF-8 can carry.
TEXT = strategies.text(strategies.characters(exclude_categories=["Cs"]), max_size=40)
#: What a field may hold on the wire, whatever it is.
JSON_VALUES = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers(-(10**20), 10**20)
    | strategies.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def assert_is_a_value(model: BaseModel) -> None:
    """Assert that *model* is frozen, hashable, equal to its copies, and travels between processes."""
    field = next(iter(type(model).model_fields))
    for name in (field, "something_new"):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(model, name, "changed")
    with pytest.raises(ValidationError, match="frozen"):
        delattr(model, field)
    twins = [pickle.loads(pickle.dumps(model, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for twin in (*twins, copy.copy(model), copy.deepcopy(model), model.model_copy()):
        assert type(twin) is type(model)
        assert twin == model
        assert hash(twin) == hash(model)
        assert repr(twin) == repr(model)
        assert twin.model_extra == model.model_extra
    assert len({model, *twins}) == 1
