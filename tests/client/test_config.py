"""Settings: what is accepted, what is refused with which words, and what a client shares with its copies (spec §5)."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, OperatorClient, RetryPolicy, SessionTokenBuilder
from game_operator.errors import ConfigurationError
from game_operator.models import OpenBet
from game_operator.protocol.http import service_name
from tests.support.flavours import Perform
from tests.support.hostile_server import HostileServer, answer, response_bytes
from tests.support.keys import set_environment
from tests.support.wire import bet, wire

_FOUND = answer(response_bytes(200, wire(bet())))

KINDS = pytest.mark.parametrize("kind", [OperatorClient, AsyncOperatorClient])


def _made(kind: Any, key: RSAPrivateKey, **options: Any) -> Any:
    return kind(**({"base_url": "https://api.example.com", "operator_id": "acme", "private_key": key} | options))


@KINDS
@pytest.mark.parametrize(
    ("base_url", "kept"),
    [
        pytest.param("https://api.example.com", None, id="https"),
        pytest.param("https://api.example.com/", "https://api.example.com", id="a trailing slash"),
        pytest.param("https://api.example.com:8443/operator", None, id="a port and a prefix"),
        pytest.param("HTTPS://api.example.com", "https://api.example.com", id="capitals"),
        pytest.param(f"https://{'a' * 63}.example.", None, id="a label of 63, and the root"),
        pytest.param("http://api.localhost", None, id="http to a name below localhost"),
        pytest.param("http://127.0.0.1:8000", None, id="http to 127.0.0.1"),
        pytest.param("http://[::1]:8000", None, id="http to ::1"),
    ],
)
def test_an_address_is_taken(kind: Any, base_url: str, kept: str | None, private_key: RSAPrivateKey) -> None:
    """Any https address, and plain http to this machine (assumed, docs/decisions/0004)."""
    client = _made(kind, private_key, base_url=base_url)
    assert (client.base_url, client.operator_id) == (kept or base_url, "acme")
    assert repr(client) == f"{kind.__name__}(base_url={kept or base_url!r}, operator_id='acme')"


@KINDS
@pytest.mark.parametrize(
    ("base_url", "told"),
    [
        pytest.param("", "is not a valid address", id="nothing"),
        pytest.param('"https://api.example.com"', "is in quotes. Remove the quotes", id="in quotes"),
        pytest.param("api.example.com", "is not a valid address", id="no scheme"),
        pytest.param("ftp://api.example.com", "is not a valid address", id="another scheme"),
        pytest.param(f"https://{'a' * 64}.example", "is not a valid address", id="a label of 64"),
        pytest.param("https://api.example.com:99999", "is not a valid address", id="no such port"),
        pytest.param("https://bücher.example", "is not a valid address", id="not ASCII"),
        pytest.param("https://api.example.com\n", "is not a valid address", id="a line break"),
        pytest.param("https://999.1.1.1", "no machine can have", id="no such IPv4 address"),
        pytest.param("https://api.example.com/bücher", "letters beyond ASCII", id="a path beyond ASCII"),
        pytest.param("https://api.example.com?key=1", "carries a query, a fragment, a space", id="a query"),
        pytest.param("https://api.example.com/a b", "carries a query, a fragment, a space", id="a space within"),
        pytest.param("https://acme:s3cret@api.example.com", "user name or password", id="a password"),
        pytest.param("https://api.example.com/api/v0.2", "ends in /api/v0.2", id="the prefix of all paths"),
        pytest.param("http://api.example.com", "plain http to another machine", id="http"),
        pytest.param("http://127.0.0.1.example.com", "plain http to another machine", id="http to what looks local"),
        pytest.param("http://evillocalhost", "plain http to another machine", id="http to what ends so"),
    ],
)
def test_an_address_is_refused(kind: Any, base_url: str, told: str, private_key: RSAPrivateKey) -> None:
    """At construction, with words that say why; a password in it is not shown (assumed, docs/decisions/0004)."""
    with pytest.raises(ConfigurationError, match=re.escape(told)) as raised:
        _made(kind, private_key, base_url=base_url)
    assert "s3cret" not in str(raised.value)


@KINDS
def test_plain_http_elsewhere_needs_your_word(kind: Any, private_key: RSAPrivateKey) -> None:
    """allow_insecure_http=True is that word, and allows nothing else (assumed, docs/decisions/0004)."""
    base_url = "http://api.internal"
    assert _made(kind, private_key, base_url=base_url, allow_insecure_http=True)._base_url == base_url
    with pytest.raises(ConfigurationError, match="is not a valid address"):
        _made(kind, private_key, base_url="ftp://api.internal", allow_insecure_http=True)


@KINDS
@pytest.mark.parametrize(
    "operator_id",
    ["acme", "ACME-1_2.3", "a", "a b", "~!@#$%^&*()", "x" * 500, '"', '"acme', "acme'", "\"acme'", 'a"c"e'],
)
def test_an_operator_id_is_taken(kind: Any, operator_id: str, private_key: RSAPrivateKey) -> None:
    """Whatever a header can carry and the signed string keeps apart (spec §5, docs/decisions/0002)."""
    assert f"operator_id={operator_id!r}" in repr(_made(kind, private_key, operator_id=operator_id))


@KINDS
@pytest.mark.parametrize(
    "operator_id",
    ["", " ", "a:b", ":", " acme", "acme ", "acme\n", "ac\nme", "ac\tme", "ac\0me", "acmé", "日本", "a\x7f"],
)
def test_an_operator_id_is_refused(kind: Any, operator_id: str, private_key: RSAPrivateKey) -> None:
    """A colon would make the signed string ambiguous; the rest no header carries (spec §5, docs/decisions/0002)."""
    with pytest.raises(ConfigurationError) as refused:
        _made(kind, private_key, operator_id=operator_id)
    assert refused.value.setting == "operator_id"


@KINDS
@pytest.mark.parametrize("operator_id", ['"acme"', "'acme'", '""', "''"])
def test_an_operator_id_in_quotes_is_refused(
    kind: Any, operator_id: str, private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some readers of .env files leave quotes around a value; no service knows such an operator (spec §5)."""
    set_environment(monkeypatch, BASE_URL="https://api.example.com", ID=operator_id)
    builds: list[Callable[[], object]] = [
        lambda: _made(kind, private_key, operator_id=operator_id),
        lambda: kind.from_env(private_key=private_key),
        lambda: SessionTokenBuilder(operator_id, private_key),
        lambda: SessionTokenBuilder.from_env(private_key=private_key),
    ]
    for build in builds:
        with pytest.raises(ConfigurationError, match=r"is in quotes\. Pass it without them") as refused:
            build()
        assert refused.value.setting == "operator_id"
    set_environment(monkeypatch, BASE_URL="https://api.example.com", ID=operator_id.strip("\"'") or "acme")
    for build in builds[1::2]:
        assert "operator_id='acme'" in repr(build())


_ACCEPTED = [
    pytest.param({"timeout": 0.001}, id="a millisecond"),
    pytest.param({"timeout": 1_000_000}, id="a million seconds"),
    pytest.param({"deadline": None}, id="no deadline"),
    pytest.param({"retries": RetryPolicy(max_retries=6)}, id="a policy"),
]


@KINDS
@pytest.mark.parametrize("options", _ACCEPTED)
def test_a_setting_is_taken(kind: Any, options: dict[str, Any], private_key: RSAPrivateKey) -> None:
    """Each on the near side of its limit (assumed, docs/decisions/0004)."""
    client = _made(kind, private_key, **options)
    assert _made(kind, private_key).with_options(**options)._settings == client._settings


async def _watch(exchange: object) -> None:
    raise AssertionError("never awaited")


_REFUSED = [
    *(
        pytest.param({name: value}, ConfigurationError, f"{name} is .* from 0.001", id=f"{name} of {value}")
        for name in ("timeout", "deadline")
        for value in (0, -1, 0.0, float("inf"), float("nan"), -float("inf"), 1_000_001)
    ),
    pytest.param({"timeout": 10**5000}, ConfigurationError, "timeout is .* from 0.001", id="5000 digits"),
    *(
        pytest.param({name: value}, TypeError, f"{name} must be a number", id=f"{name} of type {type(value).__name__}")
        for name in ("timeout", "deadline")
        for value in ("3", True, (1, 2))
    ),
    pytest.param({"timeout": None}, TypeError, "timeout must be a number", id="no timeout"),
    pytest.param({"retries": -1}, ConfigurationError, "retries is -1", id="fewer than no repeats"),
    pytest.param({"retries": 1.0}, TypeError, "retries must be", id="1.0 repeats"),
    pytest.param({"base_url": 7}, TypeError, "base_url must be a str", id="a number for an address"),
    pytest.param({"operator_id": 7}, TypeError, "operator_id must be a str", id="a number for an operator"),
    pytest.param({"private_key": 7}, TypeError, "private_key must be", id="a number for a key"),
    pytest.param(
        {"ssl_context": "ca.pem"}, TypeError, "ssl_context must be of the type SSLContext, not str", id="a CA"
    ),
    pytest.param({"trust_env": "no"}, TypeError, "trust_env must be of the type bool", id="trust in words"),
    pytest.param({"on_exchange": "print"}, TypeError, "on_exchange must be a function", id="a word for a watcher"),
    pytest.param({"on_exchange": _watch}, TypeError, "and not an async one", id="an async watcher"),
]


@KINDS
@pytest.mark.parametrize(("options", "error", "told"), _REFUSED)
def test_a_setting_is_refused(
    kind: Any, options: dict[str, Any], error: type[Exception], told: str, private_key: RSAPrivateKey
) -> None:
    """At construction and by with_options, so that no call fails on it later (assumed, docs/decisions/0004)."""
    with pytest.raises(error, match=told):
        _made(kind, private_key, **options)
    if {"timeout", "deadline", "retries"} & set(options):
        with pytest.raises(error, match=told):
            _made(kind, private_key).with_options(**options)


@KINDS
def test_defaults_are_as_documented(kind: Any, private_key: RSAPrivateKey) -> None:
    """10 s for an attempt, 30 s for a call, 2 repeats, 16 and 4 MiB (assumed, docs/decisions/0004)."""
    client = _made(kind, private_key)
    settings, limit_of = client._settings, client._wire._limit_of
    assert (settings.timeout_seconds, settings.deadline_seconds, settings.policy) == (10.0, 30.0, RetryPolicy())
    assert settings.policy.max_retries == 2
    assert (limit_of("fetch-games"), limit_of("fetch-bet")) == (16 * 2**20, 4 * 2**20)
    assert _made(kind, private_key, retries=4)._settings.policy.max_retries == 4
    assert client.with_options()._settings == settings


@KINDS
@pytest.mark.parametrize("form", ["text", "text on one line", "file"])
def test_the_environment_is_enough(
    kind: Any, form: str, private_pem: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Address, operator and key from GAME_OPERATOR_…, the key as text or as a file (assumed, docs/decisions/0004)."""
    file = tmp_path / "key.pem"
    file.write_bytes(private_pem)
    text = private_pem.decode()
    key = {
        "text": {"PRIVATE_KEY": text},
        "text on one line": {"PRIVATE_KEY": text.replace("\n", "\\n")},
        "file": {"PRIVATE_KEY_FILE": str(file)},
    }[form]
    set_environment(monkeypatch, BASE_URL="https://api.example.com", ID="acme", **key)
    client = kind.from_env(timeout=3.0)
    assert repr(client) == f"{kind.__name__}(base_url='https://api.example.com', operator_id='acme')"
    assert client._settings.timeout_seconds == 3.0


_KEY_NAMES = "GAME_OPERATOR_PRIVATE_KEY_FILE (or GAME_OPERATOR_PRIVATE_KEY)"


@KINDS
@pytest.mark.parametrize(
    ("variables", "told"),
    [
        pytest.param({"ID": "a", "PRIVATE_KEY": "x"}, ["GAME_OPERATOR_BASE_URL"], id="no address"),
        pytest.param({"BASE_URL": "x", "ID": "a"}, [_KEY_NAMES], id="no key"),
        pytest.param({}, ["GAME_OPERATOR_BASE_URL", "GAME_OPERATOR_ID", _KEY_NAMES], id="nothing"),
    ],
)
def test_what_the_environment_lacks_is_named(
    kind: Any, variables: dict[str, str], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is missing, and nothing else (assumed, docs/decisions/0004)."""
    set_environment(monkeypatch, **variables)
    with pytest.raises(ConfigurationError) as raised:
        kind.from_env()
    assert str(raised.value) == (f"Not set in the environment: {', '.join(told)}. Set them, or pass the arguments.")


@KINDS
def test_arguments_go_before_the_environment(
    kind: Any, private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is passed need not be set, and counts if it is (assumed, docs/decisions/0004)."""
    set_environment(monkeypatch, BASE_URL="https://x.example", PRIVATE_KEY_PASSPHRASE="for another key")
    client = kind.from_env(operator_id="acme", private_key=private_key, base_url="https://y.example")
    assert repr(client) == f"{kind.__name__}(base_url='https://y.example', operator_id='acme')"


@pytest.mark.outside
@pytest.mark.parametrize("flavour", ["sync", "asyncio", "trio"])
def test_copies_share_connections_that_stay_the_originals(perform: Perform) -> None:
    """with_options opens nothing of its own; closing a copy closes nothing (docs/decisions/0004)."""

    async def through_copies(client: Any) -> None:
        for timeout in (1.0, 2.0, 3.0):
            assert isinstance(await client.with_options(timeout=timeout).fetch_bet("bet-1"), OpenBet)
        assert isinstance(await client.fetch_bet("bet-1"), OpenBet)

    with HostileServer(_FOUND) as server:
        perform(through_copies, server.base_url)
        assert (len(server.connections), len(server.requests)) == (1, 4)
        assert server.wait_until_closed()


@pytest.mark.outside
def test_closing(private_key: RSAPrivateKey) -> None:
    """It is final for a client and its copies, may be repeated, and is not for a copy to do (docs/decisions/0004)."""
    with HostileServer(_FOUND) as server:
        client = OperatorClient(server.base_url, "acme", private_key, trust_env=False)
        with client.with_options(timeout=1.0) as copied:
            copied.fetch_bet("bet-1")
        copied.close()
        client.fetch_bet("bet-1")
        assert len(server.connections) == 1
        client.close()
        assert server.wait_until_closed()
        client.close()
        for closed in (client, copied, client.with_options()):
            with pytest.raises(ConfigurationError, match="This OperatorClient is closed"):
                closed.fetch_bet("bet-1")
        assert len(server.connections) == 1


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("https://api.example.com", "HTTPS://API.Example.COM:443/", True),
        ("https://api.example.com", "https://api.example.com.:", True),
        ("https://xn--bcher-kva.example", "https://XN--Bcher-KVA.example", True),
        ("https://api.example.com:8443/Games", "https://API.example.com:08443/Games/", True),
        ("https://api.example.com", "http://api.example.com:443", False),
        ("https://api.example.com", "https://api.example.com:80", False),
        ("https://api.example.com", "https://api2.example.com", False),
        ("https://api.example.com/a", "https://api.example.com/A", False),
    ],
)
def test_which_addresses_are_one_service(one: str, other: str, is_same: bool, private_key: RSAPrivateKey) -> None:
    """By scheme, host in lower case and port; two paths may lead to two services. The operator id belongs to it."""
    clients = [OperatorClient(url, "acme", private_key, allow_insecure_http=True) for url in (one, other)]
    names = [service_name(client.base_url, client.operator_id) for client in clients]
    assert (names[0] == names[1]) is is_same
    assert service_name(one, "acme") != service_name(one, "ACME")
    for client in clients:
        client.close()
