"""
Large tables of version 3 are migrated on PostgreSQL while calls go on.

What is built beside calls is found by the migration's transaction; what is interrupted is taken up by the next attempt.
Here all tables are large, unless a test says otherwise.
"""

import logging
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import psycopg
import pytest

from game_operator.errors import LedgerUnavailableError, SchemaError
from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.ledger.doctor.upgrade import upgrade_examination
from game_operator.ledger.engine import online_migration
from game_operator.ledger.engine.online_migration import indexes_built, missing_indexes, postings_bounded
from game_operator.ledger.engine.script import Execute, Script, drive
from game_operator.ledger.engine.tables import VERSION
from game_operator.ledger.sql import migrated_back, read_with
from game_operator.ledger.staff.migration_plan import migration_plan, online_statements
from tests.support.calls import deposit
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import is_sqlite, rows, run
from tests.support.seeds import random_of
from tests.support.version_1 import old_withdraw
from tests.support.version_3 import bets_of_version_3

pytestmark = [pytest.mark.outside]

Figures = Callable[[str, object], None]
P = "game_operator_"
DAY_MILLIS = 86_400_000
UNUSABLE = (
    "SELECT CAST(CAST(indexrelid AS regclass) AS text) FROM pg_index "
    "WHERE NOT indisvalid AND indrelid = to_regclass('{p}bets')"
)
BOUND = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = '{p}postings_before_ends'"
#: The file of each index that the migration makes on tables of version 3.
FILES = f"""
    SELECT relfilenode FROM pg_class
    WHERE relname ~ '^{P}(calls|bets|anomalies|findings|postings_before)_.*(?<!opened)$'
    ORDER BY 1
"""


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test needs 20,000 bets."""
    monkeypatch.setattr(online_migration, "LARGE_BYTES", 0)


@pytest.fixture
def old_url(postgres_url: str) -> str:
    """A ledger of version 3 with two open bets."""
    bets_of_version_3(postgres_url, "b1", "b2")
    return postgres_url


def prepare(url: str) -> None:
    """Do all that precedes the migration's transaction, and leave it at that."""
    for script in (indexes_built, postings_bounded):
        # The lock of the connection before is free a moment after that is closed.
        while not run_alone(url, script):
            time.sleep(0.01)


def run_alone(url: str, script: Callable[[str], Script[bool]]) -> bool:
    """Return whether *script* has run: it does not while another has its lock."""
    with psycopg.connect(url, autocommit=True) as connection:
        return drive(script(P), partial(_perform, connection))


def _perform(connection: psycopg.Connection, step: Execute) -> list[tuple[Any, ...]]:
    cursor = connection.execute(step.sql.replace("?", "%s").encode(), step.parameters or None)
    return cursor.fetchall() if cursor.description else []


def version_of(url: str) -> int:
    """Return the version of the tables."""
    return int(rows(url, "SELECT value FROM {p}meta WHERE name = 'version'")[0][0])


def assert_sound(url: str, *open_bets: str) -> None:
    """Assert that the tables have this version and sound books, and that nothing is left of a preparation."""
    with SqlLedger(url) as ledger:
        for bet_id in open_bets:
            assert ledger.apply(deposit(bet_id)).applied
        assert ledger.verify(full=True).findings == ()
        assert is_sqlite(url) or read_with(ledger, lambda _: missing_indexes(P)) == []
    assert version_of(url) == VERSION
    if is_sqlite(url):
        assert rows(url, "PRAGMA integrity_check") == [("ok",)]
    else:
        assert rows(url, UNUSABLE) == rows(url, BOUND) == []


def test_the_transaction_finds_what_is_built(old_url: str) -> None:
    """All but the switch of the postings is done before, while old programs serve; then their prune is refused."""
    prepare(old_url)
    assert version_of(old_url) == VERSION - 1
    old_withdraw(old_url, "b3")
    files = rows(old_url, FILES)
    assert_sound(old_url, "b1", "b3")
    assert set(rows(old_url, FILES)) >= set(files)
    ((since,),) = rows(old_url, "SELECT value FROM {p}meta WHERE name = 'days_since'")
    assert since == time.time() * 1000 // DAY_MILLIS + 30
    held = rows(old_url, "SELECT CAST(tableoid AS regclass)::text, count(*) FROM {p}postings GROUP BY 1")
    assert held == [(f"{P}postings_before", 6)]
    with SqlLedger(old_url) as ledger:
        assert ledger.maintain().findings == ()
        assert ledger.prune(90 * DAY_MILLIS, now_millis=int(time.time() * 1000) + 29 * DAY_MILLIS)
    old_withdraw(old_url, "b4")
    run(old_url, "UPDATE {p}meta SET value = 1 WHERE name = 'pruning'")
    with pytest.raises(psycopg.errors.RaiseException, match="by programs older than version 4"):
        run(old_url, "DELETE FROM {p}postings")


def test_opening_prepares_by_itself(old_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """And says so, because it takes a minute for a million bets. Nothing of it is needed after the way back."""
    caplog.set_level(logging.WARNING, "game_operator.ledger")
    with SqlLedger(old_url) as ledger:
        assert f"indexes of the tables {P}* while calls go on" in caplog.text
        migrated_back(ledger)
    caplog.clear()
    assert_sound(old_url, "b1")
    assert not caplog.messages


@pytest.mark.torture
def test_opening_prepares_for_asyncio(old_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It awaits what is built."""
    caplog.set_level(logging.WARNING, "game_operator.ledger")

    async def check() -> None:
        async with AsyncSqlLedger(old_url) as ledger:
            assert (await ledger.apply(deposit("b1"))).applied

    anyio.run(check)
    assert "while calls go on" in caplog.text
    assert_sound(old_url, "b2")


@pytest.mark.parametrize(
    ("least_bytes", "pooler"),
    [pytest.param(10**9, False, id="small tables"), pytest.param(0, True, id="behind a pooler")],
)
@pytest.mark.drawn(1)
def test_nothing_is_prepared(
    old_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, least_bytes: int, pooler: bool
) -> None:
    """It would cost small tables more time than it spares; behind a pooler a session is nobody's."""
    caplog.set_level(logging.WARNING, "game_operator.ledger")
    monkeypatch.setattr(online_migration, "LARGE_BYTES", least_bytes)
    SqlLedger(old_url, pooler=pooler).close()
    assert "while calls go on" not in caplog.text
    assert_sound(old_url, "b1")


@pytest.mark.parametrize("least_bytes", [0, 10**9], ids=["large", "small"])
@pytest.mark.drawn(1)
def test_an_unusable_index_is_built_anew(old_url: str, monkeypatch: pytest.MonkeyPatch, least_bytes: int) -> None:
    """What an interrupted build has left has the name of the index, and answers nothing."""
    monkeypatch.setattr(online_migration, "LARGE_BYTES", least_bytes)
    with psycopg.connect(old_url, autocommit=True) as connection, pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(f"CREATE UNIQUE INDEX CONCURRENTLY {P}bets_of_player ON {P}bets (player_id)")
    assert rows(old_url, UNUSABLE) == [(f"{P}bets_of_player",)]
    assert_sound(old_url, "b1")


def test_several_processes_at_once(old_url: str) -> None:
    """One builds, and the others wait for it."""
    with psycopg.connect(old_url, autocommit=True) as builder:
        builder.execute(f"SELECT pg_advisory_lock(hashtext('{P}online'))")
        threads = [threading.Thread(target=lambda: SqlLedger(old_url).close()) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        assert version_of(old_url) == VERSION - 1
        old_withdraw(old_url, "b3")
    for thread in threads:
        thread.join()
    assert version_of(old_url) == VERSION
    assert_sound(old_url, "b1", "b3")


def test_calls_go_on_beside_a_long_reader(old_url: str) -> None:
    """The migration cannot switch the postings then: it gives way to calls, again and again, until it gives up."""
    with psycopg.connect(old_url) as reader:
        reader.execute(f"SELECT count(*) FROM {P}postings")
        failures: list[Exception] = []

        def migrate() -> None:
            try:
                SqlLedger(old_url, patience_seconds=1).close()
            except LedgerUnavailableError as failed:
                failures.append(failed)

        migrating = threading.Thread(target=migrate)
        migrating.start()
        longest, number = 0.0, 0
        while migrating.is_alive():
            began = time.monotonic()
            old_withdraw(old_url, f"c{number}")
            longest, number = max(longest, time.monotonic() - began), number + 1
    assert "lock timeout" in str(failures[0])
    assert number > 1
    assert longest < 1
    assert version_of(old_url) == VERSION - 1
    assert_sound(old_url, "b1")


@pytest.mark.parametrize("table", ["accounts", "clocks", "postings"])
@pytest.mark.drawn(1)
def test_what_is_in_the_far_future_is_not_refused(old_url: str, table: str) -> None:
    """A clock that was wrong: a bound would be in the way of calls, so the postings are read by the migration."""
    ahead = int(time.time() * 1000) + 31 * DAY_MILLIS
    rest = {"accounts": "('p2', 0, ?)", "clocks": "('p2', ?)"}.get(table)
    if rest:
        run(old_url, f"INSERT INTO {{p}}{table} VALUES {rest}", ahead)
    else:
        run(
            old_url,
            "INSERT INTO {p}postings (to_account, amount_cents, source, operation, tx_id, at_millis) "
            "VALUES ('p1', 1, '', 'adjust', 'a', ?)",
            ahead,
        )
    prepare(old_url)
    assert rows(old_url, BOUND) == []
    SqlLedger(old_url).close()
    held = rows(old_url, "SELECT CAST(tableoid AS regclass)::text, count(*) FROM {p}postings GROUP BY 1 ORDER BY 1")
    assert held == [(f"{P}postings_before", 3), (f"{P}postings_default", 1)][: 1 if rest else 2]


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("days", "kept"), [(0, False), (1, False), (2, True)])
def test_a_bound_is_replaced_before_it_refuses_calls(old_url: str, days: int, kept: bool) -> None:
    """Somebody began a migration weeks ago."""
    prepare(old_url)
    ends = int(time.time() * 1000) // DAY_MILLIS + days
    run(old_url, "ALTER TABLE {p}postings DROP CONSTRAINT {p}postings_before_ends")
    run(
        old_url,
        f"ALTER TABLE {{p}}postings ADD CONSTRAINT {{p}}postings_before_ends CHECK (at_millis < {ends * DAY_MILLIS})",
    )
    run(old_url, "UPDATE {p}meta SET value = ? WHERE name = 'days_since'", ends)
    prepare(old_url)
    assert (rows(old_url, "SELECT value FROM {p}meta WHERE name = 'days_since'") == [(ends,)]) is kept
    assert_sound(old_url, "b1")


def test_the_plan_has_two_parts(old_url: str) -> None:
    """And the statements for review are those that are run."""
    plan = migration_plan(old_url, P)
    assert {table.locked for table in plan.beside} == {""}
    steps = {table.table: table.steps for table in plan.beside}
    assert f"add the index {P}bets_of_player" in steps[f"{P}bets"]
    assert steps[f"{P}postings"][1:] == (
        f"add the index {P}postings_before_pkey",
        "check that all are from before the first partition",
    )
    assert "add the index" not in str(plan.tables)
    assert "partition" in str(plan.tables)
    with psycopg.connect(old_url, autocommit=True) as connection:
        for statement in online_statements(old_url, P):
            connection.execute(statement.encode())
    assert online_statements(old_url, P) == []
    assert migration_plan(old_url, P).beside == ()
    assert_sound(old_url, "b1")


def test_a_begun_migration_is_reported(old_url: str) -> None:
    """If nobody completes it, the check refuses all calls after a month."""
    assert "begun" not in {check.name for check in upgrade_examination(old_url, P, None)}
    prepare(old_url)
    begun = {check.name: check for check in upgrade_examination(old_url, P, None)}["begun"]
    last_day = datetime.now(UTC).date() + timedelta(days=29)
    assert (begun.outcome, f"postings after {last_day} will be refused" in begun.found) == ("problem", True)
    run(old_url, begun.todo.partition("begun: ")[2])
    assert_sound(old_url, "b1")
    assert "begun" not in {check.name for check in upgrade_examination(old_url, P, None)}


def test_a_user_who_may_not_prepare(old_url: str) -> None:
    """The error is that of a user who may not migrate."""
    role = "clerk_" + old_url.partition("///")[2].partition("?")[0]
    run(old_url, f"CREATE ROLE {role} LOGIN")
    try:
        run(old_url, f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}")
        with pytest.raises(SchemaError, match="may not look after the tables"):
            SqlLedger(old_url.replace("user=postgres", f"user={quote(role)}"))
    finally:
        run(old_url, f"DROP OWNED BY {role}")
        run(old_url, f"DROP ROLE {role}")


# --- kills ------------------------------------------------------------------------------------------------------------

#: Opens a ledger, and is killed soon after a statement, by its number.
KILLED = """
import os, random, signal, sys, threading
import psycopg
from game_operator.ledger import SqlLedger
from game_operator.ledger.engine import online_migration
online_migration.LARGE_BYTES = 0
left, seconds = int(sys.argv[2]), float(sys.argv[3])
execute = psycopg.Cursor.execute
def counted(*args, **options):
    global left
    left -= 1
    if left == 0:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return execute(*args, **options)
psycopg.Cursor.execute = counted
SqlLedger(sys.argv[1])
"""
#: The same on SQLite.
KILLED_ON_SQLITE = """
import os, signal, sys, threading
from game_operator.ledger import SqlLedger, sqlite
left, seconds = int(sys.argv[2]), float(sys.argv[3])
executed = sqlite._executed
def counted(*args):
    global left
    left -= 1
    if left == 0:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return executed(*args)
sqlite._executed = counted
SqlLedger(sys.argv[1])
"""


@pytest.fixture
def old_files(tmp_path: Path) -> Callable[[], str]:
    """Copies of a file of version 3."""
    first, numbers = tmp_path / "first.db", count()
    bets_of_version_3(f"sqlite:///{first}", "b1", "b2")

    def copy() -> str:
        path = tmp_path / f"{next(numbers)}.db"
        shutil.copy(first, path)
        return f"sqlite:///{path}"

    return copy


@pytest.fixture
def old_databases(postgres: PostgresServer) -> Iterator[Callable[[], str]]:
    """Copies of a ledger of version 3."""
    urls = [postgres.create_database()]
    bets_of_version_3(urls[0], "b1", "b2")

    def copy() -> str:
        urls.append(postgres.create_database(template=urls[0]))
        return urls[-1]

    yield copy
    for url in urls:
        postgres.drop_database(url)


def _killed(old_database: Callable[[], str], *, kills: int, seed: int, program: str = KILLED) -> str:
    """Kill processes that migrate, now and then several on one database, while old programs serve; return figures."""
    random = random_of(seed)
    url, number, died, migrated = old_database(), 0, 0, 0
    while died < kills:
        number += 1
        moment = (str(random.randint(1, 130)), str(random.uniform(0, 0.03)))
        code = subprocess.run([sys.executable, "-c", program, url, *moment], check=False).returncode
        assert code in (0, -signal.SIGKILL), moment
        died += code != 0
        old_withdraw(url, f"c{number}")
        if code == 0 or random.random() < 0.5:
            assert_sound(url, "b1", f"c{number}")
            url, migrated = old_database(), migrated + 1
    assert_sound(url, "b1")
    return f"{died} kills, {migrated + 1} databases migrated"


def test_killed_while_it_migrates(old_databases: Callable[[], str]) -> None:
    """Calls go on, and the next attempt completes the migration."""
    _killed(old_databases, kills=1, seed=1)


def test_killed_while_it_migrates_a_file(old_files: Callable[[], str]) -> None:
    """The same on SQLite, where a migration is one transaction."""
    _killed(old_files, kills=1, seed=3, program=KILLED_ON_SQLITE)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_killed_200_times_while_it_migrates_a_file(old_files: Callable[[], str], record_property: Figures) -> None:
    """The same, at all statements."""
    record_property("figures", _killed(old_files, kills=200, seed=4, program=KILLED_ON_SQLITE))


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_killed_200_times_while_it_migrates(old_databases: Callable[[], str], record_property: Figures) -> None:
    """The same, in all phases."""
    record_property("figures", _killed(old_databases, kills=200, seed=2))
