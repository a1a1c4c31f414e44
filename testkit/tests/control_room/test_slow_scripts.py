"""Scripts that arrive late: the pages come alive all the same."""

import time

import pytest
from playwright.sync_api import Browser, Route, expect

from game_operator_testkit.sandbox import Sandbox
from tests.support.browser import visiting

pytestmark = pytest.mark.outside


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
