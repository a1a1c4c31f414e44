"""What goes wrong with a file: locked, full, read-only, moved, replaced, inherited by a fork, opened by many."""

import asyncio
import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from game_operator.errors import LedgerUnavailableError, SchemaError
from game_operator.ledger import AsyncSqlLedger, Outcome, SqlLedger
from game_operator.models.webhooks import WebhookCall
from tests.support.books import problems, read_books
from tests.support.calls import deposit, rollback, withdraw
from tests.support.crowds import Child, open_accounts, worker_context
from tests.support.leftovers import assert_idle, nothing_grows
from tests.support.times import wait_until

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 0.3
#: A machine under load sleeps longer than it was told.
SLACK_SECONDS = 10.0


@pytest.fixture
def path(sqlite_url: str) -> Path:
    """The file of the ledger, which has one account with 100.00."""
    open_accounts(sqlite_url, {"p1": 10_000})
    return Path(sqlite_url.removeprefix("sqlite:///"))


@pytest.fixture
def ledger(path: Path, sqlite_url: str) -> Iterator[SqlLedger]:
    """A ledger that soon gives up."""
    with SqlLedger(sqlite_url, patience_seconds=PATIENCE_SECONDS) as opened:
        yield opened


def _connection(ledger: SqlLedger) -> sqlite3.Connection:
    """Return the store's own connection, to take from it what a disk or an administrator could."""
    connection = ledger._store._connection
    assert isinstance(connection, sqlite3.Connection)
    return connection


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the file's write lock, as another program would."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def _refused_in_time(ledger: SqlLedger, call: WebhookCall) -> None:
    started = time.monotonic()
    with pytest.raises(LedgerUnavailableError):
        ledger.apply(call)
    assert PATIENCE_SECONDS / 2 < time.monotonic() - started < PATIENCE_SECONDS + SLACK_SECONDS


def test_locked_for_longer_than_our_patience(ledger: SqlLedger, path: Path, sqlite_url: str) -> None:
    """H02: another program holds the lock: LedgerUnavailableError in bounded time, nothing kept, recovery unaided."""
    with _locked(path):
        _refused_in_time(ledger, withdraw())
        assert ledger.balance("p1") == 10_000  # Reading waits for no writer.
    assert_idle(sqlite_url)
    assert ledger.apply(withdraw()).applied
    assert problems(read_books(sqlite_url)) == []


def test_locked_when_it_is_opened(path: Path, sqlite_url: str) -> None:
    """Opening waits no longer than our patience, and leaves nothing behind."""
    with nothing_grows(), _locked(path), pytest.raises(LedgerUnavailableError):
        SqlLedger(sqlite_url, patience_seconds=0.1)


def _not_there(path: Path, patch: pytest.MonkeyPatch) -> None:
    known = os.stat

    def stat(asked: Any, *args: Any, **options: Any) -> os.stat_result:
        if str(asked) == str(path):
            raise FileNotFoundError(errno.ENOENT, "No such file")
        return known(asked, *args, **options)

    patch.setattr(os, "stat", stat)


def _is_text(path: Path, patch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"not a database at all, but some text that is long enough" * 100)


def _is_newer(path: Path, patch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE game_operator_meta SET value = value + 1 WHERE name = 'version'")


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        pytest.param(_not_there, "is not there any more", id="the file is gone once it is open"),
        pytest.param(_is_text, "not an SQLite database", id="not a database"),
        pytest.param(_is_newer, "A newer program has migrated them", id="tables that are newer"),
    ],
)
def test_an_opening_that_fails_half_way_leaves_nothing(
    spoil: Callable[[Path, pytest.MonkeyPatch], None],
    cause: str,
    path: Path,
    sqlite_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No connection stays open, even while the error is still held; and the error is the cause, not a ROLLBACK's."""
    spoil(path, monkeypatch)
    with nothing_grows(), pytest.raises((LedgerUnavailableError, SchemaError), match=cause):
        SqlLedger(sqlite_url)


async def test_an_opening_stops_no_loop_and_leaves_nothing(path: Path, sqlite_url: str) -> None:
    """It waits for the file's lock in a thread; of a task that is cancelled meanwhile, nothing stays open."""
    ledger = AsyncSqlLedger(sqlite_url, patience_seconds=30)
    with _locked(path):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ledger.balance("p1"), 0.2)
        assert time.monotonic() - began < SLACK_SECONDS
    descriptors = Path("/proc/self/fd")
    await asyncio.to_thread(wait_until, lambda: path not in [each.resolve() for each in descriptors.iterdir()])
    async with ledger:
        assert await ledger.balance("p1") == 10_000


def test_a_survey_that_fails_leaves_nothing(ledger: SqlLedger, path: Path) -> None:
    """The cause is what is raised, and no connection stays open while the error is held."""
    path.unlink()
    path.write_bytes(b"not a database at all, but some text that is long enough" * 100)
    with nothing_grows(), pytest.raises(LedgerUnavailableError, match="file is not a database"):
        ledger.verify()


def test_full_disk(ledger: SqlLedger, sqlite_url: str) -> None:
    """The file may not grow: nothing half written, LedgerUnavailableError; with space again, the same calls pass."""
    connection = _connection(ledger)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    applied, refused = 0, []
    for number in range(300):
        try:
            applied += ledger.apply(withdraw(f"b{number}", amount_cents=1)).applied
        except LedgerUnavailableError:
            refused.append(number)
    assert refused, "the disk was never full"
    books = read_books(sqlite_url)
    assert books.accounts == {"p1": 10_000 - applied}
    assert problems(books) == []
    assert_idle(sqlite_url)
    connection.execute("PRAGMA max_page_count = 1000000")
    assert all(ledger.apply(withdraw(f"b{number}", amount_cents=1)).code is None for number in range(300))
    books = read_books(sqlite_url)
    assert books.accounts == {"p1": 10_000 - 300}
    assert problems(books) == []


def test_read_only(ledger: SqlLedger, sqlite_url: str) -> None:
    """The file can be read and not written: balances are told, nothing moves, and it goes on when it is mended."""
    connection = _connection(ledger)
    connection.execute("PRAGMA query_only = ON")
    for call in (withdraw(), deposit(), rollback()):
        with pytest.raises(LedgerUnavailableError):
            ledger.apply(call)
    assert ledger.balance("p1") == 10_000
    assert_idle(sqlite_url)
    connection.execute("PRAGMA query_only = OFF")
    assert ledger.apply(withdraw()).applied


def test_a_removed_file(ledger: SqlLedger, path: Path, tmp_path: Path, sqlite_url: str) -> None:
    """What is written to a removed file is lost: nothing is, no empty file takes its place, and put back it goes on."""
    assert ledger.apply(withdraw()).applied
    away = tmp_path / "away.db"
    path.rename(away)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).rename(away.with_name(away.name + suffix))
    with pytest.raises(LedgerUnavailableError, match="not there any more"):
        ledger.apply(withdraw("b2"))
    with pytest.raises(LedgerUnavailableError):
        ledger.balance("p1")
    assert not path.exists()
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            away.with_name(away.name + suffix).rename(path.with_name(path.name + suffix))
    assert ledger.apply(withdraw("b2")).applied
    books = read_books(sqlite_url)
    assert books.accounts == {"p1": 9_000}
    assert problems(books) == []


def test_a_replaced_file(ledger: SqlLedger, path: Path, tmp_path: Path, sqlite_url: str) -> None:
    """A backup is put in the file's place while we run: from then on the backup is the ledger, and nothing else is."""
    backup = tmp_path / "backup.db"
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    assert ledger.apply(withdraw()).applied
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    backup.replace(path)
    assert ledger.apply(withdraw("b2")).applied
    books = read_books(sqlite_url)
    assert set(books.bets) == {"b2"}
    assert books.accounts == {"p1": 9_500}
    assert problems(books) == []


def test_a_file_that_is_no_ledger_in_its_place(ledger: SqlLedger, path: Path) -> None:
    """An empty database, or no database at all, is refused in words; no tables are made under a running ledger."""
    path.unlink()
    sqlite3.connect(path).close()
    path.write_bytes(b"")
    with pytest.raises(SchemaError, match="There are no tables"):
        ledger.apply(withdraw())
    path.unlink()
    path.write_bytes(b"not a database at all, but some text that is long enough" * 100)
    with pytest.raises(SchemaError, match="not an SQLite database"):
        ledger.apply(withdraw())


def test_a_closed_ledger(path: Path, sqlite_url: str) -> None:
    """A call after close is refused in words, and opens nothing."""
    ledger = SqlLedger(sqlite_url)
    ledger.close()
    with nothing_grows(), pytest.raises(LedgerUnavailableError, match="closed"):
        ledger.apply(withdraw())
    ledger.close()


def _open(url: str, start_at: float) -> int:
    time.sleep(max(0.0, start_at - time.monotonic()))
    with SqlLedger(url, patience_seconds=30) as ledger:
        return len(list(ledger.bets()))


def test_many_processes_make_one_file(tmp_path: Path) -> None:
    """Eight processes, then sixteen threads, open what is not there yet: the tables are made once, and all succeed."""
    with worker_context().Pool(8) as pool:
        pool.starmap(_open, [(f"sqlite:///{tmp_path / 'warm.db'}", 0.0)] * 8, chunksize=1)
        for number in range(5):
            url = f"sqlite:///{tmp_path / f'{number}.db'}"
            assert pool.starmap(_open, [(url, time.monotonic() + 0.05)] * 8, chunksize=1) == [0] * 8
    url = f"sqlite:///{tmp_path / 'threads.db'}"
    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(_open, [url] * 16, [0.0] * 16)) == [0] * 16


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_after_opening(path: Path, sqlite_url: str) -> None:
    """The child has its own connection: what it commits outlives the parent, and the parent is unharmed."""
    parent = SqlLedger(sqlite_url)
    assert parent.apply(withdraw("before")).applied
    child = Child(parent.apply)
    assert child.apply("c1")
    assert parent.apply(withdraw("p1")).applied
    assert child.apply("c2")
    parent.close()  # Were the child's locks not its own, this would remove the log that it writes to.
    with SqlLedger(sqlite_url) as other:
        assert other.apply(withdraw("other")).applied
        assert child.apply("c3")
    child.end()
    books = read_books(sqlite_url)
    assert set(books.bets) == {"before", "c1", "c2", "c3", "p1", "other"}
    assert problems(books) == []
    assert_idle(sqlite_url)


async def test_a_cancelled_task_leaves_the_file_alone(path: Path, sqlite_url: str) -> None:
    """A call of staff is cancelled while it waits for the lock: readers go on meanwhile, and nothing of it is kept."""
    async with AsyncSqlLedger(sqlite_url, patience_seconds=1.0) as ledger:
        with _locked(path):
            adjusting = asyncio.create_task(ledger.adjust("p1", Decimal(5), reference="r1"))
            await asyncio.sleep(0.1)
            adjusting.cancel()
            assert await ledger.balance("p1") == 10_000
            with pytest.raises(asyncio.CancelledError):
                await adjusting
        assert await ledger.balance("p1") == 10_000
        assert await ledger.adjust("p1", Decimal(5), reference="r1") == 10_500
        outcome: Outcome = await ledger.apply(withdraw())
        assert outcome.applied
    assert problems(read_books(sqlite_url)) == []
    assert_idle(sqlite_url)
