"""Live: consecutive deliveries of one call with the same answer are one row."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from game_operator_testkit.control_room.live_folds import folds_of
from game_operator_testkit.control_room.outcomes import row
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.dealing.balances import ReportedBalance
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from testkit.tests.control_room.support import page
from testkit.tests.control_room.test_call_page import row_of
from testkit.tests.control_room.test_live import Events, numbers, recorded
from tests.support.browser import visiting

pytestmark = pytest.mark.outside

REFUSED = b'{"type":"ERROR","code":"INVALID_SIGNATURE","timestamp":1}'


def delivered(sandbox: Sandbox, times: int = 1, call: int = 1, **changes: Any) -> Exchange:
    """Put deliveries of one *call* into the live log, and return the last one; the wallet refuses each."""
    usual = {"request_body": b'{"player_id":"ann","tx_id":"%d"}' % call, "response_body": REFUSED, "player_id": "ann"}
    return [recorded(sandbox, **(usual | changes)) for _ in range(times)][-1]


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        pytest.param({}, True, id="the same"),
        pytest.param({"note": "delivery 2", "elapsed_ms": 900.0, "at_millis": 5}, True, id="another moment"),
        pytest.param({"response_body": REFUSED.replace(b":1}", b":2}")}, True, id="another timestamp"),
        pytest.param({"response_body": REFUSED.replace(b"SIGNATURE", b"REQUEST")}, False, id="another code"),
        pytest.param({"response_body": REFUSED.replace(b"}", b',"balance":1}')}, False, id="another balance"),
        pytest.param({"status": None, "response_body": b""}, False, id="no answer"),
        pytest.param({"fault": "slow"}, False, id="a fault"),
        pytest.param({"fault": "reply-lost"}, False, id="a lost answer"),
        pytest.param({"signature": "forged"}, False, id="signed by another"),
        pytest.param({"request_body": b'{"player_id":"ann","tx_id":"2"}'}, False, id="another call"),
        pytest.param({"path": "/rollback"}, False, id="another path"),
    ],
)
def test_what_is_one_row(own: Sandbox, changes: dict[str, Any], is_one: bool) -> None:
    """All deliveries of a call that a row would show the same of."""
    rows = [row(delivered(own)), row(delivered(own, **changes))][::-1]
    folds = folds_of(rows, {})
    assert [(each.number, each.first, each.count) for each in folds] == (
        [(2, 1, 2)] if is_one else [(2, 2, 1), (1, 1, 1)]
    )


def test_a_balance_that_goes_wrong_has_its_row(own: Sandbox) -> None:
    """A fold would hide at which delivery."""
    rows = [row(delivered(own)) for _ in range(3)][::-1]
    wrong = {3: ReportedBalance(0, 100, 200, number=3)}
    assert [(each.number, each.count) for each in folds_of(rows, wrong)] == [(3, 1), (2, 2)]


@pytest.mark.parametrize(
    "changes", [{"path": "/player-balance"}, {"direction": "api", "method": "GET", "path": "/api/v0.2/fetch-games"}]
)
def test_what_is_not_delivered_twice(own: Sandbox, changes: dict[str, Any]) -> None:
    """Each question is a call by itself, though its bytes are those of the one before."""
    rows = [row(delivered(own, **changes)) for _ in range(3)][::-1]
    assert [each.count for each in folds_of(rows, {})] == [1, 1, 1]


def test_a_refused_round_is_two_rows(own: Sandbox, at_home: httpx.Client) -> None:
    """With how many deliveries each has; the row leads to the newest, whose page lists them. All calls are counted."""
    withdraw, rollback = delivered(own, 12), delivered(own, 12, path="/rollback")
    html = page(at_home, "/live")
    assert numbers(html.source) == [rollback.number, withdraw.number]
    assert "12 deliveries, all INVALID_SIGNATURE" in row_of(html, withdraw.number)
    assert f"/live/{withdraw.number}#deliveries" in html.values("href")
    assert "24 calls" in html.text
    assert "Deliveries of this call 12, the oldest first" in page(at_home, f"/live/{withdraw.number}").text
    assert len(at_home.get("/live/export?format=jsonl").text.splitlines()) == 24
    # The same two rows of the player's alone, and none of anybody else's.
    assert numbers(page(at_home, "/live?player=ann").source) == [rollback.number, withdraw.number]
    assert numbers(page(at_home, "/live?player=bob").source) == []


def test_what_comes_between_parts_them(own: Sandbox, at_home: httpx.Client) -> None:
    """In the list; under a filter that leaves it out, they are one row again."""
    delivered(own, 2)
    other = recorded(own, player_id="bob")
    last = delivered(own, 3)
    html = page(at_home, "/live")
    assert numbers(html.source) == [last.number, other.number, 2]
    assert "2 deliveries, all" in row_of(html, 2)
    alone = page(at_home, "/live?player=ann")
    assert numbers(alone.source) == [last.number]
    assert "5 deliveries, all" in alone.text


def test_pages_of_folds(own: Sandbox, at_home: httpx.Client) -> None:
    """As many rows to a page as without, however many deliveries each has; each row is on one page, and whole."""
    lasts = [delivered(own, 3, call, response_body=b"").number for call in range(120)][::-1]
    seen: list[list[int]] = []
    before = "0"
    while before:
        html = page(at_home, f"/live?before={before}")
        seen.append(numbers(html.source))
        assert html.text.count("3 deliveries, all") == len(seen[-1])
        places = [
            each["value"] or "" for each in html.all("button") if each.get("name") == "before" and each.get("value")
        ]
        before = next((value for value in places if int(value) == seen[-1][-1] - 2), "")
    assert [each for one in seen for each in one] == lasts
    assert 40 < len(seen[1]) <= len(seen[0]) <= 50
    # From the middle of a fold, and from the page behind it back to the one before.
    assert numbers(page(at_home, f"/live?before={lasts[0]}").source)[0] == lasts[0] - 1
    html = page(at_home, f"/live?before={lasts[109] - 2}")
    newer = next(each["value"] for each in html.all("button") if each.get("name") == "before")
    assert numbers(page(at_home, f"/live?before={newer}").source)[0] == lasts[60]


def test_a_row_grows_in_the_stream(own: Sandbox, at_home: httpx.Client) -> None:
    """It comes again with its count, and with the number that the row of before has, too."""
    first = delivered(own, 2).number - 1
    with at_home.stream("GET", f"/live/events?seen={own.live.run}-{own.live.count}") as response:
        events = Events(response)
        for count in (3, 4):
            newest = delivered(own)
            number, data = events.next()
            assert (number, numbers(data)) == (newest.number, [newest.number])
            assert f'data-first="{first}"' in data
            assert f"{count} deliveries, all" in data
        other = recorded(own)
        _, data = events.next()
        assert numbers(data) == [other.number]
        assert f'data-first="{first}"' not in data
        _, data = delivered(own), events.next()[1]
        assert f'data-first="{first}"' not in data


def test_a_row_grows_on_the_page(own: Sandbox, browser: Browser) -> None:
    """Where it stood, nothing is left; while the list is paused, what is shown stays as it is."""
    before = delivered(own, 2)
    with visiting(browser, own.base_url) as screen:
        screen.goto("/live")
        expect(screen.get_by_text("Listening")).to_be_visible()
        rows = screen.locator("#calls tr")
        expect(rows).to_have_count(1)
        delivered(own)
        expect(rows).to_contain_text(["3 deliveries, all INVALID_SIGNATURE"])
        expect(screen.locator("#counted")).to_have_text("3 calls")
        screen.get_by_role("button", name="Pause").click()
        delivered(own)
        expect(screen.get_by_role("button", name="Resume (1 new)")).to_be_visible()
        last = delivered(own)
        expect(screen.locator(f"#call-{last.number}")).to_be_attached()
        expect(screen.get_by_role("button", name="Resume (1 new)")).to_be_visible()
        expect(rows.filter(visible=True)).to_contain_text(["3 deliveries"])
        screen.get_by_role("button", name="Resume").click()
        expect(rows).to_contain_text(["5 deliveries"])
        expect(screen.locator(f"#call-{before.number}")).to_have_count(0)
        rows.get_by_role("link", name="5 deliveries").click()
        expect(screen.locator("#deliveries li")).to_have_count(5)


def test_without_javascript_rows_are_folded(own: Sandbox, browser: Browser) -> None:
    """The server draws them."""
    delivered(own, 12)
    with visiting(browser, own.base_url, java_script_enabled=False) as screen:
        screen.goto("/live")
        expect(screen.locator("#calls tr")).to_have_count(1)
        screen.get_by_role("link", name="12 deliveries").click()
        expect(screen.locator("#deliveries li")).to_have_count(12)
