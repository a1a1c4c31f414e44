"""A storm's report as a page: what it says, that nothing in it runs, and how much is on it."""

import re
from base64 import b64encode
from dataclasses import replace
from functools import cache
from hashlib import sha256

from game_operator_testkit.sandbox.storm.as_html import html
from game_operator_testkit.sandbox.storm.report import StormReport
from testkit.tests.control_room.support import Html
from testkit.tests.sandbox.storming import storm
from testkit.tests.sandbox.wrong_wallets import PaysRepeatsTwice


@cache
def failed() -> StormReport:
    """A storm that a wrong wallet failed."""
    return storm(PaysRepeatsTwice, faults="duplicate=0.3")[0]


def test_a_failed_storm() -> None:
    """The headline, each difference with its cents, faults and history, where the cause is found, and figures."""
    text = Html(html(failed())).text
    assert failed().headline in text
    assert "`game-operator certify` finds the cause: it tries each case by itself" in text
    for one in failed().differences:
        assert f"{one.subject} {one.gap}" in text
        assert one.service in text
        assert one.wallet in text
    assert "Faults that it met" in text
    assert "POST /deposit {" in text
    assert all(value in text for _, value in failed().figures)


def test_nothing_on_it_runs() -> None:
    """What a wallet answered is escaped, the policy admits one style, and there is no script."""
    evil = replace(failed().differences[0], wallet="<script>alert(1)</script>", history=('"><img src=x onerror=y>',))
    page = html(replace(failed(), differences=(evil,)))
    assert [*Html(page).all("script"), *Html(page).all("img")] == []
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'" in page.replace(
        "&#39;", "'"
    )


def test_how_much_is_on_it() -> None:
    """A hundred differences of a kind, and two hundred lines of each; the rest is counted."""
    long = replace(failed().differences[0], history=tuple(f"line {number}" for number in range(201)))
    assert "… and 1 more lines" in html(replace(failed(), differences=(long,)))
    one = failed().differences[0]
    assert "not on this page" not in html(replace(failed(), differences=(one,) * 100))
    assert "1 more are not on this page." in html(replace(failed(), differences=(one,) * 101))
