"""Statements past the ledger, on SQLite and PostgreSQL alike: to look at rows, and to damage them."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from game_operator.ledger.steps import Step

DEFAULT_PREFIX = "game_operator_"


def is_sqlite(url: str) -> bool:
    """Return whether *url* names an SQLite file."""
    return url.startswith("sqlite:")


def path_in(url: str) -> str:
    """Return the file that an SQLite *url* names."""
    return url.removeprefix("sqlite:///")


def rows(url: str, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Return the rows of a statement; ``?`` stands for a parameter and ``{p}`` for the tables' prefix."""
    text = sql.replace("{p}", DEFAULT_PREFIX)
    if is_sqlite(url):
        with contextlib.closing(sqlite3.connect(path_in(url))) as connection, connection:
            return connection.execute(text, parameters).fetchall()
    with psycopg.connect(url) as postgres:
        cursor = postgres.execute(text.replace("?", "%s").encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []


def with_players(url: str) -> Callable[..., list[tuple[Any, ...]]]:
    """Make the operator's table, in which p1 has 1,000; return what runs a statement there."""
    rows(url, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint NOT NULL)")
    rows(url, "INSERT INTO players VALUES ('p1', 1000)")
    return partial(rows, url)


def run(url: str, sql: str, *parameters: object) -> None:
    """Run a statement and commit it; what the database refuses is raised."""
    rows(url, sql, *parameters)


def wait_for_a_lock(url: str) -> None:
    """Return once a connection to the PostgreSQL database at *url* waits for a lock."""
    give_up_at = time.monotonic() + 30
    while not rows(
        url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    ):
        assert time.monotonic() < give_up_at
        time.sleep(0.005)


def damage(url: str, statements: Iterable[str]) -> None:
    """Run *statements* as somebody would who has the right to switch the triggers off."""
    if is_sqlite(url):
        with contextlib.closing(sqlite3.connect(path_in(url))) as connection, connection:
            _damage_sqlite(connection, statements)
        return
    with psycopg.connect(url) as postgres:
        _damage_postgres(postgres, statements)


def row(expected: str, damaged: str, *statements: str) -> Any:  # Any: what pytest.param returns has no public name.
    """Return a row of a table of damage: what *statements* have damaged, and the kinds of findings that tell it."""
    return pytest.param(statements, set(expected.split()), id=damaged)


@contextlib.contextmanager
def damaged(url: str, statements: Iterable[str]) -> Iterator[Callable[[Step], Any]]:
    """Damage the rows for a while; what is given reads them meanwhile."""
    if is_sqlite(url):
        with contextlib.closing(sqlite3.connect(path_in(url), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            _damage_sqlite(connection, statements)
            yield lambda step: connection.execute(step.sql, step.parameters).fetchall()  # type: ignore[union-attr]  # Only Execute.
            connection.execute("ROLLBACK")
        return
    with psycopg.connect(url) as postgres:
        _damage_postgres(postgres, statements)
        yield lambda step: postgres.execute(step.sql.replace("?", "%s").encode(), step.parameters or None).fetchall()  # type: ignore[union-attr]  # Only Execute.
        postgres.rollback()


def _damage_sqlite(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    for trigger in ("postings_stay", "postings_remain"):
        connection.execute(f"DROP TRIGGER IF EXISTS {DEFAULT_PREFIX}{trigger}")
    for statement in statements:
        connection.execute(statement.replace("{p}", DEFAULT_PREFIX))


def _damage_postgres(postgres: "psycopg.Connection[Any]", statements: Iterable[str]) -> None:
    postgres.execute("SET LOCAL session_replication_role = replica")
    for statement in statements:
        postgres.execute(statement.replace("{p}", DEFAULT_PREFIX).encode())
