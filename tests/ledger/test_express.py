"""The express lane in PostgreSQL, through libpq itself: what psycopg's cursors would otherwise take care of."""

import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import psycopg
import pytest

from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.ledger.api import DEFAULT_TERMS, Outcome, Terms
from game_operator.ledger.engine.tables import CLOCK
from game_operator.ledger.postgres.express import Express
from game_operator.ledger.postgres.sessions import Prepared
from game_operator.ledger.rules.book import Item
from game_operator.webhooks import BalanceCall, DepositCall, WithdrawCall
from tests.support.ledgers import store_of

pytestmark = pytest.mark.outside


def _withdraw(bet_id: str, game: str | None = None) -> WithdrawCall:
    return WithdrawCall(player_id="player-1", bet_id=bet_id, amount_cents=100, game=game, body=bet_id.encode())


def test_what_a_rollback_has_dropped_is_prepared_again(postgres_url: str) -> None:
    """Psycopg drops whatever is prepared after a rollback; the statement is prepared anew and done once."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        prepared = Prepared(connection.pgconn)
        statement = ("SELECT 'a' || $1", ["b"])
        assert connection.wait(prepared.execution(statement)) == [["ab"]]
        connection.execute("DEALLOCATE ALL")
        assert connection.wait(prepared.execution(statement)) == [["ab"]]


def test_a_name_leads_to_no_statement_of_another(postgres_url: str) -> None:
    """As behind a pooler that we did not recognise: the server connection changes, and another has prepared there."""
    with psycopg.connect(postgres_url, autocommit=True) as one, psycopg.connect(postgres_url, autocommit=True) as other:
        theirs, ours = Prepared(one.pgconn), Prepared(other.pgconn)
        one.wait(theirs.execution(("SELECT 'theirs ' || $1", ["a"])))
        statement = ("SELECT 'ours ' || $1", ["b"])
        other.wait(ours.execution(statement))
        ours._pgconn = one.pgconn
        assert one.wait(ours.execution(statement)) == [["ours b"]]


def test_what_the_server_refuses_is_raised_as_psycopg_would(postgres_url: str) -> None:
    """The ledger tells a race lost from a broken server by the class; the connection can be used afterwards."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        prepared = Prepared(connection.pgconn)
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.wait(prepared.execution(("SELECT 1 / CAST(CAST($1 AS text) AS bigint)", ["0"])))
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.wait(prepared.execution(("SELEKT $1", ["0"])))
        assert connection.wait(prepared.execution(("SELECT $1", ["é"]))) == [["é"]]
        connection.close()
        with pytest.raises(psycopg.OperationalError):
            connection.wait(prepared.execution(("SELECT $1", ["é"])))


def test_a_nul_is_refused_and_not_cut_off(postgres_url: str) -> None:
    """As text libpq would end the value at the NUL, and two games would become one."""
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("player-1", Decimal(10))
        with pytest.raises(psycopg.DataError):
            ledger.apply(_withdraw("bet-1", game="avia\0tor"))
        assert ledger.bet("bet-1") is None
        assert ledger.balance("player-1") == 1000


async def test_after_a_rollback_tasks_go_on_by_express(postgres_url: str) -> None:
    """A call that fails rolls back, and the next one is applied as if nothing had been."""

    def fails(*_told: object) -> None:
        raise ZeroDivisionError

    async with AsyncSqlLedger(postgres_url) as ledger:
        await ledger.open_account("player-1", Decimal(10))
        await ledger.apply(_withdraw("bet-1"))
        with pytest.raises(ZeroDivisionError):
            await ledger.apply(_withdraw("bet-2"), terms=Terms(after=fails))
        assert (await ledger.apply(_withdraw("bet-3"))).balance_cents == 800
        deposit = DepositCall(player_id="player-1", bet_id="bet-3", amount_cents=50)
        assert (await ledger.apply(deposit)).balance_cents == 850


def test_only_what_leaves_nothing_to_decide_goes_by_express() -> None:
    """A withdraw of nothing, and a deposit that says it won another amount, are left to the long way."""
    express = Express("game_operator_", "0")
    for won_cents, goes in ((None, True), (50, True), (49, False)):
        deposit = DepositCall(player_id="p", bet_id="b", amount_cents=50, won_cents=won_cents)
        assert (express.statement([Item(deposit, DEFAULT_TERMS)]) is not None) == goes
    assert express.statement([Item(WithdrawCall(player_id="p", bet_id="b", amount_cents=0), DEFAULT_TERMS)]) is None
    assert express.statement([Item(WithdrawCall(player_id="p", bet_id="b", amount_cents=1), DEFAULT_TERMS)]) is not None


def test_no_deposit_pays_for_a_withdraw_beside_it(postgres_url: str) -> None:
    """Of a batch, only what is there pays: its deposits may turn out to be of no bet."""
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("player-1", Decimal(10))
        ledger.apply(_withdraw("bet-1"))
        calls = (
            WithdrawCall(player_id="player-1", bet_id="bet-2", amount_cents=1_000, body=b"{}"),
            DepositCall(player_id="player-1", bet_id="nowhere", amount_cents=5_000),
            DepositCall(player_id="player-1", bet_id="bet-1", amount_cents=50),
        )
        items = [Item(call, DEFAULT_TERMS) for call in calls]
        assert list(store_of(ledger).express(items)) == [2]
        assert ledger.balance("player-1") == 950
        outcomes = ledger._apply_all(items)
        codes = [outcome.code for outcome in outcomes if isinstance(outcome, Outcome)]
        assert codes == ["INSUFFICIENT_BALANCE", "BET_NOT_FOUND", None]
        assert ledger.balance("player-1") == 950


@pytest.mark.parametrize("count", [pytest.param(1, id="a lone withdraw"), pytest.param(3, id="three in a batch")])
def test_each_movement_is_later_than_the_one_before(postgres_url: str, count: int) -> None:
    """Also where the account's time is the clock's or past it: no two movements of an account share a millisecond."""
    late = 9_999_999_999_000
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("player-1", Decimal(10))
        with psycopg.connect(postgres_url) as connection:
            connection.execute("UPDATE game_operator_accounts SET at_millis = %s", (late,))
        items = [Item(_withdraw(f"bet-{number}"), DEFAULT_TERMS) for number in range(count)]
        outcomes = store_of(ledger).express(items)
        assert [outcomes[index].at_millis for index in range(count)] == [late + 1 + index for index in range(count)]
        asked = ledger.apply(BalanceCall(player_id="player-1"))
        assert (asked.balance_cents, asked.at_millis) == (1000 - 100 * count, late + count)
        ledger.add_source("")  # As the first call does, which this one has not come through.
        assert ledger.verify().sound


@pytest.mark.parametrize("count", [pytest.param(1, id="a lone withdraw"), pytest.param(2, id="two in a batch")])
def test_the_clock_is_read_once_the_account_is_locked(postgres_url: str, count: int) -> None:
    """
    A balance told while a withdraw waits for the account's lock was told before it, and so must its time be.

    Whoever only tells a balance locks the row and changes nothing, so PostgreSQL does not compute the update again.
    """
    clock = f"SELECT {CLOCK} FROM game_operator_accounts WHERE account = 'player-1' FOR UPDATE"
    with SqlLedger(postgres_url) as ledger, psycopg.connect(postgres_url) as teller, ThreadPoolExecutor(1) as beside:
        ledger.open_account("player-1", Decimal(10))
        teller.execute(clock)
        items = [Item(_withdraw(f"bet-{number}"), DEFAULT_TERMS) for number in range(count)]
        withdrawn = beside.submit(store_of(ledger).express, items)
        _wait_until_blocked(postgres_url)
        time.sleep(0.02)
        (told_at,) = teller.execute(clock).fetchone() or (0,)
        teller.commit()
        outcomes = withdrawn.result()
    assert len(outcomes) == count
    assert all(outcome.at_millis >= told_at for outcome in outcomes.values())


def _wait_until_blocked(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        until = time.monotonic() + 30
        while connection.execute(waits).fetchone() == (0,):
            assert time.monotonic() < until
            time.sleep(0.002)
