"""
Rounds played over real HTTP against a real wallet: limits, wallets that are down or broken, free bets, and the end.

The wallet is ours behind uvicorn; what it holds and what the service answers must agree.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import ClosedBet, ConfigurationError, OperatorClient, RolledBackBet, RoundFound, RoundNotFound
from game_operator.errors import RequestNotSentError, TransportError
from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import HandledCall, RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit import DeliveryInDoubtError
from game_operator_testkit.provider.faults import API_FAULTS, LASTING_FAULTS, Fault
from game_operator_testkit.provider.keys import ServiceKeys, new_key
from game_operator_testkit.sandbox import PlayedRound, Sandbox
from game_operator_testkit.sandbox import server as server_module
from game_operator_testkit.sandbox.dealing.balances import BalanceBoard
from game_operator_testkit.sandbox.service.exchange_log import LiveLog
from testkit.tests.sandbox.support import NOW_MILLIS, terms
from tests.support.hostile_server import Connection, HostileServer, Script, answer, response_bytes
from tests.support.servers import asgi_server
from tests.support.times import StoppedClock, wait_until

pytestmark = pytest.mark.outside

OPENING_CENTS = 1_000_000
#: But for those after which service and wallet differ on purpose.
OF_WEBHOOKS = [fault for fault in Fault if fault not in (*API_FAULTS, *LASTING_FAULTS)]


@dataclass
class Table:
    """A sandbox, and the wallet that it plays against."""

    sandbox: Sandbox
    ledger: MemoryLedger
    clock: StoppedClock
    client: OperatorClient
    handled: list[HandledCall]

    def play(self, **changes: Any) -> PlayedRound:
        options: dict[str, Any] = {"player_id": "p1", "wager_cents": 500}
        return self.sandbox.play_round(**options | changes)

    @property
    def balance(self) -> int:
        return self.ledger.balance("p1")

    def grant(self, **changes: Any) -> str:
        granted = self.client.grant_free_bet(**terms(self.sandbox.instance_id, player_id="p1", **changes))
        return granted.free_bet_id

    def operations(self) -> list[str]:
        return [handled.path for handled in self.handled]


@pytest.fixture(scope="module")
def keys() -> ServiceKeys:
    return ServiceKeys(new_key(), new_key())


@pytest.fixture(scope="module")
def served(keys: ServiceKeys) -> Iterator[tuple[str, list[Any]]]:
    """One server for all tests: the address, and the ledger and calls of now."""
    now: list[Any] = [None, []]

    class Current(Wallet):
        """The wallet of the test that runs."""

        @property
        def ledger(self) -> Any:
            return now[0]

        @ledger.setter
        def ledger(self, _ledger: object) -> None:
            pass

    wallet = Current(MemoryLedger())
    receiver = WebhookReceiver(
        authenticator=RsaSignature(keys.current.public_key_pem()), on_call=lambda handled: now[1].append(handled)
    )
    with asgi_server(asgi_app(receiver, wallet)) as port:
        yield f"http://127.0.0.1:{port}", now


@pytest.fixture(scope="module")
def running(
    served: tuple[str, list[Any]], keys: ServiceKeys, private_key: RSAPrivateKey, public_key: RSAPublicKey
) -> Iterator[Table]:
    """A sandbox for all tests, for one takes longer to start and stop than to play."""
    clock = StoppedClock(NOW_MILLIS)
    with (
        Sandbox(operator_public_key=public_key, clock=clock) as sandbox,
        closing(OperatorClient(sandbox.base_url, "acme", private_key, trust_env=False)) as client,
    ):
        yield Table(sandbox, MemoryLedger(), clock, client, [])


@pytest.fixture
def table(running: Table, served: tuple[str, list[Any]], keys: ServiceKeys) -> Table:
    """The sandbox as it was when it was new, but for the bets and grants of other tests; and a new wallet."""
    url, now = served
    now[0], now[1] = MemoryLedger({"p1": OPENING_CENTS, "poor": 499}), []
    service = running.sandbox.service
    running.sandbox.wallet_url, running.clock.now_millis = url, NOW_MILLIS
    service.switch_keys(keys)
    service.live, service.balances = LiveLog(), BalanceBoard()
    service.faults.clear()
    return replace(running, ledger=now[0], handled=now[1])


# --- what is played ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "moved", "paths"),
    [
        pytest.param({"won_cents": 1_250}, 750, ["/withdraw", "/deposit"], id="won"),
        pytest.param({"won_cents": 0}, -500, ["/withdraw", "/deposit"], id="lost"),
        pytest.param({"cancel": True}, 0, ["/withdraw", "/rollback"], id="cancelled"),
    ],
)
def test_what_was_played_is_what_is_looked_up(
    table: Table, options: dict[str, Any], moved: int, paths: list[str]
) -> None:
    """fetch-bet and fetch-round-bets know the bet as the wallet does, by the round_id that it got (§2.4, §2.8, §6)."""
    played = table.play(**options)
    assert table.operations() == [delivery.path for delivery in played.deliveries] == paths
    assert table.balance == OPENING_CENTS + moved
    assert played.problems == ()
    bet = table.client.fetch_bet(played.bet_ids[0])
    assert isinstance(bet, RolledBackBet if "cancel" in options else ClosedBet)
    assert (bet.player_id, bet.wager, bet.round_id, bet.timestamp) == ("p1", 500, played.round_id, NOW_MILLIS)
    if isinstance(bet, ClosedBet):
        assert bet.won == options["won_cents"]
    by_id = table.client.fetch_round_bets(instance_id=table.sandbox.instance_id, round_id=played.round_id)
    by_no = table.client.fetch_round_bets(instance_id=table.sandbox.instance_id, round_no=played.round_no)
    assert by_id == by_no
    assert isinstance(by_id, RoundFound)
    assert by_id.bets == (bet,)
    elsewhere = table.client.fetch_round_bets(instance_id="elsewhere", round_id=played.round_id)
    assert isinstance(elsewhere, RoundNotFound)
    (record,) = table.ledger.bets()
    assert (record.bet_id, record.state, record.round_id) == (bet.reference_id, bet.status, played.round_id)


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "raised", "told"),
    [
        pytest.param({"instance_id": "0" * 24}, ConfigurationError, "is unknown", id="an unknown instance"),
        pytest.param({"player_id": "p" * 257}, ConfigurationError, "at most 256", id="a player's id too long"),
        pytest.param({"player_id": 7}, TypeError, "player_id", id="a player of another type"),
        pytest.param({"wager_cents": 5.0}, TypeError, "wager must be an int", id="a float"),
    ],
)
def test_what_cannot_be_played(table: Table, changes: dict[str, Any], raised: type[Exception], told: str) -> None:
    """It is said before anything is sent, and no round is left behind."""
    rounds = table.sandbox.world.bets()
    with pytest.raises(raised, match=told):
        table.play(**changes)
    assert not table.handled
    assert table.sandbox.world.bets() == rounds


def test_a_sandbox_that_does_not_run_or_knows_no_wallet(table: Table, public_key: RSAPublicKey) -> None:
    """It says what to do."""
    idle = Sandbox(operator_public_key=public_key, wallet_url=table.sandbox.wallet_url)
    with pytest.raises(ConfigurationError, match="plays only while it runs"):
        idle.play_round(player_id="p1", wager_cents=100)
    table.sandbox.wallet_url = None
    for play in (table.play, lambda: table.sandbox.claim_free_bets("x"), lambda: table.sandbox.redeliver(1)):
        with pytest.raises(ConfigurationError, match="knows no wallet"):
            play()


# --- faults over real HTTP --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancel", [False, True], ids=["closed", "cancelled"])
@pytest.mark.parametrize("fault", OF_WEBHOOKS, ids=str)
def test_each_fault_on_a_real_wire(table: Table, fault: Fault, cancel: bool) -> None:
    """At full rate: the round ends with service and wallet agreeing, and nobody is blamed."""
    table.sandbox.faults.set(fault, 1.0)
    played = table.play(won_cents=None if cancel else 1_250, cancel=cancel)
    assert played.problems == ()
    (record,) = table.ledger.bets()
    status = table.client.fetch_bet(played.bet_ids[0]).status
    assert (status, str(record.state)) in {
        ("CLOSED", "CLOSED"), ("ROLLED_BACK", "ROLLED_BACK"), ("ROLLED_BACK", "TOMBSTONE"),
    }  # fmt: skip
    assert (status == "ROLLED_BACK") is cancel
    assert table.balance == OPENING_CENTS + (0 if cancel else 750)
    seen = table.sandbox.live.recent()
    where = {Fault.EARLY_ROLLBACK: False, Fault.EARLY_DEPOSIT: False, Fault.LATE_DEPOSIT: False}
    assert any(fault in exchange.fault for exchange in seen) is where.get(fault, True)
    (board,) = table.sandbox.service.balances.players()
    assert board.player_id == "p1"
    assert board.agrees
    assert board.under_way == 0


def test_a_webhook_is_delivered_again(table: Table) -> None:
    """Byte for byte, signature included: the wallet takes it for the repeat that it is."""
    table.play(won_cents=1_250)
    deposit = table.sandbox.live.recent(1)[0]
    again = table.sandbox.redeliver(deposit.number)
    assert (again.request_body, again.request_headers) == (deposit.request_body, deposit.request_headers)
    assert (again.status, again.number) == (200, deposit.number + 1)
    assert json.loads(again.response_body)["type"] == "SUCCESS"
    assert f"number {deposit.number}, delivered again" in again.note
    assert again.url == deposit.url
    assert table.balance == OPENING_CENTS + 750
    assert table.operations() == ["/withdraw", "/deposit", "/deposit"]
    assert "must be refused" not in again.note
    with pytest.raises(ConfigurationError, match="no webhook number 99"):
        table.sandbox.redeliver(99)
    table.client.fetch_games()
    with pytest.raises(ConfigurationError, match="no webhook number"):
        table.sandbox.redeliver(table.sandbox.live.recent(1)[0].number)


# --- free bets --------------------------------------------------------------------------------------------------------


def test_the_round_of_a_claim_can_be_looked_up(table: Table) -> None:
    """Its deposit carries a round_id, which can be used in fetch-round-bets (spec §6); free bets are no bets of it."""
    played = table.sandbox.claim_free_bets(table.grant())
    (delivery,) = played.deliveries
    assert json.loads(delivery.posted)["action"]["round_id"] == played.round_id
    for key in ({"round_id": played.round_id}, {"round_no": played.round_no}):
        found = table.client.fetch_round_bets(instance_id=table.sandbox.instance_id, **key)
        assert isinstance(found, RoundFound)
        assert (found.round_id, found.round_no, found.bets) == (played.round_id, played.round_no, ())


def test_free_bets_are_paid_once_whoever_claims_them(table: Table) -> None:
    """Claimed from eight threads at once, and with every reply lost at first: one credit, and the board agrees."""
    table.sandbox.faults.set("reply-lost", 0.5)
    free_bet_id = table.grant(count=50)
    with ThreadPoolExecutor(8) as threads:
        claims = [threads.submit(table.sandbox.claim_free_bets, free_bet_id) for _ in range(8)]
        errors = [claim.exception() for claim in claims]
    played = [claim.result() for claim, failed in zip(claims, errors, strict=True) if failed is None]
    assert len(played) == 1
    assert {type(failed) for failed in errors if failed} == {ConfigurationError}
    amount = json.loads(played[0].deliveries[0].posted)["amount"]
    assert table.balance == OPENING_CENTS + amount
    (board,) = table.sandbox.service.balances.players()
    assert board.player_id == "p1"
    assert board.agrees


def test_a_claim_that_failed_can_be_made_again(table: Table) -> None:
    """The wallet was down, or did not know the player: the free bets are there still."""
    free_bet_id, url = table.grant(count=50), table.sandbox.wallet_url
    with HostileServer() as server:
        table.sandbox.wallet_url = server.base_url
    with pytest.raises(TransportError):
        table.sandbox.claim_free_bets(free_bet_id)
    table.sandbox.wallet_url = url
    assert table.sandbox.claim_free_bets(free_bet_id).problems == ()
    stranger = table.client.grant_free_bet(**terms(table.sandbox.instance_id, player_id="p9")).free_bet_id
    failed = table.sandbox.claim_free_bets(stranger)
    assert failed.problems == ("deposit had no definite answer in 12 tries: PLAYER_NOT_FOUND",)
    table.ledger.open_account("p9")
    again = table.sandbox.claim_free_bets(stranger)
    assert [delivery.code for delivery in again.deliveries] == [None]
    assert again.deliveries[0].posted == failed.deliveries[0].posted


# --- wallets that are down or broken ----------------------------------------------------------------------------------


def say_nothing(connection: Connection) -> None:
    connection.read_request()


def test_a_wallet_that_is_down(table: Table) -> None:
    """It is said at once, nothing is left under way, what was held is held on, and the next round is played."""
    table.play(won_cents=700, settlement="hold")
    url = table.sandbox.wallet_url
    with HostileServer() as server:
        table.sandbox.wallet_url = server.base_url
    began = time.monotonic()
    with pytest.raises(RequestNotSentError, match="wallet's address"):
        table.play()
    with pytest.raises(RequestNotSentError):
        table.sandbox.release_held()
    assert time.monotonic() - began < 15
    (board,) = table.sandbox.service.balances.players()
    assert board.player_id == "p1"
    assert board.under_way == 0
    table.sandbox.wallet_url = url
    assert [delivery.code for delivery in table.sandbox.release_held()] == [None]
    assert table.play(won_cents=0).problems == ()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(answer(response_bytes(200, b"<html></html>")), id="HTML"),
        pytest.param(lambda connection: connection.close(), id="hung up"),
    ],
)
def test_a_wallet_that_answers_nonsense(table: Table, script: Script) -> None:
    """It is tried a dozen times, then given up and the bet cancelled; the round tells the problem."""
    with HostileServer(script) as server:
        table.sandbox.wallet_url = server.base_url
        played = table.play()
    assert any("withdraw had no definite answer in 12 tries" in problem for problem in played.problems)
    assert table.client.fetch_bet(played.bet_ids[0]).status == "ROLLED_BACK"


def test_a_wallet_that_hangs(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A player waits for a minute at most, here for less."""
    monkeypatch.setattr(server_module, "_PLAY_SECONDS", 0.3)
    with HostileServer(say_nothing) as server:
        table.sandbox.wallet_url = server.base_url
        began = time.monotonic()
        with pytest.raises(DeliveryInDoubtError, match=r"nothing definite for 0\.3 s") as late:
            table.play()
        assert time.monotonic() - began < 15
        assert late.value.timed_out
    (board,) = table.sandbox.service.balances.players()
    assert board.player_id == "p1"
    assert board.under_way == 0


# --- threads, and the end ---------------------------------------------------------------------------------------------


def test_rounds_from_many_threads(table: Table) -> None:
    """Each has ids of its own, and the money adds up."""
    for fault in ("reply-lost", "duplicate", "timeout", "reset"):
        table.sandbox.faults.set(fault, 0.2)
    with ThreadPoolExecutor(8) as threads:
        played = list(threads.map(lambda number: table.play(won_cents=number), range(32)))
    assert len({each.bet_ids for each in played}) == len({each.round_no for each in played}) == 32
    assert [problem for each in played for problem in each.problems] == []
    assert table.balance == OPENING_CENTS - 32 * 500 + sum(range(32))
    assert {bet.state for bet in table.ledger.bets()} == {"CLOSED"}
    (board,) = table.sandbox.service.balances.players()
    assert board.player_id == "p1"
    assert board.agrees
    assert board.under_way == 0


def test_a_sandbox_that_stops_while_rounds_are_played(public_key: RSAPublicKey) -> None:
    """A waiting caller gets an error, the sandbox stops in time, and its thread is gone."""
    told: list[BaseException] = []

    def play(sandbox: Sandbox) -> None:
        try:
            sandbox.play_round(player_id="p1", wager_cents=100)
        except ConfigurationError as stopped:
            told.append(stopped)

    threads_before = set(threading.enumerate())
    with HostileServer(say_nothing) as server:
        with Sandbox(operator_public_key=public_key, wallet_url=server.base_url) as sandbox:
            threads = [threading.Thread(target=play, args=(sandbox,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            wait_until(lambda: len(server.requests) == 3)
            began = time.monotonic()
        assert time.monotonic() - began < 15
        for thread in threads:
            thread.join(10)
    assert len(told) == 3
    assert all("stopped meanwhile" in str(each) for each in told)
    assert set(threading.enumerate()) <= threads_before  # One of another test may have ended meanwhile.


CTRL_C = """
import sys
from game_operator_testkit.sandbox import Sandbox
with Sandbox(wallet_url=sys.argv[1]) as sandbox:
    print("playing", flush=True)
    sandbox.play_round(player_id="p1", wager_cents=100)
"""


def test_ctrl_c_while_a_round_is_played() -> None:
    """The block ends by KeyboardInterrupt at once, with no other error and no warning."""
    with HostileServer(say_nothing) as server:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-X", "dev", "-c", CTRL_C, server.base_url],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            wait_until(lambda: server.requests)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
            process.wait()
    assert time.monotonic() - began < 10
    assert process.returncode == -signal.SIGINT, errors
    assert errors.count("Traceback") == 1, errors
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "never awaited" not in errors
    assert "destroyed" not in errors
