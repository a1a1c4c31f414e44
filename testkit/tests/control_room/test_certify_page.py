"""Certify: runs that are begun, watched, stopped, reported and compared on a page, over real HTTP."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from xml.etree import ElementTree

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from playwright.sync_api import Browser, expect
from wallet_by_hand import Case, PlainWallet

from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.control_room.runs import certify_run, shelf
from testkit.tests.certifier.wrong_wallets.repeats import DebitsEachTime
from testkit.tests.control_room.running import Room, certify_form, polled, room_at, room_over
from testkit.tests.control_room.support import EVIL, EVIL_ESCAPED, Html, form_token, page, play, post
from tests.support.browser import visiting
from tests.support.hostile_server import Connection, HostileServer
from tests.support.servers import asgi_server

pytestmark = pytest.mark.outside

PAGE = "/certify"


@pytest.fixture(scope="module")
def right(private_key: RSAPrivateKey) -> Iterator[Room]:
    """A control room over a wallet that is right."""
    with room_over(PlainWallet, private_key) as room:
        yield room


def test_a_right_wallet_passes_and_its_page_says_so(right: Room) -> None:
    """Headline, figures, and both balances as before; the page Wallet has nothing to complain of."""
    right.sandbox.play_round(player_id="ann", wager_cents=100, won_cents=0)
    html = right.certified(ids="A02, B01, C05")
    assert "Passed: no money was lost or doubled, and the contract was kept." in html.text
    assert "3 of 3 scenarios" in html.text
    assert html.text.count("1,000.00, as before") == 1
    assert html.text.count("999.00, as before") == 1
    assert "Fix this first" not in html.text
    assert polled(html) == []
    right.sandbox.play_round(player_id="ann", wager_cents=100, won_cents=100)
    assert not right.sandbox.service.balances.disagrees()


def test_calls_of_a_run_are_in_its_report_and_not_in_live(right: Room) -> None:
    """The page says so, and the log is as long as before."""
    before = right.sandbox.live.count
    right.certified()
    assert right.sandbox.live.count == before
    assert "They are in the run’s report, not in Live" in page(right.http, PAGE).text


def test_a_wrong_wallet_reads_what_to_fix_first(private_key: RSAPrivateKey) -> None:
    """The same first screen as in a terminal: what it means, how to fix it, and the exchange that shows it."""
    with room_over(DebitsEachTime, private_key) as room:
        html = room.certified(ids="", **{"group-B": "on"})
        assert "Failed: this wallet doubles money." in html.text
        assert "1 mistake puts money at risk. Fix it, and run this again." in html.text
        first = html.text[html.text.index("Fix this first") :]
        for part in ("money doubled", "What it means", "A player pays twice", "How to fix it", "POST /withdraw"):
            assert part in first
        assert "game-operator call /withdraw --url" in first
        assert re.search(r"Seen in B01, .*B15\.", first)
        assert "B07: needs a way to make the wallet fail" in first
        # Restored after each scenario; a board that knew nothing of the run would go by its own sum.
        room.sandbox.play_round(player_id="ann", wager_cents=100, won_cents=100)
        assert not room.sandbox.service.balances.disagrees()


def test_the_form_suggests_players_who_have_enough(right: Room) -> None:
    """10.00 and more, as the wallet has reported; 9.99 is too little."""
    for player_id in ("cleo", "poor"):
        right.sandbox.play_round(player_id=player_id, wager_cents=100, won_cents=0)
    html = page(right.http, PAGE)
    offered = [each["value"] for each in html.all("option") if "selected" not in each]
    assert "cleo" in offered
    assert "poor" not in offered
    assert [each.get("name") for each in html.all("input") if "checked" in each] == [
        f"group-{each}" for each in "ABCDEFGH"
    ]
    assert re.search(r"cleo [\d,.]+", html.text)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param({"player_id": ""}, "A player id ", id="no player"),
        pytest.param({"player_id": "x" * 300}, "A player id ", id="a long player"),
        pytest.param({"other_player_id": "ann"}, "Choose another player", id="one player"),
        pytest.param({"ids": ""}, "Choose a group, or write the id of a scenario.", id="nothing to try"),
        pytest.param({"ids": "B01 Z99"}, "Write ids of scenarios, such as B01", id="another id"),
        pytest.param({"ids": EVIL}, "Write ids of scenarios, such as B01", id="a script"),
        pytest.param({"group-Q": "on"}, "Write ids of scenarios, such as B01", id="another group"),
        pytest.param({"random_operations": "-1"}, "Write a number from 0 to 2,000.", id="below zero"),
        pytest.param({"random_operations": "2001"}, "Write a number from 0 to 2,000.", id="too many"),
        pytest.param({"random_operations": "many"}, "Write a whole number", id="a word"),
        pytest.param({"instance_id": "nothing"}, "Choose one of the games.", id="another game"),
    ],
)
def test_a_mistake_in_the_form_begins_nothing(right: Room, fields: dict[str, str], sentence: str) -> None:
    """It is said beside the field, and what was typed stays."""
    runs = page(right.http, PAGE).text.count("Run ")
    refused = post(right.http, f"{PAGE}/start", **certify_form(right, **fields))
    assert (refused.status_code, sentence in refused.text) == (422, True)
    assert "Nothing was begun: 1 field below needs another value." in refused.text
    assert 'aria-invalid="true"' in refused.text
    assert EVIL not in refused.text
    assert page(right.http, PAGE).text.count("Run ") == runs


def test_limits_of_the_form(right: Room) -> None:
    """2,000 random operations and none are both fine, in a scenario that plays none."""
    for number in ("0", "2000"):
        assert "1 of 1 scenarios" in right.certified(ids="A01", random_operations=number).text


@pytest.mark.parametrize(
    ("player_id", "sentence"),
    [("nobody", "The wallet does not know the player"), ("poor", "Give both players at least 10.00")],
)
def test_players_who_cannot_be_used(right: Room, player_id: str, sentence: str) -> None:
    """The run says so before it moves anything, and another one can begin."""
    html = right.certified(player_id=player_id)
    assert "It could not begin." in html.text
    assert sentence in html.text
    assert "Put that right" in html.text


def test_a_wallet_that_is_not_there(private_key: RSAPrivateKey) -> None:
    """Said at once, in words that tell what to look at."""
    with room_at("http://127.0.0.1:1", private_key) as room:
        html = room.certified()
        assert "It could not begin." in html.text
        assert "Nobody answers at 127.0.0.1:1, so nothing was sent. Is the wallet running? (" in html.text


def test_without_a_wallet_there_is_nothing_to_certify(private_key: RSAPrivateKey) -> None:
    """The button is disabled, and the form is refused."""
    with room_at(None, private_key) as room:
        html = page(room.http, PAGE)
        assert "The sandbox knows no wallet." in html.text
        assert [each for each in html.all("button") if "disabled" in each] != []
        refused = post(room.http, f"{PAGE}/start", **certify_form(room))
        assert (refused.status_code, "there is nothing to certify" in refused.text) == (422, True)


def test_a_wallet_on_another_machine_needs_a_tick(private_key: RSAPrivateKey) -> None:
    """Its players' money is not moved by mistake; one at this machine needs none."""
    with room_at("https://wallet.example.test", private_key) as room:
        assert "moves_money" in page(room.http, PAGE).values("name")
        refused = post(room.http, f"{PAGE}/start", **certify_form(room))
        assert (refused.status_code, "Tick this if the run may move" in refused.text) == (422, True)
        assert "It could not begin." in room.certified(moves_money="on").text  # There is no such host.
        room.sandbox.wallet_url = "http://127.0.0.1:1"
        assert "moves_money" not in page(room.http, PAGE).values("name")


def test_a_wallet_that_hangs(private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is given up in time; the other pages answer meanwhile; the report says that there was no answer."""
    monkeypatch.setattr(certify_run, "_TIMEOUT", 0.2)
    hung = Event()

    def hang(connection: Connection) -> None:
        connection.read_request()
        hung.wait(20)

    with HostileServer(hang) as server, room_at(server.base_url, private_key) as room:
        place = room.begun(PAGE, **certify_form(room, ids="A02"))
        for path in ("/", "/live", "/wallet", PAGE):
            assert room.http.get(path, timeout=5).status_code == 200
        html = room.ended(place)
        hung.set()
    assert "Failed: 1 scenario could not be judged, and nobody knows what became of the money." in html.text
    assert "The attempt did not end in time" in html.text


def test_progress_is_shown_and_a_second_start_is_refused(waiting: Room, gate: Event) -> None:
    """What is played now, a bar, a button, and for readers without JavaScript a page that loads itself again."""
    place = waiting.begun(PAGE, **certify_form(waiting, ids="A01, A02, B01"))
    at_work = page(waiting.http, place)
    assert at_work.all("progress")[0] == {"max": "3", "value": "1", "aria-label": "scenarios so far"}
    assert "Now: A02" in at_work.text
    assert "passed" in at_work.text
    assert polled(at_work) == [place]
    assert [each["content"] for each in at_work.all("meta") if "http-equiv" in each] == [f"2; url={place}"]
    again = post(waiting.http, f"{PAGE}/start", **certify_form(waiting))
    assert again.status_code == 409
    assert "A certification is at work already. Wait for its end, or stop it." in again.text
    storm = post(waiting.http, "/storm/start", bets="5", who="known", players="bob", faults="none", plan="",
                 retries="three", concurrency="1", seed="")  # fmt: skip
    assert (storm.status_code, "Another run plays with bob just now." in storm.text) == (409, True)
    gate.set()
    ended = waiting.ended(place)
    assert "Passed" in ended.text
    assert [each for each in ended.all("meta") if "http-equiv" in each] == []
    assert "Passed" in waiting.certified().text


def test_a_player_of_a_run_does_not_play(waiting: Room, gate: Event) -> None:
    """In the lobby and for free bets, while it is at work: nothing is sent. Others play, and afterwards all do."""
    grant = {"instance_id": waiting.sandbox.instance_id, "count": "1", "wager": "1", "duration": "1", "unit": "days"}
    post(waiting.http, "/free-bets/grant", **grant, player_id="ann", reference_id="of a run")
    free_bet_id = waiting.sandbox.world.grants()[-1].free_bet_id
    place = waiting.begun(PAGE, **certify_form(waiting, ids="A01, A02"))
    before = waiting.sandbox.live.count
    refused = play(waiting.http, player_id="ann")
    assert refused.status_code == 422
    assert "Certification 1 is at work with ann. Wait for its end, or choose another player." in Html(refused.text).text
    claim = post(waiting.http, "/free-bets/claim", free_bet_id=free_bet_id)
    assert (claim.status_code, "Certification 1 is at work with ann. Wait for its end." in claim.text) == (422, True)
    assert waiting.sandbox.live.count == before
    gate.set()
    assert play(waiting.http, player_id="cleo").status_code == 303
    waiting.ended(place)
    assert play(waiting.http, player_id="ann").status_code == 303
    assert post(waiting.http, "/free-bets/claim", free_bet_id=free_bet_id).status_code == 303


def test_a_run_is_stopped(waiting: Room, gate: Event) -> None:
    """The call under way is waited for, money is put back, and what was not tried is said."""
    place = waiting.begun(PAGE, **certify_form(waiting, ids="A01, A02, B01"))
    stopped = post(waiting.http, f"{PAGE}/interrupt")
    assert stopped.headers["location"] == place
    assert "Stopping, in A02" in page(waiting.http, place).text
    gate.set()
    html = waiting.ended(place)
    assert "Stopped: nothing is wrong so far, and 2 scenarios were not tried." in html.text
    assert "Somebody stopped the run, so A02, B01 were not tried to the end." in html.text
    assert html.text.count("1,000.00, as before") == 2
    # With nothing at work, it leads back to what there is.
    assert post(waiting.http, f"{PAGE}/interrupt").headers["location"] == place


def test_a_run_ends_with_the_server(private_key: RSAPrivateKey) -> None:
    """All 83 scenarios make some 1,800 calls, and do not hold up the end; ``room_at`` waits for the thread."""
    calls: list[str] = []

    class Counts(PlainWallet):
        def handle(self, *arguments: Any) -> tuple[int, dict[str, str], bytes]:
            calls.append(arguments[1])
            return super().handle(*arguments)

    with room_over(Counts, private_key) as room:
        groups = {f"group-{letter}": "on" for letter in "ABCDEFGH"}
        place = room.begun(PAGE, **certify_form(room, ids="", **groups))
        assert "At work." in page(room.http, place).text
    assert 0 < len(calls) < 1_000


def test_two_runs_are_compared(private_key: RSAPrivateKey) -> None:
    """A wallet that is repaired in between: what is fixed, what is new, and what was tried in one run alone."""
    is_wrong = [True]

    class Repaired(DebitsEachTime):
        def _withdraw(self, case: Case) -> str:
            return super()._withdraw(case) if is_wrong[0] else PlainWallet._withdraw(self, case)

    with room_over(Repaired, private_key) as room:
        room.certified(ids="A02, B01, B15")
        assert "Compare" not in page(room.http, PAGE).text
        is_wrong[0] = False
        html = room.certified(ids="A02, B01")
        assert "Since run 1: 1 fixed, 1 not compared." in html.text
        assert "Compare" in page(room.http, PAGE).text
        forth = page(room.http, f"{PAGE}/compare?before=1&after=2")
        assert [each["id"] for each in forth.all("h2")] == ["fixed", "not-compared"]
        assert "failed → passed" in forth.text
        back = page(room.http, f"{PAGE}/compare?before=2&after=1")
        assert "2 new." in back.text
        assert [each["id"] for each in back.all("h2")] == ["new"]
        assert "not tried → failed" in back.text
        same = page(room.http, f"{PAGE}/compare?before=1&after=1")
        assert "2 still failing." in same.text
        assert "Nothing failed in either run." in page(room.http, f"{PAGE}/compare?before=2&after=2").text
        for query in ("before=1", "before=1&after=3", "before=x&after=1", "before=-1&after=1", "before=%00&after=1"):
            page(room.http, f"{PAGE}/compare?{query}", status=404)


def test_the_report_as_files(right: Room) -> None:
    """HTML in a page of no origin that loads nothing, JSON, and JUnit; of another run or name there is none."""
    place = right.begun(PAGE, **certify_form(right))
    right.ended(place)
    html = right.http.get(f"{place}/report.html")
    assert html.headers["content-type"] == "text/html; charset=utf-8"
    policy = html.headers["content-security-policy"]
    assert policy.endswith("frame-ancestors 'none'; sandbox allow-scripts")
    assert "default-src 'none'; style-src 'sha256-" in policy
    assert "'self'" not in policy
    assert "<h1" in html.text
    report = json.loads(right.http.get(f"{place}/report.json").text)
    assert (report["format"], report["passed"], report["with_signatures"]) == (1, True, False)
    junit = ElementTree.fromstring(right.http.get(f"{place}/report.xml").text)
    assert junit.get("tests") == "2"
    for path in (f"{place}/report.pdf", f"{PAGE}/runs/999", f"{PAGE}/runs/999/report.html", f"{PAGE}/runs/0"):
        assert right.http.get(path).status_code == 404


class _Hostile(PlainWallet):
    """Answers with a code that is a script, and turns the line around."""

    def handle(self, *arguments: Any) -> tuple[int, dict[str, str], bytes]:
        status, headers, reply = super().handle(*arguments)
        if arguments[1] != "/withdraw":
            return status, headers, reply
        code = f"{EVIL}\u202eevil" + "x" * 5_000
        return status, headers, json.dumps(json.loads(reply) | {"type": "ERROR", "code": code}).encode()


def test_what_a_wallet_answers_is_escaped_and_short(private_key: RSAPrivateKey) -> None:
    """No script, nothing that turns text around, and a page of a size that can be read; player ids too."""
    with room_over(_Hostile, private_key) as room:
        html = room.certified(ids="", other_player_id=EVIL, **{"group-A": "on", "group-C": "on"})
        assert "Failed" in html.text
        for source in (html.source, page(room.http, PAGE).source):
            assert EVIL not in source
            assert EVIL_ESCAPED in source
            assert "\u202e" not in source
            assert len(source.encode()) < 100_000
        assert "\\u202e" in html.source


def test_the_latest_runs_are_kept(right: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number and by bytes; the newest stays, however large it is."""
    monkeypatch.setattr(shelf, "MOST_RUNS", 2)
    places = []
    for _ in range(3):
        places.append(right.begun(PAGE, **certify_form(right, ids="A01")))
        right.ended(places[-1])
    assert [right.http.get(place).status_code for place in places] == [404, 200, 200]
    monkeypatch.setattr(shelf, "MOST_BYTES", 10)
    place = right.begun(PAGE, **certify_form(right, ids="A01"))
    right.ended(place)
    assert [right.http.get(each).status_code for each in (*places, place)] == [404, 404, 404, 200]


def test_with_a_ledger_more_is_tried(tmp_path: Path, private_key: RSAPrivateKey) -> None:
    """New accounts (C14) and stored balances (G05) need the wallet's ledger, and are skipped without it."""
    with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as ledger:
        for player_id in ("ann", "bob"):
            ledger.open_account(player_id, Decimal(1_000))
        receiver = WebhookReceiver(authenticator=RsaSignature(private_key.public_key()))
        room = partial(ControlRoom, wallet=Wallet(ledger))
        with (
            asgi_server(asgi_app(receiver, Wallet(ledger))) as port,
            room_at(f"http://127.0.0.1:{port}", private_key, room) as room_,
        ):
            html = room_.certified(ids="C14, G05")
            assert "2 of 2 scenarios" in html.text
            assert "a reconciliation reports them" in html.text


def test_without_a_ledger_they_are_not_tried(right: Room) -> None:
    """And the form says so before."""
    html = right.certified(ids="A01, C14, G05")
    assert "2 scenarios were not tried" in html.text
    assert (
        "C14: needs a way to open an account. To try it: game-operator certify --hook open_account=COMMAND" in html.text
    )
    assert "supply open_account" not in html.text
    assert "not from this page: needs a way to open an account" in page(right.http, PAGE).text


def test_forms_need_the_token_of_the_page(right: Room) -> None:
    """As all forms of the control room do."""
    form_token(right.http)
    for form in ("start", "interrupt"):
        assert right.http.post(f"{PAGE}/{form}", data={"form_token": "old"}).status_code == 403
        assert right.http.get(f"{PAGE}/{form}").status_code == 405


def test_a_sandbox_starts_without_the_certifier() -> None:
    """Certifier and storm are loaded when their pages are used, so that the pages do not slow down its start."""
    code = "import sys, game_operator_testkit.control_room; print([n for n in sys.modules if n.startswith(%r)])"
    names = ("game_operator_testkit.certifier", "game_operator_testkit.sandbox.storm")
    ran = subprocess.run([sys.executable, "-c", code % (names,)], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without"])
@pytest.mark.drawn(1)
def test_a_run_in_a_browser(right: Room, browser: Browser, scripts: bool) -> None:
    """From the form to the report, which opens in place of the page and folds; nothing complains."""
    right.sandbox.play_round(player_id="ann", wager_cents=100, won_cents=0)
    right.sandbox.play_round(player_id="bob", wager_cents=100, won_cents=0)
    with visiting(browser, right.sandbox.base_url, java_script_enabled=scripts) as page:
        page.goto(PAGE)
        expect(page.get_by_label("Player", exact=True)).to_have_value("ann")
        expect(page.get_by_label("Other player")).to_have_value("bob")
        for box in page.get_by_role("checkbox").all():
            box.uncheck()
        page.get_by_label("Single scenarios").fill("A02, B01, H05")
        page.get_by_role("button", name="Begin the run").click()
        expect(page.get_by_role("heading", name="Passed: no money was lost")).to_be_visible()
        expect(page.locator("progress")).to_have_count(0)
        page.get_by_text("B Repeats 1 scenario").click()
        expect(page.get_by_text("B01 a withdraw sent again")).to_be_visible()
        page.get_by_role("link", name="Full report", exact=True).click()
        expect(page.get_by_role("heading", name="In figures")).to_be_visible()
