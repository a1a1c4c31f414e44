"""Live as a person uses it: in Chromium, with long and hostile ids, paused, filtered, and without JavaScript."""

import pytest
from playwright.sync_api import Browser, Page, expect

from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.test_live import recorded
from tests.support.browser import visiting

pytestmark = [pytest.mark.outside, pytest.mark.drawn(6)]

#: It would turn around all that follows it in its line.
TURNED = "\u202e" + "evil-player-" * 25
LONG = "b" * 150 + "-" + "e" * 149


@pytest.fixture
def own(own: Sandbox) -> Sandbox:
    """A sandbox with one call, whose ids, code, path and note are as long as can be and longer."""
    recorded(
        own,
        player_id=TURNED,
        bet_id=LONG,
        round_id=LONG,
        tx_id=LONG,
        path="/" + "p" * 300,
        note="n" * 300,
        fault="reply-lost",
        amount_cents=123_456_789,
        request_body=b'{"player_id":"%s"}' % LONG.encode(),
        response_body=b'{"type":"ERROR","code":"%s","balance":123456789.00,"timestamp":1}' % (b"C" * 250),
        request_headers=((b"h" * 300, b"v" * 300),),
    )
    return own


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.mark.parametrize("width", [400, 1000, 1280])
def test_nothing_pushes_a_column_out(own: Sandbox, browser: Browser, width: int) -> None:
    """Neither in the list nor on a call's page, its parts all open; and each column keeps its width."""
    with visiting(browser, own.base_url, viewport={"width": width, "height": 800}) as page:
        for path in ("/live", f"/live?player={TURNED}&bet={LONG}", "/live/1"):
            page.goto(path)
            page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
            assert overflow(page) <= 0, path
        page.goto("/live")
        row = page.locator("#call-1")
        for cell in ("at", "took"):
            box, list_box = row.locator(f".{cell}").bounding_box(), page.locator(".calls").bounding_box()
            assert box is not None
            assert list_box is not None
            assert box["x"] + box["width"] <= list_box["x"] + list_box["width"] + 1


def test_an_id_turns_nothing_around(own: Sandbox, browser: Browser) -> None:
    """What hides in it is shown, it is isolated from its sentence, and its middle is there for whoever copies it."""
    with visiting(browser, own.base_url, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto("/live/1")
        shown = page.locator("bdi.ident").filter(has_text="evil-player").first
        assert shown.evaluate("each => getComputedStyle(each).unicodeBidi") == "isolate"
        assert shown.text_content() == TURNED.replace("\u202e", "\\u202e")
        assert shown.get_attribute("title") == shown.text_content()
        box = shown.bounding_box()
        assert box is not None
        assert box["width"] < 300
        page.get_by_role("button", name="Copy \\u202e").click()
        expect(page.get_by_role("button", name="Copied \\u202e")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == TURNED


def test_the_list_is_paused(own: Sandbox, browser: Browser) -> None:
    """What comes meanwhile is counted, and appears when the list goes on."""
    with visiting(browser, own.base_url) as page:
        page.goto("/live")
        expect(page.get_by_text("Listening")).to_be_visible()
        page.get_by_role("button", name="Pause").click()
        first, second = recorded(own), recorded(own)
        expect(page.get_by_role("button", name="Resume (2 new)")).to_be_visible()
        expect(page.locator(f"#call-{first.number}")).to_be_hidden()
        expect(page.locator("#call-1")).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(f"#call-{first.number}")).to_be_visible()
        expect(page.locator("#calls tr").first).to_have_id(f"call-{second.number}")
        third = recorded(own)
        expect(page.locator(f"#call-{third.number}")).to_be_visible()
        expect(page.locator("#counted")).to_have_text("4 calls")


@pytest.mark.parametrize("with_script", [True, False])
@pytest.mark.drawn(1)
def test_a_click_adds_to_the_filter(own: Sandbox, browser: Browser, with_script: bool) -> None:
    """A player, then an answer, then a new call of theirs; and back to all calls."""
    for player_id, status in (("ann", 200), ("bob", 200), ("ann", 502)):
        recorded(own, player_id=player_id, status=status)
    with visiting(browser, own.base_url, java_script_enabled=with_script) as page:
        page.goto("/live")
        expect(page.locator("#calls tr")).to_have_count(4)
        page.get_by_role("button", name="ann").first.click()
        expect(page.locator("#calls tr")).to_have_count(2)
        page.get_by_role("button", name="502").click()
        expect(page.locator("#calls tr")).to_have_count(1)
        expect(page.get_by_label("Player", exact=True)).to_have_value("ann")
        if with_script:
            expect(page.get_by_text("Listening")).to_be_visible()
            recorded(own, player_id="bob", status=502)
            recorded(own, player_id="ann", status=502)
            expect(page.locator("#calls tr")).to_have_count(2)
            expect(page.locator("#counted")).to_have_text("2 of 6 calls")
        page.get_by_label("Player", exact=True).fill("")
        page.get_by_label("Search", exact=True).fill("nowhere")
        page.get_by_label("Search", exact=True).press("Enter")
        expect(page.get_by_text("No call matches these filters.")).to_be_visible()
        page.get_by_role("link", name="Clear filters").first.click()
        expect(page.locator("#calls tr")).to_have_count(6 if with_script else 4)
