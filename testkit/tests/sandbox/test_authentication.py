"""Who is let in, and what the others are told (spec §4.2, §5, §7.3)."""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256

from game_operator import AuthenticationError, BetNotFound, ConfigurationError, OperatorInactiveError
from game_operator_testkit.sandbox import Sandbox, SandboxWorld
from testkit.tests.sandbox.support import KINDS, Asker, outcome, sound_call, terms
from tests.support.signed_http import CALLS, GRANT, ROUND, RawCall, SignedHttp, signature

pytestmark = pytest.mark.outside

INVALID = (400, {"error": "Invalid request"})
FAILED = (401, {"error": "Authentication failed"})
INACTIVE = (403, {"error": "Operator account is inactive"})


def test_a_signed_call_is_let_in(http: SignedHttp, any_call: RawCall) -> None:
    """Both headers, signed by the rule of the call: 200 (spec §4.2, §5)."""
    assert http.call(any_call).status_code == 200


@pytest.mark.parametrize("name", ["X-Operator-Id", "X-Signature"])
@pytest.mark.parametrize("instead", [None, ""], ids=["missing", "empty"])
def test_a_missing_header_is_an_invalid_request(
    http: SignedHttp, any_call: RawCall, name: str, instead: str | None
) -> None:
    """400 for missing headers; assumed for all four calls, stated for two (spec §5, §7.3; docs/decisions/0004)."""
    headers = http.credentials(any_call.signed)
    del headers[name]
    assert outcome(http.send(any_call, headers if instead is None else headers | {name: instead})) == INVALID


def test_both_headers_missing_is_an_invalid_request(http: SignedHttp, any_call: RawCall) -> None:
    """Every call carries the two headers (spec §4.2, §5)."""
    assert outcome(http.send(any_call, {})) == INVALID


@pytest.mark.parametrize("name", ["X-Operator-Id", "X-Signature"])
def test_a_repeated_header_is_an_invalid_request(http: SignedHttp, any_call: RawCall, name: str) -> None:
    """Two values leave open which one is meant (spec §5; assumed: docs/decisions/0017)."""
    headers = http.credentials(any_call.signed)
    assert outcome(http.send(any_call, [*headers.items(), (name, headers[name])])) == INVALID


def test_header_names_have_no_case(http: SignedHttp, any_call: RawCall) -> None:
    """X-SIGNATURE is X-Signature, as HTTP has it (spec §5)."""
    headers = {name.upper(): value for name, value in http.credentials(any_call.signed).items()}
    assert http.send(any_call, headers).status_code == 200


def test_another_key_is_not_let_in(http: SignedHttp, any_call: RawCall, other_key: RSAPrivateKey) -> None:
    """The service verifies each of the four calls with the registered public key: 401 (spec §4.2, §5, §7.3)."""
    headers = http.credentials(any_call.signed) | {"X-Signature": signature(other_key, any_call.signed)}
    assert outcome(http.send(any_call, headers)) == FAILED


@pytest.mark.parametrize("operator_id", ["nobody", "ACME", "acme2", "acme:x"])
def test_an_unknown_operator_is_not_let_in(http: SignedHttp, any_call: RawCall, operator_id: str) -> None:
    """401 for an invalid operator, however it signs (spec §5, §7.3)."""
    assert outcome(http.send(any_call, http.credentials(any_call.signed) | {"X-Operator-Id": operator_id})) == FAILED


def padded(key: RSAPrivateKey, signed: bytes) -> str:
    return signature(key, signed) + "=="


def standard(key: RSAPrivateKey, signed: bytes) -> str:
    # Of 344 letters some are + or /, all but certainly; the keys of the tests see to it below.
    return b64encode(key.sign(signed, PKCS1v15(), SHA256())).decode().rstrip("=")


def pss(key: RSAPrivateKey, signed: bytes) -> str:
    raw = key.sign(signed, PSS(MGF1(SHA256()), PSS.DIGEST_LENGTH), SHA256())
    return b64encode(raw, b"-_").decode().rstrip("=")


def sha1(key: RSAPrivateKey, signed: bytes) -> str:
    return b64encode(key.sign(signed, PKCS1v15(), SHA1()), b"-_").decode().rstrip("=")


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda key, signed: signature(key, signed + b" "), id="over other bytes"),
        pytest.param(lambda key, signed: signature(key, b""), id="over nothing"),
        pytest.param(padded, id="with padding"),
        pytest.param(standard, id="in the standard alphabet"),
        pytest.param(pss, id="with PSS padding"),
        pytest.param(sha1, id="with SHA-1"),
        pytest.param(lambda key, signed: signature(key, signed)[:-1], id="a letter short"),
        pytest.param(lambda key, signed: signature(key, signed) + "A", id="a letter long"),
        pytest.param(lambda key, signed: "A" * 342, id="of zeros"),
        pytest.param(lambda key, signed: "no signature", id="no Base64"),
        pytest.param(lambda key, signed: "-", id="a letter"),
    ],
)
def test_any_other_signature_is_not_let_in(
    http: SignedHttp, any_call: RawCall, forge: Callable[[RSAPrivateKey, bytes], str]
) -> None:
    """RSA-SHA256, URL-safe Base64 without padding, over exactly the right bytes: nothing else (spec §5, §7.3)."""
    forged = forge(http.key, any_call.signed)
    if forge is standard and not set("+/") & set(forged):
        pytest.skip("this signature is written alike in both alphabets")
    assert outcome(http.send(any_call, http.credentials(b"") | {"X-Signature": forged})) == FAILED


@pytest.mark.parametrize(
    ("name", "signed"),
    [
        pytest.param("fetch-games", "{operator}:", id="games: the operator id and a colon"),
        pytest.param("fetch-games", "/api/v0.2/fetch-games", id="games: the path"),
        pytest.param("fetch-bet", "{operator}", id="bet: the operator id alone"),
        pytest.param("fetch-bet", "{bet}", id="bet: the bet id alone"),
        pytest.param("fetch-bet", "{operator}:{bet} ", id="bet: a space more"),
        pytest.param("fetch-bet", "{operator}:other", id="bet: another bet"),
        pytest.param("fetch-round-bets", "{operator}", id="round: the operator id"),
        pytest.param("free-bet/grant", "{operator}", id="grant: the operator id"),
    ],
)
def test_each_call_has_its_own_signed_string(http: SignedHttp, sandbox: Sandbox, name: str, signed: str) -> None:
    """What is signed depends on the call, and the string of another one does not do (spec §5)."""
    text = signed.format(operator=sandbox.operator_id, bet=sandbox.bet_ids["OPEN"])
    call = replace(sound_call(name, sandbox, http), signed=text.encode())
    assert outcome(http.call(call)) == FAILED


@pytest.mark.parametrize("path", [ROUND, GRANT])
@pytest.mark.parametrize("change", [b"%s ", b" %s", b"%s\n"], ids=["a space behind", "a space before", "a line break"])
def test_a_body_is_signed_byte_for_byte(http: SignedHttp, sandbox: Sandbox, path: str, change: bytes) -> None:
    """The entire body is signed: the same JSON in other bytes is another body (spec §5)."""
    body = json.dumps(terms(sandbox.instance_id) | {"round_id": sandbox.round_id}).encode()
    changed = change % body
    assert outcome(http.call(RawCall("POST", path, signed=body, body=changed))) == FAILED
    assert http.call(RawCall("POST", path, signed=changed, body=changed)).status_code == 200


@pytest.mark.parametrize("path", [ROUND, GRANT])
def test_an_unsigned_body_is_not_read(http: SignedHttp, path: str) -> None:
    """Whether a body can be read is told only to who signed it (spec §5, §7.3)."""
    assert outcome(http.call(RawCall("POST", path, signed=b"{}", body=b"{"))) == FAILED


def test_a_newly_registered_key_replaces_the_old(
    own_sandbox: Sandbox, own_http: SignedHttp, private_key: RSAPrivateKey, other_key: RSAPrivateKey
) -> None:
    """The service verifies with the public key that is registered now (spec §5)."""
    own_sandbox.world.public_key = other_key.public_key()
    assert outcome(own_http.fetch_games()) == FAILED
    assert Asker("sync", own_sandbox, other_key).fetch_bet("b") == BetNotFound()


@pytest.mark.parametrize("name", CALLS)
def test_an_inactive_operator_is_told_so_where_the_specification_has_it(
    own_sandbox: Sandbox, own_http: SignedHttp, public_key: RSAPublicKey, name: str
) -> None:
    """403 from the three calls that have it; fetch-games, which has none, says 401 (spec §4.2, §5, §7.3; assumed)."""
    call = sound_call(name, own_sandbox, own_http)
    own_sandbox.world.active = False
    assert outcome(own_http.call(call)) == (FAILED if name == "fetch-games" else INACTIVE)
    own_sandbox.world.active = True
    assert own_http.call(call).status_code == 200


@pytest.mark.parametrize("name", CALLS)
def test_a_forger_does_not_learn_that_an_account_is_inactive(
    own_sandbox: Sandbox, own_http: SignedHttp, public_key: RSAPublicKey, other_key: RSAPrivateKey, name: str
) -> None:
    """The signature is looked at first (spec §5)."""
    call = sound_call(name, own_sandbox, own_http)
    own_sandbox.world.active = False
    with SignedHttp(own_sandbox.base_url, "acme", other_key) as forger:
        assert outcome(forger.call(call)) == FAILED


@pytest.mark.parametrize("kind", KINDS)
def test_the_clients_tell_an_inactive_account(
    kind: str, own_sandbox: Sandbox, private_key: RSAPrivateKey, public_key: RSAPublicKey
) -> None:
    """The clients tell 401 and 403 apart, sync and async (spec §5, §7.3)."""
    own_sandbox.world.active = False
    inactive = Asker(kind, own_sandbox, private_key)
    with pytest.raises(OperatorInactiveError, match="inactive") as denied:
        inactive.fetch_bet("b")
    assert (denied.value.status_code, denied.value.message) == INACTIVE[:1] + tuple(INACTIVE[1].values())
    with pytest.raises(AuthenticationError):
        inactive.fetch_games()


def test_the_clients_tell_a_wrong_key(ask: Asker, sandbox: Sandbox, other_key: RSAPrivateKey) -> None:
    """401 for an invalid signature, on every call (spec §5, §7.3)."""
    forger = Asker(ask.kind, sandbox, other_key)
    calls: list[Callable[[], object]] = [
        forger.fetch_games,
        lambda: forger.fetch_bet("b"),
        lambda: forger.fetch_round_bets(instance_id=sandbox.instance_id, round_no=1),
        lambda: forger.grant_free_bet(**terms(sandbox.instance_id)),
    ]
    for call in calls:
        with pytest.raises(AuthenticationError) as denied:
            call()
        assert (denied.value.status_code, denied.value.message) == (401, "Authentication failed")


def test_the_clients_tell_an_unknown_operator(ask: Asker, sandbox: Sandbox, private_key: RSAPrivateKey) -> None:
    """401 for an invalid operator (spec §5, §7.3)."""
    with pytest.raises(AuthenticationError):
        Asker(ask.kind, sandbox, private_key, "nobody").fetch_games()


@pytest.mark.parametrize("operator_id", ["a:b", "", " acme", "acme\n", "日本"])
def test_such_an_operator_cannot_be_registered(public_key: RSAPublicKey, operator_id: str) -> None:
    """A colon would make <operator_id>:<bet_id> ambiguous, and a header carries no such text (spec §5)."""
    with pytest.raises(ConfigurationError) as refused:
        SandboxWorld(operator_id, public_key)
    assert refused.value.setting == "operator_id"
