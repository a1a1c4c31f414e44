"""The status bar: on every page, true, and with one click against all faults."""

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from game_operator_testkit.provider.faults import FAULT_PRESETS, FaultPlan
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import PATHS, Html, post
from tests.support.browser import visiting

pytestmark = pytest.mark.outside


def bar(http: httpx.Client, path: str = "/live") -> str:
    """Return the bar as a reader sees it."""
    source = http.get(path).text
    return Html(source.partition('<section class="status-bar"')[2].partition("</section>")[0]).text


@pytest.mark.parametrize("path", [*PATHS, "/nowhere", "/status"])
def test_the_bar_is_on_every_page(at_home: httpx.Client, path: str) -> None:
    """Once, and the same."""
    assert at_home.get(path).text.count('id="status-bar"') == 1
    shown = bar(at_home, path)
    for part in ("Faults none on Repeats", "Last call to the wallet none yet"):
        assert part in shown


@pytest.mark.parametrize(
    ("faults", "call", "said"),
    [
        pytest.param("none", {"won_cents": 0}, "SUCCESS to deposit", id="it answers"),
        pytest.param("none", {"player_id": "stranger"}, "PLAYER_NOT_FOUND to withdraw", id="it refuses"),
        pytest.param("reply-lost@2", {"won_cents": 0}, "SUCCESS to deposit, reply lost", id="the answer was lost"),
        pytest.param("request-lost@2", {"won_cents": 0}, "no answer to deposit", id="the call was lost"),
    ],
)
def test_the_newest_call_to_the_wallet(
    own: Sandbox, at_home: httpx.Client, wallet_url: str, faults: str, call: dict[str, Any], said: str
) -> None:
    """What came of it, with a link to it; calls of the Operator API do not count."""
    own.wallet_url, own.service.retries = wallet_url, "none"
    assert "Last call to the wallet none yet" in bar(at_home)
    own.faults.plan = FaultPlan.parse(faults)
    own.play_round(**{"player_id": "p1", "wager_cents": 100, **call})
    number = own.live.count
    httpx.get(f"{own.base_url}/api/v0.2/fetch-games", trust_env=False)
    assert own.live.count == number + 1
    assert re.search(rf"Last call to the wallet at .* UTC {said}", bar(at_home))
    assert f'href="/live/{number}"' in at_home.get("/faults").text.partition("</section>")[0]


@pytest.mark.parametrize(
    ("faults", "shown"),
    [
        ("none", "none on"),
        ("reply-lost=5%", "1 on reply lost Switch off"),
        ("reply-lost=5%,reset@3", "2 on 2 faults Switch off"),
        *((preset.name, f"{len(preset.rates)} on {preset.title} Switch off") for preset in FAULT_PRESETS.values()),
    ],
)
def test_faults_are_counted_and_named(own: Sandbox, at_home: httpx.Client, faults: str, shown: str) -> None:
    """By the preset, if they are one."""
    own.faults.plan = FaultPlan.parse(faults)
    assert shown in " ".join(bar(at_home).split())


@pytest.mark.parametrize("path", ["/live?player=p1&x=%20", "/faults", "/nowhere"])
def test_one_click_switches_off(own: Sandbox, at_home: httpx.Client, path: str) -> None:
    """From every page, and without a script it leads to the faults; a form without our token changes nothing."""
    own.faults.plan = FaultPlan.parse("bad-network")
    html = Html(at_home.get(path).text)
    action = next(each["action"] for each in html.all("form") if "hx-post" in each) or ""
    name = next(each["value"] for each in html.all("input") if each.get("name") == "name") or ""
    assert at_home.post(action, data={"form_token": "", "name": name}).status_code == 403
    assert own.faults.plan
    assert post(at_home, action, name=name).status_code == 303
    assert not own.faults.plan


def test_an_open_page_stays_true(own: Sandbox, browser: Browser, wallet_url: str) -> None:
    """The bar asks for itself, its height stays, and a click switches the faults off on the same page."""
    own.wallet_url = wallet_url
    with visiting(browser, own.base_url, viewport={"width": 400, "height": 800}) as screen:
        screen.goto("/wallet")
        status = screen.get_by_role("region", name="Status")
        expect(status).to_contain_text("none yet")
        before = status.bounding_box()
        own.faults.plan = FaultPlan.parse("bad-network")
        own.play_round(player_id="p1", wager_cents=100, won_cents=0)
        expect(status).to_contain_text("bad network")
        expect(status).to_contain_text("SUCCESS to deposit")
        after = status.bounding_box()
        assert before is not None
        assert after is not None
        assert (before["y"], before["height"]) == (after["y"], after["height"])
        status.get_by_role("button", name="Switch off").click()
        expect(status).to_contain_text("none on")
        assert screen.url == f"{own.base_url}/wallet"
