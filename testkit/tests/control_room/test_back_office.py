"""Back office: settlements lost, found and repaired, and a campaign interrupted and resumed, over real HTTP."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from playwright.sync_api import Browser, expect

from game_operator.backoffice import Reconciler
from game_operator.ledger import MemoryLedger, SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.control_room import ControlRoom, back_office_work
from game_operator_testkit.control_room.back_office import age
from game_operator_testkit.control_room.jobs import Job
from game_operator_testkit.sandbox import Sandbox, server
from testkit.tests.control_room.support import EVIL, EVIL_ESCAPED, Html, form_token, page, post, service_key
from tests.support.browser import visiting
from tests.support.servers import asgi_server

pytestmark = pytest.mark.outside

PAGE = "/back-office"
PLAYERS = ("ann", "bob", "cleo")
LOSE = {"player_id": "ann", "wager": "5.00", "ending": "win", "settlement": "hold"}
REPAIR = {"max_bets": "10", "max_total": "100.00", "reason": "an outage"}
PLAN = {"campaign": "c-1", "players": "ann\nbob\ncleo", "count": "2", "free_bet": "0.50", "max_exposure": "3.00"}


@dataclass
class Office:
    """A sandbox whose control room has the ledger of its wallet."""

    sandbox: Sandbox
    ledger: SqlLedger
    http: httpx.Client

    def send(self, form: str, **fields: str) -> Html:
        """Send a form, follow it to the page, and wait until nothing is at work."""
        response = post(self.http, f"{PAGE}/{form}", **fields)
        assert response.status_code in {200, 303}, response.text
        return self.at_rest() if response.status_code == 303 else Html(response.text)

    def at_rest(self) -> Html:
        """Return the page once nothing is at work."""
        for _ in range(200):
            html = page(self.http, PAGE)
            if "At work:" not in html.text:
                return html
            time.sleep(0.1)
        raise AssertionError(html.text)


@contextmanager
def opened(folder: Path, key: RSAPrivateKey) -> Iterator[Office]:
    """Serve a wallet over SQLite in *folder*, in which four players have 100.00 each, and a control room over it."""
    with SqlLedger(f"sqlite:///{folder / 'wallet.db'}") as ledger:
        for player_id in (*PLAYERS, EVIL):
            ledger.open_account(player_id, Decimal("100.00"))
        receiver = WebhookReceiver(authenticator=RsaSignature(key.public_key()))
        room = partial(ControlRoom, wallet=Wallet(ledger))
        with asgi_server(asgi_app(receiver, Wallet(ledger))) as port, pytest.MonkeyPatch.context() as patch:
            # The sandbox has the operator's pair, by which the page calls the Operator API: one pair for all of them.
            patch.setattr(server, "new_key", service_key)
            with (
                Sandbox(wallet_url=f"http://127.0.0.1:{port}", service_private_key=key, control_room=room) as sandbox,
                httpx.Client(base_url=sandbox.base_url, trust_env=False, verify=False, timeout=20) as http,
            ):
                yield Office(sandbox, ledger, http)
            # What is at work ends with the server, and before the ledger is closed.
            for thread in enumerate_threads():
                if thread.name.startswith("back office: "):
                    thread.join(20)
                    assert not thread.is_alive()


@pytest.fixture
def office(tmp_path: Path, private_key: RSAPrivateKey) -> Iterator[Office]:
    """A sandbox of each test's own."""
    with opened(tmp_path, private_key) as office:
        yield office


def test_without_a_ledger_the_page_says_what_to_start(http: httpx.Client) -> None:
    """A sandbox that knows only a wallet's address has nothing to reconcile; no form of the page does anything."""
    html = page(http, PAGE)
    assert "This page needs the ledger of your wallet" in html.text
    assert "game-operator demo --web" in html.text
    for form, fields in {"lose": LOSE, "release": {}, "lookup": {}, "repair": REPAIR, "plan": PLAN}.items():
        before = http.get("/live").text.count("<tr")
        response = post(http, f"{PAGE}/{form}", **fields)
        assert "This page needs the ledger of your wallet" in response.text
        assert response.status_code in {200, 409}
        assert http.get("/live").text.count("<tr") == before


@pytest.mark.parametrize(
    "wallet", [Wallet(MemoryLedger()), MemoryLedger(), "sqlite:///wallet.db"], ids=["in memory", "a ledger", "a URL"]
)
def test_another_wallet_is_a_type_error(sandbox: Sandbox, wallet: Any) -> None:
    """At once, and not when the first button is pressed."""
    with pytest.raises(TypeError, match="wallet must be a Wallet or JoinedWallet over a SqlLedger, not "):
        ControlRoom(sandbox, lambda *_: None, wallet=wallet)  # type: ignore[arg-type]


def test_lost_settlements_are_found_and_repaired_and_come_late(office: Office) -> None:
    """All buttons in their order: the ledger moves by the repair alone (decision 14)."""
    assert "There was none yet." in page(office.http, PAGE).text
    held = office.send("lose", **LOSE)
    assert re.search(r"The bet \S+ is over at the service. The wallet was not told", held.text)
    office.send("lose", **LOSE | {"ending": "cancelled", "settlement": "lose", "player_id": "bob"})
    office.send("lose", **LOSE | {"ending": "loss", "player_id": "cleo"})
    balances = [office.ledger.balance(player_id) for player_id in PLAYERS]
    assert balances == [9_500, 9_500, 9_500]

    dry = office.send("lookup")
    assert "Run 1 is finished." in dry.text
    assert "refund 1 5.00 settle 2 10.00" in spaced(dry)
    assert [office.ledger.balance(player_id) for player_id in PLAYERS] == balances

    repaired = office.send("repair", **REPAIR)
    assert "Run 2 is finished. Bets repaired: 3." in repaired.text
    assert "control room: an outage" in repaired.text
    assert "7 bets, 85.00" in repaired.text
    assert "refunded 1 5.00 settled 2 10.00" in spaced(repaired)
    assert [office.ledger.balance(player_id) for player_id in PLAYERS] == [10_500, 10_000, 9_500]

    late = office.send("release")
    assert "Sent late. The wallet answered: SUCCESS 3." in late.text
    assert [office.ledger.balance(player_id) for player_id in PLAYERS] == [10_500, 10_000, 9_500]
    assert not office.sandbox.service.balances.disagrees()
    again = office.send("lookup")
    assert "agrees 3 0.00" in spaced(again)
    assert "Nothing waits for a person." in again.text
    assert "Every settlement has arrived already." in office.send("release").text


def spaced(html: Html) -> str:
    """Return the text of a page with a blank between cells."""
    return " ".join(re.sub(r"<[^>]+>", " ", html.source).split())


def test_a_player_of_a_storm_loses_no_settlement(office: Office) -> None:
    """The storm would see a bet that is not its own."""
    storm = {"bets": "5000", "who": "known", "players": "ann", "faults": "none", "plan": "", "retries": "three"}
    begun = post(office.http, "/storm/start", **storm, concurrency="1", seed="7")
    before = office.sandbox.live.count
    refused = post(office.http, f"{PAGE}/lose", **LOSE)
    post(office.http, "/storm/interrupt")
    assert refused.status_code == 422
    assert "Storm 1 is at work with ann. Wait for its end, or choose another player." in Html(refused.text).text
    assert office.sandbox.live.count == before
    for _ in range(200):
        if "At work." not in page(office.http, begun.headers["location"]).text:
            break
        time.sleep(0.05)
    assert "is over at the service" in office.send("lose", **LOSE).text


def test_brakes_hold(office: Office) -> None:
    """One bet of two fits; the other stays open, and the page shows it."""
    for player_id in ("ann", "bob"):
        office.send("lose", **LOSE | {"player_id": player_id})
    held = office.send("repair", **REPAIR | {"max_bets": "1"})
    assert "Bets repaired: 1." in held.text
    assert "settle 1 10.00 settled 1 10.00" in spaced(held)
    assert "0 bets, 90.00" in held.text


def test_findings_are_listed_and_escaped(office: Office) -> None:
    """The service reports another player for the bet of a player with an evil name."""
    office.send("lose", **LOSE | {"player_id": EVIL})
    (bet,) = (bet for bet in office.sandbox.world.bets() if bet.player_id == EVIL)
    office.sandbox.lies.about_bet(bet.reference_id, {"player_id": "<b>mallory</b>"})
    html = office.send("lookup")
    assert "player_differs" in html.text
    assert f"/bets?id={bet.reference_id}" in html.values("href")
    assert EVIL not in html.source
    assert EVIL_ESCAPED in html.source
    assert "<b>" not in html.source
    office.sandbox.lies.clear()
    assert "player_differs" in office.send("repair", **REPAIR).text  # until a look agrees
    assert "Nothing waits for a person." in office.send("lookup").text


def test_a_campaign_is_interrupted_and_resumed(office: Office) -> None:
    """One grant a second; an interruption in between, and in the end one grant for each player (spec §2.2)."""
    planned = office.send("plan", **PLAN)
    assert "The campaign c-1 is planned, with 3 grants. Nothing is sent yet." in planned.text
    assert office.sandbox.world.grants() == ()
    assert {"name": "campaign", "value": "c-1", "type": "hidden"} in planned.all("input")
    assert "welcome-1" not in planned.source
    assert post(office.http, f"{PAGE}/grant", campaign="c-1").status_code == 303
    at_work = page(office.http, PAGE)
    assert "At work: the campaign c-1." in at_work.text
    assert "every 1s" in at_work.values("hx-trigger")
    assert [each["http-equiv"] for each in at_work.all("meta") if "http-equiv" in each] == ["refresh"]
    assert post(office.http, f"{PAGE}/interrupt").status_code == 303
    interrupted = office.at_rest()
    granted = len(office.sandbox.world.grants())
    assert f"Interrupted: {granted} of 3 are granted." in interrupted.text
    assert 0 < granted < 3
    assert "every 1s" not in interrupted.values("hx-trigger")
    resumed = office.send("grant", campaign="c-1")
    assert "Done: 3 of 3 are granted." in resumed.text
    players = Counter(grant.request.player_id for grant in office.sandbox.world.grants())
    assert players == Counter(PLAYERS)
    assert 'value="c-2"' in resumed.source or 'value="welcome-2"' in resumed.source


def test_a_repair_is_interrupted_before_its_second_look(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has moved; the run waits for the same button, or for the one that stops it."""
    monkeypatch.setattr(back_office_work, "_SECOND_LOOK", timedelta(seconds=60))
    office.send("lose", **LOSE)
    assert post(office.http, f"{PAGE}/repair", **REPAIR).status_code == 303
    assert "At work: a run that repairs." in page(office.http, PAGE).text
    assert post(office.http, f"{PAGE}/interrupt").status_code == 303
    interrupted = office.at_rest()
    assert "Run 1 is not over: it was interrupted." in interrupted.text
    assert "settle 1 10.00" in spaced(interrupted)
    assert "Stop it for good" in interrupted.text
    assert office.ledger.balance("ann") == 9_500
    assert "Run 1 is stopped." in office.send("stop_run").text
    monkeypatch.undo()
    assert "Bets repaired: 1." in office.send("repair", **REPAIR).text


def test_what_is_at_work_ends_with_the_server(tmp_path: Path, private_key: RSAPrivateKey) -> None:
    """A campaign of a minute does not hold up the end, and can go on later: nobody is granted twice."""
    with opened(tmp_path, private_key) as office:
        players = "\n".join(f"player-{number}" for number in range(50))
        office.send("plan", **PLAN | {"players": players, "max_exposure": "50.00"})
        post(office.http, f"{PAGE}/grant", campaign="c-1")
        assert "At work: the campaign c-1." in page(office.http, PAGE).text
    assert len(office.sandbox.world.grants()) < 10


def test_one_thing_at_a_time(office: Office) -> None:
    """While a campaign is at work, nothing else begins; the pages go on answering."""
    office.send("plan", **PLAN)
    post(office.http, f"{PAGE}/grant", campaign="c-1")
    refused = post(office.http, f"{PAGE}/lookup")
    assert refused.status_code == 409
    assert "Something is at work already. Wait for it, or interrupt it." in refused.text
    assert page(office.http, "/live").text
    assert "There was none yet." in refused.text  # no reconciliation has begun


def test_what_fails_is_told_in_words(office: Office) -> None:
    """A plan over its cap, a campaign that is not there, and another plan under the same name."""
    assert "exposure" in office.send("plan", **PLAN | {"max_exposure": "2.99"}).text
    assert "There is no campaign 'nothing'" in office.send("grant", campaign="nothing").text
    office.send("plan", **PLAN)
    assert "There is another plan under the name 'c-1'" in office.send("plan", **PLAN | {"count": "1"}).text


def test_a_run_of_somebody_else_is_stopped_by_hand_alone(office: Office) -> None:
    """The page joins no run with other arguments, and has a button that stops it."""
    office.send("lose", **LOSE)
    with office.sandbox.client() as client:
        Reconciler(client, Wallet(office.ledger), min_age=timedelta(0), rate_per_second=1.0).run_some(0.0)
    refused = office.send("lookup")
    assert "Run 1 is under way with other arguments" in refused.text
    assert "Stop it for good" in refused.text
    assert "Run 1 is stopped." in office.send("stop_run").text
    assert "Run 2 is finished." in office.send("lookup").text
    assert "There was no run to stop." in office.send("stop_run").text


def test_a_wallet_that_is_gone(office: Office) -> None:
    """A round cannot be played, and what is held stays held."""
    office.send("lose", **LOSE)
    url, office.sandbox.wallet_url = office.sandbox.wallet_url, "http://127.0.0.1:1"
    for form, fields in {"lose": LOSE, "release": {}}.items():
        refused = post(office.http, f"{PAGE}/{form}", **fields)
        assert (refused.status_code, "Is the wallet running?" in refused.text) == (502, True)
    office.sandbox.wallet_url = url
    assert "SUCCESS 1" in office.send("release").text
    poor = post(office.http, f"{PAGE}/lose", **LOSE | {"player_id": "stranger"})
    assert (poor.status_code, "The wallet did not take the bet: PLAYER_NOT_FOUND." in poor.text) == (422, True)
    high = post(office.http, f"{PAGE}/lose", **LOSE | {"wager": "99999"})
    assert (high.status_code, 'role="alert"' in high.text) == (422, True)


@pytest.mark.parametrize(
    ("form", "fields", "sentence"),
    [
        pytest.param("lose", LOSE | {"player_id": ""}, "A player id ", id="no player"),
        pytest.param("lose", LOSE | {"wager": "0"}, "Write a number above 0.", id="no wager"),
        pytest.param("lose", LOSE | {"wager": "a"}, "Write an amount in currency units", id="a wager in words"),
        pytest.param("lose", LOSE | {"ending": "draw"}, "Choose one of the outcomes.", id="another outcome"),
        pytest.param("lose", LOSE | {"settlement": "send"}, "Choose whether it is held or lost.", id="sent"),
        pytest.param("repair", REPAIR | {"max_bets": "-1"}, "Write a number from 0 on.", id="bets below zero"),
        pytest.param("repair", REPAIR | {"max_bets": ""}, "Write a whole number", id="no brake"),
        pytest.param("repair", REPAIR | {"max_total": "-0.01"}, "Write a number from 0 on.", id="money below zero"),
        pytest.param("repair", REPAIR | {"reason": " "}, "Write why", id="no reason"),
        pytest.param("plan", PLAN | {"players": "\n"}, "Write 1 to 50 players", id="no players"),
        pytest.param("plan", PLAN | {"players": "p\n" * 51}, "Write 1 to 50 players", id="51 players"),
        pytest.param("plan", PLAN | {"count": EVIL}, "Write a whole number", id="a script"),
        pytest.param("plan", PLAN | {"max_exposure": ""}, "Write an amount in currency units", id="no cap"),
    ],
)
@pytest.mark.drawn(4)
def test_what_cannot_be_read_does_nothing(office: Office, form: str, fields: dict[str, str], sentence: str) -> None:
    """The form keeps what was typed, and the sentence stands beside the field."""
    refused = post(office.http, f"{PAGE}/{form}", **fields)
    assert refused.status_code == 422
    assert sentence in refused.text
    assert "Nothing was done: 1 field below cannot be read." in refused.text
    assert EVIL not in refused.text
    assert office.sandbox.live.count == 0
    assert refused.text.count("There was none yet.") == 2


def test_forms_need_the_token_of_the_page(office: Office) -> None:
    """As all forms of the control room do."""
    form_token(office.http)
    for form in ("lose", "release", "lookup", "repair", "stop_run", "plan", "grant", "interrupt"):
        assert office.http.post(f"{PAGE}/{form}", data={"form_token": "old"}).status_code == 403
        assert office.http.get(f"{PAGE}/{form}").status_code == 405


@pytest.mark.parametrize(("millis", "text"), [(0, "now"), (999, "now"), (1_000, "1 s"), (59_999, "59 s")])
def test_short_ages(millis: int, text: str) -> None:
    """An age is cut, not rounded."""
    assert age(millis) == text


@pytest.mark.parametrize(
    ("millis", "text"),
    [(60_000, "1 min"), (3_599_999, "59 min"), (3_600_000, "1 h"), (86_399_999, "23 h"), (172_800_000, "2 days")],
)
def test_long_ages(millis: int, text: str) -> None:
    """Each unit up to the next one."""
    assert age(millis) == text


def test_an_interruption_reaches_what_begins_later() -> None:
    """A job that is interrupted before it can be tells its work so at once."""
    job, calls = Job("a run"), list[str]()
    job.on_interrupt(lambda: calls.append("early"))
    job.interrupt()
    job.on_interrupt(lambda: calls.append("late"))
    assert calls == ["early", "late"]
    assert job.is_interrupted


def test_a_job_that_breaks_says_how(caplog: pytest.LogCaptureFixture) -> None:
    """What nobody expected is text on the page, and a traceback in the log."""

    def work(_: Job) -> str:
        raise ZeroDivisionError("out of paper")

    job = Job("a run")
    job.do(work)
    assert (job.is_running, job.problem) == (False, "ZeroDivisionError: out of paper")
    assert "a run failed" in caplog.text


@pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without"])
@pytest.mark.drawn(1)
def test_the_page_in_a_browser(office: Office, browser: Browser, scripts: bool) -> None:
    """A settlement is lost and repaired; a campaign runs to its end before one's eyes, on a narrow screen."""
    narrow = {"width": 400, "height": 800}
    with visiting(browser, office.sandbox.base_url, java_script_enabled=scripts, viewport=narrow) as room:
        room.goto(PAGE)
        room.get_by_label("Player", exact=True).fill("ann")
        room.get_by_role("button", name="Play the round").click()
        room.get_by_role("button", name="Look up (dry run)").click()
        expect(room.get_by_role("table", name="Verdicts")).to_contain_text("settle")
        room.get_by_role("button", name="Repair").click()
        expect(room.get_by_text("Bets repaired: 1.")).to_be_visible()
        assert office.ledger.balance("ann") == 10_500
        room.get_by_label("Players, one on a line").fill("ann\nbob\ncleo")
        room.get_by_role("button", name="Plan", exact=True).click()
        expect(room.get_by_text("Nothing is sent yet.")).to_be_visible()
        room.get_by_role("button", name="Run", exact=True).click()
        expect(room.get_by_text("Done: 3 of 3 are granted.")).to_be_visible()
        if scripts:
            assert room.evaluate("document.documentElement.scrollWidth") <= 400
    assert len(office.sandbox.world.grants()) == 3
