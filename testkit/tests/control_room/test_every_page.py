"""Every page of the control room: barriers, widths, weight, and what works without JavaScript."""

from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Final, Literal

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from game_operator_testkit.provider.faults import FaultPlan
from testkit.tests.control_room.furnishing import NAMES, TURNING, Furnished, furnished
from tests.support.browser import visiting

pytestmark = pytest.mark.outside

#: Looks for barriers: what a screen reader, a keyboard or weak eyes stumble over.
AXE: Final = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
MOST_BYTES: Final = 100_000
#: How pages are looked at: each width and each scheme once.
LOOKS: Final[tuple[tuple[int, Literal["light", "dark"]], ...]] = ((1280, "light"), (400, "dark"))
#: What Chromium notes of a page that is not there.
NOT_FOUND: Final = ("status of 404",)

FIND: Final = """
(rules) => axe.run(document, rules === "all" ? { resultTypes: ["violations"] } : { runOnly: ["color-contrast"] }).then(
  ({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(", ")}`))
"""
#: Tables whose columns do not fit, and cells whose text does not: a reader would not see all of it.
CUT_OFF: Final = """
() => [...document.querySelectorAll(".table-wrap, .table-wrap td")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.innerText.slice(0, 60))
"""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furnished]:
    """A sandbox with something on every page."""
    with furnished(tmp_path_factory.mktemp("room")) as room:
        yield room


@pytest.fixture(scope="module")
def screen(room: Furnished, browser: Browser) -> Iterator[Page]:
    """One page of the browser for all; it complains if a page leaves this machine or has an error."""
    with visiting(browser, room.sandbox.base_url, expected=NOT_FOUND) as page:
        yield page


@pytest.fixture(scope="module")
def without_scripts(room: Furnished, browser: Browser) -> Iterator[Page]:
    """The same without JavaScript; a form may be refused."""
    with visiting(browser, room.sandbox.base_url, java_script_enabled=False, expected=("status of 4",)) as page:
        yield page


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.drawn(4)
def test_a_page_has_no_barriers(room: Furnished, screen: Page, name: str) -> None:
    """On a wide screen in light colours and on a narrow one in dark colours; and no column is cut off."""
    screen.goto(room.pages[name])
    screen.evaluate(AXE)
    for width, scheme in LOOKS:
        hold_no_barriers(screen, width, scheme, "all")


@pytest.mark.torture
@pytest.mark.parametrize("name", NAMES)
def test_the_other_colours_are_no_barriers(room: Furnished, screen: Page, name: str) -> None:
    """Dark on a wide screen, and light on a narrow one: they depend on the scheme, and hardly on the width."""
    screen.goto(room.pages[name])
    screen.evaluate(AXE)
    for (width, _), (_, scheme) in zip(LOOKS, reversed(LOOKS), strict=True):
        hold_no_barriers(screen, width, scheme, "colours")


def hold_no_barriers(screen: Page, width: int, scheme: Literal["light", "dark"], rules: str) -> None:
    """Hold that axe finds nothing, and that nothing is cut off or wider than the screen."""
    screen.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    screen.set_viewport_size({"width": width, "height": 900})
    assert screen.evaluate(FIND, rules) == [], (width, scheme)
    assert screen.evaluate("document.documentElement.scrollWidth") <= width
    assert screen.evaluate(CUT_OFF) == [], width


def test_barriers_are_found(room: Furnished, screen: Page) -> None:
    """A picture without a text, and grey on grey."""
    screen.goto(room.pages["refused"])
    screen.evaluate(AXE)
    screen.emulate_media(color_scheme="light")
    screen.evaluate("document.querySelector('main').append(new Image())")
    screen.evaluate("document.querySelector('.lead').style.color = '#bbb'")
    found = [each.partition(":")[0] for each in screen.evaluate(FIND, "all")]
    assert found == ["color-contrast", "image-alt"]


def test_every_page_is_light(room: Furnished) -> None:
    """However much is on it: below 100 kB."""
    with httpx.Client(base_url=room.sandbox.base_url, trust_env=False, verify=False) as http:
        for name, path in room.pages.items():
            answer = http.get(path)
            assert answer.status_code == (404 if name == "refused" else 200), name
            assert 1_000 < len(answer.content) < MOST_BYTES, name


def play(page: Page, room: Furnished) -> None:
    page.get_by_label("Player").fill(TURNING)
    page.get_by_label("Wager").fill("2")
    page.get_by_label("Amount won").fill("7")
    page.get_by_label("Loss").check()
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.locator("#play-result")).to_contain_text("wagered 2.00 EUR and lost.")
    expect(page.locator("#play-result")).to_contain_text("The wallet now has ")


def deliver_again(page: Page, room: Furnished) -> None:
    page.locator("#calls a", has_text="/deposit").first.click()
    page.get_by_role("button", name="Deliver again").click()
    expect(page.get_by_text("delivered again").first).to_be_visible()


def find_a_bet(page: Page, room: Furnished) -> None:
    page.get_by_label("Bet id").fill("no such bet")
    page.get_by_role("button", name="Find the bet").click()
    expect(page.get_by_text("The service knows no such bet")).to_be_visible()


def claim(page: Page, room: Furnished) -> None:
    page.get_by_role("button", name="Play and claim").first.click()
    expect(page.get_by_text("the wallet has paid the winnings: ")).to_be_visible()


def choose_faults(page: Page, room: Furnished) -> None:
    page.get_by_role("button", name="Key rotation day").click()
    expect(page.locator(".now")).to_contain_text("Key rotation day: 3 faults on.")
    page.get_by_label("of all calls").first.fill("5")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".now")).to_contain_text("4 faults on. Saved")
    page.get_by_role("button", name="Switch all off").click()
    expect(page.locator(".now")).to_contain_text("No fault is on.")


def accept_a_balance(page: Page, room: Furnished) -> None:
    accept = page.get_by_role("button", name="Accept")
    before = accept.count()
    accept.first.click()
    expect(accept).to_have_count(before - 1)


def rotate(page: Page, room: Furnished) -> None:
    before = room.sandbox.service.keys
    page.get_by_role("button", name="Switch to the next key").click()
    expect(page.get_by_text("Switched.", exact=True)).to_be_visible()
    room.sandbox.service.switch_keys(before)


@pytest.mark.parametrize(
    ("name", "use"),
    {
        "lobby": play,
        "live": deliver_again,
        "bets-and-rounds": find_a_bet,
        "free-bets": claim,
        "faults": choose_faults,
        "wallet": accept_a_balance,
        "keys": rotate,
    }.items(),
)
@pytest.mark.drawn(4)
def test_a_page_does_its_job_without_javascript(
    room: Furnished, without_scripts: Page, name: str, use: Callable[[Page, Furnished], None]
) -> None:
    """Every form is a form, and its result a page."""
    room.sandbox.faults.plan = FaultPlan()
    without_scripts.goto(room.pages[name])
    use(without_scripts, room)
