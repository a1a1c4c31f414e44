"""`ledger.doctor()`: what could lose or double money is found where it is wrong, and not where it is right."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest

from game_operator.errors import ConfigurationError, LedgerUnavailableError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, sqlite
from game_operator.ledger.doctor import place_checks
from game_operator.ledger.doctor.examination import doctor_report, doctor_script
from game_operator.ledger.engine.tables import VERSION
from game_operator.ledger.staff.queries import survey
from tests.support.books import execute
from tests.support.calls import deposit, withdraw
from tests.support.ledgers import funded
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import DEFAULT_PREFIX, damage, is_sqlite, path_in, rows
from tests.support.raw_sql import run as run_sql

DAY = 86_400_000


def now() -> int:
    """Return the time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


NOW = now()


def found(url: str, name: str) -> list[tuple[str, str]]:
    """Return the verdicts and texts of one check; each that is not fine says why it matters and what to do."""
    checks = survey(url, partial(doctor_script, url, DEFAULT_PREFIX, only=name)).checks
    assert all(bool(check.why) == bool(check.todo) == (check.verdict != "fine") for check in checks)
    return [(check.verdict, check.found) for check in checks if check.name == name]


def verdicts(url: str, name: str) -> set[str]:
    return {verdict for verdict, _ in found(url, name)}


def awaited(url: str, **settings: float) -> None:
    """Open a ledger of asyncio, by its first call."""
    asyncio.run(AsyncSqlLedger(url, **settings).balance("p1"))  # type: ignore[arg-type]  # Seconds of patience.


def with_a_bet(url: str) -> str:
    with funded(url, 100) as ledger:
        ledger.apply(withdraw("b1"))
    return url


@pytest.fixture
def served(database_url: str) -> str:
    """The address of a ledger that has served one bet, on each kind of database."""
    return with_a_bet(database_url)


@pytest.fixture
def on_postgres(postgres_url: str) -> str:
    return with_a_bet(postgres_url)


@pytest.fixture
def on_sqlite(tmp_path: Path) -> str:
    folder = tmp_path / "private"
    folder.mkdir(0o700)
    return with_a_bet(f"sqlite:///{folder / 'wallet.db'}")


# --- Both databases ---------------------------------------------------------------------------------------------------


def test_a_ledger_that_serves(served: str) -> None:
    """The method looks while calls go on, and writes nothing."""
    before = rows(served, "SELECT name, value FROM {p}meta ORDER BY 1")
    with SqlLedger(served) as ledger:
        report = ledger.doctor()
        assert ledger.apply(deposit("b1")).applied
    expected = {"fsync", "full_page_writes"} if not is_sqlite(served) else set()
    assert {check.name for check in report.findings} - {"disk"} == expected
    assert report.sound == (not report.findings)
    assert rows(served, "SELECT name, value FROM {p}meta ORDER BY 1") == before


#: What is done to the rows, the check that finds it, and its verdict then; the last ones make tables useless.
ROWS = [
    ("INSERT INTO {p}sources VALUES ('x', 'added', 1, false)", "sources", "advice"),
    (f"UPDATE {{p}}accounts SET at_millis = {NOW + DAY}", "times", "finding"),
    (f"UPDATE {{p}}postings SET at_millis = {NOW + DAY}", "clock", "finding"),
    (f"UPDATE {{p}}bets SET opened_at_millis = {NOW - 8 * DAY}", "open bets", "advice"),
    ("UPDATE {p}meta SET value = 1 WHERE name = 'version'", "tables", "finding"),
    (f"UPDATE {{p}}meta SET value = {VERSION} WHERE name = 'version'", "tables", "fine"),
    ("UPDATE {p}meta SET value = 99 WHERE name = 'oldest_writer'", "tables", "finding"),
    ("UPDATE {p}meta SET value = 99 WHERE name = 'version'", "tables", "finding"),
]


def test_rows_that_are_wrong(served: str) -> None:
    """Fine before and found after."""
    for name in {name for _, name, _ in ROWS}:
        assert verdicts(served, name) == {"fine"}, name
    for statement, name, verdict in ROWS:
        damage(served, [statement])
        assert verdicts(served, name) == {verdict}, statement


ANOMALY = (
    "INSERT INTO {{p}}anomalies (source, kind, operation, body, digest, first_at_millis, last_at_millis, seen) "
    "VALUES ('', '{}', 'deposit', {}, {}, {}, {}, 1)"
)


def test_anomalies_by_age(served: str) -> None:
    """After a week somebody waits for money; damaged books cannot wait. A resolved one is fine."""
    assert verdicts(served, "anomalies") == {"fine"}
    for number, (kind, age, expected) in enumerate(
        [
            ("early_deposit", 0, {"advice"}),
            ("early_deposit", 7 * DAY - 60_000, {"advice"}),
            ("early_deposit", 7 * DAY + 60_000, {"finding"}),
            ("damaged_books", 0, {"advice", "finding"}),
        ]
    ):
        body = f"x'0{number}'" if is_sqlite(served) else f"'{number}'"
        run_sql(served, ANOMALY.format(kind, body, body, now() - age, now()))
        assert verdicts(served, "anomalies") == expected, (kind, age)
        run_sql(served, "UPDATE {p}anomalies SET resolved_at_millis = 1")
        assert verdicts(served, "anomalies") == {"fine"}


NIGHTS = [(None, "advice"), (2 * DAY - 60_000, "fine"), (2 * DAY, "advice"), (30 * DAY, "finding")]


def test_the_age_of_what_is_done_each_night(served: str) -> None:
    """Never is an advice; books that nobody has verified for a month are a finding."""
    for name in ("verified", "maintained"):
        for age, expected in NIGHTS:
            run_sql(served, f"DELETE FROM {{p}}meta WHERE name = '{name}_millis'")
            if age is not None:
                run_sql(served, f"INSERT INTO {{p}}meta VALUES ('{name}_millis', {now() - age})")
            wanted = expected if name == "verified" else expected.replace("finding", "advice")
            assert verdicts(served, name) == {wanted}, (name, age)


def test_triggers_that_are_gone(served: str) -> None:
    """They keep postings as they are."""
    assert verdicts(served, "guards") == {"fine"}
    table = "" if is_sqlite(served) else " ON {p}postings"
    run_sql(served, f"DROP TRIGGER {{p}}postings_stay{table}")
    text = "these triggers are missing or switched off: game_operator_postings_stay"
    if not is_sqlite(served):  # A partition's goes with it.
        text += ", game_operator_postings_stay on game_operator_postings_default"
    assert found(served, "guards") == [("finding", text)]


# --- SQLite -----------------------------------------------------------------------------------------------------------


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - {root} /dev/vda1 rw
40 22 0:41 / {folder} rw,relatime - {kind} srv:/export rw
41 22 0:42 / {folder}-too rw - nfs4 srv:/export rw
"""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *((kind, "finding") for kind in ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph", "glusterfs")),
        *((kind, "advice") for kind in ("9p", "virtiofs", "fuse.mergerfs", "tmpfs", "overlay")),
        *((kind, "fine") for kind in ("ext4", "xfs", "btrfs", "zfs")),
    ],
)
def test_file_systems(on_sqlite: str, kind: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest mount point above the file counts, and on a network file system no ledger opens."""
    folder = Path(path_in(on_sqlite)).parent
    monkeypatch.setattr(sqlite, "mount_table", lambda: MOUNTS.format(root="ext4", folder=folder, kind=kind))
    ((verdict, text),) = found(on_sqlite, "file system")
    assert (verdict, kind in text, str(folder) in text) == (expected, True, True)
    refused = pytest.raises(ConfigurationError, match="network file system") if expected == "finding" else None
    with refused or contextlib.nullcontext():
        SqlLedger(on_sqlite).close()


def test_a_network_file_system_is_refused_before_a_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under asyncio, too; and by the file's real place, with blanks in its name. A database in memory is nowhere."""
    (tmp_path / "a disk").mkdir()
    (tmp_path / "link").symlink_to("a disk")
    escaped = f"{tmp_path}/a\\040disk"
    monkeypatch.setattr(sqlite, "mount_table", lambda: MOUNTS.format(root="ext4", folder=escaped, kind="nfs4"))
    for opens in (SqlLedger, awaited):
        with pytest.raises(ConfigurationError, match=r"nfs4, mounted at .*a disk.* local disk, or use PostgreSQL"):
            opens(f"sqlite:///{tmp_path / 'link' / 'wallet.db'}")
    assert list((tmp_path / "a disk").iterdir()) == []
    monkeypatch.setattr(sqlite, "mount_table", lambda: MOUNTS.format(root="nfs4", folder="/x", kind="ext4"))
    SqlLedger("sqlite:///:memory:").close()


def test_another_journal_mode(on_sqlite: str) -> None:
    """Somebody has turned it back; opening turns it on again."""
    assert found(on_sqlite, "journal mode") == [("fine", "WAL, synchronous FULL")]
    with contextlib.closing(sqlite3.connect(path_in(on_sqlite))) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    assert found(on_sqlite, "journal mode") == [("advice", "the file is in DELETE mode")]


def test_a_file_that_is_damaged(on_sqlite: str) -> None:
    """A file that is no database cannot be read."""
    Path(path_in(on_sqlite)).write_bytes(b"no database at all " * 400)
    assert [check.name for check in doctor_report(on_sqlite, DEFAULT_PREFIX).findings] == ["can be read"]


# --- PostgreSQL -------------------------------------------------------------------------------------------------------

#: What is done to a database ``{d}``, the check that finds it, its verdict, and a part of what it says.
PLACES = [
    ("ALTER DATABASE {d} SET default_transaction_read_only = on", "server", "finding", "read-only"),
    (
        "ALTER DATABASE {d} SET synchronous_commit = local",
        "synchronous_commit",
        "advice",
        "local for all roles in this",
    ),
    ("ALTER DATABASE {d} SET default_transaction_isolation = serializable", "isolation", "advice", "serializable"),
    ("GRANT UPDATE ON game_operator_bets TO PUBLIC", "rights", "finding", "PUBLIC) has UPDATE on game_operator_bets"),
    ("GRANT SELECT ON game_operator_calls TO PUBLIC", "rights", "advice", "may read game_operator_calls"),
    ("GRANT CREATE ON SCHEMA public TO PUBLIC", "rights", "advice", "in the schema public"),
    # As REINDEX CONCURRENTLY leaves one that failed.
    (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('{p}calls_pkey')",
        "indexes",
        "finding",
        "these unique indexes are invalid: game_operator_calls_pkey",
    ),
    ("ALTER TABLE game_operator_postings DISABLE TRIGGER ALL", "guards", "finding", "postings_stay, game_operator_pos"),
]


def test_settings_and_rights_that_are_wrong(on_postgres: str) -> None:
    """Found by one statement, and not without it."""
    database = rows(on_postgres, "SELECT current_database()")[0][0]
    for statement, name, verdict, part in reversed(PLACES):  # The first one, of them, stops all changes.
        assert part not in str(found(on_postgres, name))
        run_sql(on_postgres, statement.replace("{d}", database))
        said = found(on_postgres, name)
        assert [each for each, text in said if part in text] == [verdict], (statement, said)


ROLES = [
    ("SELECT", ""),
    ("INSERT, UPDATE", ""),
    ("TRUNCATE", "may TRUNCATE accounts, TRUNCATE bets, TRUNCATE calls, TRUNCATE postings, which no wallet needs"),
    ("DELETE", "may DELETE accounts, DELETE bets, DELETE calls, TRUNCATE accounts"),
]


def test_roles_with_too_many_rights(on_postgres: str, clerk: str) -> None:
    """A wallet inserts and updates. Who does not serve must not update, and nobody deletes but maintain."""
    run_sql(on_postgres, f'GRANT UPDATE ON ALL TABLES IN SCHEMA public TO "{clerk}"')
    assert "and cannot be a wallet" in found(on_postgres, "rights")[0][1]
    run_sql(on_postgres, f'REVOKE UPDATE ON ALL TABLES IN SCHEMA public FROM "{clerk}"')
    for grant, expected in ROLES:
        run_sql(on_postgres, f'GRANT {grant} ON ALL TABLES IN SCHEMA public TO "{clerk}"')
        findings = [text for verdict, text in found(on_postgres, "rights") if verdict == "finding"]
        assert [(clerk in text, expected in text) for text in findings] == ([(True, True)] if expected else []), grant


def test_idle_transactions_that_hold_our_locks(on_postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whom, and since when; those that hold none are no concern of ours."""
    with psycopg.connect(on_postgres) as other:
        other.execute("SELECT 1")
        monkeypatch.setattr(place_checks, "_MOST_MINUTES", 0)
        assert verdicts(on_postgres, "transactions") == {"fine"}
        other.execute("SELECT 1 FROM game_operator_bets")
        ((verdict, text),) = found(on_postgres, "transactions")
        assert (verdict, f"process {other.info.backend_pid} of postgres is idle in" in text) == ("finding", True)
        monkeypatch.setattr(place_checks, "_MOST_MINUTES", 5)
        assert verdicts(on_postgres, "transactions") == {"fine"}


@pytest.mark.outside
def test_poolers(postgres: PostgresServer, on_postgres: str) -> None:
    """In each mode."""
    assert verdicts(on_postgres, "pooler") == {"fine"}
    for mode in ("transaction", "session"):
        with PgBouncer(postgres, pool_mode=mode, pool_size=3) as bouncer:
            assert verdicts(bouncer.url(on_postgres), "pooler") == {"advice"}


@pytest.fixture(scope="module")
def strict() -> Iterator[PostgresServer]:
    """A server whose commits reach the disk; with a ledger in ``postgres``."""
    settings = {"max_prepared_transactions": "2"}
    with PostgresServer(durable=True, settings=settings) as server:
        with_a_bet(server.url)
        yield server


@pytest.mark.outside
def test_a_server_that_keeps_what_it_acknowledges(strict: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings are fine, and a prepared transaction was forgotten."""
    names = ("fsync", "full_page_writes", "synchronous_commit")
    assert [verdicts(strict.url, name) for name in names] == [{"fine"}] * 3
    assert verdicts(strict.url, "transactions") == {"fine"}
    execute(strict.url, "BEGIN; CREATE TABLE half (); PREPARE TRANSACTION 'other'")
    lock = "LOCK TABLE game_operator_bets IN ROW EXCLUSIVE MODE"
    execute(strict.url, f"BEGIN; {lock}; PREPARE TRANSACTION 'forgotten'")
    monkeypatch.setattr(place_checks, "_MOST_MINUTES", 0)
    ((verdict, text),) = found(strict.url, "transactions")
    assert (verdict, "the prepared transaction 'forgotten'" in text) == ("finding", True)
    for name in ("forgotten", "other"):
        execute(strict.url, f"ROLLBACK PREPARED '{name}'")
    assert verdicts(strict.url, "standbys") == {"advice"}


@pytest.mark.outside
def test_a_standby_that_is_awaited(strict: PostgresServer) -> None:
    """It is not connected, so every call waits."""
    execute(strict.url, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 2 (a, b, c)'")
    try:
        run_sql(strict.url, "SELECT pg_reload_conf()")
        until = time.monotonic() + 10
        while verdicts(strict.url, "standbys") == {"advice"}:
            assert time.monotonic() < until
        ((verdict, text),) = found(strict.url, "standbys")
        assert (verdict, "which needs 2, and 0 confirm" in text) == ("finding", True)
    finally:
        execute(strict.url, "ALTER SYSTEM RESET synchronous_standby_names")
        run_sql(strict.url, "SELECT pg_reload_conf()")


# --- At opening -------------------------------------------------------------------------------------------------------


def test_a_user_whose_transactions_are_read_only(on_postgres: str) -> None:
    """What serves calls is refused when it starts, and what only reads is not."""
    database = rows(on_postgres, "SELECT current_database()")[0][0]
    run_sql(on_postgres, f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    for opens in (SqlLedger, awaited):
        with pytest.raises(LedgerUnavailableError, match="transactions of this user are read-only"):
            opens(on_postgres, patience_seconds=0.1)
    with SqlLedger(on_postgres, migrate=False) as ledger:
        assert ledger.balance("p1") == 9_500


@pytest.mark.outside
def test_a_standby(strict: PostgresServer) -> None:
    """It is refused until it is promoted; what only reads, such as a verification, may use it."""
    strict.stop()
    (strict.folder / "data" / "standby.signal").touch()
    strict.start()
    assert found(strict.url, "server") == [("finding", "this server is a standby")]
    assert verdicts(strict.url, "timeline") == {"fine"}
    with pytest.raises(LedgerUnavailableError, match="the server is a standby, which takes no calls"):
        SqlLedger(strict.url, patience_seconds=0.1)
    with SqlLedger(strict.url, migrate=False) as ledger:
        assert ledger.verify().sound
    with ThreadPoolExecutor(1) as pool:  # A process that starts in the middle of a failover waits for its end.
        starting = pool.submit(SqlLedger, strict.url, patience_seconds=30)
        run_sql(strict.url, "SELECT pg_promote()")
        with starting.result() as ledger:
            assert ledger.apply(deposit("b1")).applied
