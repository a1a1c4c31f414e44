"""What the ledger's benchmarks stand on: a PostgreSQL that commits to the disk, an SQLite file, and their ledgers."""

import asyncio
import itertools
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import uvloop
from tests.support.postgres import PostgresServer

from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.webhooks import WithdrawCall

__all__ = ["PLAYERS", "PREFIX", "LedgerLoad", "books_balance", "fill_players", "running_postgres", "sqlite_file"]

PLAYERS = 10_000
PREFIX = "game_operator_"
_OPENING_CENTS = 10**12
_NUMBERS = itertools.count()


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Start a server that commits to the disk."""
    with PostgresServer(durable=True, settings={"max_wal_size": "8GB", "shared_buffers": "512MB"}) as server:
        yield server


@contextmanager
def sqlite_file() -> Iterator[str]:
    """Yield the address of an SQLite file that is not there yet."""
    with TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'wallet.db'}"


def fill_players(url: str) -> None:
    """Make the tables and open the accounts p1 to p10000, all at once and with their postings."""
    SqlLedger(url).close()
    rows = [(f"p{number}", _OPENING_CENTS) for number in range(1, PLAYERS + 1)]
    accounts = f"INSERT INTO {PREFIX}accounts VALUES (?, ?, 0)"
    postings = (
        f"INSERT INTO {PREFIX}postings (to_account, amount_cents, source, operation, tx_id, at_millis) "
        "VALUES (?, ?, '', 'open', ?, 0)"
    )
    with _connected(url) as connection:
        cursor = connection.cursor()
        cursor.executemany(_for(url, accounts), rows)
        cursor.executemany(_for(url, postings), [(key, cents, key) for key, cents in rows])
        connection.commit()


def books_balance(url: str) -> int:
    """Return how many withdraws are stored; raise if a balance is not what its postings say."""
    sums = (
        f"SELECT (SELECT sum(balance_cents) FROM {PREFIX}accounts), "
        f"(SELECT sum(CASE WHEN to_account IS NULL THEN -amount_cents ELSE amount_cents END) FROM {PREFIX}postings), "
        f"(SELECT count(*) FROM {PREFIX}bets)"
    )
    with _connected(url) as connection:
        cursor = connection.cursor()
        cursor.execute(sums)
        balances, posted, bets = cursor.fetchone()
    if balances != posted:
        raise RuntimeError(f"the balances are {balances} and the postings {posted}")
    return int(bets)


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    connection: Any
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    else:
        connection = psycopg.connect(url)
    try:
        yield connection
    finally:
        connection.close()


def _for(url: str, sql: str) -> str:
    return sql if url.startswith("sqlite") else sql.replace("?", "%s")


class LedgerLoad:
    """Fresh withdraws through both ledgers of one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._threads = SqlLedger(url)
        self._loop = uvloop.new_event_loop()
        self._tasks = AsyncSqlLedger(url)

    def close(self) -> None:
        """Close both."""
        self._threads.close()
        self._loop.run_until_complete(self._tasks.close())
        self._loop.close()

    def threads(self, callers: int, players: int, seconds: float) -> float:
        """Return withdraws a second of *callers* threads."""
        done = [0] * callers
        start = threading.Barrier(callers + 1)

        def call(index: int) -> None:
            start.wait()
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                self._threads.apply(_withdraw(players))
                done[index] += 1

        threads = [threading.Thread(target=call, args=(index,)) for index in range(callers)]
        for thread in threads:
            thread.start()
        start.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        return sum(done) / (time.perf_counter() - began)

    def tasks(self, callers: int, players: int, seconds: float) -> float:
        """Return withdraws a second of *callers* tasks on uvloop."""
        return self._loop.run_until_complete(self._in_tasks(callers, players, seconds))

    async def _in_tasks(self, callers: int, players: int, seconds: float) -> float:
        done = 0
        began = time.perf_counter()

        async def call() -> None:
            nonlocal done
            while time.perf_counter() < began + seconds:
                await self._tasks.apply(_withdraw(players))
                done += 1

        await asyncio.gather(*(call() for _ in range(callers)))
        return done / (time.perf_counter() - began)


def _withdraw(players: int) -> WithdrawCall:
    number = next(_NUMBERS)
    bet_id = f"{random.getrandbits(96):024x}"
    return WithdrawCall(
        player_id=f"p{random.randint(1, players)}",
        bet_id=bet_id,
        amount_cents=100,
        instance_id="instance-1",
        game="aviator",
        body=b'{"action_id":"%b","number":%d}' % (bet_id.encode(), number),
    )
