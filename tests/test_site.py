"""The site as `make site` builds it: strict, quick, complete, light, without barriers, and from this machine alone."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.staticfiles import StaticFiles

from testkit.tests.control_room.test_every_page import AXE, FIND
from tests.support.browser import chromium, visiting
from tests.support.documents import ROOT
from tests.support.servers import asgi_server

# The build takes 20 seconds, and longer beside other tests.
pytestmark = [pytest.mark.artefact, pytest.mark.outside, pytest.mark.timeout(240)]

MOST_BYTES: Final = 500_000
SITE: Final = ROOT / "site"
#: What the build puts together.
DOCS: Final = ROOT / ".site-docs"
#: One of each section, and what is special: pictures, tables, the API.
PAGES: Final = (
    *("index.html", "start/first-wallet.html", "tutorials/django.html", "how-to/sandbox.html", "reference/codes.html"),
    *("reference/api/testkit.html", "explanation/specification.html", "decisions/0014-repeats-and-order.html"),
)
#: The colours depend on the scheme alone, and all else on the width alone.
LOOKS: Final = ((1280, "light", "all"), (1280, "dark", "colours"), (400, "dark", "all"), (400, "light", "colours"))

_LISTED_BY_A_PAGE: Final = ("decisions/", "reference/api/", "reference/cli/")
_LINK = re.compile(r'<(\w+)\b[^>]*?\b(?:href|src)="([^"]*)"')
_ID = re.compile(r'\b(?:id|name)="([^"]*)"')
_ELSEWHERE = re.compile(r"(?:https?:)?//|data:")


@pytest.fixture(scope="module")
def built() -> str:
    """What the build of the site printed, which runs once."""
    done = subprocess.run(
        [sys.executable, "tools/site.py"], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def pages(built: str) -> dict[Path, str]:
    """The HTML of each page."""
    return {page: page.read_text(encoding="utf-8") for page in sorted(SITE.rglob("*.html"))}


def test_it_is_strict(built: str) -> None:
    """A warning is an issue."""
    assert "No issues found" in built


def test_every_page_is_built_and_in_the_navigation(pages: dict[Path, str]) -> None:
    """A page that is in no list is not found; some have their list in a page."""
    home = pages[SITE / "index.html"]
    sources = {source.relative_to(DOCS).with_suffix(".html") for source in DOCS.rglob("*.md")}
    assert sources == {page.relative_to(SITE) for page in pages} - {Path("404.html")}
    named = set(re.findall(r"^ +- (?:[^:]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    listed = {str(each.relative_to(DOCS)) for each in DOCS.rglob("*.md")}
    assert {name for name in listed if not name.startswith(_LISTED_BY_A_PAGE)} == named - {"decisions/index.md"}
    for section in ("Start", "Tutorials", "How-to", "Reference", "Explanation"):
        assert section in home


def test_links_and_anchors_lead_somewhere(pages: dict[Path, str]) -> None:
    """Within the site: in text, navigation and the API. Files outside of docs are copied into it."""
    anchors = {page: set(_ID.findall(text)) for page, text in pages.items()}
    broken = set()
    for page, text in pages.items():
        for _, link in _LINK.findall(text):
            if _ELSEWHERE.match(link) or link.startswith("mailto:") or page.name == "404.html":
                continue
            file, anchor = urldefrag(unquote(link.replace("&amp;", "&").replace("&#39;", "'")))
            target = (page.parent / file).resolve() if file else page
            if not target.is_relative_to(SITE) or not target.exists() or (anchor and anchor not in anchors[target]):
                broken.add((str(page.relative_to(SITE)), link))
    assert not broken
    assert sum(map(len, anchors.values())) > 2_000


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, str]) -> None:
    """By no page and by no style; a link that a reader may follow is not loaded."""
    loaded = {(tag, link) for text in pages.values() for tag, link in _LINK.findall(text) if tag not in ("a", "base")}
    assert [(tag, link) for tag, link in loaded if _ELSEWHERE.match(link)] == []
    assert {"link", "script", "img"} <= {tag for tag, _ in loaded}
    styles = [style.read_text() for style in SITE.rglob("*.css")]
    assert len(styles) >= 3
    assert [
        found for style in styles for found in re.findall(r"url\(['\"]?(?:https?:)?//[^)]*|@import[^;]*", style)
    ] == []


def test_every_page_is_light(pages: dict[Path, str]) -> None:
    """With its styles and scripts, uncompressed; pictures below the first screens are fetched when they are near."""
    weights = {
        str(page.relative_to(SITE)): len(text.encode())
        + sum((page.parent / link).stat().st_size for tag, link in _LINK.findall(text) if _is_loaded(tag, link))
        for page, text in pages.items()
        if page.name != "404.html"
    }
    assert min(weights.values()) > 300_000
    assert {page: weight for page, weight in weights.items() if weight >= MOST_BYTES} == {}


def _is_loaded(tag: str, link: str) -> bool:
    return tag in ("link", "script") and link.endswith((".css", ".js", ".png"))


def test_programs_find_each_page_as_markdown(built: str) -> None:
    """Beside its HTML, by llms.txt, with links that hold there and the API written out."""
    listed = re.findall(
        r"^- \[.+?\]\((\S+)\): For .+$|^- \[\d+\. .+?\]\((\S+)\)$", (SITE / "llms.txt").read_text(), re.MULTILINE
    )
    names = ["".join(each) for each in listed]
    assert sorted(names) == sorted(str(each.relative_to(DOCS)) for each in DOCS.rglob("*.md"))
    assert all((SITE / name).with_suffix(".html").exists() for name in names)
    texts = {SITE / name: (SITE / name).read_text() for name in names}
    assert "](../examples/campaign.py)" in texts[SITE / "how-to" / "campaigns.md"]
    client = texts[SITE / "reference" / "api" / "client.md"]
    assert "#### OperatorClient.fetch_bet\n\n```text\nfetch_bet(" in client
    assert ":::" not in client
    assert max(len(line) for line in client.splitlines()) < 2_000


@pytest.fixture(scope="module")
def url(built: str) -> Iterator[str]:
    """Where the site is served, on this machine alone."""
    with asgi_server(StaticFiles(directory=SITE)) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as browser:
        yield browser


def _assert_no_barriers(page: Page, looks: Sequence[tuple[int, str, str]] = LOOKS) -> None:
    """Assert that axe finds nothing in any of *looks*, and that nothing is wider than the screen."""
    page.evaluate(AXE)
    for width, scheme, rules in looks:
        media: Any = {"color_scheme": scheme, "reduced_motion": "reduce"}
        page.emulate_media(**media)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "scheme => document.body.dataset.mdColorScheme === scheme", arg="slate" if scheme == "dark" else "default"
        )
        assert page.evaluate(FIND, rules) == [], (page.url, width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_barriers(url: str, browser: Browser, name: str) -> None:
    """It stays on this machine, has no error, and follows the system."""
    with visiting(browser, url, viewport={"width": 1280, "height": 900}, reduced_motion="reduce") as page:
        page.goto(name, wait_until="networkidle")
        _assert_no_barriers(page)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_no_page_has_barriers(url: str, browser: Browser, pages: dict[Path, str]) -> None:
    """All of them, wide in light and narrow in dark."""
    with visiting(browser, url, reduced_motion="reduce") as page:
        for each in pages:
            if each.name != "404.html":
                page.goto(str(each.relative_to(SITE)), wait_until="networkidle")
                _assert_no_barriers(page, LOOKS[::2])


def test_the_keyboard_reaches_navigation_and_search(url: str, browser: Browser) -> None:
    """By the tabulator; the first stop skips to the text, and each stop can be seen."""
    with visiting(browser, url, viewport={"width": 1280, "height": 900}) as page:
        page.goto("how-to/calls.html")
        stops = []
        for _ in range(14):
            page.keyboard.press("Tab")
            stops.append(page.evaluate("(document.activeElement.innerText || '').trim().split('\\n')[0]"))
    assert stops[0] == "Skip to content"
    assert {"Search", "Start", "Reference", "Keys"} <= set(stops)


@pytest.mark.parametrize("width", [400, 1280])
def test_the_search_finds_a_word_without_another_host(url: str, browser: Browser, width: int) -> None:
    """Ctrl+K opens it, and Enter follows the first result. Its index is fetched once a reader touches the page."""
    asked: list[str] = []
    viewport = {"width": width, "height": 900}
    with visiting(browser, url, expected=("Autofocus processing",), viewport=viewport) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto("index.html", wait_until="networkidle")
        assert [each for each in asked if each.endswith(".json")] == []
        page.keyboard.press("Control+k")
        page.keyboard.type("query_wait_timeouz")  # Nothing is lost before the field is there.
        page.keyboard.press("Backspace")
        page.keyboard.type("t")
        expect(page.get_by_role("combobox")).to_have_value("query_wait_timeout")
        expect(page.get_by_role("option").first).to_contain_text("Behind PgBouncer")
        page.keyboard.press("Enter")
        page.wait_for_url("**/how-to/runbook.html*")
    assert [urlsplit(each).path for each in asked if each.endswith(".json")] == ["/search.json"]


def test_a_wide_table_shows_on_a_phone_that_it_goes_on(url: str, browser: Browser) -> None:
    """It fades out at the right, until its end is scrolled into view."""
    with visiting(browser, url, viewport={"width": 400, "height": 900}) as page:
        page.goto("reference/metrics.html")
        box = page.locator(".md-typeset__scrollwrap").first
        expect(box).to_have_class(re.compile("goes-on"))
        box.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
        expect(box).not_to_have_class(re.compile("goes-on"))


def test_code_is_copied_without_prompts(url: str, browser: Browser) -> None:
    """What is pasted into a shell runs."""
    with visiting(browser, url, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto("index.html")
        page.get_by_role("button", name="Copy").first.click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == (
            "pip install game-operator-testkit\ngame-operator demo\n"
        )
