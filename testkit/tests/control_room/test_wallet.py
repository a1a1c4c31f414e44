"""The Wallet page: balances, what disagrees and since when, and how long answers took."""

import re
from decimal import Decimal
from itertools import count

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.ledger import MemoryLedger
from game_operator_testkit.provider.faults import FaultPlan
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.running import room_with
from testkit.tests.control_room.support import page, post
from testkit.tests.sandbox.wrong_wallets import PaysRepeatsTwice

pytestmark = pytest.mark.outside

_numbers = count(1)


@pytest.fixture
def player_id(ledger: MemoryLedger) -> str:
    """A player with 100.00 whom no other test plays as."""
    name = f"saver-{next(_numbers)}"
    ledger.open_account(name, Decimal(100))
    return name


def shown(http: httpx.Client) -> str:
    """Return the text of the page."""
    return page(http, "/wallet").text


def test_a_right_wallet_agrees(sandbox: Sandbox, http: httpx.Client, player_id: str) -> None:
    """Won, lost, cancelled, refused, and whatever a fault adds: no balance is called wrong."""
    sandbox.play_round(player_id=player_id, wager_cents=1000, won_cents=2550)
    sandbox.play_round(player_id=player_id, wager_cents=1000, won_cents=0)
    sandbox.play_round(player_id=player_id, wager_cents=1000, cancel=True)
    try:
        for plan in (
            "duplicate=100%,forged=100%",
            "reply-lost@1,early-rollback@2",
            "early-deposit@1",
            "request-lost@2",
        ):
            sandbox.faults.plan = FaultPlan.parse(plan)
            cancel = "rollback" in plan
            sandbox.play_round(player_id=player_id, wager_cents=500, won_cents=None if cancel else 700, cancel=cancel)
    finally:
        sandbox.faults.clear()
    text = shown(http)
    assert f"{player_id} agrees 111.50 111.50" in text
    assert f"{player_id}: the wallet" not in text


def test_of_a_stranger_nothing_is_known(sandbox: Sandbox, http: httpx.Client) -> None:
    """A wallet that refuses a player reports no balance, and a missing balance agrees with nothing."""
    sandbox.play_round(player_id="stranger", wager_cents=100, won_cents=0)
    html = page(http, "/wallet")
    assert "stranger not known – " in html.text
    assert '<span class="badge">not known</span>' in html.source


def test_a_wrong_balance_is_shown_and_can_be_accepted(
    sandbox: Sandbox, http: httpx.Client, ledger: MemoryLedger, player_id: str
) -> None:
    """What was reported, what it should be, and since when; who has moved the money himself accepts it."""
    sandbox.play_round(player_id=player_id, wager_cents=1000, won_cents=0)
    ledger.adjust(player_id, Decimal("12.34"), reference=player_id)
    sandbox.play_round(player_id=player_id, wager_cents=1000, won_cents=0)
    html = page(http, "/wallet")
    assert "1 player with a balance that disagrees" in html.text
    assert "the wallet reported 92.34 instead of 80.00, first at call " in html.text
    assert f"{player_id} disagrees 92.34 80.00" in html.text
    assert post(http, "/wallet/accept", player_id=player_id).status_code == 303
    sandbox.play_round(player_id=player_id, wager_cents=1000, won_cents=0)
    assert f"{player_id} agrees 82.34 82.34" in shown(http)


def test_a_repeat_that_pays_again_is_found_on_every_page(private_key: RSAPrivateKey) -> None:
    """The wallet's page leads to the repeat and its bet, and both say it; a later bet is not blamed for it."""
    with room_with(private_key, PaysRepeatsTwice(MemoryLedger({"p": 10_000}))) as room:
        sandbox, http = room.sandbox, room.http
        sandbox.play_round(player_id="p", wager_cents=1000, won_cents=0)
        sandbox.faults.plan = FaultPlan.parse("reply-lost@2")
        sandbox.play_round(player_id="p", wager_cents=1000, won_cents=1250)
        sandbox.faults.clear()
        sandbox.play_round(player_id="p", wager_cents=1000, won_cents=0)
        repeat = sandbox.live.exchange(5)
        assert repeat is not None
        wallet = page(http, "/wallet")
        call, first = page(http, "/live/5"), page(http, "/live/4")
        bet = page(http, f"/bets?id={repeat.bet_id}")
        later = page(http, f"/bets?id={sandbox.live.recent()[0].bet_id}")
    assert f"first at call 5, a repeat of call 4 of bet {repeat.bet_id}, at 20" in wallet.text
    assert {"/live/5", "/live/4", f"/bets?id={repeat.bet_id}", "/live?player=p"} <= set(wallet.values("href"))
    assert "carried this call out a second time. The balance in this answer disagrees: it is" in call.text
    assert "a second time" not in first.text
    buttons = [html.source.partition("Deliver again")[0].rpartition("<button")[2] for html in (call, first)]
    assert ["primary" in button for button in buttons] == [False, True]
    assert "A balance of this bet is wrong: the wallet returned" in bet.text
    assert ", and it should be" in bet.text
    assert "has confirmed that" not in bet.text
    assert "/live/5" in bet.values("href")
    assert "The wallet has confirmed that." in later.text


def test_two_mistakes_with_a_right_balance_between_them(
    sandbox: Sandbox, http: httpx.Client, ledger: MemoryLedger, player_id: str
) -> None:
    """By as much as before, and yet it is another mistake: the difference was gone meanwhile."""
    for number, moved in enumerate(("0.01", "-0.01", "0.01")):
        sandbox.play_round(player_id=player_id, wager_cents=100, won_cents=0)
        ledger.adjust(player_id, Decimal(moved), reference=f"{player_id}-{number}")
    sandbox.play_round(player_id=player_id, wager_cents=100, won_cents=0)
    text = shown(http)
    post(http, "/wallet/accept", player_id=player_id)
    assert re.search(r"\. Another mistake shows at call \d+\.", text)


def test_a_lost_webhook_delivered_by_hand(sandbox: Sandbox, http: httpx.Client, player_id: str) -> None:
    """Winnings that were given up and are sent by hand later are paid for the first time: no balance is wrong."""
    retries, sandbox.service.retries = sandbox.service.retries, "none"
    try:
        sandbox.play_round(player_id=player_id, wager_cents=1000, won_cents=0)
        sandbox.faults.plan = FaultPlan.parse("request-lost@2")
        sandbox.play_round(player_id=player_id, wager_cents=1000, won_cents=500)
    finally:
        sandbox.service.retries = retries
        sandbox.faults.clear()
    sandbox.play_round(player_id=player_id, wager_cents=1000, won_cents=0)
    lost = next(each for each in sandbox.live.recent() if each.player_id == player_id and each.status is None)
    assert lost.path == "/deposit"
    sandbox.redeliver(lost.number)
    sandbox.play_round(player_id=player_id, wager_cents=1000, won_cents=0)
    assert f"{player_id} agrees 65.00 65.00" in shown(http)


def test_latencies_are_shown(sandbox: Sandbox, http: httpx.Client, player_id: str) -> None:
    """Of webhooks that were answered, and of no others."""
    sandbox.play_round(player_id=player_id, wager_cents=100, won_cents=0)
    answered = [each for each in sandbox.live.recent(1000) if each.direction == "webhook" and each.status is not None]
    html = page(http, "/wallet")
    assert re.search(rf"Latency {len(answered)} answers in the live log: 50 % within [0-9.]+ ms, 95 %", html.text)


def test_many_players_are_cut(own: Sandbox, at_home: httpx.Client) -> None:
    """Those that disagree stay on the page."""
    for number in range(300):
        own.service.balances.reported(f"player-{number}", number)
    own.service.balances.reported("player-0", 99)
    text = shown(at_home)
    assert "These are 200 of 300" in text
    assert "player-0: the wallet reported 0.99 instead of 0.00." in text
    assert "player-299 agrees" in text
    assert "player-50 agrees" not in text
