"""Keys, passphrases, signatures and tokens, planted and looked for in all that a program could write down (spec §5)."""

import html
import logging
import pickle
import re
import signal
import traceback
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from game_operator import (
    AsyncOperatorClient,
    Exchange,
    GameOperatorError,
    OperatorClient,
    SigningKeyError,
)
from game_operator.protocol.signing import Signature, sign
from tests.support.flavours import Perform, look_up, make_grant, run, run_over
from tests.support.hostile_server import Connection, HostileServer, Script, answer, response_bytes
from tests.support.keys import set_environment
from tests.support.leaks import everything_told
from tests.support.wire import bet, grant_operation, wire

_PASSPHRASE = "pl4nted-passphrase"


@pytest.fixture(scope="module")
def encrypted_pem(private_key: RSAPrivateKey) -> bytes:
    """The operator's key, under the planted passphrase."""
    encryption = BestAvailableEncryption(_PASSPHRASE.encode())
    return private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


@pytest.fixture(scope="module")
def secrets(private_key: RSAPrivateKey, private_pem: bytes, encrypted_pem: bytes) -> dict[str, str]:
    """Everything that must stay inside, by what it is."""
    numbers = private_key.private_numbers()
    grant = grant_operation()
    planted = {
        "the passphrase": _PASSPHRASE,
        "d": str(numbers.d),
        "d in hex": f"{numbers.d:x}",
        "p": str(numbers.p),
        "q": str(numbers.q),
        "the signature of fetch-games": _signature(private_key, b"acme"),
        "the signature of fetch-bet": _signature(private_key, b"acme:bet-1"),
        "the signature of the grant": _signature(private_key, grant.to_sign),
    }
    for name, pem in (("the PEM", private_pem), ("the encrypted PEM", encrypted_pem)):
        planted |= {f"{name}, line {number}": line for number, line in enumerate(pem.decode().splitlines()[1:-2])}
    return planted


def _signature(key: RSAPrivateKey, message: bytes) -> str:
    return Signature.of(sign(key, message)).decode()


def _leaks(told: str, secrets: dict[str, str]) -> list[str]:
    """Return the names of the *secrets* in *told*, whole or in good part."""
    return [name for name, secret in secrets.items() if secret[: max(12, len(secret) // 2)] in told]


def test_the_search_finds_what_it_looks_for(secrets: dict[str, str], private_pem: bytes) -> None:
    """A leak would be noticed, in a local, in a text and in a pickle (spec §5)."""
    assert _leaks(f"... {secrets['the signature of fetch-bet']} ...", secrets) == ["the signature of fetch-bet"]
    assert "the PEM, line 3" in _leaks(private_pem.decode(), secrets)
    error = GameOperatorError("harmless")
    error.__cause__ = RuntimeError(_PASSPHRASE)
    assert _leaks(everything_told(error), secrets) == ["the passphrase"]


async def _games(client: AsyncOperatorClient) -> Any:
    return await client.fetch_games()


def _signature_in(request: bytes) -> bytes:
    # On a busy machine the client may give up before it sends anything.
    lines = request.split(b"\r\n")
    return next((line[13:] for line in lines if line.lower().startswith(b"x-signature: ")), b"")


def _echoing(status: int, make_body: Callable[[str], object], *headers: bytes) -> Script:
    """Return a service for debugging: it answers *status* with the signature in its body, or in *headers*."""

    def script(connection: Connection) -> None:
        while request := connection.read_request():
            signature = _signature_in(request)
            echoed = [name + b": " + signature for name in headers]
            connection.send(response_bytes(status, wire(make_body(signature.decode())), *echoed))

    return script


def _echoing_as_garbage(connection: Connection) -> None:
    connection.send(_signature_in(connection.read_request()) + b"\r\n\r\n")
    connection.close()


def _hanging_up(connection: Connection) -> None:
    connection.read_request()
    connection.close()


_SERVICES = [
    pytest.param(_hanging_up, id="hangs up"),
    pytest.param(_echoing_as_garbage, id="echoes as garbage"),
    pytest.param(answer(response_bytes(401, b'{"error": "Authentication failed"}')), id="401"),
    *(
        pytest.param(_echoing(status, lambda echo: {"error": f"bad signature {echo}"}), id=f"echoes in {status}")
        for status in (400, 401, 403, 429, 500)
    ),
    pytest.param(_echoing(200, lambda echo: {"echo": echo}), id="echoes in an unfit 200"),
    pytest.param(_echoing(200, lambda echo: bet(wager=echo)), id="echoes in a field"),
    pytest.param(
        _echoing(400, lambda echo: {"success": False, "message": echo, "error_code": echo}), id="echoes in a refusal"
    ),
    pytest.param(_echoing(500, lambda _: {}, b"X-Signature"), id="echoes in the same header"),
    pytest.param(_echoing(302, lambda _: {}, b"Location"), id="echoes in a redirect"),
    pytest.param(_echoing(200, lambda _: {}, b"Content-Encoding"), id="echoes in an encoding"),
    pytest.param(_echoing(429, lambda _: {}, b"Retry-After"), id="echoes in Retry-After"),
]


@pytest.mark.outside
@pytest.mark.parametrize("flavour", ["sync", "asyncio"])
@pytest.mark.parametrize("service", _SERVICES)
@pytest.mark.drawn(8, flavour=("asyncio",))
def test_no_error_of_a_call_gives_a_secret_away(perform: Perform, service: Script, secrets: dict[str, str]) -> None:
    """Neither its texts and attributes, nor its pickle, nor the locals of our frames (spec §5)."""
    with HostileServer(service) as server:
        for scenario in (look_up, make_grant, _games):
            with pytest.raises(GameOperatorError) as raised:
                perform(scenario, server.base_url, retries=0, timeout=0.15)
            told = everything_told(raised.value) + "".join(traceback.format_exception(raised.value))
            assert _leaks(told, secrets) == []


def _standard(echo: str) -> str:
    return echo.replace("-", "+").replace("_", "/")


def _escaped(echo: str, form: str) -> str:
    return "".join(letter if letter.isalnum() else form.format(ord(letter)) for letter in _standard(echo))


_FORMS: dict[str, Callable[[str], str]] = {
    "as sent": str,
    "in standard Base64": lambda echo: _standard(echo) + "==",
    "escaped for JSON": lambda echo: _standard(echo).replace("/", "\\/"),
    "escaped for JSON by number": lambda echo: _escaped(echo, "\\u{:04x}"),
    "escaped for JSON twice": lambda echo: _escaped(echo, "\\\\u{:04X}"),
    "escaped letters too": lambda echo: "".join(f"\\u{ord(letter):04x}" for letter in echo),
    "escaped for an address": lambda echo: _escaped(echo, "%{:02X}"),
    "escaped for an address twice": lambda echo: _escaped(echo, "%25{:02x}"),
    "escaped for HTML": lambda echo: _escaped(echo, "&#{};"),
    "escaped for HTML by number": lambda echo: _escaped(echo, "&#x{:X};"),
    "in lines": lambda echo: "\r\n ".join(echo[at : at + 64] for at in range(0, len(echo), 64)),
    "in lines, escaped": lambda echo: "\\n".join(_standard(echo)[at : at + 10] for at in range(0, len(echo), 10)),
    "letter by letter": " ".join,
    "without its first letter": lambda echo: echo[1:],
    "without its last letter": lambda echo: echo[:-1],
    "its second half": lambda echo: echo[len(echo) // 2 :],
}


def _letters_of(told: str) -> str:
    """Return *told* without escapes and white space, in the alphabet of a signature."""
    for _ in range(2):
        told = html.unescape(unquote(re.sub(r"\\+(?:u00|x)([0-9A-Fa-f]{2})", lambda it: chr(int(it[1], 16)), told)))
    return re.sub(r"\\+[rnt]|[\\\s=]", "", told).replace("+", "-").replace("/", "_")


@pytest.mark.drawn(24)
@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_echo_in_any_form_is_cut_out(form: str, status: int, private_key: RSAPrivateKey) -> None:
    """Whoever reads it in a log could replay the call (spec §5)."""
    signature = _signature(private_key, b"acme:bet-1")
    echo = _FORMS[form](signature)
    seen: list[Exchange] = []

    def handler(request: httpx.Request) -> httpx.Response:
        body = f'{{"error": "bad signature {echo}", "wager": 5}}'.encode()
        headers = {"X-Debug": " ".join(echo.split())}
        return httpx.Response(status, content=body, headers=headers)

    with pytest.raises(GameOperatorError) as raised:
        run_over(httpx, "sync", handler, look_up, "http://localhost:9", private_key, on_exchange=seen.append)
    told = _letters_of(everything_told(raised.value) + repr(seen))
    pieces = [signature[at : at + 32] for at in range(len(signature) - 32)]
    assert [piece for piece in pieces if piece in told] == []
    assert "[signature" in everything_told(raised.value)


class _TimeLimitError(Exception):
    """As Celery raises it out of a signal handler."""


def _echoing_half(connection: Connection) -> None:
    signature = _signature_in(connection.read_request())
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nX-Echo: " + signature + b"\r\n\r\n{")
    connection.stopping.wait(5)


@pytest.mark.outside
def test_an_echo_is_in_no_frame_of_an_interrupted_answer(private_key: RSAPrivateKey) -> None:
    """A time limit strikes while the body is read: error trackers show what our frames hold (spec §5)."""

    def strike(number: int, frame: object) -> None:
        raise _TimeLimitError

    previous = signal.signal(signal.SIGALRM, strike)
    try:
        with (
            HostileServer(_echoing_half) as server,
            OperatorClient(server.base_url, "acme", private_key, trust_env=False) as client,
        ):
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(_TimeLimitError) as raised:
                client.fetch_bet("bet-1")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    told = everything_told(raised.value)
    assert "chunks = [b'{']" in told  # It was in the body.
    assert _signature(private_key, b"acme:bet-1") not in told


@pytest.mark.parametrize("kind", [OperatorClient, AsyncOperatorClient])
@pytest.mark.parametrize("misplaced", ["operator_id", "base_url"])
@pytest.mark.parametrize("on_one_line", [False, True])
@pytest.mark.parametrize("key_too", [False, True], ids=["the key in its place", "arguments in the wrong order"])
def test_a_key_in_the_wrong_place_is_not_shown(
    kind: Any, misplaced: str, on_one_line: bool, key_too: bool, private_pem: bytes, secrets: dict[str, str]
) -> None:
    """Neither in the message nor in the locals of our frames (spec §5)."""
    pem = private_pem.decode()
    key = pem.replace("\n", "\\n") if on_one_line else pem
    given = {"base_url": "https://api.example.com", "operator_id": "acme", misplaced: key}
    with pytest.raises(GameOperatorError) as raised:
        kind(private_key="acme" if key_too else private_pem, **given)
    del key, pem
    assert _leaks(everything_told(raised.value), secrets) == []


@pytest.mark.outside
def test_no_log_gives_a_secret_away(
    flavour: str, encrypted_pem: bytes, secrets: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """At DEBUG neither this package nor httpx, httpcore or asyncio write one down (spec §5)."""

    def watch(exchange: Exchange) -> None:
        raise RuntimeError(f"a bug in a watcher, over {exchange}")

    async def several(client: AsyncOperatorClient) -> None:
        for scenario in (look_up, make_grant, _games):
            with pytest.raises(GameOperatorError):
                await scenario(client)

    service = _echoing(500, lambda echo: {"error": echo})
    with HostileServer(service) as server, caplog.at_level(logging.DEBUG):
        for name in ("game_operator", "httpx", "httpcore", "httpcore.http11", "asyncio"):
            caplog.set_level(logging.DEBUG, name)  # Put back at the end of the test.
        run(
            flavour,
            several,
            server.base_url,
            encrypted_pem,
            passphrase=_PASSPHRASE,
            retries=0,
            on_exchange=watch,
        )
    assert "a bug in a watcher" in caplog.text
    assert _leaks(caplog.text, secrets) == []


@pytest.mark.parametrize("kind", [OperatorClient, AsyncOperatorClient])
def test_no_client_gives_a_secret_away(kind: Any, encrypted_pem: bytes, secrets: dict[str, str]) -> None:
    """Its repr, its parts and their parts show none, and it is not pickled (spec §5)."""
    client = kind("http://localhost:9", "acme", encrypted_pem, passphrase=_PASSPHRASE)
    other = client.with_options(timeout=1.0)
    told = "".join(f"{part!r} {part}" for part in (client, other, *vars(client).values(), *vars(client._wire).values()))
    assert f"{kind.__name__}(base_url='http://localhost:9', operator_id='acme')" in told
    signatures = client._signatures
    told += "".join(f"{part!r} {part}" for part in vars(signatures).values())
    assert _leaks(told, secrets) == []
    for refused in (client, other, signatures.signer):
        for duplicate in (pickle.dumps, copy, deepcopy):
            with pytest.raises(
                TypeError,
                match=rf"{type(refused).__name__} holds a private key.* not pickled; .* in each process instead",
            ):
                duplicate(refused)


@pytest.mark.parametrize("kind", [OperatorClient, AsyncOperatorClient])
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        pytest.param({"base_url": "nonsense"}, GameOperatorError, id="no address"),
        pytest.param({"timeout": -1}, GameOperatorError, id="no timeout"),
        pytest.param({"http_client": object()}, GameOperatorError, id="no http client"),
        pytest.param({"passphrase": _PASSPHRASE + "!"}, SigningKeyError, id="a wrong passphrase"),
        pytest.param({"passphrase": None}, SigningKeyError, id="no passphrase"),
        pytest.param({"surprise": 1}, TypeError, id="an argument too many"),
    ],
)
@pytest.mark.parametrize("from_env", [False, True], ids=["arguments", "environment"])
@pytest.mark.drawn(18)
def test_no_error_of_a_constructor_gives_a_secret_away(
    kind: Any,
    wrong: dict[str, Any],
    problem: type[Exception],
    from_env: bool,
    encrypted_pem: bytes,
    secrets: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is wrong, the key and its passphrase have left our frames (spec §5)."""
    set_environment(monkeypatch, BASE_URL="https://api.example.com", ID="acme", PRIVATE_KEY=encrypted_pem.decode())
    if "passphrase" not in wrong:
        monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE", _PASSPHRASE)
    arguments = {"base_url": "https://api.example.com", "operator_id": "acme"}
    secret_arguments = {"private_key": encrypted_pem, "passphrase": _PASSPHRASE}
    make = kind.from_env if from_env else kind
    given = wrong if from_env else arguments | secret_arguments | wrong
    with pytest.raises(problem) as raised:
        make(**given)
    assert _leaks(everything_told(raised.value), secrets) == []


@pytest.mark.outside
@pytest.mark.parametrize("flavour", ["sync", "asyncio", "trio"])
def test_a_broken_signer_gives_no_secret_of_ours_away(
    flavour: str, private_key: RSAPrivateKey, secrets: dict[str, str]
) -> None:
    """Our frames in the traceback of somebody else's exception hold none (spec §5)."""

    class Forgetful:
        calls = 0

        def sign(self, message: bytes) -> bytes:
            self.calls += 1
            if self.calls > 1:
                raise RuntimeError("the key is gone")
            return sign(private_key, message)

    async def twice(client: AsyncOperatorClient) -> Any:
        await client.fetch_bet("bet-1")
        return await client.fetch_bet("bet-2")

    found = answer(response_bytes(200, wire(bet())))
    with HostileServer(found) as server, pytest.raises(RuntimeError, match="the key is gone") as raised:
        run(flavour, twice, server.base_url, Forgetful())
    assert _leaks(everything_told(raised.value), secrets) == []
