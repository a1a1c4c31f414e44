"""Live: which calls the address asks for, page by page, and in the stream."""

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.datastructures import QueryParams

from game_operator_testkit.control_room.live_filters import LiveFilter, read_filter
from game_operator_testkit.control_room.outcomes import ExchangeRow, row
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import Html, page
from testkit.tests.control_room.test_live import Events, numbers, recorded
from testkit.tests.sandbox.support import exchange

pytestmark = pytest.mark.outside

NOON = 1_763_726_400_000  # 12:00:00 UTC
ERROR = b'{"type":"ERROR","code":"%s","timestamp":1}'


USUAL = {
    "at_millis": NOON,
    "request_body": b'{"player_id":"ann"}',
    "player_id": "ann",
    "bet_id": "bet-1",
    "round_id": "round-1",
    "tx_id": "withdraw:bet-1",
    "number": 7,
}
API = {"direction": "api", "method": "GET", "path": "/api/v0.2/fetch-bet/bet-1", "player_id": "", "bet_id": ""}


@pytest.mark.parametrize(
    ("asked", "changes", "is_shown"),
    [
        pytest.param({}, {}, True, id="nothing"),
        pytest.param({"player": "ann"}, {}, True, id="player"),
        pytest.param({"player": " ann "}, {}, True, id="player with blanks"),
        pytest.param({"bet": "bet-1"}, {}, True, id="bet"),
        pytest.param({"bet": "round-1"}, {}, True, id="round"),
        pytest.param({"bet": "withdraw:bet-1"}, {}, True, id="tx_id"),
        pytest.param({"bet": "bet-2"}, {}, False, id="another bet"),
        pytest.param({"call": "withdraw"}, {}, True, id="operation"),
        pytest.param({"call": "deposit"}, {}, False, id="another operation"),
        pytest.param({"call": "operator-api"}, {}, False, id="no call of the API"),
        pytest.param({"call": "operator-api"}, API, True, id="call of the API"),
        pytest.param({"call": "withdraw"}, API, False, id="no webhook"),
        pytest.param({"answer": "SUCCESS"}, {}, True, id="success"),
        pytest.param({"answer": "SUCCESS"}, {"response_body": ERROR % b"PLAYER_BLOCKED"}, False, id="no success"),
        pytest.param({"answer": "MY_CODE"}, {"response_body": ERROR % b"MY_CODE"}, True, id="code"),
        pytest.param({"answer": "no answer received"}, {}, False, id="an answer"),
        pytest.param({"answer": "no answer received"}, {"status": None}, True, id="no answer"),
        pytest.param({"answer": "no answer received"}, {"fault": "slow, reply-lost"}, True, id="a lost reply"),
        pytest.param({"answer": "unreadable"}, {"response_body": b"<html>"}, True, id="unreadable"),
        pytest.param({"answer": "unreadable"}, {"status": None}, False, id="nothing to read"),
        pytest.param({"answer": "502"}, {"response_body": b"<html>", "status": 502}, True, id="status"),
        pytest.param({"answer": "accepted"}, {"signature": "forged"}, True, id="accepted what must be refused"),
        pytest.param({"answer": "balance disagrees"}, {"number": 8}, True, id="a wrong balance"),
        pytest.param({"answer": "balance disagrees"}, {}, False, id="a right balance"),
        pytest.param({"answer": "200"}, API, True, id="status of the API"),
        pytest.param({"fault": "slow"}, {"fault": "duplicate, slow"}, True, id="fault"),
        pytest.param({"fault": "slow"}, {}, False, id="no fault"),
        pytest.param({"search": "T12:00"}, {"at_millis": NOON + 59_999}, True, id="the minute"),
        pytest.param({"search": "T12:00"}, {"at_millis": NOON + 60_000}, False, id="the next minute"),
        pytest.param({"search": "WITHDRAW"}, {}, True, id="path, in capitals"),
        pytest.param({"search": "player_id"}, {}, True, id="request"),
        pytest.param({"search": "timestamp"}, {}, True, id="answer"),
        pytest.param({"search": "by hand"}, {"note": "edited by hand"}, True, id="note"),
        pytest.param({"search": "nowhere"}, {}, False, id="text that is nowhere"),
        pytest.param({"search": "needle"}, {"request_body": b"x" * 4_090 + b"needle"}, True, id="within 4 KiB"),
        pytest.param({"search": "needle"}, {"request_body": b"x" * 4_091 + b"needle"}, False, id="beyond 4 KiB"),
        pytest.param({"after": "0123456789abcdef-6"}, {}, True, id="after the last cleared"),
        pytest.param({"after": "0123456789abcdef-7"}, {}, False, id="cleared"),
        pytest.param({"player": "ann", "call": "deposit"}, {}, False, id="all must fit"),
    ],
)
def test_a_filter_admits(asked: dict[str, str], changes: dict[str, object], is_shown: bool) -> None:
    """What fits all that is asked for, and nothing else; number 8 has a wrong balance."""
    read = read_filter(QueryParams(asked), run="0123456789abcdef")
    assert read.admits(row(exchange(**USUAL | changes)), {8}) is is_shown


@pytest.mark.parametrize(
    ("query", "read"),
    [
        pytest.param("player=a&player=", {"player": "a"}, id="an empty field counts for nothing"),
        pytest.param("player=a&player=b", {"player": "b"}, id="what was clicked comes last"),
        pytest.param("search=+x+&other=1", {"search": "x"}, id="others are passed over"),
        pytest.param("after=0000000000000000-3", {}, id="a mark of another run"),
        pytest.param("after=3", {}, id="not a mark"),
    ],
)
def test_the_address_is_read(query: str, read: dict[str, str]) -> None:
    """What it does not know is passed over."""
    asked = read_filter(QueryParams(query), run="0123456789abcdef")
    assert asked == LiveFilter(**read)
    # The address of the view leads to the same view.
    assert read_filter(QueryParams(asked.query), run="0123456789abcdef") == asked


def test_what_was_seen_is_offered(own: Sandbox, at_home: httpx.Client) -> None:
    """Each answer and fault of the list, and the chosen one whatever it is."""
    recorded(own, response_body=ERROR % b"NO_WAY", fault="slow, duplicate")
    recorded(own)
    html = page(at_home, "/live?answer=CHOSEN&call=withdraw-all")
    offered = {each["value"] for each in html.all("option") if each.get("value")}
    assert {"NO_WAY", "SUCCESS", "CHOSEN", "slow", "duplicate", "withdraw", "operator-api", "withdraw-all"} <= offered
    chosen = {each["value"] for each in html.all("option") if "selected" in each}
    assert chosen == {"CHOSEN", "withdraw-all"}


def test_the_list_is_filtered(own: Sandbox, at_home: httpx.Client) -> None:
    """The page says how many calls there are; without a match it says so and leads back."""
    recorded(own, player_id="ann")
    found = recorded(own, player_id="bob")
    html = page(at_home, "/live?player=bob")
    assert numbers(html.source) == [found.number]
    assert "1 of 2 calls" in html.text
    nothing = page(at_home, "/live?player=nobody")
    assert "0 of 2 calls" in nothing.text
    assert "No call matches these filters." in nothing.text


def test_values_of_a_row_are_filters(own: Sandbox, at_home: httpx.Client) -> None:
    """Each is a button of the form, so that it adds to what the form asks for already."""
    recorded(own, player_id='a"<b', bet_id="bet-1", fault="slow, duplicate", response_body=ERROR % b"NO_WAY")
    html = page(at_home, "/live?call=withdraw")
    clicked = {(each["name"], each["value"]) for each in html.all("button") if "only" in (each.get("class") or "")}
    assert clicked == {
        ("player", 'a"<b'), ("bet", "bet-1"), ("fault", "slow"), ("fault", "duplicate"), ("answer", "NO_WAY"),
    }  # fmt: skip
    assert all(each.get("form") == "filters" for each in html.all("button") if "only" in (each.get("class") or ""))


def test_pages_of_older_calls(own: Sandbox, at_home: httpx.Client) -> None:
    """Each call stands on one page; the way back leads to the newest."""
    last = [recorded(own).number for _ in range(120)][-1]
    seen: list[int] = []
    before = "0"
    while before:
        html = page(at_home, f"/live?before={before}")
        seen += numbers(html.source)
        found = {each["value"]: each for each in html.all("button") if each.get("name") == "before"}
        assert html.source.count("hx-sse:connect") == (before == "0")
        before = max((value for value in found if value and int(value) <= seen[-1]), default="") or ""
        assert len(seen) <= 120
    assert seen == list(range(last, last - 120, -1))
    middle = page(at_home, f"/live?before={last - 49}")
    assert numbers(middle.source)[0] == last - 50
    assert "Newest calls" in middle.text
    assert "Newest calls" not in page(at_home, "/live").text
    # Past the oldest, and what is not a number.
    assert numbers(page(at_home, "/live?before=1").source) == []
    assert numbers(page(at_home, "/live?before=x").source)[0] == last


def test_the_list_is_cleared(own: Sandbox, at_home: httpx.Client) -> None:
    """What is there now is hidden and not deleted; the filter stays."""
    recorded(own, player_id="ann")
    cleared = at_home.get("/live/clear?player=ann&answer=")
    assert cleared.status_code == 303
    location = cleared.headers["location"]
    mark = f"{own.live.run}-1"
    assert parse_qs(urlsplit(location).query) == {"player": ["ann"], "after": [mark]}
    assert "No call matches" in page(at_home, location).text
    assert "Nothing has been called since you cleared the list." in page(at_home, f"/live?after={mark}").text
    new = recorded(own, player_id="ann")
    assert numbers(page(at_home, location).source) == [new.number]
    assert "/live?player=ann" in page(at_home, location).values("href")
    assert len(own.live.recent()) == 2


def test_a_stream_carries_what_is_asked_for(own: Sandbox, at_home: httpx.Client) -> None:
    """And how many calls the list has then."""
    recorded(own, player_id="bob")
    query = f"player=ann&seen={own.live.run}-1"
    with at_home.stream("GET", f"/live/events?{query}") as response:
        events = Events(response)
        recorded(own, player_id="bob")
        shown = recorded(own, player_id="ann")
        number, data = events.next()
        assert (number, numbers(data)) == (shown.number, [shown.number])
        assert 'data-counted="1 of 3 calls"' in data


def test_a_stream_looks_at_each_call_once(own: Sandbox, at_home: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that finds nothing is not done again and again."""
    looked: list[int] = []

    def admits(_filter: LiveFilter, row: ExchangeRow, _wrong: object) -> bool:
        looked.append(row.exchange.number)
        return False

    monkeypatch.setattr(LiveFilter, "admits", admits)
    monkeypatch.setattr("game_operator_testkit.control_room.live._PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("game_operator_testkit.control_room.live._HEARTBEAT_SECONDS", 0.1)
    recorded(own)
    with at_home.stream("GET", f"/live/events?search=x&seen={own.live.run}-1") as response:
        lines = (line for line in response.iter_lines() if line)
        assert next(lines) == ": connected"
        recorded(own)
        assert [next(lines) for _ in range(3)] == [": still here"] * 3
    assert looked == [2]


def test_what_needs_a_look_stands_above_the_list(own: Sandbox, at_home: httpx.Client) -> None:
    """Lost deliveries, refused signatures, accepted forgeries and unreadable answers, each with its filter."""
    assert Html(at_home.get("/live").text).text.count("got no answer") == 0
    recorded(own)
    recorded(own, fault="request-lost", status=None, note="request lost", response_body=b"")
    recorded(own, fault="reply-lost", note="reply lost")
    recorded(own, response_body=ERROR % b"INVALID_SIGNATURE")
    recorded(own, signature="old key", response_body=ERROR % b"INVALID_SIGNATURE")
    recorded(own, signature="forged")
    recorded(own, response_body=b"<html>")
    html = page(at_home, "/live")
    assert "2 calls got no answer" in html.text
    assert "1 call with a right signature, and the wallet answered INVALID_SIGNATURE" in html.text
    assert "1 call accepted that must be refused" in html.text
    assert "1 answer that cannot be read as a reply" in html.text
    assert numbers(page(at_home, "/live?answer=no+answer+received").source) == [3, 2]
    assert numbers(page(at_home, "/live?answer=right+signature+refused").source) == [4]
    assert html.source.count('</a> <a href="/keys">Compare the keys</a></li>') == 1
    assert {"/live?answer=no+answer+received", "/live?answer=accepted"} <= set(html.values("href"))
