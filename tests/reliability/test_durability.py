"""Each connection of a ledger waits for the disk, whatever the database prefers: the first one, and each after it."""

import asyncio
import contextlib
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from game_operator.ledger import AsyncSqlLedger, Outcome, SqlLedger, Terms
from game_operator.models.webhooks import MovingCall
from tests.support.books import execute
from tests.support.calls import withdraw
from tests.support.crowds import open_accounts

pytestmark = pytest.mark.outside

#: What SQLite calls FULL.
_FULL = 2


@pytest.fixture
def file_url(sqlite_url: str) -> str:
    """A ledger's file with one account."""
    open_accounts(sqlite_url, {"p1": 10_000})
    return sqlite_url


@pytest.fixture
def careless_url(postgres_url: str) -> str:
    """A database with one account whose sessions do not wait for the disk unless they say so."""
    open_accounts(postgres_url, {"p1": 10_000})
    database = execute(postgres_url, "SELECT current_database()")[0][0]
    execute(postgres_url, f"ALTER DATABASE {database} SET synchronous_commit = off")
    with psycopg.connect(postgres_url) as plain:
        assert plain.execute("SHOW synchronous_commit").fetchall() == [("off",)]
    return postgres_url


class _Looks:
    """A ``after`` that asks the ledger's own connection how it commits."""

    def __init__(self, *statements: str) -> None:
        self._statements = statements
        self.seen: list[Any] = []  # Any: what the database says.
        self.terms = Terms(after=self._look)

    def _look(self, call: MovingCall, outcome: Outcome, connection: Any) -> None:
        self.seen.append(tuple(connection.execute(asked).fetchone()[0] for asked in self._statements))


class _LooksAwaited(_Looks):
    def __init__(self, *statements: str) -> None:
        super().__init__(*statements)
        self.terms = Terms(after=self._look_awaited)

    async def _look_awaited(self, call: MovingCall, outcome: Outcome, connection: Any) -> None:
        self.seen.append(tuple([(await (await connection.execute(asked)).fetchone())[0] for asked in self._statements]))


def _put_back(url: str) -> None:
    """Put a copy of the file in its place, which is another file."""
    path = Path(url.removeprefix("sqlite:///"))
    copy = path.with_name("copy.db")
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        # As it would come from a backup that was made with VACUUM INTO.
        target.execute("PRAGMA journal_mode = DELETE")
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    copy.replace(path)


def _cut(url: str) -> None:
    """End our sessions, as a restart of the server does."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    assert execute(url, f"SELECT pg_terminate_backend(pid) {others}")


async def test_postgres_waits_for_the_disk_under_asyncio(careless_url: str) -> None:
    """On the first connection and on the one after it was cut."""
    looks = _LooksAwaited("SHOW synchronous_commit")
    async with AsyncSqlLedger(careless_url, patience_seconds=30) as ledger:
        assert (await ledger.apply(withdraw("b1"), terms=looks.terms)).applied
        await asyncio.to_thread(_cut, careless_url)
        assert (await ledger.apply(withdraw("b2"), terms=looks.terms)).applied
    assert looks.seen == [("on",)] * 2


def _told_by_a_fork(apply: Callable[[], Outcome], looks: _Looks) -> Any:
    """Return what *looks* sees in a forked child that applies a call; None if the child fails."""
    hear, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            looks.seen.clear()
            assert apply().applied
            os.write(say, json.dumps(looks.seen).encode())
        finally:
            os._exit(0)
    os.close(say)
    with os.fdopen(hear) as told:
        said = told.read()
    os.waitpid(pid, 0)
    return json.loads(said) if said else None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(
    ("fixture", "replaced", "asked", "expected"),
    [
        pytest.param("file_url", _put_back, ("PRAGMA synchronous", "PRAGMA journal_mode"), (_FULL, "wal"), id="sqlite"),
        pytest.param("careless_url", _cut, ("SHOW synchronous_commit",), ("on",), id="postgres"),
    ],
)
def test_each_connection_waits_for_the_disk(
    request: pytest.FixtureRequest,
    fixture: str,
    replaced: Callable[[str], None],
    asked: tuple[str, ...],
    expected: tuple[object, ...],
) -> None:
    """The first one, the one that takes its place, that of a forked child, and the parent's after it."""
    url, looks = request.getfixturevalue(fixture), _Looks(*asked)
    with SqlLedger(url, patience_seconds=30) as ledger:
        assert ledger.apply(withdraw("b1"), terms=looks.terms).applied
        replaced(url)
        assert ledger.apply(withdraw("b2"), terms=looks.terms).applied
        assert _told_by_a_fork(lambda: ledger.apply(withdraw("b3"), terms=looks.terms), looks) == [list(expected)]
        assert ledger.apply(withdraw("b4"), terms=looks.terms).applied
    assert looks.seen == [expected] * 3
