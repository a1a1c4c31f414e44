"""Live: the list of calls, the stream of new ones, and each call byte for byte."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from starlette.responses import StreamingResponse
from starlette.types import Send

from game_operator.ledger import MemoryLedger
from game_operator_testkit.control_room import live
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from testkit.tests.control_room.running import room_with
from testkit.tests.control_room.support import EVIL, EVIL_ESCAPED, page, play, post
from testkit.tests.sandbox.support import exchange
from tests.support.servers import RawClient
from tests.support.times import wait_until

pytestmark = pytest.mark.outside


def recorded(sandbox: Sandbox, **changes: object) -> Exchange:
    """Put an exchange into the live log, as if it had happened: a call by itself, unless *changes* say which."""
    usual = {"request_body": b'{"player_id":"p1","tx_id":"%d"}' % sandbox.live.count}
    return sandbox.live.record(exchange(**(usual | changes)))


class Events:
    """The events of a stream, one after the other."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def next(self) -> tuple[int, str]:
        """Return the number in the next event's id, and its data; comments and that it begins anew are passed over."""
        name = "anew"
        while name == "anew":
            name, seen, data = self.raw()
        return int(seen.rpartition("-")[2]), data

    def raw(self) -> tuple[str, str, str]:
        """Return the next event's name, id and data; comments are passed over."""
        fields = {"event": "", "id": "", "data": ""}
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name in fields:
                fields[name] += value + "\n" * (name == "data")
            elif not line and fields["data"]:
                return fields["event"], fields["id"], fields["data"]
        raise EOFError


@pytest.fixture
def stream(sandbox: Sandbox, http: httpx.Client) -> Iterator[Events]:
    """A stream of what happens from now on, already listening."""
    with http.stream("GET", f"/live/events?seen={sandbox.live.run}-{sandbox.live.count}") as response:
        assert response.status_code == 200
        yield Events(response)


@pytest.fixture
def open_streams(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The streams that still send."""
    still_open: list[object] = []
    sends = StreamingResponse.stream_response

    async def watched(stream: StreamingResponse, send: Send) -> None:
        still_open.append(stream)
        try:
            await sends(stream, send)
        finally:
            still_open.remove(stream)

    monkeypatch.setattr(StreamingResponse, "stream_response", watched)
    return still_open


def numbers(data: str) -> list[int]:
    return [int(found) for found in re.findall(r'id="call-(\d+)"', data)]


def test_the_newest_call_stands_first(sandbox: Sandbox, http: httpx.Client) -> None:
    """With direction, path, verdict, answer, latency and fault (spec §4.1)."""
    first = recorded(sandbox, path="/deposit", fault="reply-lost", note="delivery 2", elapsed_ms=1234.5)
    second = recorded(sandbox, direction="api", method="GET", path="/api/v0.2/fetch-games", signature="valid")
    html = page(http, "/live")
    assert numbers(html.source)[:2] == [second.number, first.number]
    assert "to the wallet POST /deposit reply-lost – – 1.00 valid SUCCESS reply lost 1.23 s" in html.text
    assert "to the API GET /fetch-games – – – valid 200 0.00 ms" in html.text
    assert '<time datetime="2025-11-21T11:00:00.120Z">11:00:00.120</time>' in html.source


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        pytest.param({}, 'class="only badge good"><bdi class="ident">SUCCESS</bdi>', id="success"),
        pytest.param(
            {"response_body": b'{"type":"ERROR","code":"PLAYER_BLOCKED","timestamp":1}'},
            'class="only badge warn"><bdi class="ident">PLAYER_<wbr>BLOCKED</bdi>',
            id="refused by the rules",
        ),
        pytest.param(
            {"response_body": b'{"type":"ERROR","code":"SYSTEM_ERROR","timestamp":1}'},
            'class="only badge bad"><bdi class="ident">SYSTEM_<wbr>ERROR</bdi>',
            id="unknown",
        ),
        pytest.param(
            {"response_body": b"<html>"},
            'class="only badge bad"><bdi class="ident">200, unreadable</bdi>',
            id="no reply",
        ),
        pytest.param(
            {"response_body": b'{"type":"ERROR","code":"A_CODE_THAT_IS_LONGER_THAN_OURS","timestamp":1}'},
            '<bdi class="ident" title="A_CODE_THAT_IS_LONGER_THAN_OURS">A_CODE_THAT_IS_',
            id="a long code",
        ),
        pytest.param({"status": 502}, 'class="only badge bad"><bdi class="ident">502</bdi>', id="another status"),
        pytest.param({"status": None}, 'class="only badge bad"><bdi class="ident">no answer</bdi>', id="nothing"),
        pytest.param(
            {"direction": "api", "status": 401},
            'class="only badge bad"><bdi class="ident">401</bdi>',
            id="the API's refusal",
        ),
        pytest.param({"signature": "old key"}, '<span class="badge warn">old key</span>', id="another's signature"),
    ],
)
def test_answers_are_told_apart(sandbox: Sandbox, http: httpx.Client, changes: dict[str, object], answer: str) -> None:
    """By their words, and by a colour besides."""
    number = recorded(sandbox, **changes).number
    row = page(http, "/live").source.partition(f'id="call-{number}"')[2].partition("</tr>")[0]
    assert answer in row


def test_a_call_appears_when_it_happens(sandbox: Sandbox, stream: Events) -> None:
    """Well within a second, as the row that the list would show."""
    began = time.monotonic()
    number = recorded(sandbox, player_id=EVIL).number
    told, data = stream.next()
    assert time.monotonic() - began < 1
    assert (told, numbers(data)) == (number, [number])
    assert EVIL not in data
    assert EVIL_ESCAPED in data
    assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.response.headers["cache-control"] == "no-store"


def test_a_storm_comes_in_few_events(sandbox: Sandbox, stream: Events) -> None:
    """A thousand calls are no thousand events: the newest 100 of them, in order, and nothing twice."""
    last = [recorded(sandbox).number for _ in range(1_000)][-1]
    seen: list[int] = []
    events = 0
    while last not in seen:
        _, data = stream.next()
        seen = numbers(data) + seen
        events += 1
    assert events < 20
    assert seen == sorted(set(seen), reverse=True)
    assert seen[:100] == list(range(last, last - 100, -1))


@pytest.mark.parametrize(
    ("query", "header"),
    [
        pytest.param("?seen={seen}", {}, id="a page that was made with a mark"),
        pytest.param("?seen={run}-1", {"last-event-id": "{seen}"}, id="a page that was away"),
    ],
)
def test_nothing_is_missed_in_between(sandbox: Sandbox, http: httpx.Client, query: str, header: dict[str, str]) -> None:
    """What happened between the page and its stream, or while the page slept, comes first."""
    run = sandbox.live.run
    seen = f"{run}-{recorded(sandbox).number}"
    missed = [recorded(sandbox).number, recorded(sandbox).number]
    headers = {name: value.format(seen=seen) for name, value in header.items()}
    with http.stream("GET", "/live/events" + query.format(seen=seen, run=run), headers=headers) as response:
        name, _, data = Events(response).raw()
    assert (name, numbers(data)) == ("", missed[::-1])


@pytest.mark.parametrize(
    "seen",
    [
        "x", "", "-1", "٣", "9" * 5000, "{newest}", "{run}", "{run}-", "{run}--1", "{run}-٣", "{run}-{beyond}",
        "{run}-" + "9" * 5000, "0123456789abcdef-{newest}",
    ],
)  # fmt: skip
def test_a_mark_that_this_run_did_not_give_begins_anew(sandbox: Sandbox, http: httpx.Client, seen: str) -> None:
    """The reader is told so, and all that is kept comes: a mark of an earlier run would hide what is new."""
    newest, run = recorded(sandbox).number, sandbox.live.run
    named = seen.format(run=run, newest=newest, beyond=newest + 1)
    with http.stream("GET", "/live/events", params={"seen": named}) as response:
        events = Events(response)
        assert events.raw() == ("anew", f"{run}-0", f"{run}\n")
        name, mark, data = events.raw()
    assert (name, mark) == ("", f"{run}-{newest}")
    assert numbers(data) == list(range(newest, max(newest - 100, 0), -1))


def test_a_reader_that_takes_nothing_holds_nothing_up(own: Sandbox, open_streams: list[object]) -> None:
    """It waits for its reader with one event, and the sandbox stops without waiting for it."""
    port = urlsplit(own.base_url).port
    with RawClient(port or 0) as idle:
        idle.send(f"GET /live/events HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
        wait_until(lambda: len(open_streams) == 1)
        for _ in range(20):
            for _ in range(100):
                recorded(own, player_id="x" * 50_000)
            time.sleep(0.05)
        assert httpx.get(f"{own.base_url}/status", trust_env=False, verify=False).status_code == 200
        began = time.monotonic()
        own.__exit__(None, None, None)
        assert time.monotonic() - began < 5
        wait_until(lambda: open_streams == [])


def test_nobody_listens_when_the_reader_has_gone(sandbox: Sandbox, open_streams: list[object]) -> None:
    """A page that is closed costs nothing more."""
    with (
        httpx.Client(base_url=sandbox.base_url, trust_env=False, verify=False) as other,
        other.stream("GET", "/live/events") as response,
    ):
        recorded(sandbox)
        # Kept until the assertion, because the end of its iterator would end the stream.
        events = Events(response)
        events.next()
        assert len(open_streams) == 1
    wait_until(lambda: not open_streams)


def test_a_page_hears_that_the_sandbox_is_still_there(
    sandbox: Sandbox, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comment, when nothing was called for a while: what stands between would else close the connection."""
    monkeypatch.setattr(live, "_HEARTBEAT_SECONDS", 0.2)
    seen = f"{sandbox.live.run}-{sandbox.live.count}"
    with http.stream("GET", f"/live/events?seen={seen}") as response:
        lines = response.iter_lines()
        assert [next(lines) for _ in range(4)] == [": connected", "", ": still here", ""]


def test_a_call_is_shown_byte_for_byte(sandbox: Sandbox, http: httpx.Client) -> None:
    """Headers and bodies of both, and the signature: this is what went over the wire."""
    recorded(
        sandbox,
        request_headers=((b"Content-Type", b"application/json"), (b"Signature", b"a-_b"), (b"X", b"\xff")),
        request_body=b'{"player_id": "p&1"}\n\xff\x00\xe2\x80\xae',
        response_headers=((b"content-type", b"text/html"),),
        response_body=EVIL.encode(),
        url="http://127.0.0.1:9/withdraw",
        bet_id="bet/1&",
    )
    html = page(http, f"/live/{sandbox.live.recent(1)[0].number}")
    assert (
        "POST /withdraw HTTP/1.1\nContent-Type: application/json\nSignature: a-_b\nX: \\xff\n\n"
        "{&#34;player_id&#34;: &#34;p&amp;1&#34;}\n\\xff\\x00\\u202e</pre>"
    ) in html.source
    assert f"HTTP/1.1 200\ncontent-type: text/html\n\n{EVIL_ESCAPED}</pre>" in html.source
    assert "/bets?id=bet%2F1%26" in html.values("href")
    assert f"<title>POST /withdraw · Live · {sandbox.operator_id} · game-operator</title>" in html.source


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"x" * 12_000, None, id="all of it"),
        pytest.param(b"x" * 12_288, "… and more: download the body", id="too long with its headers"),
        pytest.param(b'"' * 12_000, "… and more: download the body", id="too long on the page"),
        pytest.param(b"x" * 1_048_576, "… and more: download the body", id="a MiB"),
    ],
)
def test_a_long_body_is_cut(sandbox: Sandbox, http: httpx.Client, body: bytes, said: str | None) -> None:
    """The page has 12 KiB of a message; the whole body is a file."""
    number = recorded(sandbox, request_body=body, response_body=body[::-1]).number
    html = page(http, f"/live/{number}")
    assert ("download the body" in html.text) == (said is not None)
    assert said is None or said in html.text
    assert len(html.source.encode()) < 60_000
    for side in ("request", "answer"):
        response = http.get(f"/live/{number}/{side}")
        assert response.content == body
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"] == f'attachment; filename="call-{number}-{side}.txt"'
    assert http.get(f"/live/{number}/else").status_code == 404


def test_a_call_is_delivered_again(sandbox: Sandbox, http: httpx.Client, ledger: MemoryLedger, wallet_url: str) -> None:
    """The same bytes go to the wallet, which answers them as the repeat they are: no money moves (spec §6)."""
    play(http)
    deposit = sandbox.live.recent(1)[0]
    before = ledger.balance("p1")
    response = post(http, f"/live/{deposit.number}/again")
    again = sandbox.live.recent(1)[0]
    assert (response.status_code, response.headers["location"]) == (303, f"/live/{again.number}")
    assert again.number > deposit.number
    assert again.request_body == deposit.request_body
    assert ledger.balance("p1") == before
    assert "SUCCESS" in page(http, f"/live/{again.number}").text


def test_what_cannot_be_delivered_again(sandbox: Sandbox, http: httpx.Client) -> None:
    """Neither a call that the operator made, nor one that is not there."""
    asked = recorded(sandbox, direction="api").number
    assert post(http, f"/live/{asked}/again").status_code == 400
    assert f"/live/{asked}/again" not in page(http, f"/live/{asked}").values("action")
    assert post(http, "/live/999999999/again").status_code == 404


def test_a_delivery_to_nobody_is_said(own: Sandbox, at_home: httpx.Client) -> None:
    """The wallet is gone: a sentence on the call's page."""
    own.wallet_url = "http://127.0.0.1:9"
    number = recorded(own, url="http://127.0.0.1:9/withdraw").number
    response = post(at_home, f"/live/{number}/again")
    own.wallet_url = None
    unset = post(at_home, f"/live/{number}/again")
    assert (response.status_code, unset.status_code) == (502, 422)
    assert "Is the wallet running?" in response.text
    assert 'role="alert">The sandbox knows no wallet.' in unset.text


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "in memory"])
def test_a_page_that_is_left_open_goes_on_after_a_restart(
    tmp_path: Path, private_key: RSAPrivateKey, is_recorded: bool
) -> None:
    """With a file, the numbers go on and so does the stream; without one, it begins anew."""
    file = tmp_path / "calls.db" if is_recorded else None
    seen = ""
    for number in (1, 2):
        with room_with(private_key, record=file) as room:
            live = room.sandbox.live
            assert live.count == (number - 1 if is_recorded else 0)
            with room.http.stream("GET", f"/live/events?seen={seen}") as response:
                first = next(response.iter_lines())
            recorded(room.sandbox, player_id="ann")
            assert "ann" in page(room.http, "/live").text
            seen = f"{live.run}-{live.count}"
    assert first == (": connected" if is_recorded else "event: anew")
