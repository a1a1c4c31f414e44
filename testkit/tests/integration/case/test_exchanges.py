"""Webhooks from the operator's logs: who signed them, whether the ledger knows the bytes, and what it did with them."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

from game_operator.backoffice import case_file
from game_operator.backoffice.case import LoggedExchange, read_exchanges
from game_operator.errors import ConfigurationError
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call, read_call
from game_operator.wallet import Wallet
from game_operator.webhooks import Authenticator, HmacSignature, RsaSignature
from game_operator_testkit.sandbox.in_process import InProcessSandbox
from testkit.tests.support.reconciling import KEYS
from tests.support.calls import claim, deposit, rollback, withdraw

#: Signs a call and gives it as a log has it.
Sign = Callable[..., LoggedExchange]


@pytest.fixture
def own(sqlite_url: str) -> Iterator[SqlLedger]:
    """A ledger with the bet b1, closed, whose withdraw and deposit came with bodies."""
    with SqlLedger(sqlite_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        for call in (withdraw(), deposit()):
            ledger.apply(read_call(call.operation, encode_call(call), Profile())[0])
        yield ledger


@pytest.fixture
def sign(private_key: RSAPrivateKey) -> Sign:
    """Sign as the service does, by default with its key and for the bytes that are sent."""

    def sign(
        call: WebhookCall, key: RSAPrivateKey = private_key, signed: bytes | None = None, path: str | None = None
    ) -> LoggedExchange:
        body = encode_call(call)
        raw = key.sign(body if signed is None else signed, PKCS1v15(), SHA256())
        headers = {"Content-Type": "application/json", "Signature": urlsafe_b64encode(raw).rstrip(b"=").decode()}
        return path or f"/{call.operation}", headers, body

    return sign


def looked_at(ledger: SqlLedger, authenticator: Authenticator | None, *exchanges: LoggedExchange) -> list[Any]:
    """Return what a case file of b1 says of *exchanges*."""
    contents = case_file(ledger, "b1", authenticator=authenticator, exchanges=exchanges).contents
    found: list[Any] = contents["exchanges"]
    return found


def test_both_bodies_as_the_service_sent_them(own: SqlLedger, sign: Sign, private_key: RSAPrivateKey) -> None:
    """Genuine, the withdraw's bytes those of the ledger's digest, and both applied as they say."""
    trusted = RsaSignature(private_key.public_key())
    first, second = looked_at(own, trusted, sign(withdraw()), sign(deposit(), path="/wallet/deposit?v=secret"))
    assert (first["operation"], first["verdict"], first["kept_body"]) == ("withdraw", "genuine", "same")
    assert (second["operation"], second["verdict"], second["kept_body"]) == ("deposit", "genuine", "not kept")
    assert second["path"] == "/wallet/deposit"
    assert first["content"] == ["The ledger has this withdraw, with the same content. It answered SUCCESS."]
    assert second["content"] == ["The ledger has this deposit, with the same content. It answered SUCCESS."]
    assert first["body"]["data"] == encode_call(withdraw()).decode()
    assert first["headers"] == ["content-type", "signature"]


def test_a_body_that_was_changed(own: SqlLedger, sign: Sign, private_key: RSAPrivateKey) -> None:
    """One of the keys made the signature, for other bytes: here those whose digest the ledger keeps."""
    trusted = RsaSignature(private_key.public_key())
    more = withdraw(amount_cents=99)
    (found,) = looked_at(own, trusted, sign(more, signed=encode_call(withdraw())))
    assert (found["verdict"], found["kept_body"]) == ("forged", "differs")
    assert "for the withdraw whose SHA-256 the ledger keeps" in found["note"]
    assert found["content"] == ["The ledger has another withdraw under this tx_id: amount_cents differs."]
    (found,) = looked_at(own, trusted, sign(more, signed=b"something else"))
    assert "for another body and not for these bytes" in found["note"]


def test_a_webhook_of_another_bet(own: SqlLedger, sign: Sign, private_key: RSAPrivateKey) -> None:
    """It is not the bytes that the ledger keeps of this bet, and does not claim to be."""
    (found,) = looked_at(own, RsaSignature(private_key.public_key()), sign(withdraw("b2")))
    assert (found["verdict"], found["kept_body"]) == ("genuine", "not kept")
    assert found["content"] == ["The body does not name this bet."]


def test_signatures_that_no_given_key_made(
    own: SqlLedger, sign: Sign, private_key: RSAPrivateKey, other_key: RSAPrivateKey
) -> None:
    """By a stranger, or by a key that is missing here; with both keys it is genuine."""
    exchange = sign(deposit(), key=other_key)
    trusted = RsaSignature(private_key.public_key())
    assert looked_at(own, trusted, exchange)[0]["verdict"] == "key unknown"
    both = RsaSignature([private_key.public_key(), other_key.public_key()])
    assert looked_at(own, both, exchange)[0]["verdict"] == "genuine"
    contents = case_file(own, "b1", authenticator=trusted, exchanges=[exchange]).contents
    assert "Exchanges whose signature does not verify: 1." in contents["summary"]


@pytest.mark.parametrize(
    ("headers", "verdict"),
    [
        pytest.param({}, "unsigned", id="no signature"),
        pytest.param({"signature": "%%"}, "unsigned", id="not Base64"),
        pytest.param([("Signature", "AAAA"), ("signature", "AAAA")], "unsigned", id="two signatures"),
        pytest.param({"Signature": "[left out]"}, "left out", id="left out by the log"),
        pytest.param({"Signature": "A" * 342}, "key unknown", id="garbage of the right length"),
    ],
)
def test_what_is_no_signature(own: SqlLedger, private_key: RSAPrivateKey, headers: Any, verdict: str) -> None:
    exchange: LoggedExchange = ("/withdraw", headers, encode_call(withdraw()))
    assert looked_at(own, RsaSignature(private_key.public_key()), exchange)[0]["verdict"] == verdict


def test_without_a_key_nothing_is_verified(own: SqlLedger, sign: Sign) -> None:
    """What can be compared without one is compared."""
    (found,) = looked_at(own, None, sign(withdraw()))
    assert (found["verdict"], found["kept_body"]) == ("not checked", "same")


def test_an_authenticator_that_only_refuses(own: SqlLedger, sign: Sign) -> None:
    """Of an HMAC nobody can say who made it: the authenticator's own reason is given."""
    (found,) = looked_at(own, HmacSignature(b"0123456789abcdef"), sign(withdraw()))
    assert found["verdict"] == "refused"
    assert "The authenticator refuses the call" in found["note"]


@pytest.mark.parametrize(
    ("path", "body", "content"),
    [
        pytest.param("/deposit", encode_call(deposit("b2")), "The body does not name this bet.", id="another bet"),
        pytest.param(
            "/rollback",
            encode_call(rollback()),
            "The ledger has no row for this rollback: it did not arrive, or it was refused.",
            id="a call that did not arrive",
        ),
        pytest.param(
            "/deposit", b"{", "The body cannot be read as a deposit by this profile.", id="a body that is cut off"
        ),
        pytest.param(
            "/elsewhere", b"{}", "The path is not one of the service's, so the body was not read.", id="another path"
        ),
        pytest.param(
            "/deposit",
            encode_call(claim(bet_id="b1")),
            "The ledger has no row for this deposit: it did not arrive, or it was refused.",
            id="a claim that did not arrive",
        ),
    ],
)
def test_what_the_ledger_did_with_it(own: SqlLedger, path: str, body: bytes, content: str) -> None:
    assert looked_at(own, None, (path, {}, body))[0]["content"] == [content]


def test_a_call_that_was_refused_and_kept(own: SqlLedger) -> None:
    """The ledger keeps the same body with an anomaly."""
    again = read_call("deposit", encode_call(deposit(tx_id="again")), Profile())[0]
    own.apply(again)
    (found,) = looked_at(own, None, ("/deposit", {}, again.body))
    assert found["content"] == ["The ledger did not apply this deposit. It keeps the same body with an anomaly."]


def test_the_deposits_of_a_batch(own: SqlLedger) -> None:
    """Those of this bet are looked at, whatever else is in it."""
    items = [json.loads(encode_call(each)) for each in (deposit("b2"), deposit())]
    (found,) = looked_at(own, None, ("/deposit-batch", {}, json.dumps(items).encode()))
    assert found["operation"] == "deposit-batch"
    assert found["content"] == ["The ledger has this deposit, with the same content. It answered SUCCESS."]


def test_exchanges_make_a_bet_known(own: SqlLedger) -> None:
    """A bet that only the operator's own log names is a case, and one that the log does not name is none."""
    exchange: LoggedExchange = ("/withdraw", {}, encode_call(withdraw("lost")))
    assert case_file(own, "lost", exchanges=[exchange]).is_known
    assert not case_file(own, "nobody's", exchanges=[exchange]).is_known


@pytest.mark.parametrize(
    "exchange",
    [
        pytest.param(("/withdraw", {}, "text"), id="a body of text"),
        pytest.param((7, {}, b""), id="a path of another type"),
        pytest.param(("/withdraw", 7, b""), id="headers of another type"),
        pytest.param(("/withdraw", {"a": 7}, b""), id="a value of another type"),
        pytest.param(("/withdraw", {"a": "\u20ac"}, b""), id="a value that no header can have"),
    ],
)
def test_what_is_no_exchange(own: SqlLedger, exchange: Any) -> None:
    with pytest.raises(TypeError, match="exchange"):
        case_file(own, "b1", exchanges=[exchange])


def test_what_the_sandbox_has_sent(sqlite_url: str) -> None:
    """The exchanges of a real round verify by the sandbox's key."""
    with SqlLedger(sqlite_url) as ledger, InProcessSandbox(keys=KEYS) as sandbox:
        ledger.open_account("p1", Decimal(100))
        sandbox.wallet = Wallet(ledger)
        (bet_id,) = sandbox.play_round(player_id="p1", wager_cents=500, won_cents=900).bet_ids
        sent: list[LoggedExchange] = [
            (each.path, [(name.decode(), value.decode()) for name, value in each.request_headers], each.request_body)
            for each in sandbox.live.recent()
            if each.direction == "webhook"
        ]
        trusted = RsaSignature(sandbox.service_public_key_pem)
        found = case_file(ledger, bet_id, authenticator=trusted, exchanges=sent).contents["exchanges"]
    assert [(each["operation"], each["verdict"], each["kept_body"]) for each in found] == [
        ("deposit", "genuine", "not kept"),
        ("withdraw", "genuine", "same"),
    ]


BODY = encode_call(withdraw()).decode()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"path": "/withdraw", "headers": {"A": "b"}, "body": BODY}, id="an object"),
        pytest.param([{"path": "/withdraw", "headers": [["A", "b"]], "body": BODY}], id="a list"),
        pytest.param(
            {
                "path": "/withdraw",
                "request": {"headers": [["A", "b"]], "body": {"encoding": "utf-8", "data": BODY}},
                "answer": {"status": 200},
            },
            id="what call --json prints",
        ),
        pytest.param(
            {
                "exchanges": [
                    {
                        "title": "a withdraw",
                        "request": {
                            "method": "POST",
                            "path": "/withdraw",
                            "headers": [["A", "b"]],
                            "body": {"encoding": "base64", "data": b64encode(BODY.encode()).decode()},
                        },
                    }
                ]
            },
            id="a verdict of a certification",
        ),
    ],
)
def test_files_of_exchanges(content: Any) -> None:
    """Each form is read alike, as JSON and as a line of JSON Lines."""
    expected = ("/withdraw", (("A", "b"),), BODY.encode())
    assert read_exchanges(json.dumps(content, indent=2).encode(), "log.json") == [expected]
    lines = f"{json.dumps(content)}\n\n{json.dumps(content)}\n"
    assert read_exchanges(lines.encode(), "log.jsonl") == [expected, expected]
    with_mark = b"\xef\xbb\xbf" + lines.replace("\n", "\r\n").encode()
    assert read_exchanges(with_mark, "log.jsonl") == [expected, expected], "as some systems write a file"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"\xff", "is not UTF-8", id="not UTF-8"),
        pytest.param(b"{", "is neither JSON nor JSON Lines", id="not JSON"),
        pytest.param(b"[" * 100_000, "is neither JSON nor JSON Lines", id="too deep"),
        pytest.param(b"{}\n\n{", "is neither JSON nor JSON Lines: line 3 is not JSON", id="a line that is cut off"),
        pytest.param(b" \n", "is empty", id="nothing"),
        pytest.param(b"[1]", "has no exchange in place 1", id="a number"),
        pytest.param(b'{"path": "/withdraw", "headers": {}}', "has no exchange in place 1", id="no body"),
        pytest.param(b'{"path": 7, "headers": {}, "body": ""}', "has no exchange in place 1", id="a path of a number"),
        pytest.param(
            b'{"path": "/", "headers": {"a": 1}, "body": ""}', "has no exchange in place 1", id="a value of a number"
        ),
        pytest.param(
            b'{"path": "/", "headers": {}, "body": {"encoding": "base64", "data": "%"}}',
            "has no exchange in place 1",
            id="broken Base64",
        ),
    ],
)
def test_files_that_are_none(content: bytes, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'log.json' cannot be read: the file {problem}"):
        read_exchanges(content, "log.json")
