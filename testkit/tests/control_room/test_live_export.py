"""Live for programs: which calls, in which format, and without what signs them."""

import json
from typing import Any

import httpx
import pytest

from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.test_live import recorded

pytestmark = [pytest.mark.outside, pytest.mark.usefixtures("own")]

SECRET = b"c2lnbmF0dXJlLW9mLWEtY2FsbC10aGF0LWlzLWxvbmctZW5vdWdo"


@pytest.fixture
def own(own: Sandbox) -> Sandbox:
    """A sandbox with three calls: a lost one whose wallet quotes the signature, binary bytes, and one of the API."""
    recorded(
        own,
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
    recorded(own, request_body=b"\xff\x00", status=None, response_body=b"", player_id="bob")
    recorded(
        own,
        direction="api",
        method="GET",
        path="/api/v0.2/fetch-bet/x?y=1",
        request_headers=((b"x-signature", SECRET),),
        request_body=b"",
        response_body=b"[]",
    )
    return own


KINDS = {"/live/export": "application/x-ndjson", "/live.json": "application/json"}


def written(http: httpx.Client, path: str, query: str = "") -> str:
    response = http.get(f"{path}?{query}")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == KINDS[path]
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    return response.text


def calls(http: httpx.Client, path: str, query: str = "") -> list[dict[str, Any]]:  # Any: values of JSON
    """Return the calls in a file of lines, or in the document."""
    text = written(http, path, query)
    return list(map(json.loads, text.splitlines())) if path == "/live/export" else json.loads(text)["calls"]


@pytest.mark.parametrize("path", KINDS)
def test_a_program_reads_the_calls(at_home: httpx.Client, path: str) -> None:
    """The newest first, with all that the log has of each."""
    api, lost, first = calls(at_home, path)
    assert (api["number"], lost["number"], first["number"]) == (3, 2, 1)
    assert (first["amount_cents"], first["balance_cents"], first["answer"]) == (250, 150, "=CODE()")
    assert (first["lost"], first["latency_ms"], first["time"]) == ("reply lost", "12.346", "2025-11-21T11:00:00.120Z")
    assert first["url"] == "http://127.0.0.1:9/withdraw"
    assert first["request"] == {"text": '{"player_id":"p1"}'}
    assert (lost["status"], lost["request"]) == (None, {"text": "/wA=", "encoding": "base64"})
    assert (api["operation"], api["direction"]) == ("fetch-bet", "api")


def test_lines_are_a_file(at_home: httpx.Client) -> None:
    """A browser saves them; the document is for programs."""
    assert at_home.get("/live/export").headers["content-disposition"] == 'attachment; filename="calls.jsonl"'
    assert "content-disposition" not in at_home.get("/live.json").headers


@pytest.mark.parametrize("path", KINDS)
def test_signatures_are_left_out_unless_they_are_asked_for(at_home: httpx.Client, path: str) -> None:
    """In the header, and wherever the wallet quotes it: the header, the body, the note."""
    text = written(at_home, path)
    assert SECRET.decode() not in text
    assert text.count("[signature removed]") >= 5
    assert SECRET.decode() not in written(at_home, path, "with_signatures=0")
    assert SECRET.decode() in written(at_home, path, "with_signatures=1")


@pytest.mark.parametrize("path", KINDS)
@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("player=bob", [2]),
        ("call=operator-api", [3]),
        ("answer=no+answer+received", [2, 1]),
        ("fault=reply-lost&player=%3D1%2B1", [1]),
        ("search=nothing+like+it", []),
    ],
)
def test_only_what_the_filter_admits(at_home: httpx.Client, path: str, query: str, numbers: list[int]) -> None:
    """The same filters as of the page."""
    assert [each["number"] for each in calls(at_home, path, query)] == numbers
