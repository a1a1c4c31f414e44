"""Forks in the middle of commits to a file, and where a ledger of asyncio commits."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from game_operator.ledger import AsyncSqlLedger, Outcome, SqlLedger, Terms
from game_operator.models.webhooks import MovingCall, WebhookCall
from tests.support.books import problems, read_books
from tests.support.calls import withdraw
from tests.support.crowds import Child, open_accounts
from tests.support.leftovers import assert_idle

pytestmark = [
    pytest.mark.outside,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

#: From when on a commit is left to a thread, a batch is far beyond it.
MANY = 64


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A file with two accounts; one never runs dry."""
    open_accounts(sqlite_url, {"p1": 10_000, "rich": 10**9})
    return sqlite_url


def test_forked_in_the_middle_of_commits(url: str) -> None:
    """While other threads commit, a fork waits for a moment between: no child finds a lock that nobody releases."""
    stop = threading.Event()

    def load(name: int) -> int:
        for number in count():
            if stop.is_set():
                return number
            assert ledger.apply(withdraw(f"b{name}-{number}", "rich", 1)).applied
        raise AssertionError

    with SqlLedger(url, patience_seconds=30) as ledger, ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load, name) for name in range(4)]
        try:
            for number in range(5):
                child = Child(ledger.apply)
                assert child.apply(f"c{number}")
                child.end()
        finally:
            stop.set()
        loaded = sum(each.result() for each in loads)
    books = read_books(url)
    assert loaded > 0
    assert books.accounts == {"p1": 10_000 - 5 * 500, "rich": 10**9 - loaded}
    assert problems(books) == []
    assert_idle(url)


def _writes_much(_call: MovingCall, _outcome: Outcome, connection: Any) -> None:
    """Write so much that its commit takes a good part of a tenth of a second, and longer than to fork."""
    connection.execute("CREATE TABLE IF NOT EXISTS ballast (bytes BLOB)")
    connection.executemany("INSERT INTO ballast VALUES (zeroblob(1000000))", [()] * 20)


class _Watched:
    """Tells when the loop's thread is in the middle of a COMMIT."""

    def __init__(self, ledger: AsyncSqlLedger) -> None:
        store: Any = ledger._store
        self._connection: sqlite3.Connection = store._store._connection
        self._in_thread: Callable[[Callable[[], object]], Awaitable[object]] = store._in_thread
        self.has_begun = self.has_ended = False
        store._in_thread = self._watched

    async def _watched(self, work: Callable[[], object]) -> object:
        def told() -> object:
            self.has_begun = True
            try:
                return work()
            finally:
                self.has_ended = True

        return await self._in_thread(told)

    async def is_met(self, committing: "asyncio.Task[Outcome]") -> bool:
        """Wait until SQLite has ended the transaction; return whether it is still writing it."""
        while not committing.done() and (not self.has_begun or self._connection.in_transaction):
            await asyncio.sleep(0)
        return self.has_begun and not self.has_ended


@pytest.mark.parametrize("is_own", [pytest.param(True, id="loop"), pytest.param(False, id="another thread")])
async def test_forked_while_a_loop_commits_much(url: str, is_own: bool) -> None:
    """A commit in the loop's thread is waited for by a fork, whoever forks: the child can write, and so can we."""
    in_the_middle = 0
    async with AsyncSqlLedger(url, patience_seconds=30) as ledger:

        def applied(call: WebhookCall) -> Outcome:
            return asyncio.run(ledger.apply(call))

        for number in range(3):
            watched = _Watched(ledger)
            much = asyncio.create_task(ledger.apply(withdraw(f"much{number}"), terms=Terms(after=_writes_much)))
            in_the_middle += await watched.is_met(much)
            child = Child(applied) if is_own else await asyncio.to_thread(Child, applied)
            try:
                assert await asyncio.to_thread(child.apply, f"child{number}")
                assert (await much).applied
                assert (await ledger.apply(withdraw(f"parent{number}"))).applied
                assert await asyncio.to_thread(child.apply, f"again{number}")
            finally:
                child.end()
    assert in_the_middle, "no fork fell into a commit"
    books = read_books(url)
    assert books.accounts == {"p1": 10_000 - 3 * 4 * 500, "rich": 10**9}
    assert problems(books) == []
    assert_idle(url)


async def _committed_by(ledger: AsyncSqlLedger, *calls: WebhookCall) -> list[str]:
    """Return the threads in which the ledger commits while *calls* are applied."""
    store: Any = ledger._store
    threads: list[str] = []

    def trace(statement: str) -> None:
        if statement == "COMMIT":
            threads.append(threading.current_thread().name)

    store._store._connection.set_trace_callback(trace)
    assert all(outcome.applied for outcome in await asyncio.gather(*map(ledger.apply, calls)))
    store._store._connection.set_trace_callback(None)
    return threads


async def test_where_a_loop_commits(url: str) -> None:
    """A lone call commits on the loop, at once; a batch in a thread of the ledger's, and the loop is free."""
    own = threading.current_thread().name
    async with AsyncSqlLedger(url) as ledger:
        assert await _committed_by(ledger, withdraw("b1")) == [own]
        # The first is committed before the others come.
        many = (withdraw(f"many{number}", amount_cents=1) for number in range(MANY + 1))
        first, thread = await _committed_by(ledger, *many)
        assert first == own
        assert thread.startswith("game-operator-sqlite")
        assert await _committed_by(ledger, withdraw("b2")) == [own]
