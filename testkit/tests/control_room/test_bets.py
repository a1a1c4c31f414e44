"""Bets and rounds: listed, looked up with the API's own answers, and told from beginning to end."""

import json
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import OperatorClient
from game_operator.backoffice import Reconciler
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator_testkit.sandbox import FaultPlan, Sandbox
from testkit.tests.control_room.running import Room, room_with
from testkit.tests.control_room.support import EVIL, Html, page, play, post

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def client(sandbox: Sandbox, private_key: RSAPrivateKey) -> Iterator[OperatorClient]:
    """The operator, who asks the API what the pages show."""
    with OperatorClient(sandbox.base_url, "acme", private_key, trust_env=False) as client:
        yield client


def answer(html: Html) -> object:
    """Return the answer of the API that the page shows."""
    found: object = json.loads(html.text[html.text.rindex("answers {") + len("answers ") :])
    return found


@pytest.mark.parametrize(
    ("state", "told"),
    [
        pytest.param("OPEN", "OPEN not settled yet", id="open"),
        pytest.param("CLOSED", "CLOSED won", id="won"),
        pytest.param("LOST", "CLOSED lost", id="lost"),
        pytest.param("ROLLED_BACK", "ROLLED_BACK cancelled", id="cancelled"),
        pytest.param("EXPIRED", "NOT_FOUND", id="older than 90 days"),
    ],
)
def test_a_bet_is_shown_as_the_api_answers_it(
    sandbox: Sandbox, http: httpx.Client, client: OperatorClient, state: str, told: str
) -> None:
    """Its state in words, and the answer of fetch-bet as it is (spec §2.4, §4.2)."""
    bet_id = sandbox.bet_ids[state]
    html = page(http, f"/bets?id={bet_id}")
    assert told in html.text
    assert f"<title>Bet {bet_id} · acme · game-operator</title>" in html.source
    assert answer(html) == client.fetch_bet(bet_id).model_dump()


@pytest.mark.parametrize("bet_id", ["nothing", "a/b?c&d=e", "é 😀", "..", EVIL], ids=repr)
def test_any_id_can_be_looked_up(http: httpx.Client, bet_id: str) -> None:
    """What is not there is said, whatever it is called; an id is never a part of the page's own text."""
    html = page(http, f"/bets?id={quote(bet_id, safe='')}")
    assert "The service knows no such bet" in html.text
    assert answer(html) == {"status": "NOT_FOUND"}
    assert EVIL not in html.source


def test_a_round_is_found_by_id_and_by_number(sandbox: Sandbox, http: httpx.Client, client: OperatorClient) -> None:
    """With all its bets, as fetch-round-bets answers; if both are given, the id counts (spec §4.2)."""
    place = {"instance_id": sandbox.instance_id}
    by_id = client.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id).model_dump(mode="json")
    for keys in (
        {"round_id": sandbox.round_id},
        {"round_no": f" {sandbox.round_no} ", "round_id": ""},
        {"round_id": sandbox.round_id, "round_no": "1"},
    ):
        html = page(http, f"/bets?{httpx.QueryParams(place | keys)}")
        assert answer(html) == by_id
        assert f"Round {sandbox.round_no}" in html.text
        linked = [parse_qs(urlsplit(link).query).get("id") for link in html.values("href")]
        assert {sandbox.bet_ids[state] for state in ("OPEN", "CLOSED", "LOST", "ROLLED_BACK")} < {
            each[0] for each in linked if each
        }
    assert ("the round id counts" in html.text) is True


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        pytest.param({"round_id": "nothing"}, "No round has this id", id="no such id"),
        pytest.param({"round_no": "1"}, "No round has this number", id="no such number"),
        pytest.param({"round_id": EVIL, "instance_id": EVIL}, "No round has this id", id="anything"),
    ],
)
def test_a_round_that_is_not_there(sandbox: Sandbox, http: httpx.Client, keys: dict[str, str], told: str) -> None:
    """NOT_FOUND is an answer, and the page says what it may mean (spec §4.2)."""
    html = page(http, f"/bets?{httpx.QueryParams({'instance_id': sandbox.instance_id} | keys)}")
    assert told in html.text
    assert answer(html) == {"status": "NOT_FOUND"}
    assert EVIL not in html.source


@pytest.mark.parametrize(
    ("query", "told"),
    [
        pytest.param("round_id=&round_no=", "Either round_id or round_no must be provided", id="neither"),
        pytest.param("round_no=1.5", "Invalid request", id="no whole number"),
    ],
)
def test_a_round_look_up_that_says_too_little(sandbox: Sandbox, http: httpx.Client, query: str, told: str) -> None:
    """The API's own words beside the field, and the form as it was (spec §4.2)."""
    response = http.get(f"/bets?instance_id={sandbox.instance_id}&{query}")
    assert response.status_code == 422
    assert told in response.text
    assert 'aria-invalid="true"' in response.text
    assert "<script>" not in response.text


@pytest.mark.parametrize("bet_id", ["", "%20"])
def test_a_bet_look_up_without_an_id(http: httpx.Client, bet_id: str) -> None:
    """It is said beside the field, and the list is there all the same."""
    html = page(http, f"/bets?id={bet_id}", status=422)
    assert "Write the id of a bet." in html.text
    assert next(each for each in html.all("input") if each.get("id") == "id")["aria-invalid"] == "true"
    assert "Newest bets" in html.text


def test_the_list_has_the_newest_first(sandbox: Sandbox, http: httpx.Client) -> None:
    """A round that was just played is on top, and leads to its bet."""
    played = [sandbox.play_round(player_id="p1", wager_cents=wager, won_cents=0).bet_ids[0] for wager in (1111, 2222)]
    html = page(http, "/bets")
    linked = [link for link in html.values("href") if link.startswith("/bets?id=")]
    assert linked[:2] == [f"/bets?id={bet_id}" for bet_id in reversed(played)]
    assert "22.22" in html.text


def test_a_bet_tells_its_history(sandbox: Sandbox, http: httpx.Client) -> None:
    """Each call about it, oldest first, with its answer; and nothing of other bets."""
    (cancelled,) = sandbox.play_round(player_id="p1", wager_cents=500, cancel=True).bet_ids
    (won,) = sandbox.play_round(player_id="p1", wager_cents=500, won_cents=900).bet_ids
    for bet_id, paths in ((cancelled, ["/withdraw", "/rollback"]), (won, ["/withdraw", "/deposit"])):
        # The status bar may link to the wallet's last error.
        html = Html(page(http, f"/bets?id={bet_id}").source.partition("<main")[2])
        assert "The wallet has confirmed that." in html.text
        numbers = [int(link.rpartition("/")[2]) for link in html.values("href") if link.startswith("/live/")]
        told = [sandbox.live.exchange(number) for number in numbers]
        assert [each.path for each in told if each is not None] == paths
        assert "2 calls, oldest first" in html.text


def test_a_refused_bet_has_a_history_only(sandbox: Sandbox, http: httpx.Client) -> None:
    """The service knows no such bet, and the page shows why (spec §7.1)."""
    (bet_id,) = sandbox.play_round(player_id="poor", wager_cents=5000).bet_ids
    html = page(http, f"/bets?id={bet_id}")
    assert "NOT_FOUND" in html.text
    assert "The withdraw was refused: INSUFFICIENT_BALANCE. No money moved." in html.text


def test_a_bet_of_which_there_is_no_call(sandbox: Sandbox, http: httpx.Client) -> None:
    """What the service holds is told, and nothing is claimed of the wallet."""
    html = page(http, f"/bets?id={sandbox.bet_ids['LOST']}")
    assert "For the service, " in html.text
    assert "The live log has no call about it" in html.text
    assert "problem" not in html.values("class")


def test_the_list_says_which_bets_the_wallet_has_not_confirmed(sandbox: Sandbox, http: httpx.Client) -> None:
    """A settlement that was lost leaves no call behind; a bet from before the log is not accused."""
    (paid,) = sandbox.play_round(player_id="p1", wager_cents=500, won_cents=900).bet_ids
    sandbox.faults.plan = FaultPlan.parse("settlement-lost@2")
    (lost,) = sandbox.play_round(player_id="p1", wager_cents=500, won_cents=1200).bet_ids
    sandbox.faults.clear()
    rows = page(http, "/bets").source.split("<tr ")
    marked = {
        bet_id: any(bet_id in each and "not confirmed" in each for each in rows)
        for bet_id in (paid, lost, sandbox.bet_ids["LOST"])
    }
    assert list(marked.values()) == [False, True, False]


@pytest.fixture
def over_a_ledger(tmp_path: Path, private_key: RSAPrivateKey) -> Iterator[tuple[Room, SqlLedger]]:
    """A control room over a wallet with a ledger, in which ann has 100.00."""
    with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as ledger, room_with(private_key, Wallet(ledger)) as room:
        ledger.open_account("ann", Decimal(100))
        yield room, ledger


def reconciled(room: Room, ledger: SqlLedger, key: RSAPrivateKey) -> dict[str, int]:
    """Return the verdicts of a dry run over all bets of the wallet."""
    now = timedelta(0)
    with OperatorClient(room.sandbox.base_url, "acme", key, trust_env=False) as client:
        report = Reconciler(client, Wallet(ledger), min_age=now, second_look=now, rate_per_second=1_000.0).run()
    return {str(verdict): tally.bets for verdict, tally in report.verdicts.items()}


def test_a_settlement_is_lost_and_found(over_a_ledger: tuple[Room, SqlLedger], private_key: RSAPrivateKey) -> None:
    """A bet is left open at both sides; then the service alone settles it, and a reconciliation finds that."""
    room, ledger = over_a_ledger
    html = page(room.http, play(room.http, player_id="ann", wager="5", outcome="open").headers["location"])
    assert "ann’s bet of 5.00 EUR is open. The wallet now has 95.00 EUR." in html.text
    (bet,) = [each for each in room.sandbox.world.bets() if each.player_id == "ann"]
    place = f"/bets?id={bet.reference_id}"
    assert "OPEN not settled yet" in page(room.http, place).text
    before = reconciled(room, ledger, private_key)
    count = room.sandbox.live.count
    lost = post(room.http, "/bets/lose", bet_id=bet.reference_id, won="12.50")
    assert (lost.status_code, lost.headers["location"]) == (303, place)
    html = page(room.http, place)
    assert "CLOSED won" in html.text
    assert "The deposit is not in the live log." in html.text
    assert "Lose its settlement" not in html.text
    # Nothing was sent, and a second press changes nothing.
    assert room.sandbox.live.count == count
    assert post(room.http, "/bets/lose", bet_id=bet.reference_id, won="1").status_code == 409
    assert (before, reconciled(room, ledger, private_key)) == ({"wait": 1}, {"settle": 1})
    assert ledger.balance("ann") == 9_500


def test_a_win_that_cannot_be_read(own: Sandbox, at_home: httpx.Client) -> None:
    """Said beside the field, and the bet stays open."""
    bet_id = own.bet_ids["OPEN"]
    refused = post(at_home, "/bets/lose", bet_id=bet_id, won="much")
    assert (refused.status_code, "Write an amount in currency units" in refused.text) == (422, True)
    assert "OPEN not settled yet" in page(at_home, f"/bets?id={bet_id}").text


@pytest.mark.parametrize("state", ["CLOSED", "ROLLED_BACK", "EXPIRED", "none"])
def test_only_an_open_bet_has_a_settlement_to_lose(own: Sandbox, at_home: httpx.Client, state: str) -> None:
    """Another bet has no such button, and its form changes nothing."""
    bet_id = own.bet_ids.get(state, "nothing")
    assert "Lose its settlement" not in page(at_home, f"/bets?id={bet_id}").text
    assert post(at_home, "/bets/lose", bet_id=bet_id, won="1").status_code == 409
