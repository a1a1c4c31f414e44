"""`game-operator call`, and reports of certifications, which hold no signature but lines for it."""

import json
import pickle
import re
import shlex
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator_testkit.certifier import Report, certify
from game_operator_testkit.certifier.report.again import call_of, left_out
from game_operator_testkit.certifier.report.as_html import html
from game_operator_testkit.certifier.report.as_json import document
from game_operator_testkit.certifier.report.as_junit import junit
from game_operator_testkit.certifier.report.verdicts import Exchange
from testkit.tests.certifier.reports import URL, exchange
from tests.support.command_line import Run
from tests.support.served_wallets import GivesBackWhatItNeverTook, Served, served
from tests.support.servers import asgi_server

BODY = '{"player_id":"ann"}'
BET = '{"player_id":"ann","amount":500,"action":"BET","action_id":"b1","tx_id":"withdraw:bet:b1"}'


@pytest.fixture
def wallet(tmp_path: Path, private_key: RSAPrivateKey) -> Iterator[Served]:
    with served(tmp_path, private_key) as wallet:
        yield wallet


def signatures(wallet: Served) -> set[str]:
    """Return those that came in."""
    return {head[b"signature"].decode() for head in wallet.heads if b"signature" in head}


def test_a_body_is_signed_and_posted_and_the_exchange_is_printed(wallet: Served, run: Run, key_file: Path) -> None:
    """Request and answer as they travelled, without the signature; a SUCCESS is 0, a refusal 1 (spec §2.1, §4.1)."""
    call = ("call", "/withdraw", "--url", wallet.url, "--service-private-key", key_file)
    told = run(*call, "--body", BET, "--header", "X-A: b c")
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[:5] == [
        f"> POST {wallet.url}/withdraw",
        "> Content-Type: application/json",
        "> X-A: b c",
        "> signature: [left out]",
        ">",
    ]
    assert lines[5:7] == [f"> {BET}", ""]
    assert re.fullmatch(r"< HTTP 200, \d+ ms", lines[7])
    assert lines[-1].startswith('< {"type":"SUCCESS","balance":95.00,')
    assert wallet.heads[0][b"x-a"] == b"b c"
    (signature,) = signatures(wallet)
    assert signature not in told.out
    refused = run(*call, "--with-signature", "--body", BET.replace("500", "501"))
    assert refused.code == 1
    assert '"code":"DUPLICATE_TRANSACTION"' in refused.out
    (other,) = signatures(wallet) - {signature}
    assert f"> signature: {other}" in refused.out
    assert wallet.ledger.balance("ann") == 9_500


@pytest.mark.outside
def test_a_signature_that_the_wallet_quotes_is_not_shown(run: Run, key_file: Path) -> None:
    """In a header, whole, in the other alphabet, and in part."""
    seen: list[bytes] = []

    async def quotes(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        await receive()
        signature = dict(scope["headers"])[b"signature"]
        seen.append(signature)
        await send({"type": "http.response.start", "status": 500, "headers": [(b"x-debug", signature)]})
        parts = [signature, signature.replace(b"-", b"+").replace(b"_", b"/") + b"==", signature[1:], signature[3:-2]]
        await send({"type": "http.response.body", "body": b" ".join(parts)})

    with asgi_server(quotes) as port:
        call = ("call", "/withdraw", "--url", f"http://127.0.0.1:{port}", "--service-private-key", key_file)
        told = run(*call, "--body", BODY)
    assert told.code == 1
    assert "This is not a reply of the service's form" in told.err
    text = (told.out + told.err).replace("+", "-").replace("/", "_")
    for start in range(len(seen[0]) - 63):
        assert seen[0][start : start + 63].decode() not in text


@pytest.mark.parametrize(
    ("changes", "code", "problem"),
    [
        pytest.param({"--url": "http://wallet.example"}, 2, "'wallet.example' is another machine", id="elsewhere"),
        pytest.param({"--url": "http://127.0.0.1:1"}, 3, "never left", id="nobody there"),
        pytest.param(
            {"--service-private-key": "none.pem"}, 2, "Error: --service-private-key: 'none.pem' ", id="no key"
        ),
        pytest.param({"--header": "Signature: x"}, 2, "the header Signature by itself", id="a signature of one's own"),
        pytest.param({"PATH": "withdraw"}, 2, "Pass one like /withdraw", id="no path"),
    ],
)
def test_what_cannot_be_called_is_told(
    run: Run, key_file: Path, changes: dict[str, str], code: int, problem: str
) -> None:
    """One sentence and an exit code; a wallet on another machine needs --moves-money."""
    given = {"--url": "http://127.0.0.1:1", "--body": BODY, "--service-private-key": str(key_file)} | changes
    path = given.pop("PATH", "/withdraw")
    told = run("call", path, *(word for pair in given.items() for word in pair))
    assert (told.code, told.out) == (code, ""), told
    assert problem in told.err


# Reports.


def certified(wallet: Served, key: RSAPrivateKey, **settings: Any) -> Report:  # Any: those of ``certify``
    settings |= {"only": ["A02", "C01", "E01", "E02", "E03", "E04", "E05"]}
    return certify(wallet.url, signing_key=key, player_id="ann", other_player_id="bob", **settings)


def written(report: Report) -> str:
    """Return all that can be made of *report*."""
    texts = [html(report), junit(report), json.dumps(document(report)), str(pickle.dumps(report)), repr(report)]
    return "\n".join(texts)


@pytest.mark.outside
def test_no_report_holds_a_signature(tmp_path: Path, private_key: RSAPrivateKey) -> None:
    """As HTML, JSON, JUnit or pickle: with one, and the body, a reader is paid by another wallet."""
    with served(tmp_path, private_key, GivesBackWhatItNeverTook) as wallet:
        without = written(certified(wallet, private_key))
        sent = {each for each in signatures(wallet) if len(each.strip("A")) > 300}
    assert len(sent) > 20
    assert [each for each in sent if each in without] == []
    assert "This page holds no signature and no key" in without


def test_a_line_of_a_report_signs_its_call_anew(
    wallet: Served, private_key: RSAPrivateKey, run: Run, key_file: Path
) -> None:
    """Run as it stands, with the key in its place, it sends the same bytes: a repeat, which moves nothing."""
    made = certified(wallet, private_key)
    balance = wallet.ledger.balance("ann")
    lines = [call_of(each, made.url) for verdict in made.verdicts for each in verdict.exchanges]
    calls = [line for line in lines if line is not None and "service.pem" in line]
    assert len(calls) > 5
    for line in calls[:6]:
        program, *words = shlex.split(line.replace("service.pem", str(key_file)))
        assert program == "game-operator"
        before = set(signatures(wallet))
        assert run(*words).code in (0, 1)
        assert set(signatures(wallet)) == before, "another signature is one of other bytes"
    assert wallet.ledger.balance("ann") == balance


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        pytest.param(
            {}, f"game-operator call /withdraw --url {URL} --service-private-key service.pem --body abc", id="plain"
        ),
        pytest.param({"signed_by": "old"}, "--service-private-key old.pem", id="another key"),
        pytest.param({"signed_by": "odd"}, None, id="other bytes were signed"),
        pytest.param({"path": "/withdraw?x=1"}, None, id="another path"),
        pytest.param({"manner": "cut"}, None, id="cut"),
        pytest.param({"request_body": b"\xff\x00", "request_bytes": 2}, "base64 -d | game-operator call", id="bytes"),
        pytest.param({"request_headers": ((b"X-Token", b"a b"),)}, "--header 'X-Token: a b'", id="a header"),
        pytest.param({"request_headers": ((b"Content-Type", b"text/plain"),)}, None, id="another content type"),
    ],
)
def test_which_lines_there_are(changes: dict[str, Any], line: str | None) -> None:
    """A line that would send something else is none."""
    fields: dict[str, Any] = {name: getattr(exchange(body=b"abc"), name) for name in Exchange.__slots__}
    headers = ((b"Content-Type", b"application/json"), (b"signature", b"[left out]"))
    sent = Exchange(**fields | {"request_headers": headers} | changes)
    found = call_of(sent, URL)
    assert (line or "") in (found or ""), found
    assert (found is None) is (line is None)
    remote = call_of(Exchange(**fields), "http://wallet.example")
    assert remote is not None
    assert "--moves-money --allow-insecure-http" in remote


def test_a_piece_that_nobody_guesses_is_cut_out() -> None:
    """Of half a signature too; text that only looks like one stays."""
    signature = urlsafe_b64encode(bytes(range(256))).rstrip(b"=")
    assert left_out(b"a " + signature + b" b", signature) == b"a [left out] b"
    assert signature[40:90] not in left_out(signature[5:150], signature)
    assert left_out(signature[:15] + b"! " + signature.swapcase(), signature).startswith(signature[:15])
    lines = b"\n".join(signature[place : place + 24] for place in range(0, len(signature), 24))
    letters = json.dumps(list(signature.decode())).encode()
    for echo in (lines, lines.translate(bytes.maketrans(b"-_", b"+/")), letters):
        plain = left_out(echo, signature).translate(bytes.maketrans(b"+/", b"-_"), b'\n", []')
        assert not any(signature[place : place + 31] in plain for place in range(len(signature) - 30))
