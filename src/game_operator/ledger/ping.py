"""A quick look whether the database answers and takes writes, beside the calls and never in their way."""

import asyncio
import math
import os
import sqlite3
import time
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final

from game_operator.errors import LedgerUnavailableError, shown
from game_operator.ledger.engine.address import IN_MEMORY, address_of, is_postgres, limits_of, path_of, sentences

_STATE: Final = (
    "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', "
    "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS double precision)"
)
#: A server that vanishes without a word is given up after about so long. It bounds the thread, and not its caller.
_ANSWER_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class PingReport:
    """
    How the ledger's database answers.

    Attributes:
        latency_millis: How long it took to connect and to be answered.
        clock_difference_millis: How far the database's clock is ahead of this machine's; below zero if it is behind.
            SQLite's clock is this machine's.
        writable: Whether it takes writes: it is neither a standby nor read-only.
        bets_stopped: Whether ``stop_bets`` holds; False where the tables are missing or cannot be read beside calls.
    """

    latency_millis: float
    clock_difference_millis: int
    writable: bool
    bets_stopped: bool = False


class Pinger:
    """
    Looks at a database over a separate connection, in a thread, and never twice at a time.

    Only a thread has a bound that always holds: to find a host's address may take any time. What hangs is left to the
    thread, and later callers wait for the same look. They raise ValueError for a timeout that is not above 0.
    """

    def __init__(self, prefix: str) -> None:
        self._stopped = f"SELECT 1 FROM {prefix}bet_stops WHERE started_at_millis IS NULL"  # noqa: S608 - a checked prefix
        self._lock = Lock()
        self._latest: Future[PingReport] | None = None

    def ping(self, url: str, timeout_seconds: float) -> PingReport:
        """Return what a look at *url* finds; raise LedgerUnavailableError if it fails or takes longer than this."""
        _check_seconds(timeout_seconds)
        try:
            return self._look(url).result(timeout_seconds)
        except TimeoutError:
            raise _too_slow(timeout_seconds) from None

    async def ping_async(self, url: str, timeout_seconds: float) -> PingReport:
        """Do the same for a task."""
        _check_seconds(timeout_seconds)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await asyncio.wrap_future(self._look(url))
        except TimeoutError:
            raise _too_slow(timeout_seconds) from None

    def _look(self, url: str) -> Future[PingReport]:
        """Return the look under way, or begin one."""
        with self._lock:
            if self._latest is None or self._latest.done():
                self._latest = self._begun(url)
            return self._latest

    def _begun(self, url: str) -> Future[PingReport]:
        look: Future[PingReport] = Future()
        look.set_running_or_notify_cancel()  # A caller that gives up does not cancel it for the others.
        try:
            Thread(target=self._run, args=(url, look), name="game-operator-ping", daemon=True).start()
        except RuntimeError as failed:  # The system has no thread left; the next look may get one.
            raise _unavailable(f"nobody could look, because of {failed}.") from failed
        return look

    def _run(self, url: str, look: Future[PingReport]) -> None:
        try:
            look_at, place = (_look_at_postgres, url) if is_postgres(url) else (_look_at_sqlite, path_of(url))
            look.set_result(look_at(place, self._stopped))
        except Exception as failed:  # Each caller raises it.
            look.set_exception(failed)


def _check_seconds(timeout_seconds: float) -> None:
    if not 0 < timeout_seconds < math.inf:
        raise ValueError(f"timeout_seconds is {shown(timeout_seconds)}: pass a number of seconds above 0")


def _too_slow(timeout_seconds: float) -> LedgerUnavailableError:
    return LedgerUnavailableError(f"The ledger's database did not answer within {timeout_seconds:g} s.")


def _look_at_postgres(url: str, stopped: str) -> PingReport:
    import psycopg

    began = time.monotonic()
    # Nothing is prepared or set: a pooler may be between.
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, **limits_of(url, _ANSWER_SECONDS)}
    try:
        with psycopg.connect(address_of(url), **options) as connection:
            before = time.time()
            row = connection.execute(_STATE).fetchone()
            after, bets_stopped = time.time(), False
            with suppress(psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
                bets_stopped = connection.execute(stopped.encode()).fetchone() is not None
    except (psycopg.Error, RuntimeError, OSError) as failed:  # The system has no thread or descriptor left.
        raise _unavailable(sentences(failed)) from failed
    assert row is not None
    difference = row[1] - (before + after) / 2 * 1000
    return PingReport(
        latency_millis=_millis_since(began),
        clock_difference_millis=round(difference),
        writable=not row[0],
        bets_stopped=bets_stopped,
    )


def _look_at_sqlite(path: str, stopped: str) -> PingReport:
    """Read, and ask the file system: the lock of a write would be in the way of calls."""
    began = time.monotonic()
    if path == IN_MEMORY:
        return PingReport(latency_millis=_millis_since(began), clock_difference_millis=0, writable=True)
    file, bets_stopped = Path(path).absolute(), False
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", timeout=0, uri=True)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
                with suppress(sqlite3.OperationalError):  # There is no such table.
                    bets_stopped = connection.execute(stopped).fetchone() is not None
    except sqlite3.Error as failed:
        raise _unavailable(sentences(failed)) from failed
    writable = os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)
    return PingReport(
        latency_millis=_millis_since(began), clock_difference_millis=0, writable=writable, bets_stopped=bets_stopped
    )


def _unavailable(reason: str) -> LedgerUnavailableError:
    return LedgerUnavailableError(f"The ledger's database does not answer: {reason}")


def _millis_since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 3)
