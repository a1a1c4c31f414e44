"""`game-operator serve`: the ready wallet in a process of its own, on both databases, from its start to its stop."""

import logging
import re
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import (
    BalanceCall,
    DepositCall,
    Profile,
    RollbackCall,
    TransportError,
)
from game_operator.cli.keys import KeyFiles, write_pair
from game_operator.ledger import BetState, SqlLedger, TableAccounts
from game_operator.protocol.webhook import encode_call
from game_operator.webhooks import WebhookCall
from game_operator_testkit.provider.caller import Delivery, WebhookCaller
from tests.support.calls import withdraw
from tests.support.command_line import Run, serving, started, stopped
from tests.support.raw_sql import run as run_sql

PASSWORD = "pa55-of-the-wallet"
BALANCE = BalanceCall(player_id="p1")


def opened(database: str, **balances: str) -> None:
    """Open accounts, as the operator does beside the server."""
    with SqlLedger(database) as ledger:
        for player_id, balance in balances.items():
            ledger.open_account(player_id, Decimal(balance))


def told(delivery: Delivery) -> tuple[int, str | None, Decimal | None]:
    """Return status, code and balance."""
    assert delivery.reply is not None, delivery.problem
    return delivery.status, delivery.reply.code, delivery.reply.balance


def without_server_warnings(text: str) -> str:
    """Return *text* without what opening says of the tests' server, which does not wait for the disk."""
    return "".join(line for line in text.splitlines(keepends=True) if "PostgreSQL runs with" not in line)


@pytest.mark.bare
@pytest.mark.outside
def test_the_four_webhooks_on_either_database(database_url: str, keys: KeyFiles, private_key: RSAPrivateKey) -> None:
    """Signed calls move money, each once; a stranger's is refused and logged with the reason (spec §3, §4.1)."""
    calls: list[tuple[WebhookCall, str | None, str]] = [
        (withdraw(), None, "95.00"),
        (DepositCall(player_id="p1", bet_id="b1", amount_cents=1250, round_id="r1"), None, "107.50"),
        (withdraw("b2", amount_cents=750), None, "100.00"),
        (withdraw("b2", amount_cents=750), None, "100.00"),
        (RollbackCall(player_id="p1", bet_id="b2", round_id="r1"), None, "107.50"),
        (withdraw("b3", amount_cents=10_751), "INSUFFICIENT_BALANCE", "107.50"),
        (BALANCE, None, "107.50"),
    ]
    with serving("--database", database_url, "--service-key", keys.public) as (url, process):
        opened(database_url, p1="100.00")
        with WebhookCaller(url, keys.private) as service:
            for call, code, balance in calls:
                assert told(service.send(call)) == (200, code, Decimal(balance))
        with WebhookCaller(url, private_key) as stranger:
            assert told(stranger.send(withdraw("b4"))) == (200, "INVALID_SIGNATURE", None)
        ended = stopped(process, signal.SIGTERM)
    assert (ended.code, ended.out) == (0, "")
    # One line for each refusal, and none for the other calls: the access log is off.
    refused = r"\S+ \S+ INFO \[\d+\] \S+: withdraw answered INSUFFICIENT_BALANCE after \d+\.\d ms\n"
    unsigned = r"\S+ \S+ WARNING .*'/withdraw' .*refused with INVALID_SIGNATURE: .*\n"
    assert re.fullmatch(refused + unsigned, without_server_warnings(ended.err)), ended.err
    with SqlLedger(database_url, migrate=False) as ledger:
        assert ledger.balance("p1") == 10_750
        assert {bet.bet_id: bet.state for bet in ledger.bets()} == {
            "b1": BetState.CLOSED,
            "b2": BetState.ROLLED_BACK,
            "b3": BetState.DECLINED,
        }


@pytest.mark.outside
def test_every_option_reaches_the_wallet(tmp_path: Path, sqlite_url: str, keys: KeyFiles) -> None:
    """Keys, a prefix, a profile, instances, a source (docs/decisions/0011, 0013)."""
    next_keys = write_pair(tmp_path / "next.pem", bits=2048)
    profile = tmp_path / "profile.toml"
    profile.write_text('signature_header = "X-Sig"\ncodes = "core"\nallow_zero_withdraw = true\n')
    options = ("--prefix", "wallet/", "--profile", profile, "--instances", "i1, i2", "--source", "live")
    both = ("--service-key", keys.public, "--service-key", next_keys.public)
    of_service = Profile(signature_header="X-Sig")

    def code(service: WebhookCaller, call: WebhookCall) -> str | None:
        return service.post(f"/{call.operation}", encode_call(call)).code

    opened(sqlite_url, p1="100.00")
    with serving("--database", sqlite_url, *both, *options) as (url, process):
        assert url.endswith("/wallet")
        with WebhookCaller(url, keys.private, profile=of_service) as service:
            assert code(service, withdraw(instance_id="i2")) is None
            # Folded to the core: an instance of another operator, and a bet that is settled.
            assert code(service, withdraw("b2", instance_id="i3")) == "INVALID_REQUEST"
            assert code(service, withdraw("b3", amount_cents=0, instance_id="i1")) is None
            assert code(service, RollbackCall(player_id="p1", bet_id="b1")) is None
            assert code(service, DepositCall(player_id="p1", bet_id="b1", amount_cents=1)) == "BET_ALREADY_CLOSED"
        with WebhookCaller(url, next_keys.private, profile=of_service) as service:
            assert code(service, BALANCE) is None
        with WebhookCaller(url, keys.private) as service:  # The other header.
            assert code(service, BALANCE) == "SYSTEM_ERROR"
        with WebhookCaller(url.removesuffix("/wallet"), keys.private) as service:
            assert service.send(BALANCE).status == 404
        assert stopped(process, signal.SIGTERM).code == 0
    with SqlLedger(sqlite_url) as ledger:
        assert {bet.bet_id for bet in ledger.bets(source="live")} == {"b1", "b3"}
        assert list(ledger.bets()) == []


def test_what_people_see_and_never_a_password(postgres_url: str, keys: KeyFiles) -> None:
    """Where it answers and where its ledger is; the database's address comes from the environment, with a password."""
    address = postgres_url.replace("postgresql:///", f"postgresql://postgres:{PASSWORD}@/")
    assert PASSWORD in address
    with started(
        "serve", "--port", "0", "--service-key", str(keys.public), GAME_OPERATOR_DATABASE_URL=address
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline(), process.stdout.readline()]
        ended = stopped(process, signal.SIGINT)
    assert re.fullmatch(r"The wallet answers at http://127\.0\.0\.1:\d+, process \d+, until Ctrl-C\.\n", said[0])
    assert said[1].startswith("Its ledger is in postgresql://postgres:***@")
    assert (ended.code, ended.out, without_server_warnings(ended.err)) == (0, "", "The wallet has stopped.\n")
    assert PASSWORD not in "".join(said)


@pytest.mark.outside
def test_a_call_under_way_is_answered_before_it_stops(tmp_path: Path, sqlite_url: str, keys: KeyFiles) -> None:
    """A withdraw that waits for the database when the signal comes is applied and answered; then the process ends."""
    opened(sqlite_url, p1="100.00")
    with serving("--database", sqlite_url, "--service-key", keys.public) as (url, process):
        busy = sqlite3.connect(tmp_path / "wallet.db", isolation_level=None)
        busy.execute("BEGIN IMMEDIATE")
        with WebhookCaller(url, keys.private) as service, ThreadPoolExecutor(1) as pool:
            answer = pool.submit(service.send, withdraw())
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            assert not answer.done()
            assert process.poll() is None
            busy.execute("ROLLBACK")
            busy.close()
            assert told(answer.result(20)) == (200, None, Decimal("95.00"))
        assert process.wait(20) == 0
    with SqlLedger(sqlite_url) as ledger:
        assert ledger.balance("p1") == 9_500


@pytest.mark.outside
@pytest.mark.drawn(1)
def test_stopped_under_load_no_answer_is_wrong(database_url: str, keys: KeyFiles) -> None:
    """What was answered is in the ledger; what was not is settled by its repeat (spec §3)."""
    opened(database_url, p1="1000.00")
    answered: list[str] = []
    doubtful: list[str] = []

    def play(service: WebhookCaller, player: int) -> None:
        for number in range(10_000):
            bet_id = f"{player}-{number}"
            try:
                assert service.send(withdraw(bet_id, amount_cents=1)).code is None
                answered.append(bet_id)
            except TransportError:
                doubtful.append(bet_id)
                return

    options = ("--database", database_url, "--service-key", keys.public)
    with serving(*options) as (url, process), WebhookCaller(url, keys.private) as service:
        players = [threading.Thread(target=play, args=(service, number)) for number in range(8)]
        for player in players:
            player.start()
        while len(answered) < 100:
            time.sleep(0.01)
        assert stopped(process, signal.SIGINT).code == 0
        for player in players:
            player.join(30)
    with SqlLedger(database_url) as ledger:
        kept = {bet.bet_id for bet in ledger.bets()}
        assert set(answered) <= kept <= {*answered, *doubtful}
        assert ledger.balance("p1") == 100_000 - len(kept)
        for bet_id in (*doubtful, answered[0]):
            assert ledger.apply(withdraw(bet_id, amount_cents=1)).code is None
        assert ledger.balance("p1") == 100_000 - len({*answered, *doubtful})


_TWO_COLUMNS = ("--accounts-table", "players", "--accounts-key", "id,currency", "--accounts-balance", "balance")


@pytest.mark.outside
@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        pytest.param(("{db}", "--profile", "{here}/none.toml"), 2, "cannot be read: No such file", id="no profile"),
        pytest.param((f"mysql://u:{PASSWORD}@h/d",), 2, "is not an address of SQLite or PostgreSQL", id="another kind"),
        pytest.param((f"postgresql://u:{PASSWORD}@127.0.0.1:1/d",), 3, "cannot be used", id="nobody there"),
        pytest.param(("{db}", "--no-migrate", "--table-prefix", "x_"), 2, "There are no tables", id="no tables"),
        pytest.param(("{own}",), 2, "keeps its balances in your own table", id="own table"),
        pytest.param(("{own}", *_TWO_COLUMNS), 2, "names 2 columns, and serve cannot know", id="a key of two columns"),
    ],
)
@pytest.mark.parametrize("workers", [(), ("--workers", "1")], ids=["one process", "workers"])
def test_what_cannot_be_served_is_told(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sqlite_url: str,
    keys: KeyFiles,
    args: tuple[str, ...],
    code: int,
    problem: str,
    workers: tuple[str, ...],
) -> None:
    """One sentence and an exit code, before any call; no password in it, and no log handler left behind."""
    own = f"sqlite:///{tmp_path / 'own.db'}"
    run_sql(own, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    SqlLedger(own, accounts=TableAccounts(table="players", key="id", balance="balance")).close()
    places = {"db": sqlite_url, "own": own, "here": tmp_path}
    # A server that is not there yet is waited for; not as long here.
    monkeypatch.setattr("game_operator.ledger.SqlLedger", partial(SqlLedger, patience_seconds=0.2), raising=False)
    before = list(logging.getLogger().handlers)
    where = (arg.format_map(places) for arg in args)
    ended = run("serve", "--port", 0, "--service-key", keys.public, *workers, "--database", *where)
    assert ended.code == code, ended
    assert ended.err.startswith("Error: ")
    assert problem in ended.err
    assert ended.err.count("\n") == 1
    assert PASSWORD not in ended.err + ended.out
    assert "may have been committed" not in ended.err, "no call is under way"
    assert logging.getLogger().handlers == before
