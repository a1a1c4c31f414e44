"""
Exact bytes on the wire and exact signatures, made by openssl and pinned (spec §4.2, §5).

``tests/vectors/make.sh`` shows how the files were made. Both sides of the wire are held to them: what the operator's
side builds, and what the service's side recognises, verifies and answers.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from game_operator import AsyncOperatorClient, OperatorClient
from game_operator.protocol import operations
from game_operator.protocol.http import HttpRequest
from game_operator.protocol.operations import Operation, request_of
from game_operator.protocol.signing import Signature, sign, verify
from game_operator_testkit.sandbox.service.operator_api import Call, answer, recognise
from testkit.tests.support.world import OPERATOR_ID, SmallWorld
from tests.support.wire import grant_operation, grant_request

VECTORS = Path(__file__).parents[3] / "tests" / "vectors"
INSTANCE = "65f0c0ffee65f0c0ffee0003"

BET_IDS = {
    "bet-plain": "65f0c0ffee65f0c0ffee0001",
    "bet-slash": "a/b",
    "bet-percent": "50%",
    "bet-dots": "..%2f",
    "bet-japanese": "日本",
    "bet-space": "a b",
    "bet-plus": "a+b",
    "bet-colon": "a:b:c",
    "bet-query": "a?b=c&d#e",
    "bet-unreserved": "A-z_0.9~",
    "bet-emoji": "🎲",
    "bet-composed": "\u00e9",
    "bet-decomposed": "e\u0301",
    "bet-newline": "a\r\nX-Evil: 1",
}
ROUNDS: dict[str, dict[str, Any]] = {  # Any: keyword arguments of several types
    "round-by-id": {"instance_id": INSTANCE, "round_id": "round-7"},
    "round-by-number": {"instance_id": INSTANCE, "round_no": 12},
    "round-by-both": {"instance_id": "i", "round_no": 0, "round_id": '日本/"7"\\'},
}
GRANTS = {
    "grant": grant_request(instance_id=INSTANCE),
    "grant-largest": grant_request(
        instance_id="i",
        count=50,
        wager_amount_cents=1_000_000,
        expire_duration_millis=2_592_000_000,
        reference_id="r",
    ),
    "grant-unicode": grant_request(
        player_id='Zoë 🎲\n\x01"\\/',
        instance_id="é",
        count=1,
        wager_amount_cents=1,
        expire_duration_millis=1,
        reference_id="\t\x1f\x7f\u2028",
    ),
}


def _signed(name: str) -> bytes:
    return (VECTORS / f"{name}.signed").read_bytes()


#: Each case: the operation, and what the service's side takes it for.
CASES: dict[str, tuple[Operation[Any], Call]] = {
    "games": (operations.fetch_games(OPERATOR_ID), Call("fetch-games")),
    **{
        name: (operations.fetch_bet(OPERATOR_ID, bet_id), Call("fetch-bet", bet_id)) for name, bet_id in BET_IDS.items()
    },
    **{
        name: (operations.fetch_round_bets(**keys), Call("fetch-round-bets", body=_signed(name)))
        for name, keys in ROUNDS.items()
    },
    **{name: (grant_operation(**keys), Call("free-bet/grant", body=_signed(name))) for name, keys in GRANTS.items()},
}

#: The same calls made with a client.
CALLS: dict[str, Callable[[Any], Any]] = {
    "games": lambda client: client.fetch_games(),
    **{name: partial(lambda bet_id, client: client.fetch_bet(bet_id), bet_id) for name, bet_id in BET_IDS.items()},
    **{name: partial(lambda keys, client: client.fetch_round_bets(**keys), keys) for name, keys in ROUNDS.items()},
    **{name: partial(lambda keys, client: client.grant_free_bet(**keys), keys) for name, keys in GRANTS.items()},
}

every_case = pytest.mark.parametrize("name", sorted(CASES))


@pytest.fixture(scope="module")
def vector_key() -> RSAPrivateKey:
    """The key with which the vectors were signed; it protects nothing."""
    key = load_pem_private_key((VECTORS / "TEST-ONLY-private-key.pem").read_bytes(), None)
    assert isinstance(key, RSAPrivateKey)
    return key


@pytest.fixture(scope="module")
def registered_key() -> RSAPublicKey:
    """What the service would have registered."""
    key = load_pem_public_key((VECTORS / "TEST-ONLY-public-key.pem").read_bytes())
    assert isinstance(key, RSAPublicKey)
    return key


def _signature(name: str) -> bytes:
    return (VECTORS / f"{name}.signature").read_bytes()


def _request(name: str) -> HttpRequest:
    """Return the request in NAME.http, read by nothing but the rules of HTTP."""
    head, _, body = (VECTORS / f"{name}.http").read_bytes().partition(b"\r\n\r\n")
    request_line, *lines = head.split(b"\r\n")
    method, path, version = request_line.decode("ascii").split(" ")
    assert version == "HTTP/1.1"
    headers = tuple((key, value) for key, _, value in (line.partition(b": ") for line in lines))
    return HttpRequest(method, path, headers, body)


def test_every_file_is_a_case() -> None:
    """No vector lies about untested, and every endpoint has some (spec §1, §4.2)."""
    assert {path.stem for path in VECTORS.glob("*.http")} == set(CASES) == set(CALLS)
    assert {operation.name for operation, _ in CASES.values()} == {
        "fetch-games",
        "fetch-bet",
        "fetch-round-bets",
        "free-bet/grant",
    }
    signatures = {path.stem for path in VECTORS.glob("*.signature")}
    assert signatures == {*CASES, "message-empty", "message-binary"}


@every_case
def test_the_operator_s_side_builds_the_pinned_bytes(name: str, vector_key: RSAPrivateKey) -> None:
    """Method, path with its version, headers, body and signature are exactly these (spec §4.2, §5, §9)."""
    operation, _ = CASES[name]
    assert (operation.grant is not None) == name.startswith("grant")
    assert operation.to_sign == _signed(name)
    signature = Signature.of(sign(vector_key, operation.to_sign))
    assert bytes(signature) == _signature(name)
    assert request_of(operation, OPERATOR_ID, signature) == _request(name)


@every_case
def test_the_service_s_side_takes_the_pinned_bytes(name: str, registered_key: RSAPublicKey) -> None:
    """The service's side recognises the call, arrives at the signed bytes, and verifies them (spec §4.2, §5)."""
    _, call = CASES[name]
    request = _request(name)
    recognised = recognise(request)
    assert recognised == call
    assert call.signed_bytes(OPERATOR_ID) == _signed(name)
    assert verify(registered_key, _signed(name), _signature(name))
    assert answer(request, SmallWorld(registered_key), now_millis=0).status in {200, 400}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@every_case
def test_a_client_sends_the_pinned_bytes(name: str, is_async: bool, vector_key: RSAPrivateKey) -> None:
    """What httpx is given to send, path and body untouched, is the vector (spec §1, §4.2, §5)."""
    sent: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(401, json={"error": "Authentication failed"})

    transport = httpx.MockTransport(refuse)
    settings = ("https://api.example.com", OPERATOR_ID, vector_key)

    async def call_async() -> None:
        async with httpx.AsyncClient(transport=transport) as http_client:
            await CALLS[name](AsyncOperatorClient(*settings, http_client=http_client))

    def call() -> None:
        with httpx.Client(transport=transport) as http_client:
            CALLS[name](OperatorClient(*settings, http_client=http_client))

    with pytest.raises(Exception, match="HTTP 401"):
        anyio.run(call_async) if is_async else call()
    expected = _request(name)
    (request,) = sent
    assert (request.url.scheme, request.url.host) == ("https", "api.example.com")
    assert (request.method, request.url.raw_path.decode("ascii")) == (expected.method, expected.path)
    for header, value in expected.headers:
        assert [found for key, found in request.headers.raw if key.lower() == header.lower()] == [value]
    assert request.read() == expected.body
    assert ("content-type" in request.headers) == bool(expected.body)
    if expected.body:
        assert request.headers["content-type"] == "application/json"
        assert request.headers["content-length"] == str(len(expected.body))


@pytest.mark.parametrize("name", ["message-empty", "message-binary"])
def test_any_message_is_signed_as_openssl_signs_it(
    name: str, vector_key: RSAPrivateKey, registered_key: RSAPublicKey
) -> None:
    """RSA-SHA256 over nothing and over bytes that are no text (spec §5)."""
    assert Signature.of(sign(vector_key, _signed(name))) == _signature(name)
    assert verify(registered_key, _signed(name), _signature(name))
    assert not verify(registered_key, _signed(name) + b"\0", _signature(name))
