"""The four calls from the operator's side: what is sent, what is signed, what is refused before sending (spec §4.2)."""

import json
import re
from decimal import Decimal
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from hypothesis import example, given, strategies

from game_operator.codes import GrantErrorCode
from game_operator.errors import BadRequestError, FreeBetRejectedError, UnexpectedResponseError
from game_operator.models import BetNotFound, OpenBet, RoundFound
from game_operator.protocol.http import HttpRequest
from game_operator.protocol.operations import (
    API_PREFIX,
    Operation,
    fetch_bet,
    fetch_games,
    fetch_round_bets,
    request_of,
)
from game_operator.protocol.signing import Signature, sign
from game_operator_testkit.sandbox.service.operator_api import Call, answer, recognise
from testkit.tests.support.world import OPERATOR_ID, SmallWorld
from tests.support.wire import (
    TEXT,
    bet,
    examples,
    grant_operation,
    granted,
    response,
    round_of,
    wire,
)
from tests.test_codes import MESSAGES

SEGMENT = re.compile(r"[A-Za-z0-9_.~-]|%[0-9A-F]{2}")
LONE_SURROGATES = strategies.tuples(TEXT, strategies.characters(categories=["Cs"]), TEXT).map("".join)


@pytest.mark.parametrize("keys", [{"round_no": 0}, {"round_id": ""}], ids=str)
def test_a_round_by_what_python_takes_for_false(keys: dict[str, Any]) -> None:
    """What is given is sent, an empty id too, which is the service's to judge (spec §4.2)."""
    assert json.loads(fetch_round_bets(instance_id="i", **keys).body) == {"instance_id": "i", **keys}


def test_every_request_carries_the_two_headers() -> None:
    """X-Operator-Id and X-Signature, after what the client adds (spec §4.2, §5)."""
    operations: list[Operation[Any]] = [fetch_games("acme"), grant_operation()]
    for operation in operations:
        request = request_of(operation, "acme", Signature.of(b"\xfb\xff\xfe"), ((b"Accept", b"application/json"),))
        assert request.headers == (
            (b"Accept", b"application/json"),
            (b"X-Operator-Id", b"acme"),
            (b"X-Signature", b"-__-"),
        )


@given(TEXT.filter(lambda bet_id: bet_id not in {"", ".", ".."}))
@example("a/b")
@example("50%")
@example("..%2f")
@example("日本")
@example("\0")
@example("a\r\nX-Evil: 1")
@example("...")
@example("a/../b")
@example("+")
@example("\U0010ffff")
@examples(200)
def test_any_bet_id_is_one_segment_and_comes_back(bet_id: str) -> None:
    """Whatever the id, it travels as one path segment, is signed raw, and arrives as itself (spec §4.2, §5)."""
    operation = fetch_bet("acme", bet_id)
    segment = operation.path.removeprefix(f"{API_PREFIX}/fetch-bet/")
    assert SEGMENT.sub("", segment) == ""
    assert operation.to_sign == b"acme:" + bet_id.encode()
    assert recognise(HttpRequest("GET", operation.path, ())) == Call("fetch-bet", bet_id)
    # The HTTP library leaves the path alone as well.
    assert httpx.URL("https://api.example.com" + operation.path).raw_path == operation.path.encode()


@pytest.mark.parametrize("bet_id", ["a/b", "50%", "..%2f", "日本", "a b", "🎲", "\0", "\n", "e\u0301"])
def test_the_service_verifies_any_id(bet_id: str, private_key: RSAPrivateKey, public_key: RSAPublicKey) -> None:
    """The service arrives at the same signed string, and looks for the very id (spec §4.2, §5)."""
    operation = fetch_bet(OPERATOR_ID, bet_id)
    request = request_of(operation, OPERATOR_ID, Signature.of(sign(private_key, operation.to_sign)))
    world = SmallWorld(public_key, placed={bet_id: OpenBet(**bet(reference_id=bet_id))})
    found = operation.parse(answer(request, world, now_millis=0))
    assert isinstance(found, OpenBet)
    assert found.reference_id == bet_id


@pytest.mark.parametrize("bet_id", ["", ".", ".."])
def test_ids_that_name_another_address_are_refused(bet_id: str) -> None:
    """HTTP software folds these into another address, so they cannot be one segment (spec §4.2)."""
    with pytest.raises(BadRequestError) as refused:
        fetch_bet("acme", bet_id)
    assert type(refused.value) is BadRequestError
    assert (refused.value.status_code, refused.value.message) == (400, "Invalid request")
    assert (refused.value.attempts, refused.value.body, refused.value.headers) == (0, b"", {})
    assert repr(bet_id) in str(refused.value)
    assert "must not be empty" in str(refused.value)


@given(LONE_SURROGATES)
@example("\ud800")
@example("a\udfff")
@examples(60)
def test_ids_that_utf_8_cannot_carry_are_refused(text: str) -> None:
    """Half a surrogate pair has no bytes, so it is refused wherever it stands, before anything is sent (spec §4.2)."""
    calls: list[tuple[str, Any]] = [
        ("bet_id", lambda: fetch_bet("acme", text)),
        ("instance_id", lambda: fetch_round_bets(instance_id=text, round_no=1)),
        ("round_id", lambda: fetch_round_bets(instance_id="i", round_id=text)),
        *(
            (name, lambda name=name: grant_operation(**{name: text}))
            for name in ("player_id", "instance_id", "reference_id")
        ),
    ]
    for name, call in calls:
        with pytest.raises(BadRequestError) as refused:
            call()
        assert type(refused.value) is BadRequestError
        assert (refused.value.status_code, refused.value.message) == (400, "Invalid request")
        assert (refused.value.attempts, refused.value.body) == (0, b"")
        assert name in refused.value.detail
        assert str(refused.value).isprintable()


NOT_WHOLE = [None, "5", True, False, 5.0, Decimal(5), b"5", [5]]


@pytest.mark.parametrize("value", NOT_WHOLE, ids=repr)
@pytest.mark.parametrize("name", ["count", "wager_amount_cents", "expire_duration_millis"])
def test_numbers_of_a_grant_are_ints(name: str, value: object) -> None:
    """True is no count, and 5.0 cents might have been meant as units (spec §2.2)."""
    with pytest.raises(TypeError, match=rf"^{name} must be an int, not {type(value).__name__} "):
        grant_operation(**{name: value})


def test_a_round_needs_an_id_or_a_number() -> None:
    """Without either the call is refused as the service would: BAD_REQUEST and its text (spec §4.2, §7.3)."""
    with pytest.raises(BadRequestError) as refused:
        fetch_round_bets(instance_id="i")
    assert type(refused.value) is BadRequestError
    assert refused.value.message == "Either round_id or round_no must be provided"
    assert (refused.value.status_code, refused.value.attempts, refused.value.body) == (400, 0, b"")


LIMITS: list[Any] = [
    pytest.param("count", 1, 0, "INVALID_COUNT", id="the least count"),
    pytest.param("count", 50, 51, "COUNT_TOO_HIGH", id="the greatest count"),
    pytest.param("wager_amount_cents", 1, 0, "INVALID_WAGER_AMOUNT", id="the least wager"),
    pytest.param("wager_amount_cents", 1_000_000, 1_000_001, "WAGER_AMOUNT_TOO_HIGH", id="the greatest wager"),
    pytest.param("expire_duration_millis", 1, 0, "INVALID_EXPIRE_DURATION", id="the least duration"),
    pytest.param(
        "expire_duration_millis", 2_592_000_000, 2_592_000_001, "EXPIRE_DURATION_TOO_LONG", id="the greatest duration"
    ),
    pytest.param("player_id", "p", "", "EMPTY_PLAYER_ID", id="no player"),
    pytest.param("player_id", "é" * 100, "é" * 101, "PLAYER_ID_TOO_LONG", id="the longest player"),
    pytest.param("reference_id", "r", "", "EMPTY_REFERENCE_ID", id="no reference"),
    pytest.param("reference_id", "🎲" * 100, "🎲" * 101, "REFERENCE_ID_TOO_LONG", id="the longest reference"),
    pytest.param("count", 50, 10**5000, "COUNT_TOO_HIGH", id="a count that Python cannot write"),
]


@pytest.mark.parametrize(("field", "fits", "breaks", "code"), LIMITS)
def test_limits_are_refused_before_sending(field: str, fits: object, breaks: object, code: str) -> None:
    """Each limit on both sides; the refusal has the service's class, code and message (spec §2.2, §7.2, §8)."""
    assert grant_operation(**{field: fits}).body
    with pytest.raises(FreeBetRejectedError) as refused:
        grant_operation(**{field: breaks})
    error = refused.value
    assert error.error_code is GrantErrorCode(code)
    assert error.message == MESSAGES[code]
    assert (error.status_code, error.attempts, error.body, error.headers) == (400, 0, b"", {})
    assert error.reference_id == (breaks if field == "reference_id" else "welcome-7")
    assert "Refused before sending" in str(error)


def test_an_instance_id_is_the_service_s_to_judge() -> None:
    """Its format is not shown, so nothing about it is refused here (spec §2.2)."""
    for instance_id in ("", " ", "x" * 10_000, "../..", "\0"):
        assert grant_operation(instance_id=instance_id).body
        assert fetch_round_bets(instance_id=instance_id, round_no=1).body


@pytest.mark.parametrize(
    ("asked", "answered", "problem"),
    [
        pytest.param({"round_id": "round-1"}, {}, None, id="by id"),
        pytest.param({"round_no": 12}, {}, None, id="by number"),
        pytest.param({"round_id": "round-1", "round_no": 7}, {}, None, id="the id counts"),
        pytest.param({"round_id": "round-1"}, {"bets": [bet(round_id="another")]}, None, id="a bet of another round"),
        pytest.param({"round_id": "Round-1"}, {}, "round_id: is 'round-1', but 'Round-1' was", id="another letter"),
        pytest.param({"round_no": 13}, {}, "round_no: is 12, but 13 was", id="another number"),
        pytest.param({"round_no": 12}, {"instance_id": "instance-2"}, "instance_id", id="another instance"),
    ],
)
def test_a_round_that_was_not_asked_for_is_refused(
    asked: dict[str, Any], answered: dict[str, Any], problem: str | None
) -> None:
    """An answer to another call is none to this one, however it got here (spec §2.8, docs/decisions/0028)."""
    parse = fetch_round_bets(instance_id="instance-1", **asked).parse
    if problem is None:
        assert isinstance(parse(response(200, round_of(**answered))), RoundFound)
        return
    with pytest.raises(UnexpectedResponseError, match=problem):
        parse(response(200, round_of(**answered)))


@pytest.mark.parametrize("status", ["OPEN", "CLOSED", "ROLLED_BACK"])
def test_a_bet_that_was_not_asked_for_is_refused(status: str) -> None:
    """Its reference_id is the bet id asked for, letter by letter (spec §2.4, docs/decisions/0028)."""
    answered = response(200, bet(status))
    assert fetch_bet("acme", "bet-1").parse(answered).status == status
    assert fetch_bet("acme", "bet-1").parse(response(200, {"status": "NOT_FOUND"})) == BetNotFound()
    for asked in ("bet-2", "BET-1", "bet-1 ", "bet"):
        with pytest.raises(UnexpectedResponseError, match=f"reference_id: is 'bet-1', but '{asked}' was asked for"):
            fetch_bet("acme", asked).parse(answered)


@pytest.mark.parametrize("status", [200, 400, 401, 403])
def test_a_member_that_stands_twice_is_refused_at_every_endpoint(status: int) -> None:
    """A refusal with two codes refuses nothing that we could name (spec §7.2, docs/decisions/0028)."""
    bodies = {
        200: wire(granted())[:-1] + b', "free_bet_id": "another"}',
        400: b'{"success": false, "message": "no", "error_code": "INVALID_COUNT", "error_code": "COUNT_TOO_HIGH"}',
    }
    body = bodies.get(status, b'{"error": "no", "error": "yes"}')
    with pytest.raises(UnexpectedResponseError):
        grant_operation().parse(response(status, body))
    found = wire(round_of(bet(), bet()))[:-2] + b', {"status": "OPEN", ' + wire(bet())[1:] + b"]}"
    with pytest.raises(UnexpectedResponseError, match="'wager' stands twice"):
        fetch_bet("acme", "bet-1").parse(response(200, wire(bet())[:-1] + b', "wager": 501}'))
    with pytest.raises(UnexpectedResponseError, match="'status' stands twice"):
        fetch_round_bets(instance_id="instance-1", round_no=12).parse(response(200, found))
