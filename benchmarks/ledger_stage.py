"""What the ledger's benchmarks stand on: a PostgreSQL that commits to the disk, an SQLite file, players, and checks."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from game_operator.ledger import SqlLedger
from tests.support.postgres import PostgresServer

__all__ = [
    "PREFIX",
    "check_books",
    "connected",
    "database_name",
    "fill_players",
    "open_bets",
    "players_of",
    "running_postgres",
    "sqlite_file",
]

PREFIX = "game_operator_"
_OPENING_CENTS = 10**12
#: Room for a million calls, and no checkpoint in the middle of a turn, whoever's turn it is.
_SETTINGS = {"max_wal_size": "8GB", "checkpoint_timeout": "1h", "shared_buffers": "512MB"}


def players_of(*, quick: bool) -> int:
    """Return how many players "many" are."""
    return 100 if quick else 10_000


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Start a server that commits to the disk."""
    with PostgresServer(durable=True, settings=_SETTINGS) as server:
        yield server


@contextmanager
def sqlite_file() -> Iterator[str]:
    """Yield the address of an SQLite file that is not there yet."""
    with TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'wallet.db'}"


def database_name(url: str) -> str:
    """Return the name of a database of ``running_postgres``."""
    return url.partition("?")[0].rpartition("/")[2]


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """Open a connection of the database's own driver, which is Any because there are two; closing commits nothing."""
    connection: Any = psycopg.connect(url) if _is_postgres(url) else sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        yield connection
    finally:
        connection.close()


def fill_players(url: str, players: int) -> None:
    """Make the tables and open the accounts p1, p2 and so on, all at once and with their postings."""
    SqlLedger(url).close()
    mark = "%s" if _is_postgres(url) else "?"
    rows = [(f"p{number}", _OPENING_CENTS) for number in range(1, players + 1)]
    with connected(url) as connection:
        cursor = connection.cursor()
        cursor.executemany(f"INSERT INTO {PREFIX}accounts VALUES ({mark}, {mark}, 0)", rows)
        cursor.executemany(
            f"INSERT INTO {PREFIX}postings (to_account, amount_cents, source, operation, tx_id, at_millis) "
            f"VALUES ({mark}, {mark}, '', 'open', {mark}, 0)",
            [(player, cents, player) for player, cents in rows],
        )
        connection.commit()


def open_bets(url: str) -> int:
    """Return how many withdraws have debited so far."""
    return _row(url, f"SELECT count(*) FROM {PREFIX}bets WHERE state = 'OPEN'")[0]


def check_books(url: str) -> None:
    """
    Hold the books against themselves: all sums, and one call and one posting for each bet.

    Raises:
        RuntimeError: They do not balance.
    """
    balances, posted, bets, wagers, calls = _row(
        url,
        f"SELECT (SELECT sum(balance_cents) FROM {PREFIX}accounts), "
        f"(SELECT sum(CASE WHEN to_account IS NULL THEN -amount_cents ELSE amount_cents END) FROM {PREFIX}postings), "
        f"(SELECT count(*) FROM {PREFIX}bets), "
        f"(SELECT count(*) FROM {PREFIX}postings WHERE operation = 'withdraw'), "
        f"(SELECT count(*) FROM {PREFIX}calls)",
    )
    if balances != posted or not bets == wagers == calls:
        raise RuntimeError(
            f"the books do not balance: balances of {balances} and postings of {posted}; "
            f"{bets} bets, {wagers} postings of withdraws, {calls} calls"
        )


def _row(url: str, sql: str) -> tuple[int, ...]:
    with connected(url) as connection:
        found: tuple[int, ...] = connection.cursor().execute(sql).fetchone()
    return found


def _is_postgres(url: str) -> bool:
    return not url.startswith("sqlite")
