"""The service's side of the protocol, without a wire: whatever comes in, a response goes out (spec §4.2, §5, §7)."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from game_operator.errors import BadRequestError
from game_operator.protocol import operations
from game_operator.protocol.http import HttpReply, HttpRequest
from game_operator.protocol.signing import Signature, sign
from game_operator_testkit.sandbox import Sandbox, SandboxWorld
from game_operator_testkit.sandbox.service.operator_api import Call, answer, recognise
from testkit.tests.sandbox.support import NOW_MILLIS
from tests.support.signed_http import BET, GAMES, GRANT, ROUND, signature
from tests.support.times import StoppedClock

pytestmark = pytest.mark.slow

ANYTHING = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

PATHS = st.sampled_from([GAMES, BET, ROUND, GRANT, BET + "a%2Fb", BET + "%FF", "/", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
FIELDS = st.sampled_from(
    ["instance_id", "round_id", "round_no", "player_id", "count", "wager_amount_cents", "reference_id"]
)


@pytest.fixture(scope="module")
def world(public_key: RSAPublicKey) -> SandboxWorld:
    """A seeded world at a stopped clock."""
    return Sandbox(operator_public_key=public_key, clock=StoppedClock(NOW_MILLIS)).world


@pytest.fixture(scope="module")
def post(world: SandboxWorld, private_key: RSAPrivateKey) -> Callable[[str, bytes], HttpReply]:
    """Send a body with a sound signature."""

    def send(path: str, body: bytes) -> HttpReply:
        headers = ((b"x-operator-id", b"acme"), (b"x-signature", signature(private_key, body).encode()))
        return answer(HttpRequest("POST", path, headers, body), world, now_millis=NOW_MILLIS)

    return send


def described(response: HttpReply) -> dict[str, Any]:  # Any: a JSON body.
    """Return the body of a response that the specification, or a plain 404 or 405, describes."""
    assert response.status in {200, 400, 401, 403, 404, 405}
    assert response.headers["content-type"] == "application/json"
    body = json.loads(response.body)
    assert isinstance(body, dict)
    return body


@ANYTHING
@given(
    method=st.sampled_from(["GET", "POST", "PUT"]) | st.text(),
    path=PATHS | st.text() | st.builds(BET.__add__, st.text()),
    headers=st.lists(st.tuples(st.sampled_from([b"x-operator-id", b"X-Signature"]) | st.binary(), st.binary())),
    body=st.binary(),
)
def test_any_request_is_answered(
    world: SandboxWorld, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """Unsigned, no request gets further than a refusal with an error text (spec §5, §7.3)."""
    response = answer(HttpRequest(method, path, tuple(headers), body), world, now_millis=NOW_MILLIS)
    assert list(described(response)) == ["error"]
    assert response.status != 200


@ANYTHING
@given(path=st.sampled_from([ROUND, GRANT]), body=st.binary())
def test_any_signed_body_is_answered(post: Callable[[str, bytes], HttpReply], path: str, body: bytes) -> None:
    """Signed, but no JSON of the call's: 400 with an error (spec §4.2, §7.3)."""
    assert described(post(path, body)).keys() <= {"error", "status", "success", "message", "error_code"}


@ANYTHING
@given(path=st.sampled_from([ROUND, GRANT]), body=st.dictionaries(FIELDS | st.text(), JSON))
def test_any_signed_json_is_answered(
    post: Callable[[str, bytes], HttpReply], path: str, body: dict[str, object]
) -> None:
    """Signed JSON with any values in the call's fields ends in one of the described bodies (spec §2.3, §2.8, §7)."""
    answered = described(post(path, json.dumps(body).encode()))
    assert answered.keys() & {"error", "status", "success"}


@ANYTHING
@given(bet_id=st.text())
def test_any_bet_id_arrives(world: SandboxWorld, private_key: RSAPrivateKey, bet_id: str) -> None:
    """What the operator's side builds, the service's side recognises and verifies, whatever the id (spec §4.2, §5)."""
    try:
        operation = operations.fetch_bet("acme", bet_id)
    except BadRequestError:
        assert bet_id in {"", ".", ".."}
        return
    request = operations.request_of(operation, "acme", Signature.of(sign(private_key, operation.to_sign)))
    assert recognise(request) == Call("fetch-bet", bet_id)
    assert described(answer(request, world, now_millis=NOW_MILLIS)) == {"status": "NOT_FOUND"}


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [
        pytest.param("GET", GAMES, Call("fetch-games"), id="fetch-games"),
        pytest.param("GET", BET + "a%2Fb?x=/", Call("fetch-bet", "a/b"), id="fetch-bet"),
        pytest.param("POST", ROUND, Call("fetch-round-bets", body=b"{}"), id="fetch-round-bets"),
        pytest.param("POST", GRANT + "?x", Call("free-bet/grant", body=b"{}"), id="free-bet/grant"),
    ],
)
def test_the_four_calls_are_recognised(method: str, path: str, call: object) -> None:
    """By method and raw path (spec §4.2)."""
    assert recognise(HttpRequest(method, path, (), b"{}")) == call
