"""The four calls from the service's side: recognised, verified, answered (spec §4.2, §5, §7)."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from hypothesis import example, given, strategies
from pydantic import TypeAdapter

from game_operator.models import ClosedBet, GameInfo, OpenBet, RolledBackBet, RoundFound
from game_operator.models.wire import decode
from game_operator.protocol.http import HeaderPairs, HttpReply, HttpRequest
from game_operator.protocol.signing import Signature, sign
from game_operator_testkit.sandbox.service.operator_api import Call, answer, recognise
from testkit.tests.support.world import SmallWorld
from tests.support.wire import JSON_VALUES, JsonObject, bet, examples, game, grant_request, hole, round_of, wire
from tests.test_codes import MESSAGES

GAMES = "/api/v0.2/fetch-games"
BET = "/api/v0.2/fetch-bet/bet-1"
ROUND = "/api/v0.2/fetch-round-bets"
GRANT = "/api/v0.2/free-bet/grant"
NOW_MILLIS = 1_800_000_000_000

ROUND_BODY = b'{"instance_id":"instance-1","round_id":"round-1"}'
GRANT_BODY = wire(grant_request())
#: One good request for each endpoint: method, path, body.
REQUESTS = [
    pytest.param("GET", GAMES, b"", id="fetch-games"),
    pytest.param("GET", BET, b"", id="fetch-bet"),
    pytest.param("POST", ROUND, ROUND_BODY, id="fetch-round-bets"),
    pytest.param("POST", GRANT, GRANT_BODY, id="free-bet/grant"),
]

every_endpoint = pytest.mark.parametrize(("method", "path", "body"), REQUESTS)

Caller = Callable[..., HttpReply]


@pytest.fixture
def world(public_key: RSAPublicKey) -> SmallWorld:
    """A service that knows one operator, one game, four bets and two rounds."""
    opened, closed = OpenBet(**bet("OPEN")), ClosedBet(**bet("CLOSED", reference_id="bet-2"))
    return SmallWorld(
        public_key,
        catalogue=[GameInfo.model_validate_json(wire(game(rtp=None)))],
        placed={
            "bet-1": opened,
            "bet-2": closed,
            "bet-3": RolledBackBet(**bet("ROLLED_BACK", reference_id="bet-3")),
        },
        rounds=[
            RoundFound(**round_of(bets=(opened, closed))),
            RoundFound(**round_of(round_id="round-2", round_no=13)),
        ],
    )


@pytest.fixture
def call(world: SmallWorld, private_key: RSAPrivateKey) -> Caller:
    """Send a request, signed as spec §5 says for its path."""

    def send(method: str, path: str, body: bytes = b"", *, signed: bytes | None = None) -> HttpReply:
        to_sign = _to_sign(path, body) if signed is None else signed
        return answer(HttpRequest(method, path, _headers(private_key, to_sign), body), world, now_millis=NOW_MILLIS)

    return send


def _to_sign(path: str, body: bytes) -> bytes:
    if path == GAMES:
        return b"acme"
    return b"acme:bet-1" if path == BET else body


def _headers(private_key: RSAPrivateKey, to_sign: bytes) -> HeaderPairs:
    return ((b"X-Operator-Id", b"acme"), (b"X-Signature", Signature.of(sign(private_key, to_sign))))


def _json(response: HttpReply) -> Any:
    assert response.headers["content-type"] == "application/json"
    return json.loads(response.body)


def test_fetch_games(call: Caller) -> None:
    """200 with {games}, each game with all its fields (spec §2.5, §4.2)."""
    response = call("GET", GAMES)
    assert response.status == 200
    assert _json(response) == {"games": [game(rtp=None)]}


def test_games_are_written_exactly(call: Caller, world: SmallWorld) -> None:
    """Amounts are JSON numbers, digit for digit (spec §2.7)."""
    exact = wire(game(rtp=hole()), "96.12345678901234567890").replace(b"10000}", b"12345678901234567.89}")
    world.catalogue = [decode(TypeAdapter(GameInfo), exact)]
    body = call("GET", GAMES).body
    assert b'"rtp":96.1234567890123456789,' in body
    assert b'"max_win":12345678901234567.89}' in body
    assert b'"min_wager":0.1,' in body


@pytest.mark.parametrize("bet_id", ["bet-1", "bet-2", "bet-3"])
def test_fetch_bet(call: Caller, world: SmallWorld, bet_id: str) -> None:
    """200 with the tagged union: every field of the bet in its state (spec §2.4, §4.2)."""
    response = call("GET", f"/api/v0.2/fetch-bet/{bet_id}", signed=f"acme:{bet_id}".encode())
    assert response.status == 200
    found = world.placed[bet_id]
    assert _json(response) == bet(found.status, reference_id=bet_id)
    assert world.asked == [(bet_id, NOW_MILLIS)]


def test_fetch_bet_not_found(call: Caller) -> None:
    """An unknown id is a 200 that carries only its status (spec §2.4, §4.2)."""
    response = call("GET", "/api/v0.2/fetch-bet/unknown", signed=b"acme:unknown")
    assert (response.status, response.body) == (200, b'{"status":"NOT_FOUND"}')


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        pytest.param({"instance_id": "instance-1", "round_id": "round-1"}, ("round-1", None), id="by id"),
        pytest.param({"instance_id": "instance-1", "round_no": 12}, (None, 12), id="by number"),
        pytest.param(
            {"round_no": 99, "round_id": "round-1", "instance_id": "instance-1"},
            ("round-1", 99),
            id="by both",
        ),
    ],
)
def test_fetch_round_bets(
    call: Caller, world: SmallWorld, body: JsonObject, asked: tuple[str | None, int | None]
) -> None:
    """200 with status OK and all bets; with both keys the id is used (spec §2.8, §4.2)."""
    response = call("POST", ROUND, wire(body))
    assert response.status == 200
    assert _json(response) == round_of(bet("OPEN"), bet("CLOSED", reference_id="bet-2"))
    assert world.asked == [("instance-1", *asked, NOW_MILLIS)]


def test_a_round_without_bets(call: Caller) -> None:
    """A round with no bets is OK with an empty array (spec §4.2)."""
    response = call("POST", ROUND, b'{"instance_id":"instance-1","round_no":13}')
    assert (response.status, _json(response)["status"], _json(response)["bets"]) == (200, "OK", [])


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"instance_id": "instance-1", "round_id": "round-9"}, id="an unknown id"),
        pytest.param({"instance_id": "instance-1", "round_no": 99}, id="an unknown number"),
        pytest.param({"instance_id": "instance-2", "round_id": "round-1"}, id="the round of another instance"),
        pytest.param({"instance_id": "instance-1", "round_id": "round-9", "round_no": 12}, id="the id counts"),
    ],
)
def test_fetch_round_bets_not_found(call: Caller, body: JsonObject) -> None:
    """NOT_FOUND is a 200 that carries only its status (spec §2.8, §4.2)."""
    response = call("POST", ROUND, wire(body))
    assert (response.status, response.body) == (200, b'{"status":"NOT_FOUND"}')


@pytest.mark.parametrize("body", [b'{"instance_id":"instance-1"}', b"{}", b'{"instance_id":"x","more":1}'])
def test_a_round_without_id_and_number(call: Caller, body: bytes) -> None:
    """HTTP 400 with status BAD_REQUEST and an error text (spec §2.8, §4.2, §7.3)."""
    response = call("POST", ROUND, body)
    assert response.status == 400
    assert _json(response) == {"status": "BAD_REQUEST", "error": "Either round_id or round_no must be provided"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b'{"round_id":"round-1"}',
        b'{"instance_id":"instance-1","round_id":null}',
        b'{"instance_id":"instance-1","round_no":12.5}',
        b'{"instance_id":"instance-1","round_no":true}',
        b'{"instance_id":"instance-1","round_no":NaN}',
        b'{"instance_id":"instance-1","round_no":1e99999999999999999999}',
        b'{"instance_id":"\xff","round_id":"round-1"}',
        rb'{"instance_id":"\ud800","round_id":"round-1"}',
        b"[" * 10_000,
    ],
)
def test_a_malformed_round_request(call: Caller, world: SmallWorld, body: bytes) -> None:
    """Malformed data is a 400, and nothing is looked up (spec §4.2, §7.3)."""
    response = call("POST", ROUND, body)
    assert (response.status, _json(response)) == (400, {"error": "Invalid request"})
    assert world.asked == []


def test_grant(call: Caller, world: SmallWorld) -> None:
    """200 with success, the id of the grant and a message (spec §2.3, §4.2)."""
    response = call("POST", GRANT, GRANT_BODY)
    assert response.status == 200
    assert _json(response) == {"success": True, "free_bet_id": "free-bet-1", "message": "Free bets granted"}
    assert [request.model_dump() for request in world.granted.values()] == [grant_request()]


REFUSED: list[Any] = [
    ({"count": 0}, "INVALID_COUNT"),
    ({"count": 51}, "COUNT_TOO_HIGH"),
    ({"wager_amount_cents": 0}, "INVALID_WAGER_AMOUNT"),
    ({"wager_amount_cents": 1_000_001}, "WAGER_AMOUNT_TOO_HIGH"),
    ({"expire_duration_millis": 0}, "INVALID_EXPIRE_DURATION"),
    ({"expire_duration_millis": 2_592_000_001}, "EXPIRE_DURATION_TOO_LONG"),
    ({"player_id": "  "}, "EMPTY_PLAYER_ID"),
    ({"player_id": "p" * 101}, "PLAYER_ID_TOO_LONG"),
    ({"reference_id": ""}, "EMPTY_REFERENCE_ID"),
    ({"reference_id": "r" * 101}, "REFERENCE_ID_TOO_LONG"),
    ({"instance_id": "what?"}, "INVALID_INSTANCE_ID"),
    ({"instance_id": "instance-2"}, "INSTANCE_NOT_FOUND"),
    ({"reference_id": "used"}, "DUPLICATE_REFERENCE_ID"),
]


@pytest.mark.parametrize(("changes", "code"), REFUSED)
def test_each_refused_grant(call: Caller, world: SmallWorld, changes: JsonObject, code: str) -> None:
    """400 with success false, the message of the table and its code; nothing is granted (spec §2.2, §2.3, §7.2, §8)."""
    assert call("POST", GRANT, wire(grant_request(reference_id="used"))).status == 200
    response = call("POST", GRANT, wire(grant_request(**changes)))
    assert response.status == 400
    assert _json(response) == {"success": False, "message": MESSAGES[code], "error_code": code}
    assert len(world.granted) == 1


def test_the_least_and_the_greatest_of_a_grant(call: Caller) -> None:
    """Each limit itself is granted (spec §2.2, §8)."""
    numbers = ("count", "wager_amount_cents", "expire_duration_millis")
    least = dict.fromkeys(numbers, 1) | {"player_id": "p", "reference_id": "r"}
    greatest = dict(zip(numbers, (50, 1_000_000, 2_592_000_000), strict=True))
    for grant in (least, greatest | {"player_id": "日" * 100, "reference_id": "r" * 100}):
        assert call("POST", GRANT, wire(grant_request(**grant))).status == 200


def test_every_code_has_a_case() -> None:
    """The table above has all 13 (spec §7.2)."""
    assert [code for _, code in REFUSED] == list(MESSAGES)


def test_a_reference_id_is_unique_for_its_instance(call: Caller, world: SmallWorld) -> None:
    """The same reference on another instance is another grant (spec §2.2, §7.2, §8)."""
    world.instances = frozenset({"instance-1", "instance-2"})
    for instance, status in (("instance-1", 200), ("instance-2", 200), ("instance-1", 400), ("instance-2", 400)):
        assert call("POST", GRANT, wire(grant_request(instance_id=instance))).status == status


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        wire(grant_request(count=5.5)),
        wire(grant_request(count=True)),
        wire(grant_request(reference_id=None)),
        wire(grant_request(count=hole()), "1e99999999999999999999"),
        wire(grant_request(player_id=hole()), r'"\udc00"'),
        GRANT_BODY[:-1],
        GRANT_BODY + b"x",
        b"\xef\xbb\xbf" + GRANT_BODY,
    ],
)
def test_a_malformed_grant_request(call: Caller, world: SmallWorld, body: bytes) -> None:
    """A body that cannot be read is a 400 (assumed: docs/decisions/0004; spec §4.2), and grants nothing."""
    response = call("POST", GRANT, body)
    assert (response.status, _json(response)) == (400, {"error": "Invalid request"})
    assert world.asked == []


def test_numbers_of_a_grant_may_be_spelled_with_a_point(call: Caller) -> None:
    """A count of 5.0 is 5, and 5e1 is 50 (spec §2.2)."""
    assert call("POST", GRANT, wire(grant_request(count=5.0))).status == 200
    assert call("POST", GRANT, wire(grant_request(count=hole(), reference_id="b"), "5e1")).status == 200
    assert _json(call("POST", GRANT, wire(grant_request(count=hole()), "5.1e1")))["error_code"] == "COUNT_TOO_HIGH"


@every_endpoint
@pytest.mark.parametrize(
    "kept",
    [
        pytest.param((), id="neither"),
        pytest.param((0,), id="no signature"),
        pytest.param((1,), id="no operator"),
        pytest.param((0, 1, 1), id="two signatures"),
        pytest.param((0, 0, 1), id="two operators"),
    ],
)
def test_missing_headers(
    method: str, path: str, body: bytes, kept: tuple[int, ...], world: SmallWorld, private_key: RSAPrivateKey
) -> None:
    """400 without one of the two headers, or with one too many (spec §4.2, §5, §7.3; docs/decisions/0004)."""
    pairs = _headers(private_key, _to_sign(path, body))
    request = HttpRequest(method, path, tuple(pairs[index] for index in kept), body)
    response = answer(request, world, now_millis=0)
    assert (response.status, _json(response)) == (400, {"error": "Invalid request"})
    assert world.asked == []


@every_endpoint
@pytest.mark.parametrize("operator", [b"other", b"ACME", b"acme ", b"\xe4cme", b"acme\0"])
def test_an_unknown_operator(
    method: str, path: str, body: bytes, operator: bytes, world: SmallWorld, private_key: RSAPrivateKey
) -> None:
    """401 for an invalid operator (spec §5, §7.3)."""
    signature = Signature.of(sign(private_key, _to_sign(path, body).replace(b"acme", operator)))
    request = HttpRequest(method, path, ((b"X-Operator-Id", operator), (b"X-Signature", signature)), body)
    response = answer(request, world, now_millis=0)
    assert (response.status, _json(response)) == (401, {"error": "Authentication failed"})


@every_endpoint
def test_a_wrong_signature(
    call: Caller, method: str, path: str, body: bytes, world: SmallWorld, other_key: RSAPrivateKey
) -> None:
    """401 when something else was signed, another request too, or by another key (spec §4.2, §5, §7.3)."""
    right = _to_sign(path, body)
    assert call(method, path, body).status == 200
    world.asked.clear()
    others = {b"acme", b"acme:bet-1", ROUND_BODY, GRANT_BODY} - {right}
    assert len(others) == 3
    for signed in (b"", right + b" ", right[:-1], b"acme:", path.encode(), *others):
        response = call(method, path, body, signed=signed)
        assert (response.status, _json(response)) == (401, {"error": "Authentication failed"})
    assert answer(HttpRequest(method, path, _headers(other_key, right), body), world, now_millis=0).status == 401
    assert world.asked == []


@every_endpoint
def test_a_signature_in_another_spelling(
    method: str, path: str, body: bytes, world: SmallWorld, private_key: RSAPrivateKey
) -> None:
    """401 with padding, and in the standard alphabet (spec §5)."""
    operator, (name, signature) = _headers(private_key, _to_sign(path, body))
    for spelt in (signature + b"==", signature.translate(bytes.maketrans(b"-_", b"+/"))):
        request = HttpRequest(method, path, (operator, (name, spelt)), body)
        assert answer(request, world, now_millis=0).status == (200 if spelt == signature else 401)


@pytest.mark.parametrize(("path", "body"), [(ROUND, ROUND_BODY), (GRANT, GRANT_BODY)])
def test_every_byte_of_a_body_is_signed(path: str, body: bytes, world: SmallWorld, private_key: RSAPrivateKey) -> None:
    """The entire body is signed: the same JSON with one space more is another body (spec §5)."""
    headers = _headers(private_key, body)
    for changed in (body + b" ", body.replace(b",", b", ", 1), body.replace(b"1", b"2", 1), b""):
        assert answer(HttpRequest("POST", path, headers, changed), world, now_millis=0).status == 401
    assert world.asked == []


@every_endpoint
def test_an_inactive_operator(call: Caller, method: str, path: str, body: bytes, world: SmallWorld) -> None:
    """403 for an inactive account, and 401 from fetch-games (spec §4.2, §5, §7.3; docs/decisions/0004)."""
    world.active = False
    response = call(method, path, body)
    if path == GAMES:
        assert (response.status, _json(response)) == (401, {"error": "Authentication failed"})
    else:
        assert (response.status, _json(response)) == (403, {"error": "Operator account is inactive"})
    assert call(method, path, body, signed=b"wrong").status == 401
    assert world.asked == []


@pytest.mark.parametrize(
    ("path", "call"),
    [
        pytest.param(GAMES, Call("fetch-games"), id="games"),
        pytest.param("/api/v0.2/fetch-bet/a+b", Call("fetch-bet", "a+b"), id="a plus stays a plus"),
        pytest.param("/api/v0.2/fetch-bet/a%20b?x=1", Call("fetch-bet", "a b"), id="a space, and a query"),
        pytest.param("/api/v0.2/fetch-bet/%E6%97%A5%E6%9C%AC", Call("fetch-bet", "日本"), id="UTF-8"),
        pytest.param("/api/v0.2/fetch-bet/fetch-games", Call("fetch-bet", "fetch-games"), id="the name of an endpoint"),
    ],
)
def test_recognised(path: str, call: object) -> None:
    """The id is what stood in the path, unescaped once (spec §4.2)."""
    assert recognise(HttpRequest("GET", path, ())) == call


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v0.2/fetch-games/",
        "/api/v0.2/fetch-bet",
        "/api/v0.2/fetch-bet/",
        "/api/v0.2/fetch-bet/a/b",
        "/api/v0.2/fetch-bet/../fetch-games",
        "/api/v0.1/fetch-games",
        "/fetch-games",
        "/API/V0.2/FETCH-GAMES",
        "/api/v0.2/fetch%2Dgames",
    ],
)
def test_no_such_endpoint(path: str, world: SmallWorld) -> None:
    """The version is part of the path, and every other path is none (spec §4.2, §9)."""
    for method in ("GET", "POST"):
        response = answer(HttpRequest(method, path, (), b"{}"), world, now_millis=0)
        assert (response.status, _json(response)) == (404, {"error": "Not found"})


@every_endpoint
def test_other_methods(method: str, path: str, body: bytes, world: SmallWorld) -> None:
    """Each endpoint has one method (spec §4.2)."""
    for other in {"GET", "POST", "PUT", "DELETE", "HEAD", "get", ""} - {method}:
        response = answer(HttpRequest(other, path, (), body), world, now_millis=0)
        assert (response.status, _json(response)) == (405, {"error": "Method not allowed"})
        assert response.headers["allow"] == method


@pytest.mark.parametrize("segment", ["%FF", "%C3%28", "%ED%A0%80", "a%80", "\ud800"])
def test_ids_that_are_no_text(segment: str, call: Caller) -> None:
    """Bytes that are no UTF-8 name no bet: a malformed request (spec §4.2, §7.3)."""
    response = call("GET", f"/api/v0.2/fetch-bet/{segment}", signed=b"acme:x")
    assert (response.status, _json(response)) == (400, {"error": "Invalid request"})


@given(
    method=strategies.sampled_from(["GET", "POST", "PUT", ""]),
    path=strategies.sampled_from([GAMES, BET, ROUND, GRANT, "/"]) | strategies.text().map(BET.__add__),
    body=strategies.binary(max_size=60) | JSON_VALUES.map(wire),
    headers=strategies.lists(
        strategies.tuples(
            strategies.sampled_from([b"X-Operator-Id", b"x-signature"]) | strategies.binary(max_size=5),
            strategies.sampled_from([b"acme", b"AAAA"]) | strategies.binary(max_size=5),
        ),
        max_size=4,
    ).map(tuple),
)
@example("GET", "/api/v0.2/fetch-bet/\ud800", b"", ())
@examples(200)
def test_any_request_is_answered(
    public_key: RSAPublicKey, method: str, path: str, body: bytes, headers: HeaderPairs
) -> None:
    """Whatever comes in, a JSON answer goes out, and without a signature never a success (spec §4.2, §5)."""
    response = answer(HttpRequest(method, path, headers, body), SmallWorld(public_key), now_millis=0)
    assert response.status in {400, 401, 404, 405}
    assert "error" in _json(response)
