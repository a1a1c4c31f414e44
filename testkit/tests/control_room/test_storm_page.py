"""Storm: many bets that are played, watched, stopped and audited on a page, over real HTTP."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from playwright.sync_api import Browser, expect
from wallet_by_hand import Case, PlainWallet

from game_operator import OperatorClient
from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.control_room.runs import storm_run
from game_operator_testkit.provider.faults import FAULT_PRESETS
from game_operator_testkit.sandbox.storm.trace import read_trace
from testkit.tests.certifier.wrong_wallets.repeats import PaysEachTime
from testkit.tests.control_room.running import Room, polled, room_at, room_over, storm_form
from testkit.tests.control_room.support import EVIL, EVIL_ESCAPED, form_token, page, post
from tests.support.browser import visiting
from tests.support.hostile_server import Connection, HostileServer
from tests.support.servers import asgi_server

pytestmark = pytest.mark.outside

PAGE = "/storm"
#: Faults after which a wallet that is right agrees, and one that debits repeats does not.
REPEATS = {"faults": "own", "plan": "duplicate=0.3,reply-lost=0.1"}


@pytest.fixture(scope="module")
def right(private_key: RSAPrivateKey) -> Iterator[Room]:
    """A control room over a wallet that is right."""
    with room_over(PlainWallet, private_key) as room:
        yield room


@contextmanager
def room_with_ledger(folder: Path, key: RSAPrivateKey) -> Iterator[tuple[Room, SqlLedger]]:
    """Serve a wallet over SQLite, and a control room that has its ledger."""
    with SqlLedger(f"sqlite:///{folder / 'wallet.db'}") as ledger:
        ledger.open_account("ann", Decimal(1_000))
        receiver = WebhookReceiver(authenticator=RsaSignature(key.public_key()))
        with asgi_server(asgi_app(receiver, Wallet(ledger, source="games"))) as port:
            pages = partial(ControlRoom, wallet=Wallet(ledger, source="games"))
            with room_at(f"http://127.0.0.1:{port}", key, pages) as room:
                yield room, ledger


def test_a_right_wallet_agrees(right: Room) -> None:
    """On all bets; figures have their units; the page Wallet has nothing to complain of afterwards."""
    right.sandbox.play_round(player_id="ann", wager_cents=100, won_cents=0)
    before = right.sandbox.live.count
    html = right.stormed(**REPEATS)
    assert "Service and wallet agree on all 30 bets." in html.text
    assert re.search(r"[\d,]+, repeats included", html.text)
    assert re.search(r"duplicate [1-9]", html.text)
    assert "Seed 7; 2 players; 4 calls at once." in html.text
    assert right.sandbox.live.count == before
    right.sandbox.play_round(player_id="ann", wager_cents=100, won_cents=0)
    assert not right.sandbox.service.balances.disagrees()
    row = page(right.http, PAGE).text
    assert "Run 1" in row
    assert "Seed 7, faults: duplicate delivery 30 %, reply lost 10 %" in row


def test_a_wrong_wallet_is_shown_with_a_history_and_a_trace(private_key: RSAPrivateKey, tmp_path: Path) -> None:
    """The trace can be read by the command; a run that passed has none."""
    with room_over(PaysEachTime, private_key) as room:
        place = room.begun(PAGE, **storm_form(**REPEATS))
        html = room.ended(place)
        assert re.search(r"Service and wallet differ: [12] differences? in 30 bets\.", html.text)
        assert re.search(r"Player (ann|bob) [\d.]+ too much", html.text)
        assert "the wallet has" in html.text
        assert "POST /deposit" in html.text
        trace = room.http.get(f"{place}/storm.trace")
        assert trace.headers["content-disposition"] == 'attachment; filename="storm-7.trace"'
        file = tmp_path / "storm.trace"
        file.write_bytes(trace.content)
        head, orders = read_trace(file)
        assert (head.bets, head.seed, len(orders) > 30) == (30, 7, True)
        quiet = room.begun(PAGE, **storm_form())
        agrees = room.ended(quiet).text
        assert "agree on all 30 bets" in agrees
        assert room.http.get(f"{quiet}/storm.trace").status_code == 404
        assert not room.sandbox.service.balances.disagrees()


def test_new_players_in_the_ledger(tmp_path: Path, private_key: RSAPrivateKey) -> None:
    """With the wallet's ledger, and its source, every bet is compared; old players can play too."""
    with room_with_ledger(tmp_path, private_key) as (room, ledger):
        html = page(room.http, PAGE)
        assert [each["value"] for each in html.all("input") if each.get("name") == "who" and "checked" in each] == [
            "fresh"
        ]
        ran = room.stormed(who="fresh", fresh="3", players="", seed="")
        assert "Service and wallet agree on all 30 bets." in ran.text
        assert "The new players stay in the ledger." in ran.text
        players = {bet.player_id for bet in ledger.bets(source="games")}
        assert 1 <= len(players) <= 3
        assert all(player_id.startswith("storm-") for player_id in players)
        assert "1 player;" in room.stormed(players="ann").text


def test_the_operator_api_learns_of_the_bets(tmp_path: Path, private_key: RSAPrivateKey) -> None:
    """After a click fetch-bet finds them, and a reconciliation agrees; only of the newest storm, and once."""
    with room_with_ledger(tmp_path, private_key) as (room, ledger):
        first = room.begun(PAGE, **storm_form(who="fresh", players=""))
        room.ended(first)
        place = room.begun(PAGE, **storm_form(who="fresh", players="", seed="8"))
        assert "Let the Operator API know these bets" in room.ended(place).text
        assert "Let the Operator API know these bets" not in page(room.http, first).text
        closed = next(bet for bet in ledger.bets(source="games") if bet.state == "CLOSED" and bet.player_id != "ann")
        newest = [bet for bet in ledger.bets(source="games") if bet.state == "CLOSED"][-1]
        base_url = room.sandbox.base_url
        with OperatorClient(base_url, "acme", private_key, allow_insecure_http=True, trust_env=False) as client:
            assert client.fetch_bet(newest.bet_id).status == "NOT_FOUND"
            assert post(room.http, f"{PAGE}/record", run=place.rpartition("/")[2]).headers["location"] == place
            assert client.fetch_bet(newest.bet_id).status == "CLOSED"
            assert post(room.http, f"{PAGE}/record", run=first.rpartition("/")[2]).headers["location"] == first
            assert client.fetch_bet(closed.bet_id).status == "NOT_FOUND"
        html = page(room.http, place)
        assert "The Operator API answers for these bets" in html.text
        assert "Let the Operator API know these bets" not in html.text
        for number in ("", "9", "x"):
            assert post(room.http, f"{PAGE}/record", run=number).status_code == 404


def test_nobody_is_opened_in_a_table_of_the_operators(tmp_path: Path, private_key: RSAPrivateKey) -> None:
    """With balances elsewhere the pages play with the players that there are, as without a ledger."""
    file = tmp_path / "wallet.db"
    with sqlite3.connect(file) as made:
        made.execute("CREATE TABLE players (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
    accounts = TableAccounts(table="players", key="id", balance="balance")
    with (
        SqlLedger(f"sqlite:///{file}", accounts=accounts) as ledger,
        room_at("http://127.0.0.1:1", private_key, partial(ControlRoom, wallet=Wallet(ledger))) as room,
    ):
        assert {"type": "hidden", "name": "who", "value": "known"} in page(room.http, PAGE).all("input")
        assert post(room.http, f"{PAGE}/start", **storm_form(who="fresh")).status_code == 422
        assert "not from this page: needs a way to open an account" in page(room.http, "/certify").text


def test_new_players_need_a_ledger(right: Room) -> None:
    """The form has no such choice, and does not take it."""
    html = page(right.http, PAGE)
    assert {"type": "hidden", "name": "who", "value": "known"} in html.all("input")
    refused = post(right.http, f"{PAGE}/start", **storm_form(who="fresh"))
    assert (refused.status_code, "New players need the wallet’s ledger" in refused.text) == (422, True)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param({"bets": "0"}, "Write a number from 1 to 5,000.", id="no bets"),
        pytest.param({"bets": "5001"}, "Write a number from 1 to 5,000.", id="too many bets"),
        pytest.param({"bets": ""}, "Write a whole number", id="no number"),
        pytest.param({"concurrency": "0"}, "Write a number from 1 to 50.", id="none at once"),
        pytest.param({"concurrency": "51"}, "Write a number from 1 to 50.", id="too many at once"),
        pytest.param({"seed": "x"}, "Write a whole number", id="a seed in words"),
        pytest.param({"players": "\r\n"}, "Write 1 to 200 players", id="no players"),
        pytest.param({"players": "p\r\n" * 201}, "Write 1 to 200 players", id="201 players"),
        pytest.param({"players": "ann\r\nann"}, "A player is there twice.", id="a player twice"),
        pytest.param({"players": "x" * 300}, "A player id ", id="a long player"),
        pytest.param({"who": "all"}, "Choose who plays.", id="somebody else"),
        pytest.param({"faults": "some"}, "Choose what goes wrong.", id="other faults"),
        pytest.param({"faults": "own", "plan": "nothing=1"}, "nothing", id="a fault that is not there"),
        pytest.param({"faults": "own", "plan": EVIL}, "Nothing was begun", id="a script"),
        pytest.param(
            {"faults": "own", "plan": "api-500"}, "A storm makes no calls of the Operator API", id="the API's"
        ),
        pytest.param({"retries": "never"}, "Choose when calls are sent again.", id="other repeats"),
    ],
)
def test_a_mistake_in_the_form_begins_nothing(right: Room, fields: dict[str, str], sentence: str) -> None:
    """It is said beside the field, and what was typed stays."""
    runs = page(right.http, PAGE).text.count("Run ")
    refused = post(right.http, f"{PAGE}/start", **storm_form(**fields))
    assert (refused.status_code, sentence in refused.text) == (422, True)
    assert "Nothing was begun: 1 field below needs another value." in refused.text
    assert EVIL not in refused.text
    assert page(right.http, PAGE).text.count("Run ") == runs


def test_faults_of_the_page_faults(right: Room) -> None:
    """They occur as they are now, except those of the Operator API; a plan that is not chosen is not read."""
    right.sandbox.faults.set("duplicate", 0.5)
    right.sandbox.faults.set("api-500", 0.5)
    try:
        assert "What is switched on at the page Faults now: duplicate delivery 50 %" in page(right.http, PAGE).text
        html = right.stormed(faults="page", plan="nonsense", concurrency="1")
    finally:
        right.sandbox.faults.clear()
    assert re.search(r"Faults that occurredduplicate \d+ ", html.text)
    assert "What is switched on at the page Faults now: nothing" in page(right.http, PAGE).text


def test_faults_that_come_together(right: Room) -> None:
    """Each preset is a choice with its title and its sentence; the run names it, and only its faults occur."""
    form = page(right.http, PAGE)
    offered = {each["value"] for each in form.all("input") if each.get("name") == "faults"}
    assert offered == {"none", "all", "page", "own", *FAULT_PRESETS}
    for preset in FAULT_PRESETS.values():
        assert f"{preset.title.capitalize()}: {preset.text}" in form.text
    html = right.stormed(faults="slow-wallet")
    assert "agree on all 30 bets" in html.text
    assert "Faults asked forslow wallet" in html.text
    occurred = re.search(r"Faults that occurred((?:[a-z-]+ \d+(?:, )?)+)", html.text)
    assert occurred is not None
    assert {part.split()[0] for part in occurred[1].split(", ")} <= set(FAULT_PRESETS["slow-wallet"].rates)
    assert "faults: slow wallet" in page(right.http, PAGE).text


def test_lasting_faults_are_left_open_on_purpose(right: Room) -> None:
    """No difference for which the wallet is to blame, and what is owed."""
    html = right.stormed(faults="own", plan="settlement-lost=0.5")
    assert "agree on all 30 bets, except where the storm itself gave a call up." in html.text
    assert "Left open on purpose" in html.text
    assert re.search(r"Still owed to players: [\d.,]+\.", html.text)


def test_a_storm_is_watched_and_stopped(waiting: Room, gate: Event) -> None:
    """Nothing new is dealt; what was dealt ends and is audited; a second one waits for its end."""
    place = waiting.begun(PAGE, **storm_form(bets="5000"))
    at_work = page(waiting.http, place)
    assert at_work.all("progress")[0]["max"] == "5000"
    assert polled(at_work) == [place]
    assert [each["content"] for each in at_work.all("meta") if "http-equiv" in each] == [f"2; url={place}"]
    again = post(waiting.http, f"{PAGE}/start", **storm_form(players="cleo"))
    assert (again.status_code, "A storm is at work already." in again.text) == (409, True)
    certify = {"player_id": "cleo", "other_player_id": "bob", "ids": "A01", "random_operations": "1"}
    refused = post(waiting.http, "/certify/start", instance_id=waiting.sandbox.instance_id, **certify)
    assert (refused.status_code, "Another run plays with bob just now." in refused.text) == (409, True)
    assert post(waiting.http, f"{PAGE}/interrupt").headers["location"] == place
    assert "Stopping: " in page(waiting.http, place).text
    gate.set()
    html = waiting.ended(place)
    assert re.search(r"Stopped early: service and wallet agree on all \d{1,2} bets\.", html.text)
    assert re.search(r"\d{1,2} of 5,000, and \d+ claims? of free bets", html.text)
    assert "agree on all 30 bets" in waiting.stormed().text


def test_a_storm_ends_with_the_server(private_key: RSAPrivateKey) -> None:
    """5,000 bets do not hold up its end; ``room_at`` waits for the thread."""
    calls: list[str] = []

    class Counts(PlainWallet):
        def handle(self, *arguments: Any) -> tuple[int, dict[str, str], bytes]:
            calls.append(arguments[1])
            return super().handle(*arguments)

    with room_over(Counts, private_key) as room:
        place = room.begun(PAGE, **storm_form(bets="5000"))
        assert "At work." in page(room.http, place).text
    assert 0 < len(calls) < 4_000


def test_a_wallet_that_is_not_there(private_key: RSAPrivateKey) -> None:
    """Said at once, and nothing was sent."""
    with room_at("http://127.0.0.1:1", private_key) as room:
        html = room.stormed()
        assert "It could not begin." in html.text
        assert "Nobody answers at 127.0.0.1:1, so nothing was sent. Is the wallet running? (" in html.text
        assert "calls were sent before that" not in html.text


def test_a_wallet_that_hangs(private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up in time, and the other pages answer meanwhile."""
    monkeypatch.setattr(storm_run, "_TIMEOUT", 1.0)
    hung = Event()

    def hang(connection: Connection) -> None:
        connection.read_request()
        hung.wait(20)

    with HostileServer(hang) as server, room_at(server.base_url, private_key) as room:
        place = room.begun(PAGE, **storm_form())
        for path in ("/", "/live", "/wallet", PAGE):
            assert room.http.get(path, timeout=5).status_code == 200
        html = room.ended(place)
        hung.set()
    assert "It could not begin." in html.text
    assert "gave no answer within 1 s" in html.text


def test_players_whom_the_wallet_does_not_know(right: Room) -> None:
    """The run says so before it moves anything."""
    html = right.stormed(players="nobody")
    assert "It could not begin." in html.text
    assert "returns no balance of 1 player: for 'nobody' it answers PLAYER_NOT_FOUND." in html.text
    assert "Open their accounts, or take them out of the field." in html.text


def test_a_wallet_that_refuses_everything(private_key: RSAPrivateKey) -> None:
    """Nothing was tried, and what to do about it."""

    class Refuses(PlainWallet):
        def _withdraw(self, case: Case) -> str:
            return "LIMIT_EXCEEDED"

    with room_over(Refuses, private_key) as room:
        html = room.stormed()
        assert "The wallet refused every bet, so nothing was tried." in html.text
        assert "Raise the limits of the players, or play with more of them." in html.text
        assert "Refused withLIMIT_EXCEEDED 30" in html.text


def test_a_wallet_on_another_machine_needs_a_tick(private_key: RSAPrivateKey) -> None:
    """Its players' money is not moved by mistake."""
    with room_at("https://wallet.example.test", private_key) as room:
        refused = post(room.http, f"{PAGE}/start", **storm_form())
        assert (refused.status_code, "Tick this if the run may move" in refused.text) == (422, True)
        assert "It could not begin." in room.stormed(moves_money="on").text  # There is no such host.


def test_without_a_wallet_there_is_nothing_to_storm(private_key: RSAPrivateKey) -> None:
    """The button is disabled, and the form is refused."""
    with room_at(None, private_key) as room:
        assert "The sandbox knows no wallet." in page(room.http, PAGE).text
        refused = post(room.http, f"{PAGE}/start", **storm_form())
        assert (refused.status_code, "there is nothing to storm" in refused.text) == (422, True)


class _Hostile(PlainWallet):
    """Answers withdraws with a code that is a script, turns the line around, and is long."""

    def handle(self, *arguments: Any) -> tuple[int, dict[str, str], bytes]:
        status, headers, reply = super().handle(*arguments)
        if arguments[1] != "/withdraw":
            return status, headers, reply
        code = f"{EVIL}\\u202eevil" + "x" * 5_000
        return status, headers, reply.replace(b'"SUCCESS"', b'"ERROR","code":"' + code.encode() + b'"')


def test_what_a_wallet_answers_is_escaped_and_short(
    private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No script, nothing that turns text around, and a page that can be read; player ids too."""
    monkeypatch.setattr(storm_run, "_PATIENCE", 0.3)
    with room_over(_Hostile, private_key) as room:
        html = room.stormed(players=f"ann\r\n{EVIL}", bets="200")
        assert "It broke off before all bets were played and audited, and service and wallet differ." in html.text
        assert EVIL not in html.source
        assert EVIL_ESCAPED in html.source
        assert "\u202e" not in html.source
        assert len(html.source.encode()) < 100_000


def test_what_is_not_there(right: Room) -> None:
    """Another run, and forms without their token."""
    for path in (f"{PAGE}/runs/999", f"{PAGE}/runs/0", f"{PAGE}/runs/x", f"{PAGE}/runs/999/storm.trace"):
        assert right.http.get(path).status_code == 404
    form_token(right.http)
    for form in ("start", "interrupt", "record"):
        assert right.http.post(f"{PAGE}/{form}", data={"form_token": "old"}).status_code == 403
        assert right.http.get(f"{PAGE}/{form}").status_code == 405


@pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without"])
@pytest.mark.drawn(1)
def test_a_storm_in_a_browser(right: Room, browser: Browser, scripts: bool) -> None:
    """From the form to the audit; nothing complains."""
    with visiting(browser, right.sandbox.base_url, java_script_enabled=scripts) as page:
        page.goto(PAGE)
        page.get_by_label("Bets (number)").fill("60")
        page.get_by_label("Players of the wallet").fill("cleo")
        page.get_by_label("Nothing", exact=True).check()
        page.get_by_role("button", name="Begin the storm").click()
        expect(page.get_by_role("heading", name="Service and wallet agree on all 60 bets")).to_be_visible()
        expect(page.locator("progress")).to_have_count(0)
        expect(page.get_by_role("heading", name="How long answers took")).to_be_visible()
