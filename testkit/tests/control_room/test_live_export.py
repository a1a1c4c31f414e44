"""Live as a file: which calls, in which format, and without what signs them."""

import csv
import io
import json
from collections.abc import Iterator

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import service_key
from testkit.tests.control_room.test_live import recorded

pytestmark = pytest.mark.outside

SECRET = b"c2lnbmF0dXJlLW9mLWEtY2FsbC10aGF0LWlzLWxvbmctZW5vdWdo"


@pytest.fixture
def own(public_key: RSAPublicKey) -> Iterator[Sandbox]:
    """A sandbox with three calls: a lost one whose wallet quotes the signature, binary bytes, and one of the API."""
    with Sandbox(
        operator_public_key=public_key, service_private_key=service_key(), control_room=ControlRoom
    ) as sandbox:
        recorded(
            sandbox,
            request_body=b'{"player_id":"p1"}',
            request_headers=((b"Content-Type", b"application/json"), (b"Signature", SECRET)),
            response_body=b'{"type":"ERROR","code":"=CODE()","balance":1.50,"timestamp":1,"x":"' + SECRET + b'"}',
            response_headers=((b"x-echo", SECRET), (b"content-type", b"application/json")),
            player_id="=1+1",
            bet_id="bet-1",
            amount_cents=250,
            fault="reply-lost",
            note="said " + SECRET.decode(),
            elapsed_ms=12.3456,
            url="http://127.0.0.1:9/withdraw",
        )
        recorded(sandbox, request_body=b"\xff\x00", status=None, response_body=b"", player_id="bob")
        recorded(
            sandbox,
            direction="api",
            method="GET",
            path="/api/v0.2/fetch-bet/x?y=1",
            request_headers=((b"x-signature", SECRET),),
            request_body=b"",
            response_body=b"[]",
        )
        yield sandbox


def exported(http: httpx.Client, query: str, ending: str) -> str:
    response = http.get(f"/live/export?{query}")
    assert response.status_code == 200, response.text
    assert response.headers["content-disposition"] == f'attachment; filename="calls.{ending}"'
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    return response.text


def test_json_lines(at_home: httpx.Client) -> None:
    """One call to a line, the newest first, with all that the log has of it."""
    api, lost, first = map(json.loads, exported(at_home, "format=jsonl", "jsonl").splitlines())
    assert (api["number"], lost["number"], first["number"]) == (3, 2, 1)
    assert (first["amount_cents"], first["balance_cents"], first["answer"]) == (250, 150, "=CODE()")
    assert (first["lost"], first["latency_ms"], first["time"]) == ("reply lost", "12.346", "2025-11-21T11:00:00.120Z")
    assert first["request"] == {"text": '{"player_id":"p1"}'}
    assert (lost["status"], lost["request"]) == (None, {"text": "/wA=", "encoding": "base64"})
    assert (api["operation"], api["direction"]) == ("fetch-bet", "api")


def test_har(at_home: httpx.Client) -> None:
    """An HTTP archive as browsers' tools open it."""
    log = json.loads(exported(at_home, "format=har", "har"))["log"]
    assert (log["version"], log["creator"]["name"]) == ("1.2", "game-operator")
    api, lost, first = log["entries"]
    assert first["request"]["url"] == "http://127.0.0.1:9/withdraw"
    assert first["request"]["postData"] == {"mimeType": "application/json", "text": '{"player_id":"p1"}'}
    assert (first["response"]["status"], first["response"]["statusText"], first["time"]) == (200, "OK", 12.3456)
    assert first["comment"].startswith("=CODE(); reply lost; reply-lost; said ")
    assert lost["response"]["status"] == 0
    assert "postData" not in api["request"]
    for entry in log["entries"]:
        assert entry.keys() >= {"startedDateTime", "time", "request", "response", "cache", "timings"}
        assert entry["response"]["content"]["size"] == entry["response"]["bodySize"]


def test_csv(at_home: httpx.Client) -> None:
    """For spreadsheets: amounts are numbers, and no text becomes a formula."""
    rows = list(csv.DictReader(io.StringIO(exported(at_home, "format=csv", "csv"))))
    assert [row["number"] for row in rows] == ["3", "2", "1"]
    first = rows[-1]
    assert (first["amount"], first["balance"], first["player_id"]) == ("2.50", "1.50", "'=1+1")
    assert (first["answer"], first["lost"], first["fault"]) == ("'=CODE()", "reply lost", "reply-lost")
    assert (rows[1]["amount"], rows[1]["status"]) == ("", "")


@pytest.mark.parametrize("kind", ["jsonl", "har", "csv"])
def test_signatures_are_left_out_unless_they_are_asked_for(at_home: httpx.Client, kind: str) -> None:
    """In the header, and wherever the wallet quotes it: the header, the body, the note."""
    text = exported(at_home, f"format={kind}", kind)
    assert SECRET.decode() not in text
    assert text.count("[signature removed]") >= (1 if kind == "csv" else 5)
    assert SECRET.decode() not in exported(at_home, f"format={kind}&with_signatures=0", kind)
    assert SECRET.decode() in exported(at_home, f"format={kind}&with_signatures=1", kind)


def test_only_what_the_filter_admits(at_home: httpx.Client) -> None:
    """All pages of it."""
    assert [
        json.loads(line)["number"] for line in exported(at_home, "format=jsonl&player=bob", "jsonl").splitlines()
    ] == [2]
    assert json.loads(exported(at_home, "format=har&player=nobody", "har"))["log"]["entries"] == []
    assert len(exported(at_home, "format=csv&player=nobody", "csv").splitlines()) == 1


@pytest.mark.parametrize("query", ["", "format=xml", "format=csv&begin=x"])
def test_what_cannot_be_exported(at_home: httpx.Client, query: str) -> None:
    """No such format, or a filter with a mistake: nothing is taken for what was not asked for."""
    assert at_home.get(f"/live/export?{query}").status_code == 400


def test_long_bodies_are_written_one_by_one(own: Sandbox, at_home: httpx.Client) -> None:
    """The answer begins before the last call is written."""
    for _ in range(8):
        recorded(own, response_body=b"x" * 1_000_000)
    with at_home.stream("GET", "/live/export?format=har") as response:
        assert "content-length" not in response.headers
        assert sum(map(len, response.iter_bytes())) > 8_000_000
