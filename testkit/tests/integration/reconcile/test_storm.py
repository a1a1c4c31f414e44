"""A storm of dropped deposits and rollbacks: one reconciliation leaves no difference, and late calls move nothing."""

from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from game_operator.backoffice.reconcile.reconciler import Reconciler
from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.wallet import Wallet
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.dealing.dealt import DealtBet
from game_operator_testkit.sandbox.in_process import InProcessSandbox
from game_operator_testkit.sandbox.storm.players import LedgerBooks
from game_operator_testkit.sandbox.storm.storm import Storm
from testkit.tests.sandbox.dealing import START_MILLIS, InProcess
from testkit.tests.sandbox.storming import head_of
from testkit.tests.support.reconciling import KEYS, REPAIR
from tests.support.raw_sql import run
from tests.support.sqlite_tables import sqlite_url_in
from tests.support.times import StoppedClock

pytestmark = pytest.mark.outside

OWN = TableAccounts(table="players", key="id", balance="cents", unit="cents")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return sqlite_url_in(tmp_path, request)
    found: str = request.getfixturevalue("postgres_url")
    return found


def stormed_and_reconciled(url: str, accounts: TableAccounts | None, bets: int) -> None:
    """Storm a wallet, reconcile twice, and let the lost calls arrive."""
    head = head_of(bets=bets, faults="settlement-lost=0.05", players=40)
    with ExitStack() as stack:
        if accounts is not None:
            run(url, "CREATE TABLE players (id varchar(256) PRIMARY KEY, cents bigint NOT NULL)")
            for player_id, cents in head.opening.items():
                run(url, "INSERT INTO players VALUES (?, ?)", player_id, cents)
        ledger = stack.enter_context(SqlLedger(url, accounts=accounts))
        wallet = Wallet(ledger)
        courier = InProcess(opening=head.opening, handler=lambda _memory: wallet)
        keys = cast("ServiceKeys", courier.keys)  # Fast ones that sign as they do.
        books = LedgerBooks(url, accounts=accounts)
        storm = Storm("http://127.0.0.1:1", keys, books, head, concurrency=1, courier=courier.post)
        assert storm.run().passed
        unsent = {each.key for each in storm.dealt if isinstance(each, DealtBet) and each.unsent}
        assert len(unsent) > bets / 50
        clock = StoppedClock(START_MILLIS + 4 * 3_600_000)
        sandbox = stack.enter_context(InProcessSandbox(seed=3, clock=clock, keys=KEYS))
        storm.record_in(sandbox, strangers=1, free_bets=True)
        client = stack.enter_context(sandbox.client())
        options = {"min_age": timedelta(0), "second_look": timedelta(0), "sample": 1.0, "seed": 1}
        reconciler = Reconciler(client, wallet, rate_per_second=10_000.0, **options)  # type: ignore[arg-type]
        assert storm.differences() != ()

        report = reconciler.run(**REPAIR)
        repaired = {row["bet_id"] for row in report.rows() if row["verdict"] in ("settled", "refunded")}
        assert (report.run.state, repaired, report.open.bets) == ("finished", unsent, 0)
        assert storm.differences() == ()
        assert report.findings == ()
        assert "claim" in report.to_json(), "lost claims cannot be looked up, and the report says so"

        again = reconciler.run(**REPAIR)
        assert set(again.verdicts) <= {"agrees", "wait"}, "some bets are OPEN on both sides"
        assert sum(tally.bets for tally in again.verdicts.values()) >= 0.9 * len(list(ledger.bets()))
        assert (again.repaired.bets, again.findings) == (0, ())

        balances = {player: ledger.balance(player) for player in head.opening}
        sandbox.wallet = wallet
        assert len(sandbox.release_held(lost=True)) == len(unsent)
        assert {player: ledger.balance(player) for player in head.opening} == balances
        assert storm.differences() == ()
        assert list(reconciler.findings(resolved=True)) == []
        assert ledger.verify().findings == ()


@pytest.mark.timeout(180)
@pytest.mark.drawn(1)
@pytest.mark.parametrize("accounts", [None, OWN], ids=["own ledger", "own table"])
def test_a_storm_of_lost_settlements(url: str, accounts: TableAccounts | None) -> None:
    """Many bets, each with the provider's word in the end."""
    stormed_and_reconciled(url, accounts, 150)


@pytest.mark.torture
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("accounts", [None, OWN], ids=["own ledger", "own table"])
def test_a_great_storm_of_lost_settlements(url: str, accounts: TableAccounts | None) -> None:
    """Ten thousand bets."""
    stormed_and_reconciled(url, accounts, 10_000)
