"""The tables: made, found, refused in words, and never touched without the right to (docs/reference/tables.md)."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import anyio
import psycopg
import pytest

from game_operator.errors import ConfigurationError, LedgerUnavailableError, SchemaError
from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.ledger.books.retention import fold_day, make_day
from game_operator.ledger.engine.address import address_of, shown_address
from game_operator.ledger.engine.tables import FIRST_VERSION, VERSION, schema_sql, table_names
from game_operator.ledger.office import Office
from tests.support.calls import deposit, withdraw
from tests.support.crowds import Processes, meet
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import is_sqlite, path_in, rows, run
from tests.support.retention import drop

pytestmark = pytest.mark.bare

P = "game_operator_"
DAY_MILLIS = 86_400_000

RUN_SCRIPT = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"


def tables(url: str) -> list[str]:
    """Return the names of all tables."""
    if is_sqlite(url):
        found = rows(url, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    else:
        found = rows(
            url,
            "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition "
            "AND relnamespace = 'public'::regnamespace ORDER BY relname",
        )
    return [name for (name,) in found]


def test_made_on_opening_and_found_again(database_url: str) -> None:
    """What is in them outlives the program that made them."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(1))
    assert tables(database_url) == table_names("sqlite" if is_sqlite(database_url) else "postgres", P)
    for migrate in (True, False):
        with SqlLedger(database_url, migrate=migrate) as ledger:
            assert ledger.balance("p1") == 100


@pytest.mark.outside
def test_not_made_without_leave(database_url: str) -> None:
    """The statements are in the error, and make the very tables."""
    with pytest.raises(SchemaError) as refused:
        SqlLedger(database_url, migrate=False, table_prefix="till_")
    assert tables(database_url) == []
    statements, version = refused.value.statements, refused.value.version
    assert (str(refused.value).partition("\n\n")[2], version) == (statements, 0)
    assert "CREATE TABLE till_postings" in statements
    if is_sqlite(database_url):
        subprocess.run(
            [sys.executable, "-c", RUN_SCRIPT, path_in(database_url), statements],
            check=True,
        )
    else:
        run(database_url, statements)
    with SqlLedger(database_url, migrate=False, table_prefix="till_") as ledger:
        ledger.open_account("p1", Decimal(1))
        assert ledger.verify().sound


@pytest.mark.parametrize("migrate", [True, False])
@pytest.mark.parametrize("version", [1, 4, FIRST_VERSION - 1])
def test_tables_of_an_unreleased_version_are_refused(database_url: str, version: int, migrate: bool) -> None:
    """They are not migrated, and nothing in them changes."""
    with SqlLedger(database_url):
        pass
    run(database_url, "UPDATE {p}meta SET value = ? WHERE name = 'version'", version)
    before = rows(database_url, "SELECT * FROM {p}meta ORDER BY 1")
    with pytest.raises(SchemaError, match=f"ever released, but {version},") as refused:
        SqlLedger(database_url, migrate=migrate)
    assert refused.value.statements == ""
    assert rows(database_url, "SELECT * FROM {p}meta ORDER BY 1") == before


@pytest.mark.parametrize("migrate", [True, False])
@pytest.mark.parametrize(
    "statement", ["DELETE FROM {p}meta WHERE name = 'version'", "UPDATE {p}meta SET value = 0 WHERE name = 'version'"]
)
def test_tables_that_do_not_say_their_version_are_left_alone(database_url: str, statement: str, migrate: bool) -> None:
    """They may hold money: nobody is told to make them anew, neither who opens them nor who joins a call."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(1))
        run(database_url, statement)
        told = "ever released, but 0,.*keep a copy"
        with pytest.raises(SchemaError, match=told):
            SqlLedger(database_url, migrate=migrate)
        joined = sqlite3.connect(path_in(database_url)) if is_sqlite(database_url) else psycopg.connect(database_url)
        with closing(joined) as connection:
            connection.execute("BEGIN")
            with pytest.raises(SchemaError, match=told):
                ledger.apply(withdraw("b1"), connection=connection)
    assert rows(database_url, "SELECT balance_cents FROM {p}accounts") == [(100,)]


def open_there(url: str, player_id: str) -> None:
    """Open a ledger as soon as the other processes do."""
    meet()
    with SqlLedger(url, patience_seconds=30) as ledger:
        ledger.open_account(player_id, Decimal(1))


@pytest.mark.outside
def test_processes_that_open_at_once(database_url: str, crowd: Processes) -> None:
    """One makes the tables, the others find them."""
    for opened in [crowd.submit(open_there, database_url, f"p{number}") for number in range(crowd.count)]:
        opened.result()
    with SqlLedger(database_url, migrate=False) as ledger:
        assert (ledger.verify().accounts, ledger.verify().findings) == (4, ())


@pytest.mark.parametrize(
    "prefix", ["", "1st_", "Game_", "a-b", "wällt_", 'x" (y text); DROP TABLE z; --', "a\n", "a" * 32]
)
def test_prefixes_that_are_refused(prefix: str) -> None:
    """They become part of statements, so only plain names are taken."""
    for kind in (SqlLedger, AsyncSqlLedger):
        with pytest.raises(ConfigurationError) as refused:
            kind("sqlite:///:memory:", table_prefix=prefix)
        assert refused.value.setting == "table_prefix"


def test_a_database_in_another_encoding(postgres: PostgresServer) -> None:
    """Ids can hold any text, and LATIN1 cannot."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    url = postgres.url.replace("/postgres?", "/latin?")
    try:
        with pytest.raises(SchemaError, match="has the encoding LATIN1, and the ledger needs UTF8"):
            SqlLedger(url)
    finally:
        postgres.drop_database(url)


@pytest.mark.outside
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
        assert drop(ledger) == 3
        assert ledger.maintain(drop_after=90 * DAY_MILLIS).finished
        assert Office(ledger).write(lambda _: make_day(P, day)) in ("made", "there")
        assert Office(ledger).write(lambda _: fold_day(P, int(time.time() // 86_400))).reason == "not 90 days over"
        assert ledger.verify(full=True).sound
    with psycopg.connect(url) as clerks, pytest.raises(psycopg.errors.InsufficientPrivilege):
        clerks.execute(f"DROP TABLE {P}slices")
    with psycopg.connect(url) as clerks, pytest.raises(psycopg.errors.InsufficientPrivilege):
        clerks.execute(f"DELETE FROM {P}calls")


@pytest.mark.parametrize("content", [b"this is no database " * 100, b"\0" * 4096 + b"x" * 4096], ids=["text", "zeros"])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    """It is said so, and the file is left as it was."""
    path = tmp_path / "wallet.db"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match="is not an SQLite database"):
        SqlLedger(f"sqlite:///{path}")
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "url", ["wallet.db", "sqlite://wallet.db", "mysql://u:secret@h/d", "", "http://h", "sqlite:///"]
)
def test_addresses_that_are_none(url: str) -> None:
    """It says what an address looks like, and shows no password."""
    with pytest.raises(ConfigurationError, match=r"sqlite:///wallet\.db") as refused:
        SqlLedger(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://u:secret@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u:se@cret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h/d?password=secret&a=b", "postgresql://u@h/d?password=***&a=b"),
        ("postgresql://u@h/d?a=b&sslpassword=secret", "postgresql://u@h/d?a=b&sslpassword=***"),
        ("postgresql://u@h/d?pass%77ord=secret", "postgresql://u@h/d?pass%77ord=***"),
        ("postgresql://u@h/d?scram_client_key=secret", "postgresql://u@h/d?scram_client_key=***"),
        ("postgresql://u@h/d?oauth_client_secret=secret&a=b", "postgresql://u@h/d?oauth_client_secret=***&a=b"),
        ("postgresql://h/d", "postgresql://h/d"),
        ("sqlite:///wallet.db", "sqlite:///wallet.db"),
        ("host=h password=secret", "***"),
    ],
)
def test_an_address_as_it_is_shown(url: str, told: str) -> None:
    """All of it but the password."""
    assert shown_address(url) == told


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p/hunter2@h/d",
        "postgresql://u:p/hunter2@h/d?a=b",
        "postgresql+psycopg://:/@h/d",
        "postgresql://u:p@hunter2#x@127.0.0.1:1/d",
        "postgresql+psycopg://u:p@hunter2@127.0.0.1:1/d?a=b",
        "postgresql://u:p@hunter2/x@127.0.0.1:1/d",
        "postgresql://u:@@127.0.0.1:1/d",
        "postgresql://u:hunter2\0@h/d",
        "postgresql://u:hunter2\udcfc@h/d",
    ],
)
def test_a_password_that_is_not_escaped(url: str) -> None:
    """Libpq would take a part of it for the port or the host, and say so."""
    for read in (address_of, SqlLedger):
        with pytest.raises(ConfigurationError, match="percent-encode") as refused:
            read(url)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("path", ["casino", '""', "pg_catalog"])
@pytest.mark.parametrize("awaited", [False, True])
def test_a_search_path_to_nowhere(path: str, awaited: bool, postgres_url: str) -> None:
    """It is told, and nothing is made; once there is a schema, the ledger opens."""
    url = f"{postgres_url}&options={quote(f'-csearch_path={path}')}"

    async def opened() -> None:
        async with AsyncSqlLedger(url):
            raise AssertionError("it was opened")

    with pytest.raises(SchemaError, match=r"it leads to no schema.*CREATE SCHEMA"):
        anyio.run(opened) if awaited else SqlLedger(url).close()
    assert tables(postgres_url) == []
    if path == "casino":
        run(postgres_url, "CREATE SCHEMA casino")
        SqlLedger(url).close()
