"""
Ledgers of every kind behind one face: a ledger in memory, and in a database for threads and for asyncio.

The face is blocking. An AsyncSqlLedger runs on an event loop in a thread of its own, as it would in a server.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

from game_operator.errors import LedgerError
from game_operator.ledger import AsyncSqlLedger, BetRecord, MemoryLedger, Outcome, SqlLedger, Terms
from game_operator.ledger.api import DEFAULT_TERMS
from game_operator.ledger.steps import Execute, Rows, Steps
from game_operator.models.webhooks import WebhookCall
from tests.support.raw_sql import rows

T = TypeVar("T")
#: A call and the rules it is applied by.
Work = tuple[WebhookCall, Terms]

KINDS = ("memory", "sqlite", "async sqlite", "postgres", "async postgres")
THREADS = 16


class AnyLedger:
    """A ledger with all its methods, which block, and with what the contract asks beside."""

    ledger: Any  # Any: one of three kinds.

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self.ledger, name)
        return method

    def apply(self, call: WebhookCall, terms: Terms = DEFAULT_TERMS) -> Outcome:
        """Apply one call."""
        outcome: Outcome = self.__getattr__("apply")(call, terms=terms)
        return outcome

    def balance(self, player_id: str) -> int:
        """Return a balance in cents."""
        cents: int = self.__getattr__("balance")(player_id)
        return cents

    def at_once(self, work: Sequence[Work]) -> list[Outcome | LedgerError]:
        """Apply many calls at the same time; outcomes in the order of *work*."""

        def apply_or_refuse(each: Work) -> Outcome | LedgerError:
            try:
                return self.apply(*each)
            except LedgerError as refused:
                return refused

        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(apply_or_refuse, work))

    def bets(self, **bounds: Any) -> list[BetRecord]:
        """Return the bets within *bounds*."""
        return list(self.ledger.bets(**bounds))

    def moved_cents(self, account: str) -> int:
        """Return the sum of the postings of *account*, those that are folded too."""
        sql = (
            "SELECT coalesce(sum(CASE WHEN to_account = ? THEN amount_cents ELSE -amount_cents END), 0) "
            "+ coalesce((SELECT cents FROM {p}carried WHERE account = ?), 0) "
            "FROM {p}postings WHERE to_account = ? OR from_account = ?"
        )
        return int(self._rows(sql, account, account, account, account)[0][0])

    def anomalies(self, source: str) -> list[str]:
        """Return the kinds of what was kept to look at."""
        sql = "SELECT kind FROM {p}anomalies WHERE source = ? ORDER BY first_at_millis"
        return [row[0] for row in self._rows(sql, source)]

    def reopen(self) -> None:
        """Close and open it again; one in memory stays as it is."""

    def _rows(self, sql: str, *parameters: object) -> list[Any]:
        raise NotImplementedError


class InMemory(AnyLedger):
    """A MemoryLedger; nothing of it outlives it."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()

    def _rows(self, sql: str, *parameters: object) -> list[Any]:
        return list(self.ledger._read(lambda: _execute(sql.replace("{p}", "game_operator_"), *parameters)))


class InDatabase(AnyLedger):
    """A SqlLedger."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ledger = SqlLedger(url)

    def _rows(self, sql: str, *parameters: object) -> list[Any]:
        return rows(self.url, sql, *parameters)

    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = SqlLedger(self.url)

    def another(self) -> AnyLedger:
        """Return a second ledger on the same database, as another process would have it."""
        return type(self)(self.url)


class AsyncInDatabase(InDatabase):
    """An AsyncSqlLedger on a loop in a thread of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened = start_blocking_portal("asyncio")
        self._portal = self._opened.__enter__()
        self.ledger = self.run(AsyncSqlLedger(url).__aenter__())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **options: self.run(getattr(self.ledger, name)(*arguments, **options))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await *coroutine* on the ledger's loop."""

        async def awaited() -> T:
            return await coroutine

        return self._portal.call(awaited)

    def at_once(self, work: Sequence[Work]) -> list[Outcome | LedgerError]:
        async def one(call: WebhookCall, terms: Terms) -> Outcome | LedgerError:
            try:
                outcome: Outcome = await self.ledger.apply(call, terms=terms)
            except LedgerError as refused:
                return refused
            return outcome

        async def all_of_them() -> list[Outcome | LedgerError]:
            return await asyncio.gather(*(one(*each) for each in work))

        return self.run(all_of_them())

    def bets(self, **bounds: Any) -> list[BetRecord]:
        async def listed() -> list[BetRecord]:
            return [bet async for bet in self.ledger.bets(**bounds)]

        return self.run(listed())

    def reopen(self) -> None:
        self.run(self.ledger.close())
        self.ledger = self.run(AsyncSqlLedger(self.url).__aenter__())

    def close(self) -> None:
        try:
            self.run(self.ledger.close())
        finally:
            self._opened.__exit__(None, None, None)


def _execute(sql: str, *parameters: Any) -> Steps[Rows]:
    rows: Rows = yield Execute(sql, parameters)
    return rows


def funded(url: str, units: int = 10, *others: str, **settings: Any) -> SqlLedger:
    """Return a ledger in which p1, and each of *others*, has so many units."""
    ledger = SqlLedger(url, **settings)
    for player_id in ("p1", *others):
        ledger.open_account(player_id, Decimal(units))
    return ledger


@asynccontextmanager
async def funded_async(url: str, units: int = 10) -> AsyncIterator[AsyncSqlLedger]:
    """Open a ledger of asyncio in which p1 has so many units."""
    async with AsyncSqlLedger(url) as ledger:
        await ledger.open_account("p1", Decimal(units))
        yield ledger


def store_of(ledger: SqlLedger | AsyncSqlLedger) -> Any:  # Any: tests look into one or the other kind.
    """Return the connection of *ledger*."""
    return ledger._store
