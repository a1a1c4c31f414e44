"""The lobby and the live list as a person uses them: in Chromium, which sees what a browser would complain of."""

import time
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from playwright.sync_api import Browser, Page, Route, expect

from game_operator import OperatorClient
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.sandbox import Sandbox
from tests.support.browser import visiting

pytestmark = [pytest.mark.outside, pytest.mark.drawn(5)]

#: The lobby with one game alone, which is quicker to draw.
ONE_GAME = "/?genre=Crash"
#: What Chromium notes when a form is answered with 422, as forms with mistakes are.
REFUSED = ("status of 422",)

#: Notes when each row comes, by the clock that the sandbox goes by.
WATCH_ROWS = """
() => {
  window.appeared = {};
  new MutationObserver((changes) => {
    for (const change of changes) for (const row of change.addedNodes) appeared[row.id] ??= Date.now();
  }).observe(document.getElementById("calls"), { childList: true });
}
"""


def fill_in(page: Page, *, player_id: str = "p1", wager: str = "2.50", won: str = "7") -> None:
    page.get_by_label("Player").fill(player_id)
    page.get_by_label("Wager").fill(wager)
    page.get_by_label("Win", exact=True).check()
    page.get_by_label("Amount won").fill(won)


def play(page: Page, **fields: str) -> None:
    fill_in(page, **fields)
    page.get_by_role("button", name="Play", exact=True).click()


def test_a_played_round_appears_on_an_open_page(sandbox: Sandbox, browser: Browser, private_key: RSAPrivateKey) -> None:
    """Within a second of the answer, newest first, and fetch-bet knows the bet (spec §3, §4.1, §4.2)."""
    with visiting(browser, sandbox.base_url) as live, visiting(browser, sandbox.base_url) as lobby:
        live.goto("/live")
        expect(live.get_by_text("Listening")).to_be_visible()
        live.evaluate(WATCH_ROWS)
        lobby.goto(ONE_GAME)
        play(lobby)
        expect(lobby.get_by_text("p1 wagered 2.50 EUR and won 7.00 EUR.")).to_be_visible()
        bet_id = lobby.locator(".result .code").inner_text()
        deposit, withdraw = [each for each in sandbox.live.recent() if each.bet_id == bet_id]
        expect(live.locator("#calls tr").first).to_have_id(f"call-{deposit.number}")
        expect(live.locator("#calls tr").nth(1)).to_have_id(f"call-{withdraw.number}")
        appeared = live.evaluate("appeared")
    for exchange in (withdraw, deposit):
        waited_ms = appeared[f"call-{exchange.number}"] - (exchange.at_millis + exchange.elapsed_ms)
        assert waited_ms < 1_000
    with OperatorClient(sandbox.base_url, "acme", private_key, trust_env=False) as client:
        bet = client.fetch_bet(bet_id)
    assert (bet.status, getattr(bet, "won", None)) == ("CLOSED", 700)


def test_a_keyboard_is_enough(sandbox: Sandbox, browser: Browser) -> None:
    """The first stop skips the navigation, the focus can be seen, and Enter plays."""
    with visiting(browser, sandbox.base_url) as page:
        page.goto(ONE_GAME)
        page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the content")
        expect(skip).to_be_focused()
        expect(skip).to_be_in_viewport()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.get_by_label("Player")).to_be_focused()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        fill_in(page)
        page.evaluate("window.said = document.querySelector('#play-result')")
        page.get_by_label("Wager").press("Enter")
        expect(page.get_by_text("won 7.00 EUR")).to_be_visible()
        page.get_by_label("Amount won").fill("8")
        page.get_by_role("button", name="Play", exact=True).press("Space")
        expect(page.get_by_text("won 8.00 EUR")).to_be_visible()
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_focused()
        # A screen reader speaks what changes in an element that stays.
        assert page.evaluate("said.isConnected")


def test_a_page_that_is_older_than_the_sandbox(browser: Browser, public_key: RSAPublicKey) -> None:
    """Started again, the sandbox is heard again; calls of the run before stay, as what they are, and lead nowhere."""
    expected = ("Failed to load resource: net::ERR_", "htmx:sse:error", "ERR_INCOMPLETE_CHUNKED_ENCODING")
    with Sandbox(operator_public_key=public_key, control_room=ControlRoom) as before:
        port = urlsplit(before.base_url).port
        for _ in range(3):
            _ask(before)
        with visiting(browser, before.base_url, expected=expected) as page:
            page.goto("/live")
            expect(page.get_by_text("Listening")).to_be_visible()
            _ask(before)
            expect(page.locator("#calls a")).to_have_count(4)
            before.__exit__(None, None, None)
            with Sandbox(operator_public_key=public_key, control_room=ControlRoom, port=port or 0) as after:
                _ask(after)
                expect(page.locator("#calls tr")).to_have_count(5)
                expect(page.locator("#calls tr").first).to_have_id("call-1")
                expect(page.locator("#calls a")).to_have_count(1)
                expect(page.locator("#calls .past")).to_have_count(4)
                page.locator("#calls a").click()
                expect(page.get_by_role("heading", level=1)).to_contain_text("fetch-games")


def _ask(sandbox: Sandbox) -> None:
    httpx.get(f"{sandbox.base_url}/api/v0.2/fetch-games", trust_env=False, verify=False)


def test_a_field_that_does_not_count_is_disabled(sandbox: Sandbox, browser: Browser) -> None:
    """The amount won without a win, after a round too; and a round's number beside its id."""
    with visiting(browser, sandbox.base_url) as page:
        page.goto(ONE_GAME)
        amount = page.get_by_label("Amount won")
        expect(amount).to_be_disabled()
        play(page)
        expect(page.get_by_text("won 7.00 EUR")).to_be_visible()
        expect(amount).to_be_enabled()
        page.get_by_label("Loss").check()
        expect(amount).to_be_disabled()
        page.get_by_role("button", name="Play", exact=True).click()
        expect(page.get_by_text("wagered 2.50 EUR and lost.")).to_be_visible()
        expect(amount).to_be_disabled()
        page.goto("/bets")
        number = page.get_by_label("or round number")
        page.get_by_label("Round id").fill("round-1")
        expect(number).to_be_disabled()
        page.get_by_label("Round id").fill("")
        expect(number).to_be_enabled()


@pytest.mark.parametrize("name", ["hx-sse.min.js", "room.js"])
@pytest.mark.drawn(1)
def test_a_late_script_misses_nothing(sandbox: Sandbox, browser: Browser, name: str) -> None:
    """Htmx waits for what extends it and for what listens to it, on a slow machine too."""

    def late(route: Route) -> None:
        time.sleep(0.25)
        route.continue_()

    with visiting(browser, sandbox.base_url) as page:
        page.route(f"**/static/{name}", late)
        page.goto("/live")
        expect(page.get_by_text("Listening")).to_be_visible(timeout=5_000)
