"""The report in Chromium: nothing of a wallet's runs in it, and people can use it, on paper too."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from game_operator_testkit.certifier.report.again import call_of
from game_operator_testkit.certifier.report.as_html import html
from testkit.tests.certifier.reports import URL, failing_report, hostile_report
from testkit.tests.control_room.test_every_page import AXE, FIND
from tests.support.browser import chromium, visiting
from tests.support.servers import wsgi_server

pytestmark = pytest.mark.outside

#: Opens whatever folds.
OPEN_ALL = "for (const each of document.querySelectorAll('details')) each.open = true"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. Tests beside these must run no event loop in their own thread."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """Where the pages are: /failing and /hostile."""
    pages = {"/failing": html(failing_report()).encode(), "/hostile": html(hostile_report()).encode()}

    # Any: WSGI's environment and start_response.
    def serve(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("content-type", "text/html; charset=utf-8")])
        return [pages[environ["PATH_INFO"]]]

    with wsgi_server(serve) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def screen(browser: Browser, base_url: str) -> Iterator[Page]:
    """One page for all that is looked at alone; each test says how wide it is."""
    with visiting(browser, base_url) as page:
        yield page


def shown(screen: Page, path: str, width: int = 1280, height: int = 800, *, scheme: Any = "light") -> Page:
    """Return the page at *path*, on a screen of this size and scheme."""
    screen.set_viewport_size({"width": width, "height": height})
    screen.emulate_media(media="screen", color_scheme=scheme)
    screen.goto(path)
    return screen


def scroll_width(page: Page) -> int:
    """Return how wide the page is."""
    return int(page.evaluate("document.documentElement.scrollWidth"))


@pytest.mark.parametrize("path", ["/failing", "/hostile"])
def test_the_page_is_quiet_and_fits(browser: Browser, base_url: str, path: str) -> None:
    """No error, no request elsewhere, nothing that the policy refused, and no scrolling sideways at any width."""
    with visiting(browser, base_url) as screen:
        page = shown(screen, path, 400)
        page.evaluate(OPEN_ALL)
        assert scroll_width(page) == 400
        page.set_viewport_size({"width": 1280, "height": 800})
        assert scroll_width(page) == 1280
        assert page.evaluate("window.ran") is None
        assert page.locator("script").count() == 0


def test_what_is_injected_does_not_run(browser: Browser, base_url: str) -> None:
    """Were a wallet's words ever taken for HTML, the policy would still refuse them."""
    with visiting(browser, base_url, expected=["Content Security Policy"]) as page:
        page.goto("/failing")
        page.evaluate("""() => {
          const script = document.createElement("script");
          script.textContent = "window.ran = 1";
          document.body.append(script);
        }""")
        assert page.evaluate("window.ran") is None


def test_the_first_screen_says_what_to_change(screen: Page) -> None:
    """On a desk and on a telephone, before anybody scrolls: the outcome, who loses money, and what to do."""
    first = failing_report().causes[0].verdict
    for width, height in ((1280, 800), (400, 850)):
        page = shown(screen, "/failing", width, height)
        for words in ("Failed: this wallet", first.reason, first.means, first.fix):
            box = page.get_by_text(words).first.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= height, words


def test_a_line_is_taken_by_one_click(browser: Browser, base_url: str) -> None:
    """Character for character; the link of a cause opens the scenario, and the decisive exchange is open in it."""
    exchange = failing_report().causes[0].verdict.decisive
    assert exchange is not None
    with visiting(browser, base_url) as page:
        page.goto("/failing")
        page.get_by_role("link", name="B01", exact=True).first.click()
        page.locator("#B01 .decided .line code").click()
        assert page.evaluate("getSelection().toString()") == call_of(exchange, URL)


def test_text_can_be_read(screen: Page) -> None:
    """All of it has the contrast of WCAG's AA, in light and in dark; a colour that is fainter is found."""
    page = shown(screen, "/failing")
    page.evaluate(OPEN_ALL)
    page.evaluate(AXE)
    assert page.evaluate(FIND, "colours") == []
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(FIND, "colours") == []
    page.evaluate("document.documentElement.style.setProperty('--muted', '#777777')")
    assert page.evaluate(FIND, "colours") != []


def test_on_paper_what_failed_stands_open(screen: Page) -> None:
    """On white, whatever the screen is; what passed stays one line, and so does what nobody decided by."""
    seen = "(one) => document.querySelector(one).checkVisibility({ contentVisibilityAuto: true })"
    page = shown(screen, "/failing", scheme="dark")
    assert [page.evaluate(seen, one) for one in ("#B01 .reason", "#B01 .decided .raw", "#A01 .facts")] == [False] * 3
    page.emulate_media(media="print", color_scheme="dark")
    # What is out of sight is laid out with the next frame alone.
    for one in ("#B01 .reason", "#B01 .decided .raw"):
        page.wait_for_function(seen, arg=one)
    assert not page.evaluate(seen, "#A01 .facts")
    assert not page.evaluate(seen, "#F06 .facts")
    assert page.locator("#B01 .exchange").count() == 4
    assert page.locator("#B01 .exchange:visible").count() == 1
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
