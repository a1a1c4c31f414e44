"""The courier over real HTTP: what arrives at a real server, what is heard of it, and servers that are hostile."""

import asyncio
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.errors import ConfigurationError
from game_operator.profile import Profile
from game_operator_testkit.provider.delivery import Answer, Carried, Post, answer_to
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.keys import ServiceKeys, new_key
from tests.support.calls import withdraw
from tests.support.hostile_server import Connection, HostileServer, answer, response_bytes

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def keys(private_key: RSAPrivateKey) -> ServiceKeys:
    return ServiceKeys(private_key, new_key())


def carry(url: str, keys: ServiceKeys, *posts: Post, seen: list[Carried] | None = None, **options: Any) -> list[Answer]:
    """Carry *posts* one after the other; *seen* is filled with what came of them."""

    async def all_of_them() -> list[Answer]:
        answers: list[Answer] = []
        courier = HttpCarrier(url, keys, profile=Profile(signature_header="x-service"), **options)
        try:
            for post in posts:
                carried = await courier.carry_post(post)
                answers.append(answer_to(post, carried))
                if seen is not None:
                    seen.append(carried)
            return answers
        finally:
            await courier.aclose()

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("manner", [None, Fault.SLOW])
def test_a_signature_that_the_wallet_quotes_is_not_heard(keys: ServiceKeys, manner: Fault | None) -> None:
    """What is heard stands in traces and reports; the witness, who shows the exchange itself, has the answer whole."""
    seen: list[Carried] = []

    def script(connection: Connection) -> None:
        head = connection.read_request().partition(b"\r\n\r\n")[0].split(b"\r\n")
        (signature,) = [line.partition(b": ")[2] for line in head if line.lower().startswith(b"x-service:")]
        body = b'{"type":"ERROR","code":"%s","timestamp":1}' % signature
        connection.send(response_bytes(200, body, b"Content-Type: application/json"))

    with HostileServer(script) as server:
        (told,) = carry(server.base_url, keys, Post(withdraw(), manner=manner), seen=seen)
    (signature,) = [value for name, value in seen[0].headers if name == b"x-service"]
    assert len(signature) > 300
    assert str(told) == "[signature removed]"
    assert seen[0].answer is not None
    assert signature in seen[0].answer.body


def test_the_same_post_has_the_same_bytes_and_headers_in_every_manner(keys: ServiceKeys) -> None:
    """The wallet cannot tell by a header that a fault was laid over the way."""
    with HostileServer(answer(response_bytes(200, b'{"type":"ERROR","code":"X"}'))) as server:
        carry(server.base_url, keys, *(Post(withdraw(), manner=each) for each in (None, Fault.SLOW, Fault.RESET)))
        # Each manner has a connection of its own; the last one may be accepted after its caller has hung up.
        assert server.wait_until_closed(connections=3)
    own = {b"accept", b"accept-encoding", b"user-agent", b"connection"}
    told = [
        {
            name.lower(): value
            for name, _, value in (
                line.partition(b": ") for line in request.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
            )
            if name.lower() not in own
        }
        | {b"body": request.partition(b"\r\n\r\n")[2]}
        for request in server.requests
    ]
    assert told[0] == told[1] == told[2]
    assert set(told[0]) == {b"host", b"content-type", b"content-length", b"x-service", b"body"}


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/", "wallet", "http://wallet.example", "", "http://[", "http://u:p@127.0.0.1"]
)
def test_an_address_that_is_none_is_refused(keys: ServiceKeys, url: str) -> None:
    """Before anything is sent; and plain http goes to this machine alone."""
    with pytest.raises(ConfigurationError):
        carry(url, keys, Post(withdraw()))


@pytest.mark.parametrize("manner", [None, Fault.SLOW], ids=str)
def test_a_proxy_of_the_environment_does_not_lead_away_from_this_machine(
    keys: ServiceKeys, manner: Fault | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wallet on this machine is called directly, as the sandbox's own client is (docs/decisions/0004)."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with HostileServer(answer(response_bytes(200, b'{"type":"ERROR","code":"X"}'))) as server:
        (told,) = carry(server.base_url, keys, Post(withdraw(), manner=manner))
    assert told.code == "X"
