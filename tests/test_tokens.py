"""Session tokens: what is assumed of them is kept exactly, and nothing else is believed (spec §1, §5)."""

import base64
import hmac
import json
import pickle
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256, SHA512
from hypothesis import given, strategies

from game_operator import (
    ConfigurationError,
    GameOperatorError,
    SessionTokenBuilder,
    SessionTokenError,
    SigningKeyError,
    launch_url,
)
from tests.support.leaks import everything_told
from tests.support.wire import examples

NOW = 1_800_000_000
JsonObject = dict[str, Any]


@pytest.fixture
def tokens(private_key: RSAPrivateKey) -> SessionTokenBuilder:
    """Return a builder at a fixed time."""
    return SessionTokenBuilder("acme", private_key, clock=lambda: NOW + 0.75)


def segment(content: bytes | JsonObject) -> str:
    """Return one part of a JWT."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unpacked(token: str) -> tuple[JsonObject, JsonObject]:
    """Return header and payload of *token*, with its numbers as text to show every digit."""
    header, payload, _ = token.split(".")
    decoded = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in (header, payload)]
    return json.loads(decoded[0]), json.loads(decoded[1], parse_float=lambda digits: f"number {digits}")


def good(**changes: Any) -> JsonObject:
    """Return claims that are accepted at ``NOW``, with *changes*; a claim of ``...`` is left out."""
    claims = {
        "iss": "acme",
        "sub": "p1",
        "aud": "i1",
        "iat": NOW,
        "exp": NOW + 900,
        "jti": "3f0d4a52-0000-4000-8000-000000000000",
    }
    return {name: value for name, value in (claims | changes).items() if value is not ...}


def signed(key: RSAPrivateKey, payload: bytes | JsonObject, header: JsonObject | None = None) -> str:
    """Return a token that is really signed with RS256, whatever is in it."""
    text = f"{segment(header or {'alg': 'RS256', 'typ': 'JWT'})}.{segment(payload)}"
    return f"{text}.{segment(key.sign(text.encode(), PKCS1v15(), SHA256()))}"


# What is built


def test_a_token_says_what_is_assumed_and_nothing_more(tokens: SessionTokenBuilder) -> None:
    """iss, sub, aud, iat, exp and jti, in RS256, and no data or kid unless given (spec §5)."""
    header, payload = unpacked(tokens.build(player_id="p1", instance_id="i1"))
    assert header == {"typ": "JWT", "alg": "RS256"}
    token_id = payload.pop("jti")
    assert payload == {"iss": "acme", "sub": "p1", "aud": "i1", "iat": NOW, "exp": NOW + 900}
    assert str(uuid.UUID(token_id)) == token_id
    assert uuid.UUID(token_id).version == 4


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        pytest.param({"balance": Decimal("12.50")}, {"balance": "number 12.50"}, id="balance"),
        pytest.param({"balance": Decimal(0)}, {"balance": 0}, id="a balance of nothing is given"),
        pytest.param(
            {"balance": Decimal("0.10"), "name": "Zoë 日本", "timestamp": 0},
            {"balance": "number 0.10", "name": "Zoë 日本", "timestamp": 0},
            id="all three",
        ),
    ],
)
def test_data_holds_what_is_given(arguments: JsonObject, data: JsonObject, tokens: SessionTokenBuilder) -> None:
    """Balance, name and timestamp stand in data, each only when given (spec §5)."""
    token = tokens.build(player_id="p1", instance_id="i1", **arguments)
    assert unpacked(token)[1]["data"] == data
    claims = tokens.decode(token, instance_id="i1")
    for name in ("balance", "name", "timestamp"):
        assert getattr(claims, name) == arguments.get(name)


@pytest.mark.slow
def test_claims_nested_beyond_reason_are_refused(tokens: SessionTokenBuilder) -> None:
    """Depth ends in a SessionTokenError, not in a RecursionError (spec §5)."""
    deep: JsonObject = {}
    for _ in range(100_000):
        deep = {"d": deep}
    with pytest.raises(SessionTokenError, match="cannot carry these claims"):
        tokens.build(player_id="p1", instance_id="i1", claims=deep)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        *(
            pytest.param({"claims": {"mine": 1, name: "x"}}, ConfigurationError, f"{name}: the builder sets", id=name)
            for name in ("iss", "sub", "aud", "iat", "nbf", "exp", "jti", "data")
        ),
        pytest.param({"claims": {"x": [{"y": 1.5}]}}, TypeError, "float.*Give a Decimal", id="claims: a float"),
        pytest.param({"claims": [("x", 1)]}, TypeError, "claims must be a mapping, not list", id="claims: pairs"),
        pytest.param({"claims": {"x": Decimal("1E+999999")}}, SessionTokenError, "finite", id="claims: without end"),
        pytest.param({"claims": {"x": "\ud800"}}, SessionTokenError, "surrogates", id="claims: a lone surrogate"),
        pytest.param({"claims": {"x": "y" * 20_000}}, SessionTokenError, "Put less into", id="claims: too much"),
        pytest.param({"balance": 12.5}, TypeError, "balance must be of type Decimal, not float", id="balance: float"),
        pytest.param({"balance": Decimal("1E+65")}, SessionTokenError, "amount of money", id="balance: too large"),
        pytest.param({"name": 7}, TypeError, "name must be of type str, not int", id="name: int"),
        pytest.param({"timestamp": 1.5}, TypeError, "timestamp must be of type int, not float", id="timestamp: float"),
        pytest.param({"player_id": ""}, ConfigurationError, "player id is empty", id="player_id: empty"),
        pytest.param({"player_id": "\udc00"}, SessionTokenError, "surrogates", id="player_id: a lone surrogate"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    arguments: JsonObject, error: type[Exception], words: str, tokens: SessionTokenBuilder
) -> None:
    """Claims only add and are never rounded, types are exact, ids are not empty; the error names which (spec §5)."""
    with pytest.raises(error, match=words):
        tokens.build(**{"player_id": "p1", "instance_id": "i1", **arguments})


@pytest.mark.parametrize(
    "seconds", [pytest.param(1, id="1 second"), pytest.param(900, id="15 minutes"), pytest.param(10_800, id="3 hours")]
)
def test_a_lifetime_from_a_second_to_three_hours(seconds: int, private_key: RSAPrivateKey) -> None:
    """Both ends are inside, built and read (spec §5)."""
    tokens = SessionTokenBuilder("acme", private_key, lifetime=timedelta(seconds=seconds), clock=lambda: NOW)
    claims = tokens.decode(tokens.build(player_id="p1", instance_id="i1"), instance_id="i1")
    assert (claims.expires_at - claims.issued_at).total_seconds() == seconds


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        pytest.param({"operator_id": ""}, ConfigurationError, "operator id is empty", id="no operator"),
        pytest.param({"operator_id": 7}, TypeError, "operator_id must be a str", id="an operator that is no text"),
        pytest.param({"key_id": ""}, ConfigurationError, "key id is empty", id="an empty key id"),
        pytest.param({"key_id": 7}, TypeError, "key_id must be a str", id="a key id that is no text"),
        pytest.param({"operator_id": "ac:me"}, ConfigurationError, "without a colon", id="an operator with a colon"),
        pytest.param({"passphrase": "p"}, SigningKeyError, "passphrase", id="a passphrase too many"),
        pytest.param({"lifetime": timedelta(milliseconds=999)}, ConfigurationError, "from 1 s", id="under a second"),
        pytest.param({"lifetime": timedelta(seconds=1.5)}, ConfigurationError, "from 1 second", id="no whole seconds"),
        pytest.param({"lifetime": timedelta(hours=3, seconds=1)}, ConfigurationError, "to 3 hours", id="over 3 hours"),
        pytest.param({"lifetime": 900}, TypeError, "must be a timedelta", id="a lifetime that is a number"),
    ],
)
def test_a_builder_that_cannot_work_is_refused(
    arguments: JsonObject, error: type[Exception], words: str, private_key: RSAPrivateKey
) -> None:
    """Settings are checked when the builder is made, not at the first token (spec §5)."""
    with pytest.raises(error, match=words):
        SessionTokenBuilder(**{"operator_id": "acme", "private_key": private_key, **arguments})


# Interoperation


def test_pyjwt_reads_what_we_write(private_key: RSAPrivateKey, public_pem: bytes) -> None:
    """An independent reader verifies the token and finds the claims (spec §5)."""
    tokens = SessionTokenBuilder("acme", private_key, key_id="k1")
    token = tokens.build(player_id="p1", instance_id="i1", balance=Decimal("12.50"), name="Ann", claims={"x": "ü"})
    read = jwt.decode(
        token, public_pem, algorithms=["RS256"], audience="i1", issuer="acme", options={"require": ["exp", "jti"]}
    )
    assert read["sub"] == "p1"
    assert read["data"] == {"balance": 12.5, "name": "Ann"}
    assert read["x"] == "ü"
    assert jwt.get_unverified_header(token) == {"alg": "RS256", "kid": "k1", "typ": "JWT"}
    with pytest.raises(jwt.InvalidAudienceError):
        jwt.decode(token, public_pem, algorithms=["RS256"], audience="i2")


def test_we_read_what_pyjwt_writes(private_pem: bytes, private_key: RSAPrivateKey) -> None:
    """A token of an independent writer, with the same claims, is accepted (spec §5)."""
    now = datetime.now(UTC)
    claims = good(iat=now, nbf=now, exp=now + timedelta(minutes=5), data={"balance": 3, "name": "Ann"}, mine=[1])
    token = jwt.encode(claims, private_pem, algorithm="RS256", headers={"kid": "other"})
    read = SessionTokenBuilder("acme", private_key).decode(token, instance_id="i1")
    assert (read.player_id, read.balance, read.name, read.extra) == ("p1", Decimal(3), "Ann", {"mine": [1]})


# What is refused

HOUR = 3600
FOREVER = 10**30


@pytest.mark.parametrize(
    ("claims", "leeway", "words"),
    [
        pytest.param(good(), timedelta(0), None, id="all fits"),
        pytest.param(good(aud="i2"), timedelta(0), "opens instance 'i2', not 'i1'.*its own instance", id="aud"),
        pytest.param(good(iss="other"), timedelta(0), "'other' issued it, not 'acme'.*issuer's key", id="iss"),
        pytest.param(good(data={"balance": 1e80}), timedelta(0), "balance is not an amount", id="beyond any purse"),
        pytest.param(good(iat=NOW - 900, exp=NOW), timedelta(seconds=0.76), None, id="exp within"),
        pytest.param(good(iat=NOW - 900, exp=NOW), timedelta(seconds=0.75), "expired.*Build", id="exp at the limit"),
        pytest.param(good(iat=NOW - 900, exp=NOW - 60), timedelta(seconds=61), None, id="exp a minute ago"),
        pytest.param(good(iat=NOW + 1), timedelta(seconds=0.24), "not valid yet", id="iat beyond it"),
        pytest.param(good(nbf=NOW + 1), timedelta(seconds=0.25), None, id="nbf at the limit"),
        pytest.param(good(exp=NOW + 3 * HOUR + 1), timedelta(hours=9), "longer than 3 hours", id="over 3 hours"),
        pytest.param(good(iat=FOREVER, exp=FOREVER), timedelta.max, "not valid yet", id="beyond any leeway"),
        pytest.param(good(iat=10**12, exp=10**12), timedelta.max, "years 1 to 9999", id="beyond any date"),
        pytest.param(good(iat=-(10**12), exp=-(10**12)), timedelta.max, "years 1 to 9999", id="before any date"),
    ],
)
def test_a_genuine_token_has_to_fit(
    claims: JsonObject, leeway: timedelta, words: str | None, tokens: SessionTokenBuilder, private_key: RSAPrivateKey
) -> None:
    """A good signature is not enough (spec §5). Times may be off by a leeway and no more (docs/decisions/0005)."""
    token = signed(private_key, claims)
    if words is None:
        assert tokens.decode(token, instance_id="i1", leeway=leeway).token_id == good()["jti"]
        return
    with pytest.raises(SessionTokenError, match=words):
        tokens.decode(token, instance_id="i1", leeway=leeway)


def test_other_algorithms_are_refused(
    tokens: SessionTokenBuilder, private_key: RSAPrivateKey, public_pem: bytes
) -> None:
    """RS256 and nothing else: no "none", no HMAC under the public key, not even the right key's RS512 (spec §5)."""
    for algorithm in ("none", "None", "", None, "HS256", ["RS256"], {"RS256": 1}):
        text = f"{segment({'alg': algorithm, 'typ': 'JWT'})}.{segment(good())}"
        for signature in ("", segment(b"x" * 256)):
            with pytest.raises(SessionTokenError, match=r"not signed with RS256. Do not trust it"):
                tokens.decode(f"{text}.{signature}", instance_id="i1")
    honest: dict[str, Callable[[bytes], bytes]] = {
        "HS256": lambda text: hmac.digest(public_pem, text, sha256),
        "RS512": lambda text: private_key.sign(text, PKCS1v15(), SHA512()),
        "rs256": lambda text: private_key.sign(text, PKCS1v15(), SHA256()),
    }
    for name, sign in honest.items():
        text = f"{segment({'alg': name, 'typ': 'JWT'})}.{segment(good())}"
        with pytest.raises(SessionTokenError, match="not signed with RS256"):
            tokens.decode(f"{text}.{segment(sign(text.encode()))}", instance_id="i1")
    with pytest.raises(SessionTokenError, match="not signed with RS256"):
        tokens.decode(signed(private_key, good(), {"typ": "JWT"}), instance_id="i1")


def test_a_token_of_another_key_is_refused(tokens: SessionTokenBuilder, other_key: RSAPrivateKey) -> None:
    """The signature has to be this operator's, whatever the claims say (spec §5)."""
    with pytest.raises(SessionTokenError, match=r"not this operator's. Do not trust it"):
        tokens.decode(signed(other_key, good()), instance_id="i1")
    with pytest.raises(SessionTokenError, match="not this operator's"):
        tokens.decode(SessionTokenBuilder("acme", other_key).build(player_id="p1", instance_id="i1"), instance_id="i1")


def test_a_changed_token_is_refused(tokens: SessionTokenBuilder, private_key: RSAPrivateKey) -> None:
    """Any change of header, payload or signature breaks it (spec §5)."""
    token = signed(private_key, good())
    for index in range(0, len(token), 7):
        twisted = token[:index] + ("A" if token[index] != "A" else "B") + token[index + 1 :]
        with pytest.raises(SessionTokenError, match="is refused"):
            tokens.decode(twisted, instance_id="i1")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("日本.日本.日本", id="no ASCII"),
        pytest.param("eyJhbGciOiJSUzI1NiJ9..e30.AAAA", id="two dots in a row"),
        pytest.param(segment(b"[" * 5000) + ".e30.AAAA", id="a header without end"),
        pytest.param(segment({"alg": "RS256", "crit": ["exp"], "exp": 1}) + ".e30.AAAA", id="a critical extension"),
        pytest.param(segment({"alg": "RS256", "kid": 7}) + ".e30.AAAA", id="a key id that is no text"),
    ],
)
def test_what_is_no_token_is_refused(text: str, tokens: SessionTokenBuilder) -> None:
    """Garbage of every sort is a SessionTokenError with advice (spec §5)."""
    with pytest.raises(SessionTokenError, match=r"cannot be read as a JWT. Pass the token whole|Do not trust it"):
        tokens.decode(text, instance_id="i1")


def test_padding_in_any_part_is_refused(tokens: SessionTokenBuilder, private_key: RSAPrivateKey) -> None:
    """A JWT is base64 without padding (RFC 7515): a token has one text (docs/decisions/0005)."""
    token = signed(private_key, good())
    assert tokens.decode(token, instance_id="i1").player_id == "p1"
    header, payload, signature = token.split(".")
    text = f"{header}.{base64.urlsafe_b64encode(json.dumps(good(x=1)).encode()).decode().rstrip('=')}=="
    padded = [
        f"{header}=.{payload}.{signature}",
        f"{header}.{payload}=.{signature}",
        f"{token}=",
        f"{token}==",
        f"{text}.{segment(private_key.sign(text.encode(), PKCS1v15(), SHA256()))}",
    ]
    for each in padded:
        with pytest.raises(SessionTokenError, match="base64 without padding") as refused:
            tokens.decode(each, instance_id="i1")
        assert signature[:40] not in everything_told(refused.value)


def test_a_token_around_the_limit_of_length(private_key: RSAPrivateKey) -> None:
    """The longest token that is built is read; nothing longer is even looked at (spec §5)."""
    tokens = SessionTokenBuilder("acme", private_key)
    low, high = 0, 16_384
    while high - low > 1:
        middle = (low + high) // 2
        try:
            longest = tokens.build(player_id="p1", instance_id="i1", claims={"x": "y" * middle})
            low = middle
        except SessionTokenError:
            high = middle
    assert 16_380 < len(longest) <= 16_384
    assert tokens.decode(longest, instance_id="i1").extra == {"x": "y" * low}
    assert launch_url("https://play.example/{token}", f"a.b.{'c' * 16_380}")
    with pytest.raises(SessionTokenError, match="it has 16385 characters"):
        tokens.decode("a" * 16_385, instance_id="i1")
    with pytest.raises(SessionTokenError, match="cannot be read"):
        tokens.decode("a" * 16_384, instance_id="i1")


JUNK = strategies.one_of(
    strategies.text(),
    strategies.text(alphabet="eyJhbGciOiJSUzI1NiJ9.-_=AZaz09", max_size=80),
    strategies.builds(".".join, strategies.lists(strategies.text(alphabet="eyJ01_-=", max_size=12), max_size=5)),
    strategies.builds(
        "{}.{}.{}".format,
        strategies.binary(max_size=40).map(segment),
        strategies.binary(max_size=40).map(segment),
        strategies.binary(max_size=40).map(segment),
    ),
    strategies.builds(
        "{}.{}.{}".format,
        strategies.dictionaries(
            strategies.sampled_from(["alg", "kid", "crit", "b64", "typ", "x"]),
            strategies.recursive(
                strategies.none() | strategies.booleans() | strategies.sampled_from(["RS256", "b64", "none", 7]),
                lambda inner: strategies.lists(inner, max_size=3),
                max_leaves=4,
            ),
        ).map(segment),
        strategies.sampled_from(["", "e30", "AAAA"]),
        strategies.sampled_from(["", "AAAA"]),
    ),
)


@examples(300)
@given(text=JUNK)
def test_no_text_ends_in_another_error(text: str, private_key: RSAPrivateKey) -> None:
    """Whatever text comes in, it is a SessionTokenError (spec §5)."""
    with pytest.raises(SessionTokenError):
        SessionTokenBuilder("acme", private_key).decode(text, instance_id="i1")


@pytest.mark.parametrize("token", [b"a.b.c", None, 7, ["a"]])
def test_what_is_no_text_is_a_type_error(token: Any, tokens: SessionTokenBuilder) -> None:
    """Arguments of the wrong type are named by their type (spec §5)."""
    with pytest.raises(TypeError, match=f"token must be a str, not {type(token).__name__}"):
        tokens.decode(token, instance_id="i1")


def test_the_instance_has_to_be_named(tokens: SessionTokenBuilder) -> None:
    """There is no reading a token for whatever instance it names (spec §5)."""
    token = tokens.build(player_id="p1", instance_id="i1")
    with pytest.raises(ConfigurationError, match="instance id is empty"):
        tokens.decode(token, instance_id="")
    with pytest.raises(TypeError, match="instance_id must be a str"):
        tokens.decode(token, instance_id=None)  # type: ignore[arg-type] # what is tested


def test_a_builder_follows_a_frozen_clock(private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a clock of its own, a builder made before the time is frozen goes by ``time.time`` (spec §5)."""
    tokens = SessionTokenBuilder("acme", private_key)
    monkeypatch.setattr("time.time", lambda: float(NOW))
    token = tokens.build(player_id="p1", instance_id="i1")
    assert tokens.decode(token, instance_id="i1").issued_at.timestamp() == NOW
    monkeypatch.setattr("time.time", lambda: NOW + 900.0)
    with pytest.raises(SessionTokenError, match="expired"):
        tokens.decode(token, instance_id="i1")


# Keys and signers


class Remote:
    """A signer that tells no public key."""

    def __init__(self, key: RSAPrivateKey) -> None:
        self.key = key

    def sign(self, message: bytes) -> bytes:
        return self.key.sign(message, PKCS1v15(), SHA256())


class AsyncRemote(Remote):
    """The same, awaited."""

    async def sign(self, message: bytes) -> bytes:  # type: ignore[override] # a twin, not a stand-in
        return super().sign(message)


def test_a_signer_that_tells_no_public_key_needs_one(
    private_key: RSAPrivateKey, public_key: RSAPublicKey, public_pem: bytes, tmp_path: Path
) -> None:
    """Building works at once; reading says what is missing, and works with public_key= in any form (spec §5)."""
    tokens = SessionTokenBuilder("acme", Remote(private_key))
    token = tokens.build(player_id="p1", instance_id="i1")
    with pytest.raises(ConfigurationError, match="Pass public_key=") as refused:
        tokens.decode(token, instance_id="i1")
    assert token not in everything_told(refused.value)
    path = tmp_path / "operator.pub.pem"
    path.write_bytes(public_pem)
    for known in (public_key, public_pem, public_pem.decode(), path):
        reader = SessionTokenBuilder("acme", Remote(private_key), public_key=known)
        assert reader.decode(token, instance_id="i1").player_id == "p1"


async def test_an_async_signer_is_awaited(private_key: RSAPrivateKey, public_key: RSAPublicKey) -> None:
    """build_async takes every signer; build says which method to use instead (spec §5)."""
    tokens = SessionTokenBuilder("acme", AsyncRemote(private_key), public_key=public_key)
    token = await tokens.build_async(player_id="p1", instance_id="i1", balance=Decimal("1.10"), claims={"x": 1})
    claims = tokens.decode(token, instance_id="i1")
    assert (claims.balance, claims.extra) == (Decimal("1.10"), {"x": 1})
    with pytest.raises(ConfigurationError, match="Await build_async instead"):
        tokens.build(player_id="p1", instance_id="i1")
    for signer in (private_key, Remote(private_key)):
        token = await SessionTokenBuilder("acme", signer).build_async(player_id="p1", instance_id="i1")
        assert tokens.decode(token, instance_id="i1").player_id == "p1"
    with pytest.raises(ConfigurationError, match="may not name sub"):
        await tokens.build_async(player_id="p1", instance_id="i1", claims={"sub": "p2"})


async def test_a_signature_that_is_none_makes_no_token() -> None:
    """What no reader would verify is not handed out: that of a key of 1,024 bits (spec §5)."""
    tokens = SessionTokenBuilder("acme", SimpleNamespace(sign=lambda _: b"x" * 128))
    with pytest.raises(SigningKeyError, match="128 bytes"):
        tokens.build(player_id="p1", instance_id="i1")
    with pytest.raises(SigningKeyError, match="128 bytes"):
        await tokens.build_async(player_id="p1", instance_id="i1")


# Secrets


def test_a_builder_shows_and_gives_away_nothing(private_pem: bytes) -> None:
    """Its repr names operator and lifetime; it is not pickled (spec §5)."""
    tokens = SessionTokenBuilder("acme", private_pem)
    assert repr(tokens) == "SessionTokenBuilder(operator_id='acme', lifetime=0:15:00)"
    with pytest.raises(TypeError, match="holds a private key"):
        pickle.dumps(tokens)


def test_no_error_carries_a_token(tokens: SessionTokenBuilder, private_key: RSAPrivateKey) -> None:
    """Refused tokens stand in no message, frame, cause or pickle; the error has no cause at all (spec §5)."""
    genuine = signed(private_key, good(aud="i2"))
    header, payload, signature = genuine.split(".")
    offered = [
        genuine,
        f"{header}.{payload}.{signature[::-1]}",
        f"{segment({'alg': 'none'})}.{payload}.{signature}",
        f"{header}.{payload}.{signature}!",
        f"{header}.{payload}.{signature}" + "A" * 16_384,
    ]
    for token in offered:
        with pytest.raises(SessionTokenError) as refused:
            tokens.decode(token, instance_id="i1")
        assert refused.value.__cause__ is refused.value.__context__ is None
        told = everything_told(refused.value)
        assert signature[:40] not in told
        assert signature[::-1][:40] not in told
        assert payload[:40] not in told
        assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


# The launch address

TOKEN = "eyJh.eyJp-_.c2ln"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("https://play.example/?token={token}", "https://play.example/?token=<token>", id="in the query"),
        pytest.param("https://play.example/#t={token}", "https://play.example/#t=<token>", id="in the fragment"),
        pytest.param(
            "https://x.example/{a}{}?{{b}}&t={token}", "https://x.example/{a}{}?{{b}}&t=<token>", id="other braces"
        ),
        pytest.param("http://127.0.0.1:8000/{token}", "http://127.0.0.1:8000/<token>", id="http to 127.0.0.1"),
    ],
)
def test_the_token_takes_its_place_in_the_address(template: str, expected: str) -> None:
    """Exactly {token} is replaced; everything else stays (spec §1)."""
    assert launch_url(template, TOKEN) == expected.replace("<token>", TOKEN)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        pytest.param("https://play.example/", "0 times", id="no {token}"),
        pytest.param("https://play.example/?t={token}&u={token}", "2 times", id="two of them"),
        pytest.param("http://play.example/{token}", "not https", id="plain http"),
        pytest.param("http://127.0.0.1.evil.example/{token}", "not https", id="plain http to a likeness"),
        pytest.param("http://evillocalhost/{token}", "not https", id="plain http to what ends so"),
        pytest.param("play.example/{token}", "not a valid address", id="no scheme"),
        pytest.param("https:///{token}", "not a valid address", id="no host"),
        pytest.param("https://{token}.play.example/", "in the place of the host", id="in the host"),
        pytest.param("https://ann:secret@play.example/{token}", "password or the {token}", id="with a password"),
        pytest.param("https://play.example\\@evil.example/{token}", "not a valid address", id="a backslash"),
        pytest.param("https://play.example/\n{token}", "not a valid address", id="a line break"),
    ],
)
def test_a_template_that_cannot_work_is_refused(template: str, words: str) -> None:
    """The error says what to change, and shows neither template nor token (spec §1)."""
    with pytest.raises(ConfigurationError, match=words) as refused:
        launch_url(template, TOKEN)
    told = everything_told(refused.value)
    assert TOKEN not in told
    assert "secret" not in told


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("a..c", id="an empty part"),
        pytest.param("a.b.c\n", id="a line break"),
        pytest.param("{token}", id="the placeholder"),
        pytest.param("a.b." + "c" * 16_384, id="too long"),
    ],
)
def test_what_is_no_token_makes_no_address(token: str) -> None:
    """Only what a builder made goes into an address, so nothing needs escaping (spec §1)."""
    with pytest.raises(SessionTokenError, match=r"Pass what SessionTokenBuilder.build returned"):
        launch_url("https://play.example/?t={token}", token)


def test_mixed_up_arguments_are_not_shown(tokens: SessionTokenBuilder) -> None:
    """A token in the place of the template, or a template that was filled in, is not printed (spec §1)."""
    token = tokens.build(player_id="p1", instance_id="i1")
    for template, second in (
        (token, "https://play.example/?t={token}"),
        (f"https://play.example/?t={token}", token),
        (f"https://play.example/{token}?t={{token}}&u={{token}}", token),
    ):
        with pytest.raises(GameOperatorError) as refused:
            launch_url(template, second)
        assert token[-40:] not in everything_told(refused.value)
    with pytest.raises(TypeError, match="template must be a str, not bytes"):
        launch_url(b"https://play.example/{token}", token)  # type: ignore[arg-type] # what is tested
    with pytest.raises(TypeError, match="token must be a str, not bytes"):
        launch_url("https://play.example/{token}", token.encode())  # type: ignore[arg-type] # what is tested


def test_a_key_in_place_of_the_operator_id_is_refused_and_not_shown(
    private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would travel as iss in each token: as in a client, for which such an id would not do either."""
    pem = "-----BEGIN PRIVATE KEY-----\\nMIIEvQ-secret\\n-----END PRIVATE KEY-----"
    monkeypatch.setenv("GAME_OPERATOR_ID", pem)
    builds: list[Callable[[], object]] = [
        lambda: SessionTokenBuilder(pem, private_key),
        lambda: SessionTokenBuilder.from_env(private_key=private_key),
    ]
    for build in builds:
        with pytest.raises(ConfigurationError, match=r"looks like a key, which is not shown") as info:
            build()
        assert "MIIEvQ-secret" not in everything_told(info.value)


def test_a_wrong_operator_id_does_not_show_the_key(private_pem: bytes) -> None:
    """The frame that refuses it has let the key go."""
    with pytest.raises(ConfigurationError) as info:
        SessionTokenBuilder("ac:me", private_pem)
    assert private_pem.decode().splitlines()[1] not in everything_told(info.value)


def test_a_token_that_is_too_long_is_not_shown(tokens: SessionTokenBuilder) -> None:
    """It is signed by then, and would be accepted (spec §1)."""
    with pytest.raises(SessionTokenError) as info:
        tokens.build(player_id="p1", instance_id="i1", claims={"note": "x" * 20_000})
    told = everything_told(info.value)
    assert "token = '" not in told
    assert "raw_signature = b" not in told
