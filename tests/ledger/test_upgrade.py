"""
Programs of different versions on one database: those that ran before a migration go on, and a breaking one stops them.

Version 1 is what stands in sql/*_0001.sql, which never changes, and the statements of ``tests.support.version_1``.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import anyio
import psycopg
import pytest

from game_operator.errors import LedgerUnavailableError, SchemaError, UnknownSourceError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts, Terms
from game_operator.ledger.books.days import drop_day, fold_day, make_day
from game_operator.ledger.engine.address import path_of
from game_operator.ledger.engine.schema_sql import schema_sql
from game_operator.ledger.engine.tables import VERSION
from game_operator.ledger.sql import migrated_back, write_with
from tests.support.calendar import Calendar
from tests.support.calls import deposit, withdraw
from tests.support.raw_sql import is_sqlite, rows, run
from tests.support.times import RunningClock
from tests.support.version_1 import old_tables, old_withdraw
from tests.support.version_3 import tables_of_version_3

pytestmark = [pytest.mark.outside, pytest.mark.drawn(5, database_url=("postgres",))]

P = "game_operator_"
DAY_MILLIS = 86_400_000


@pytest.mark.parametrize("held", [[], [""], ["live", "test"]], ids=["none", "the default", "two"])
def test_a_migration_registers_what_it_finds(database_url: str, held: list[str]) -> None:
    """Whatever the sources of the calls are: none of them is refused afterwards, and no other is taken."""
    old_tables(database_url)
    for source in held:
        old_withdraw(database_url, "b1", source)
    with SqlLedger(database_url) as ledger:
        assert ledger.sources() == held
        for source in held:
            assert ledger.apply(withdraw("b1"), terms=Terms(source=source)).replayed
            assert ledger.apply(deposit("b1"), terms=Terms(source=source)).applied
        if held:
            with pytest.raises(UnknownSourceError):
                ledger.apply(withdraw("b1"), terms=Terms(source="new"))
        assert ledger.verify().sound
        assert ledger.balance("p1") == 10_000 + 750 * len(held)


def test_programs_of_version_2_go_on(database_url: str) -> None:
    """A rolling deploy: the new program migrates, both serve the same bets, and the books are sound."""
    old_tables(database_url)
    old_withdraw(database_url, "b0")
    with SqlLedger(database_url) as new:
        for number in range(1, 4):
            old_withdraw(database_url, f"b{number}")
            assert new.apply(withdraw(f"b{number}")).replayed
            assert new.apply(deposit(f"b{number}")).applied
            assert new.apply(withdraw(f"c{number}")).applied
        assert new.verify().findings == ()
        assert new.balance("p1") == 10_000 - 7 * 500 + 3 * 1_250
        assert {bet.currency for bet in new.bets()} == {None}


def test_programs_of_version_1_stop_on_sqlite(sqlite_url: str) -> None:
    """Their statements name no columns: SQLite refuses them, nothing is stored, and each call is answered by others."""
    old_tables(sqlite_url)
    old_withdraw(sqlite_url, "b0", version=1)
    with SqlLedger(sqlite_url) as new:
        with pytest.raises(sqlite3.OperationalError, match="columns"):
            old_withdraw(sqlite_url, "b1", version=1)
        assert new.bet("b1") is None
        assert new.bet("b0") is not None


def _connected(url: str) -> Any:
    """Return a connection of the operator's with a transaction open."""
    if not is_sqlite(url):
        return psycopg.connect(url)
    connection = sqlite3.connect(path_of(url), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_a_child_that_is_forked_after_the_way_back_goes_on(sqlite_url: str) -> None:
    """It opens the file anew, and is no program of its own."""
    old_tables(sqlite_url)
    with SqlLedger(sqlite_url) as ledger:
        migrated_back(ledger)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if ledger.apply(withdraw("b1")).applied else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_way_back(database_url: str) -> None:
    """Version 2 is started again while this program runs, which goes on; then forward again, with what was known."""
    old_tables(database_url)
    with SqlLedger(database_url) as ledger:
        ledger.apply(withdraw("b1"))
        ledger.add_source("other")
        assert migrated_back(ledger) == VERSION - 1
        assert rows(database_url, "SELECT value FROM {p}meta WHERE name = 'version'") == [(VERSION - 1,)]
        assert ledger.apply(withdraw("b2")).applied
        # Its first joined call comes after the way back, and the tables are there.
        with closing(_connected(database_url)) as connection:
            assert ledger.apply(withdraw("b4"), connection=connection).applied
            connection.commit()
    with pytest.raises(
        SchemaError, match=f"have version {VERSION - 1}, and this program needs version {VERSION}"
    ) as old:
        SqlLedger(database_url, migrate=False)
    assert (old.value.version, old.value.statements.partition(".")[0]) == (VERSION - 1, f"-- Version {VERSION}")
    old_withdraw(database_url, "b3")
    with SqlLedger(database_url) as ledger:
        assert ledger.sources() == ["", "other"]
        assert ledger.apply(deposit("b3")).applied
        assert ledger.verify().sound


_CARRIED = "SELECT account, cents, last_id, at_millis FROM {p}carried ORDER BY account"
_CARRIES = "SELECT tx_id, id FROM {p}postings WHERE operation = 'carry'"


def _back_and_forward(url: str) -> list[tuple[Any, ...]]:
    """Go back and forward again; return the postings that carried what was folded meanwhile."""
    with SqlLedger(url) as ledger:
        migrated_back(ledger)
    carries = rows(url, _CARRIES)
    with SqlLedger(url) as ledger:
        assert ledger.verify(full=True).findings == ()
        assert ledger.verify().findings == ()
    return carries


def test_what_is_folded_goes_back_and_forward(database_url: str) -> None:
    """Newer postings of the same accounts still come later than what is folded, whatever is done how often."""
    with Calendar(database_url, -100) as calendar, calendar.ledger() as ledger:
        for player_id in ("p1", "p2", "even"):
            ledger.open_account(player_id, Decimal(100))
            assert ledger.apply(withdraw(f"old {player_id}", player_id=player_id)).applied
        for player_id in ("p1", "p2", "even"):
            assert ledger.apply(deposit(f"old {player_id}", player_id=player_id)).applied
        ledger.adjust("even", Decimal("-107.50"), reference="cash-out")
        calendar.move(100)
        for player_id in ("p1", "p2"):
            assert ledger.apply(withdraw(f"new {player_id}", player_id=player_id)).applied
        assert ledger.maintain().sound
    carried = rows(database_url, _CARRIED)
    assert [row[:2] for row in carried] == [("even", 0), ("p1", 10_750), ("p2", 10_750)]
    for _ in range(2):
        assert sorted(_back_and_forward(database_url)) == [(row[0], row[2]) for row in carried[1:]]
        assert rows(database_url, _CARRIED) == carried
    with SqlLedger(database_url) as ledger:
        assert ledger.maintain().sound
        assert ledger.apply(deposit("new p1")).applied
        assert ledger.verify(full=True).findings == ()


@pytest.mark.parametrize("is_open", [False, True], ids=["nothing is left", "an open bet is left"])
def test_what_is_folded_goes_back_where_its_ids_are_given_again(
    sqlite_url: str, clock: RunningClock, is_open: bool
) -> None:
    """All that came last is folded, so several rows have the id of what is left, or none."""
    with SqlLedger(sqlite_url, clock_millis=clock) as ledger:
        ledger.open_account("p3", Decimal(100))
        if is_open:
            assert ledger.apply(withdraw("open", player_id="p3")).applied
        for player_id in ("p1", "p2"):
            ledger.open_account(player_id, Decimal(100))
        clock.millis += 200 * DAY_MILLIS
        ledger.prune(90 * DAY_MILLIS, now_millis=clock.millis)
        for player_id in ("p1", "p2", "p3"):
            ledger.adjust(player_id, Decimal(1), reference=player_id)
        assert ledger.verify(full=True).sound
    carried = rows(sqlite_url, _CARRIED)
    assert {row[2] for row in carried} == ({1, 2} if is_open else {0})
    assert len(_back_and_forward(sqlite_url)) == 3
    assert rows(sqlite_url, _CARRIED) == carried
    assert len(_back_and_forward(sqlite_url)) == 3
    assert rows(sqlite_url, _CARRIED) == carried


def test_no_way_back_from_a_breaking_migration(database_url: str) -> None:
    """Where programs of the version before cannot write, they must not be started either."""
    with SqlLedger(database_url) as ledger:
        run(database_url, "UPDATE {p}meta SET value = ? WHERE name = 'oldest_writer'", VERSION)
        with pytest.raises(SchemaError, match="there is no way back"):
            migrated_back(ledger)


# --- the fence --------------------------------------------------------------------------------------------------------

WRITING: dict[str, Callable[[SqlLedger, Any], object]] = {
    "a withdraw": lambda ledger, _: ledger.apply(withdraw("b2")),
    "a deposit": lambda ledger, _: ledger.apply(deposit("b1")),
    "an early deposit": lambda ledger, _: ledger.apply(deposit("b9")),
    "a withdraw with within": lambda ledger, _: ledger.apply(withdraw("b2"), terms=Terms(within=lambda *_: None)),
    "a joined withdraw": lambda ledger, connection: ledger.apply(withdraw("b2"), connection=connection),
    "opening": lambda ledger, _: ledger.open_account("p2"),
    "adjusting": lambda ledger, _: ledger.adjust("p1", Decimal(1), reference="r"),
    "an anomaly": lambda ledger, _: ledger.keep_anomaly("deposit", "unreadable", b"{"),
    "resolving": lambda ledger, _: ledger.resolve(1),
    "adding a source": lambda ledger, _: ledger.add_source("new"),
    "correcting the time": lambda ledger, _: ledger.correct_time("p1"),
    "pruning": lambda ledger, _: ledger.prune(90 * 86_400_000, now_millis=4_102_444_800_000),
}


def content(url: str) -> list[Any]:
    """Return all rows."""
    names = ("accounts", "anomalies", "bets", "calls", "corrections", "postings", "sources")
    return [rows(url, f"SELECT * FROM {{p}}{name} ORDER BY 1, 2") for name in names]


@pytest.mark.parametrize("writing", WRITING)
@pytest.mark.drawn(4, database_url=("postgres",))
def test_a_breaking_migration_stops_writing(database_url: str, writing: str) -> None:
    """A program that was running writes nothing from then on; after one that only adds, it goes on."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        ledger.apply(withdraw("b1"))
        ledger.keep_anomaly("deposit", "unreadable", b"[")
        run(database_url, "UPDATE {p}meta SET value = ? WHERE name = 'version'", VERSION + 1)
        ledger.apply(withdraw("b0"))  # Added to only.
        run(database_url, "UPDATE {p}meta SET value = ? WHERE name = 'oldest_writer'", VERSION + 1)
        before = content(database_url)
        connection: Any
        if is_sqlite(database_url):
            connection = sqlite3.connect(path_of(database_url), isolation_level=None)
        else:
            connection = psycopg.connect(database_url)
        with closing(connection):
            if writing == "a joined withdraw" and is_sqlite(database_url):
                connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(SchemaError, match=f"older than version {VERSION + 1} may not.*upgrade it"):
                WRITING[writing](ledger, connection)
            if not is_sqlite(database_url):
                connection.rollback()
        assert content(database_url) == before
        assert ledger.balance("p1") == 9_000


def test_a_breaking_migration_stops_an_awaited_ledger(database_url: str) -> None:
    """And those that are waiting in the same commit."""

    async def check() -> None:
        async with AsyncSqlLedger(database_url) as ledger:
            await ledger.open_account("p1", Decimal(100))
            await ledger.apply(withdraw("b1"))
            run(database_url, "UPDATE {p}meta SET value = ? WHERE name = 'oldest_writer'", VERSION + 1)
            before = content(database_url)
            refused: list[str] = []

            async def one(bet_id: str) -> None:
                try:
                    await ledger.apply(withdraw(bet_id))
                except SchemaError as fenced:
                    refused.append(str(fenced))

            async with anyio.create_task_group() as tasks:
                for number in range(5):
                    tasks.start_soon(one, f"c{number}")
            assert len(refused) == 5
            assert content(database_url) == before

    anyio.run(check)


def test_a_breaking_migration_stops_the_operators_own_table(database_url: str) -> None:
    """Their balance stays as it is."""
    run(database_url, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    run(database_url, "INSERT INTO players VALUES ('p1', 10000)")
    accounts = TableAccounts(table="players", key="id", balance="balance")
    with SqlLedger(database_url, accounts=accounts) as ledger:
        ledger.apply(withdraw("b1"))
        run(database_url, "UPDATE {p}meta SET value = ? WHERE name = 'oldest_writer'", VERSION + 1)
        with pytest.raises(SchemaError, match="may not write any more"):
            ledger.apply(withdraw("b2"))
    assert rows(database_url, "SELECT balance FROM players") == [(9_500,)]


# --- rights and locks -------------------------------------------------------------------------------------------------


def test_a_missing_grant_is_told(postgres_url: str) -> None:
    """Tables that a migration added are nobody's but their owner's: the line that grants them is in the error."""
    old_tables(postgres_url)
    role = "clerk_" + postgres_url.partition("///")[2].partition("?")[0]
    run(postgres_url, f"CREATE ROLE {role} LOGIN")
    run(postgres_url, f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}")
    url = postgres_url.replace("user=postgres", f"user={role}")
    try:
        SqlLedger(postgres_url).close()
        with pytest.raises(SchemaError, match="Let their owner run: GRANT") as refused:
            SqlLedger(url, migrate=False)
        run(postgres_url, str(refused.value).partition("run: ")[2])
        with SqlLedger(url, migrate=False) as ledger:
            assert ledger.apply(withdraw("b1")).applied
    finally:
        run(postgres_url, f"DROP OWNED BY {role}")
        run(postgres_url, f"DROP ROLE {role}")


@pytest.fixture
def clerk(postgres_url: str) -> Iterator[str]:
    """A role that can log in, and has no rights."""
    role = "Clerk of " + postgres_url.partition("///")[2].partition("?")[0]
    run(postgres_url, f'CREATE ROLE "{role}" LOGIN')
    yield role
    run(postgres_url, f'DROP OWNED BY "{role}"')
    run(postgres_url, f'DROP ROLE "{role}"')


@pytest.mark.parametrize("schema", ["public", "shop"])
@pytest.mark.drawn(1, schema=("shop",))
def test_granted_rights_are_enough_for_all_but_migrating(postgres_url: str, clerk: str, schema: str) -> None:
    """What `ledger schema --sql --grants ROLE` prints; and without it nothing."""
    path = f"{postgres_url}&options=-csearch_path%3D{schema}"
    url = path.replace("user=postgres", f"user={quote(clerk)}")
    run(postgres_url, f"CREATE SCHEMA IF NOT EXISTS {schema}")
    with psycopg.connect(path, autocommit=True) as owner:
        owner.execute(schema_sql("postgres", P).encode())
        with pytest.raises((SchemaError, LedgerUnavailableError)):
            SqlLedger(url, migrate=False)
        owner.execute(schema_sql("postgres", P, after=VERSION, role=clerk).encode())
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    with SqlLedger(url, migrate=False) as ledger:
        ledger.open_account("p1", Decimal(100))
        assert ledger.apply(withdraw("b1")).applied
        assert ledger.apply(deposit("b1")).applied
        ledger.keep_anomaly("deposit", "unreadable", b"[")
        assert ledger.verify(full=True).sound
        ledger.prune(90 * DAY_MILLIS)
        ledger.maintain()
        ledger.prune(90 * DAY_MILLIS, now_millis=int(time.time() * 1000) + 100 * DAY_MILLIS)
        assert write_with(ledger, lambda _: make_day(P, day)) in ("made", "there")
        assert write_with(ledger, lambda _: fold_day(P, day)).reason == "not 90 days over"
        assert write_with(ledger, lambda _: drop_day(P, "2020-01-01")) == "missing"
        assert ledger.verify(full=True).sound
    with psycopg.connect(url) as clerks, pytest.raises(psycopg.errors.InsufficientPrivilege):
        clerks.execute(f"DROP TABLE {P}slices")
    with psycopg.connect(url) as clerks, pytest.raises(psycopg.errors.InsufficientPrivilege):
        clerks.execute(f"DELETE FROM {P}calls")


def test_a_migration_from_another_search_path(postgres_url: str) -> None:
    """What it adds is beside the tables that are there, and not in the first schema of the path."""
    old_tables(postgres_url)
    run(postgres_url, "CREATE SCHEMA first")
    with SqlLedger(f"{postgres_url}&options=-csearch_path%3Dfirst,public") as ledger:
        assert ledger.apply(withdraw("b1")).applied
    assert rows(postgres_url, "SELECT tablename FROM pg_tables WHERE schemaname = 'first'") == []
    with SqlLedger(postgres_url, migrate=False) as ledger:
        assert ledger.apply(deposit("b1")).applied


def test_a_migration_that_cannot_have_its_locks(postgres_url: str) -> None:
    """It gives up within its patience and leaves version 1; afterwards it is done."""
    old_tables(postgres_url)
    with psycopg.connect(postgres_url) as somebody:
        somebody.execute("LOCK TABLE game_operator_meta IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(LedgerUnavailableError, match=r"(lock|statement) timeout"):
            SqlLedger(postgres_url, patience_seconds=0.1)
        somebody.rollback()
    assert rows(postgres_url, "SELECT value FROM {p}meta WHERE name = 'version'") == [(1,)]
    SqlLedger(postgres_url).close()
    assert rows(postgres_url, "SELECT value FROM {p}meta WHERE name = 'version'") == [(VERSION,)]


def test_a_migration_takes_the_locks_of_calls_first(postgres_url: str) -> None:
    """While a call is under way it changes nothing: it would hold some locks of calls while it waits for others."""
    old_tables(postgres_url)
    with psycopg.connect(postgres_url) as call, psycopg.connect(postgres_url) as looker:
        call.execute(f"UPDATE {P}accounts SET at_millis = at_millis WHERE account = 'p1'")
        with pytest.raises(LedgerUnavailableError, match=r"(lock|statement) timeout"):
            SqlLedger(postgres_url, patience_seconds=0.1)
        looker.execute(f"LOCK TABLE {P}postings, {P}calls, {P}bets IN ROW EXCLUSIVE MODE NOWAIT")
        call.rollback()
    SqlLedger(postgres_url).close()
    assert f"LOCK TABLE {P}accounts" in schema_sql("postgres", P, after=1)
    assert "LOCK TABLE" not in schema_sql("postgres", P).partition("CREATE TABLE")[0]


def test_a_program_that_connects_again_goes_on(sqlite_url: str) -> None:
    """After a fork or a restored file, on tables that a newer program has added to; not once it is shut out."""
    with SqlLedger(sqlite_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        run(sqlite_url, "UPDATE {p}meta SET value = ? WHERE name = 'version'", VERSION + 1)
        ledger._store._discard()
        assert ledger.apply(withdraw("b1")).applied
        run(sqlite_url, "UPDATE {p}meta SET value = ? WHERE name = 'oldest_writer'", VERSION + 1)
        ledger._store._discard()
        with pytest.raises(SchemaError, match="may not write any more"):
            ledger.apply(withdraw("b2"))
    with pytest.raises(SchemaError, match="upgrade this one"):
        SqlLedger(sqlite_url)


#: An account that was opened with 7.00 and played long ago: what it came to is carried by a posting.
FOLDED_BY_VERSION_3 = (
    "INSERT INTO {p}accounts VALUES ('p1', 700, 1000)",
    (
        "INSERT INTO {p}calls (source, operation, tx_id, player_id, account, action, amount_cents, at_millis) "
        "VALUES ('', 'open', 'p1', 'p1', 'p1', 'OPEN', 700, 1000)"
    ),
    (
        "INSERT INTO {p}postings (id, to_account, amount_cents, source, operation, tx_id, at_millis) "
        "VALUES (5, 'p1', 700, '', 'carry', 'p1', 1000)"
    ),
    "INSERT INTO {p}meta VALUES ('pruned_before', 2000)",
)


def test_what_version_3_has_folded_is_carried(database_url: str) -> None:
    """Its carrying postings become rows of a table, and are in checkpoints too; no time seems to go back."""
    tables_of_version_3(database_url)
    for statement in FOLDED_BY_VERSION_3:
        run(database_url, statement)
    with SqlLedger(database_url) as ledger:
        assert ledger.verify().sound
        for number in range(3):
            assert ledger.apply(withdraw(f"b{number}", amount_cents=1)).applied
            assert ledger.maintain().findings == ()
            assert ledger.verify().findings == ()
            assert ledger.verify(full=True).findings == ()
        assert rows(database_url, "SELECT account, cents FROM {p}carried") == [("p1", 700)]


@pytest.mark.parametrize(
    ("made", "named", "dropped"),
    [
        ("CREATE VIEW daily AS SELECT sum(amount_cents) FROM {p}postings", "the view daily", "DROP VIEW daily"),
        (
            "CREATE PUBLICATION replica FOR TABLE {p}calls, {p}postings",
            "the publication replica",
            "ALTER PUBLICATION replica DROP TABLE {p}postings",
        ),
        (
            "CREATE TABLE notes (posting bigint REFERENCES {p}postings (id))",
            "the foreign key notes_posting_fkey",
            "DROP TABLE notes",
        ),
        (
            "CREATE TRIGGER outbox BEFORE UPDATE ON {p}postings EXECUTE FUNCTION {p}refuse_change()",
            "the trigger outbox",
            "DROP TRIGGER outbox ON {p}postings",
        ),
        (
            "CREATE RULE quiet AS ON UPDATE TO {p}postings DO INSTEAD NOTHING",
            "the rule quiet",
            "DROP RULE quiet ON {p}postings",
        ),
        (
            "CREATE POLICY own ON {p}postings FOR SELECT USING (amount_cents > 0)",
            "the policy own",
            "DROP POLICY own ON {p}postings",
        ),
    ],
    ids=["view", "publication", "foreign key", "trigger", "rule", "policy"],
)
def test_what_refers_to_postings_is_not_left_behind(postgres_url: str, made: str, named: str, dropped: str) -> None:
    """It would go on with the old part of the table alone: a standby by logical replication would lack postings."""
    tables_of_version_3(postgres_url)
    run(postgres_url, made)
    with pytest.raises(SchemaError, match=f"replaces .* refer to it: {named}\\. Drop them"), SqlLedger(postgres_url):
        pass
    run(postgres_url, dropped)
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("p1", Decimal(1))
        assert ledger.verify().sound
