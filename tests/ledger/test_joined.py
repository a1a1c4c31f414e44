"""A call in the operator's own transaction, over every kind of connection and both databases; what is no connection."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from time import sleep
from typing import Any

import anyio
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from game_operator.errors import SchemaError, TransactionRequiredError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts, Terms
from game_operator.ledger.engine.address import path_of
from game_operator.models.webhooks import MovingCall
from tests.support.callers import KINDS, CallerKind, Joining, sqlalchemy_url
from tests.support.calls import deposit, rollback, withdraw
from tests.support.ledgers import funded, funded_async
from tests.support.raw_sql import run, wait_for_a_lock

pytestmark = [
    pytest.mark.drawn(36, kind=[str(kind) for kind in KINDS if kind.name not in ("sqlite3", "psycopg async")]),
]

PLAYERS = TableAccounts(table="players", key="id", balance="balance", unit="units")

_PSYCOPG = next(kind for kind in KINDS if kind.name == "psycopg")

_TABLES = (
    "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance numeric(14, 2) NOT NULL)",
    "CREATE TABLE journal (entry varchar(40) PRIMARY KEY)",
    "INSERT INTO players VALUES ('p1', 10.00)",
    "INSERT INTO players VALUES ('p2', 10.00)",
)


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> CallerKind:
    """Each kind of connection."""
    chosen: CallerKind = request.param
    return chosen


@pytest.fixture
def url(kind: CallerKind, url_of: Callable[[str], str]) -> str:
    """A database with the operator's tables, of the kind that the connection is for."""
    address = url_of(kind.database)
    for statement in _TABLES:
        run(address, statement)
    return address


@pytest.fixture
def caller(kind: CallerKind, url: str) -> Iterator[Joining]:
    """A caller with no transaction yet."""
    with kind.open(url, accounts=PLAYERS) as joining:
        yield joining


def _left(caller: Joining) -> dict[str, int]:
    """Return how many rows there are; the transaction it reads in is over afterwards."""
    caller.begin()
    tables = ("calls", "bets", "postings", "anomalies", "clocks")
    counts = {name: caller.scalar(f"SELECT count(*) FROM game_operator_{name}") for name in tables}
    counts["journal"] = caller.scalar("SELECT count(*) FROM journal")
    counts["cents"] = int(caller.scalar("SELECT sum(balance) FROM players") * 100)
    caller.rollback()
    return {name: number for name, number in counts.items() if number}


def test_nothing_is_left_when_the_second_statement_fails(caller: Joining) -> None:
    """A statement of the caller's that fails after the call leaves neither debit nor bet; the repeat is applied."""
    caller.begin()
    caller.execute("INSERT INTO journal VALUES ('taken')")
    caller.commit()
    caller.begin()
    assert caller.apply(withdraw()).applied
    with pytest.raises(Exception, match=r"(?i)unique"):
        caller.execute("INSERT INTO journal VALUES ('taken')")
    caller.rollback()
    assert _left(caller) == {"journal": 1, "cents": 2000}
    caller.begin()
    assert caller.apply(withdraw()).applied
    caller.commit()
    assert _left(caller)["cents"] == 1500


def test_a_round_of_calls_in_one_and_in_several_transactions(caller: Joining) -> None:
    """A repeat is known inside the transaction and in the next; deposit and rollback move on (spec §3)."""
    caller.begin()
    assert caller.apply(withdraw()).applied
    again = caller.apply(withdraw())
    assert (again.replayed, again.applied, again.balance_cents) == (True, False, 500)
    caller.commit()
    caller.begin()
    assert caller.apply(withdraw()).replayed
    assert caller.apply(deposit()).balance_cents == 1750
    assert caller.apply(rollback()).code == "BET_ALREADY_CLOSED"
    caller.commit()
    assert _left(caller)["cents"] == 2750


def test_without_a_transaction(caller: Joining, kind: CallerKind) -> None:
    """Where each statement would commit by itself the call is refused; where the driver begins, it is the caller's."""
    if kind.begins_by_itself:
        assert caller.apply(withdraw()).applied
        caller.rollback()
    else:
        with pytest.raises(TransactionRequiredError, match=r"no open transaction.*begin"):
            caller.apply(withdraw())
    assert _left(caller) == {"cents": 2000}


def test_after_is_given_the_callers_own_connection(caller: Joining) -> None:
    """``after`` and ``may_bet`` of the terms work here too, with the very object that was passed."""
    seen: list[Any] = []
    terms = Terms(
        may_bet=lambda call, account, connection: seen.extend([account.balance_cents, connection]),
        after=lambda call, outcome, connection: seen.extend([outcome.code, connection]),
    )
    caller.begin()
    caller.apply(withdraw(), terms)
    caller.commit()
    assert seen[::2] == [1000, None]
    assert all(each is caller.connection for each in seen[1::2])


def test_what_fails_in_a_call_does_not_abort_the_callers_transaction(caller: Joining) -> None:
    """An error of the operator's own code passes through as it is, and only the call is undone."""

    class OddError(Exception):
        pass

    def fail(*_: object) -> str:
        raise OddError

    caller.begin()
    caller.execute("INSERT INTO journal VALUES ('before')")
    for terms in (Terms(after=fail), Terms(may_bet=fail), Terms(account_of=fail)):
        with pytest.raises(OddError):
            caller.apply(withdraw(), terms)
    caller.execute("INSERT INTO journal VALUES ('after')")
    caller.commit()
    assert _left(caller) == {"journal": 2, "cents": 2000}


#: What another machine has begun, what is applied meanwhile, its code, and what the players hold in the end.
_RACES: dict[str, tuple[MovingCall, MovingCall, str | None, int]] = {
    # Calls of two players lock different rows: the second meets the first's bet, and is no error.
    "one bet id": (withdraw(player_id="p2"), withdraw(), "DUPLICATE_TRANSACTION", 1500),
    "the same call": (withdraw(), withdraw(), None, 1500),
    "unknown player": (withdraw(player_id="p9"), withdraw(player_id="p9"), "PLAYER_NOT_FOUND", 2000),
    "its rollback": (rollback(), withdraw(), "BET_ROLLED_BACK", 2000),
    "money for one": (withdraw("b2", amount_cents=900), withdraw(), "INSUFFICIENT_BALANCE", 1100),
    "a declined bet": (withdraw(player_id="p9"), rollback(), "BET_NOT_FOUND", 2000),
}
_RACED = [(kind, race) for race in _RACES for kind in KINDS if race == "one bet id" or kind in (KINDS[0], _PSYCOPG)]


@pytest.mark.parametrize(("kind", "race"), _RACED, ids=str, indirect=["kind"])
def test_a_race_with_another_machine_is_decided_from_what_it_committed(
    caller: Joining, url: str, kind: CallerKind, race: str
) -> None:
    """While theirs is not committed ours waits; it is answered, moves nothing, and its transaction goes on."""
    theirs, ours, code, cents = _RACES[race]

    def second() -> tuple[str | None, bool]:
        caller.begin()
        outcome = caller.apply(ours)
        caller.execute("INSERT INTO journal VALUES ('second')")
        caller.commit()
        return outcome.code, outcome.applied

    maker = KINDS[0] if kind.database == "sqlite" else _PSYCOPG
    with maker.open(url, accounts=PLAYERS) as first, ThreadPoolExecutor(1) as threads:
        first.begin()
        first.apply(theirs)
        running = threads.submit(second)
        sleep(0.05) if kind.database == "sqlite" else wait_for_a_lock(url)  # On SQLite BEGIN waits already.
        assert not running.done()
        first.commit()
        assert running.result(timeout=30) == (code, False)
    left = _left(caller)
    assert (left["journal"], left["cents"]) == (1, cents)


@pytest.mark.parametrize(
    "kind",
    [
        each
        for each in KINDS
        if each.name in ("sqlite3", "psycopg", "sqlalchemy async session, asyncpg", "django, postgres")
    ],
    ids=str,
    indirect=True,
)
def test_callers_on_one_hot_player(kind: CallerKind, url: str) -> None:
    """Two callers play the same bets of one player at once, and roll back now and then: each bet is debited once."""

    def play(caller: Joining, number: int) -> int:
        applied = 0
        for bet in range(12):
            for repeat in range(2):
                caller.begin()
                outcome = caller.apply(withdraw(f"b{bet}", amount_cents=10))
                if not outcome.replayed:
                    caller.execute(f"INSERT INTO journal VALUES ('b{bet}')")
                undo = repeat == 0 and bet % 3 == number
                (caller.rollback if undo else caller.commit)()
                applied += outcome.applied and not undo
        return applied

    with (
        kind.open(url, accounts=PLAYERS) as one,
        kind.open(url, accounts=PLAYERS) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        assert sum(pool.map(play, (one, two), (0, 1))) == 12
        assert _left(one) == {"calls": 12, "bets": 12, "postings": 12, "clocks": 1, "journal": 12, "cents": 1880}


# --- what may be passed, what is refused, and what callers have set on their connections ------------------------------


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[SqlLedger]:
    """A ledger with an account."""
    with funded(sqlite_url) as opened:
        yield opened


@pytest.mark.parametrize(
    "thing", [pytest.param(object(), id="object"), "wallet.db", 7, psycopg, sqlite3.Connection], ids=repr
)
def test_what_is_no_connection_is_refused_with_a_list(ledger: SqlLedger, thing: Any) -> None:
    """The message tells all that can be passed."""
    with pytest.raises(
        TypeError, match=r"(?s)not a connection.*sqlite3.*psycopg.*SQLAlchemy.*Session.*django"
    ) as failed:
        ledger.apply(withdraw(), connection=thing)
    assert "AsyncSession" in str(failed.value)


def test_a_connection_of_the_other_world_is_refused_with_what_to_do(ledger: SqlLedger, sqlite_url: str) -> None:
    """A blocking connection on the event loop, or one of asyncio without it: the other ledger is named."""
    engine = create_async_engine(sqlalchemy_url(sqlite_url, "aiosqlite"))
    with pytest.raises(TypeError, match="belongs to asyncio: give it to an AsyncSqlLedger"):
        ledger.apply(withdraw(), connection=engine.connect())
    with closing(sqlite3.connect(path_of(sqlite_url))) as connection:
        apply = AsyncSqlLedger(sqlite_url).apply(withdraw(), connection=connection)
        with pytest.raises(TypeError, match="would block the event loop: give it to a SqlLedger"):
            asyncio.run(apply)


def test_what_the_caller_has_set_on_sqlite3_does_not_matter(ledger: SqlLedger, sqlite_url: str) -> None:
    """Row factories, converters and the old implicit transactions of Python."""
    with closing(sqlite3.connect(path_of(sqlite_url), detect_types=sqlite3.PARSE_DECLTYPES)) as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes
        connection.execute("CREATE TABLE journal (entry TEXT)")
        connection.execute("INSERT INTO journal VALUES ('begins implicitly')")
        assert connection.in_transaction
        assert ledger.apply(withdraw(), connection=connection).balance_cents == 500
        assert connection.text_factory is bytes
        connection.commit()
        # Committed, and no longer in a transaction: a SAVEPOINT would begin one, and its RELEASE end it.
        with pytest.raises(TransactionRequiredError, match="BEGIN IMMEDIATE"):
            ledger.apply(deposit(), connection=connection)
    assert ledger.balance("p1") == 500


def test_what_the_caller_has_set_on_psycopg_does_not_matter(postgres_url: str) -> None:
    """Rows as dicts, raw cursors with other placeholders, a pipeline."""
    with funded(postgres_url) as ledger:
        with psycopg.connect(postgres_url, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as connection:
            assert ledger.apply(withdraw(), connection=connection).balance_cents == 500
            with connection.pipeline():
                assert ledger.apply(deposit(), connection=connection).balance_cents == 1750
        assert ledger.balance("p1") == 1750


def test_an_engine_in_autocommit_is_refused(database_url: str) -> None:
    """SQLAlchemy says that it is in a transaction, and commits each statement all the same."""
    driver = "pysqlite" if database_url.startswith("sqlite") else "psycopg"
    engine = create_engine(sqlalchemy_url(database_url, driver), isolation_level="AUTOCOMMIT")
    with funded(database_url) as ledger:
        with engine.begin() as connection, pytest.raises(TransactionRequiredError, match=r"(?i)autocommit"):
            ledger.apply(withdraw(), connection=connection)
        assert ledger.balance("p1") == 1000
        assert ledger.bet("b1") is None
    engine.dispose()


def test_a_database_without_the_tables(tmp_path: Path, ledger: SqlLedger) -> None:
    """A connection to another database is told to migrate there; the caller's transaction goes on."""
    with closing(sqlite3.connect(tmp_path / "other.db", isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE journal (entry TEXT)")
        with pytest.raises(SchemaError, match=r"not in the database of connection=.*migrate=False"):
            ledger.apply(withdraw(), connection=connection)
        connection.execute("INSERT INTO journal VALUES ('goes on')")
        connection.execute("COMMIT")
        assert connection.execute("SELECT count(*) FROM journal").fetchone() == (1,)


def test_a_stale_snapshot_is_the_databases_own_error(ledger: SqlLedger, sqlite_url: str) -> None:
    """A transaction that has read before another wrote cannot write in SQLite: its own error, and nothing is left."""
    with closing(sqlite3.connect(path_of(sqlite_url), isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM game_operator_bets").fetchall()
        ledger.apply(withdraw("other"))
        with pytest.raises(sqlite3.OperationalError, match="locked") as failed:
            ledger.apply(withdraw(), connection=connection)
        assert failed.value.sqlite_errorcode == sqlite3.SQLITE_BUSY_SNAPSHOT
        connection.execute("ROLLBACK")
    assert ledger.bet("b1") is None


async def test_a_cancelled_call_leaves_nothing_even_if_the_caller_commits(postgres_url: str) -> None:
    """Cancelled in the middle, the call is rolled back to its savepoint before the caller goes on."""
    async with funded_async(postgres_url) as ledger:
        terms = Terms(after=lambda *_: anyio.sleep_forever())
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            with anyio.move_on_after(0.3) as scope:
                await ledger.apply(withdraw(), connection=connection, terms=terms)
            assert scope.cancelled_caught
            await connection.commit()
        assert await ledger.balance("p1") == 1000
        assert await ledger.bet("b1") is None
