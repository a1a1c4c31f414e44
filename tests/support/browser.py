"""The system's Chromium, driven by playwright: nothing is downloaded, and nothing leaves this machine."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from game_operator.protocol.http import is_loopback

#: How long a page may take; the machine may be busy.
PATIENCE_MILLIS = 20_000

_DEFAULT_PATH = "/usr/bin/chromium"
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """
    Start Chromium: the one that the environment variable CHROMIUM names, or Debian's.

    While it runs, this thread can run no event loop of its own: playwright's is in it.
    """
    path = Path(os.environ.get("CHROMIUM", _DEFAULT_PATH))
    if not path.exists():
        pytest.fail(
            f"There is no Chromium at {path}. Install it (Debian: apt install chromium), or name another one in the "
            "environment variable CHROMIUM.",
            pytrace=False,
        )
    expect.set_options(timeout=PATIENCE_MILLIS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def visiting(browser: Browser, base_url: str, *, expected: Sequence[str] = (), **options: Any) -> Iterator[Page]:
    """
    Open a page; at the end of the block assert that it stayed on this machine and had nothing to complain of.

    Args:
        browser: The browser.
        base_url: What paths are below.
        expected: Parts of messages that the console may hold, such as "422 (" for a form that is refused.
        options: Of playwright's ``new_context``: ``color_scheme``, ``viewport``, ``java_script_enabled``.
    """
    with browser.new_context(base_url=base_url, **options) as context:
        context.set_default_timeout(PATIENCE_MILLIS)
        page = context.new_page()
        asked: list[str] = []
        complaints: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: _note(complaints, message.type, message.text))
        yield page
    assert asked, "the page was never asked for"
    elsewhere = [url for url in asked if not _stays_here(url)]
    assert not elsewhere, elsewhere
    unexpected = [text for text in complaints if not any(part in text for part in expected)]
    assert not unexpected, unexpected


def _note(complaints: list[str], kind: str, text: str) -> None:
    if kind in {"error", "warning"}:
        complaints.append(f"{kind}: {text}")


def _stays_here(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in {"data", "blob"} or is_loopback(parts.hostname or "")
