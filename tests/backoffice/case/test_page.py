"""The page: what comes from outside stays data."""

import json
import re
from decimal import Decimal
from typing import Any

import pytest

from game_operator.backoffice import CaseFile, case_file
from game_operator.backoffice.case import canonical
from game_operator.backoffice.journal import Journal
from game_operator.backoffice.journal_records import ItemResult, NewItem
from game_operator.ledger import SqlLedger
from game_operator.ledger.rules.book import NewFinding
from tests.support.backoffice_fixtures import Page
from tests.support.browser import chromium, visiting
from tests.support.calls import deposit, withdraw
from tests.support.servers import wsgi_server

HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'\n\u202egnp\u2028{{7*7}}&lt;é\ufffd"


def hostile_case(ledger: SqlLedger, *, redact: bool = False) -> CaseFile:
    """Return a case file in which whatever a service, a player or a log can choose is hostile."""
    ledger.open_account(HOSTILE, Decimal(100))
    names: dict[str, Any] = {"instance_id": HOSTILE, "game": HOSTILE, "round_id": HOSTILE}
    ledger.apply(withdraw(HOSTILE, HOSTILE, tx_id=HOSTILE, **names))
    ledger.apply(deposit(HOSTILE, HOSTILE, tx_id=HOSTILE, **names))
    body = json.dumps({"player_id": HOSTILE, "bet_id": HOSTILE, "much": "<b>" * 60_000}).encode()
    ledger.keep_anomaly(HOSTILE, HOSTILE, body)
    finding = NewFinding(HOSTILE, HOSTILE, HOSTILE, tx_id=HOSTILE, player_id=HOSTILE, evidence=b"\xff\x00<script>")
    journal = Journal(ledger)
    begun = journal.begin("reconcile", source="", service=HOSTILE, parameters={}, interval_micros=1, actor=HOSTILE)
    journal.add_page(begun, [NewItem(HOSTILE, {"of": HOSTILE})], cursor="", ready=True)
    chunk = journal.claim(begun.id, "one")
    assert chunk is not None
    journal.save(chunk, [ItemResult(HOSTILE, HOSTILE, {}, evidence=body)], findings=[finding], done=True)
    return case_file(ledger, HOSTILE, redact=redact)


@pytest.mark.slow
@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.drawn(1)
def test_hostile_values_stay_data(own: SqlLedger, redact: bool) -> None:
    """No element, attribute or character of theirs is in the page, and the JSON holds what they are, however long."""
    case = hostile_case(own, redact=redact)
    page = case.to_html()
    seen = Page(page)
    assert seen.elements.isdisjoint({"script", "img", "b", "a", "link", "iframe", "form", "object"})
    assert not {name for name in seen.attributes if name.startswith("on") or name in ("src", "href", "style")}
    assert not re.search("[\u202e\u2028\ufeff]", page)
    assert "alert(1)" in page
    assert case.to_json().isascii()
    assert case.contents["bet_id"] == HOSTILE
    if not redact:
        assert case.contents["anomalies"][0]["body"]["kept"]["data"].count("<b>") == 60_000
        assert case.contents["ledger"]["bet"]["game"] == HOSTILE


@pytest.mark.outside
def test_nothing_of_a_hostile_page_runs(own: SqlLedger) -> None:
    """In Chromium: no dialog, no request beside the page's own, nothing that the content security policy refuses."""
    page_text = hostile_case(own).to_html().encode()

    def application(_: Any, start: Any) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/html; charset=utf-8")])
        return [page_text]

    dialogs: list[str] = []
    with chromium() as browser, wsgi_server(application) as port, visiting(browser, f"http://127.0.0.1:{port}") as page:
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        page.goto("/")
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        document = json.loads(page.locator("#case-file").inner_text())
        assert document["contents"]["bet_id"] == HOSTILE
        assert page.locator("h1").inner_text().startswith("Bet </pre></script>")
    assert dialogs == []


def test_canonical_json() -> None:
    """Sorted by name, without blanks, in ASCII; numbers that have no one spelling are refused."""
    assert canonical({"b": [1, True, None], "a": "ä\n"}) == b'{"a":"\\u00e4\\n","b":[1,true,null]}'
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": float("nan")})
