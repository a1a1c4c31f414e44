"""
Ledgers of every kind behind one face: a ledger in memory, and in a database for threads and for asyncio.

The face is blocking. An AsyncSqlLedger runs on an event loop in a thread of its own, as it would in a server.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

from game_operator.errors import LedgerError
from game_operator.ledger import AsyncSqlLedger, BetRecord, MemoryLedger, Outcome, SqlLedger, Terms
from game_operator.ledger.api import DEFAULT_TERMS
from game_operator.ledger.rules.book import Posting
from game_operator.ledger.steps import Execute, Rows, Steps
from game_operator.models.webhooks import WebhookCall

__all__ = ["KINDS", "AnyLedger", "AsyncInDatabase", "InDatabase", "InMemory", "Work"]

T = TypeVar("T")
#: A call and the rules it is applied by.
Work = tuple[WebhookCall, Terms]

KINDS = ("memory", "sqlite", "async sqlite", "postgres", "async postgres")
THREADS = 16


class AnyLedger(ABC):
    """What the contract asks of a ledger."""

    @abstractmethod
    def apply(self, call: WebhookCall, terms: Terms = DEFAULT_TERMS) -> Outcome:
        """Apply one call."""

    @abstractmethod
    def at_once(self, work: Sequence[Work]) -> list[Outcome | LedgerError]:
        """Apply many calls at the same time; outcomes in the order of *work*."""

    @abstractmethod
    def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> int: ...

    @abstractmethod
    def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> int: ...

    @abstractmethod
    def add_source(self, name: str) -> None: ...

    @abstractmethod
    def balance(self, player_id: str) -> int: ...

    @abstractmethod
    def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None: ...

    @abstractmethod
    def bets(self, **bounds: Any) -> list[BetRecord]: ...

    @abstractmethod
    def moved_cents(self, account: str) -> int:
        """Return the sum of the postings of *account*."""

    @abstractmethod
    def anomalies(self, source: str) -> list[str]:
        """Return the kinds of what was kept to look at."""

    @abstractmethod
    def reopen(self) -> None:
        """Close and open it again; one in memory stays as it is."""

    @abstractmethod
    def another(self) -> "AnyLedger":
        """Return a second ledger on the same database, as another process would have it."""

    @abstractmethod
    def close(self) -> None: ...


def _apply_or_refuse(apply: Callable[[WebhookCall, Terms], Outcome], work: Work) -> Outcome | LedgerError:
    try:
        return apply(*work)
    except LedgerError as refused:
        return refused


class _Unawaited(AnyLedger):
    ledger: MemoryLedger | SqlLedger

    def apply(self, call: WebhookCall, terms: Terms = DEFAULT_TERMS) -> Outcome:
        return self.ledger.apply(call, terms=terms)

    def at_once(self, work: Sequence[Work]) -> list[Outcome | LedgerError]:
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(partial(_apply_or_refuse, self.apply), work))

    def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> int:
        return self.ledger.open_account(player_id, opening)

    def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> int:
        return self.ledger.adjust(player_id, amount, reference=reference)

    def add_source(self, name: str) -> None:
        self.ledger.add_source(name)

    def balance(self, player_id: str) -> int:
        return self.ledger.balance(player_id)

    def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        return self.ledger.bet(bet_id, source=source)

    def bets(self, **bounds: Any) -> list[BetRecord]:
        return list(self.ledger.bets(**bounds))


class InMemory(_Unawaited):
    """A MemoryLedger; nothing of it outlives it."""

    ledger: MemoryLedger

    def __init__(self) -> None:
        self.ledger = MemoryLedger()

    def moved_cents(self, account: str) -> int:
        postings = postings_of(self.ledger)
        into = sum(each.amount_cents for each in postings if each.to_account == account)
        return into - sum(each.amount_cents for each in postings if each.from_account == account)

    def anomalies(self, source: str) -> list[str]:
        return [kept.kind for kept in self.ledger.anomalies(source=source)]

    def reopen(self) -> None: ...

    def another(self) -> AnyLedger:
        raise NotImplementedError("a ledger in memory is one process's own")

    def close(self) -> None:
        self.ledger.close()


class _Rows:
    """Reads the tables past the ledger, as an auditor would."""

    def __init__(self, url: str) -> None:
        self._connection: Any  # Any: of one driver or the other.
        self._mark = "?"
        if url.startswith("sqlite:///"):
            path = url.removeprefix("sqlite:///")
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        else:
            import psycopg

            self._connection = psycopg.connect(url, autocommit=True)
            self._mark = "%s"

    def rows(self, sql: str, *parameters: object) -> list[Any]:
        """Return the rows of a query whose parameters are written ?."""
        found: list[Any] = self._connection.execute(sql.replace("?", self._mark), parameters).fetchall()
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def moved_cents(self, account: str) -> int:
        """Return the sum of the postings of *account*, those that are folded too."""
        sql = (
            "SELECT coalesce(sum(CASE WHEN to_account = ? THEN amount_cents ELSE -amount_cents END), 0) "
            "+ coalesce((SELECT cents FROM game_operator_carried WHERE account = ?), 0) "
            "FROM game_operator_postings WHERE to_account = ? OR from_account = ?"
        )
        return int(self.rows(sql, account, account, account, account)[0][0])

    def anomalies(self, source: str) -> list[str]:
        """Return the kinds of what was kept."""
        sql = "SELECT kind FROM game_operator_anomalies WHERE source = ? ORDER BY first_at_millis"
        return [row[0] for row in self.rows(sql, source)]


class _InTables(AnyLedger):
    _rows: _Rows

    def moved_cents(self, account: str) -> int:
        return self._rows.moved_cents(account)

    def anomalies(self, source: str) -> list[str]:
        return self._rows.anomalies(source)


class InDatabase(_Unawaited, _InTables):
    """A SqlLedger."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ledger = SqlLedger(url)
        self._rows = _Rows(url)

    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = SqlLedger(self.url)

    def another(self) -> AnyLedger:
        return InDatabase(self.url)

    def close(self) -> None:
        self._rows.close()
        self.ledger.close()


class AsyncInDatabase(_InTables):
    """An AsyncSqlLedger on a loop in a thread of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened = start_blocking_portal("asyncio")
        self._portal = self._opened.__enter__()
        self.ledger = self.run(self._open())
        self._rows = _Rows(url)

    async def _open(self) -> AsyncSqlLedger:
        return await AsyncSqlLedger(self.url).__aenter__()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await *coroutine* on the ledger's loop."""

        async def awaited() -> T:
            return await coroutine

        return self._portal.call(awaited)

    def apply(self, call: WebhookCall, terms: Terms = DEFAULT_TERMS) -> Outcome:
        return self.run(self.ledger.apply(call, terms=terms))

    def at_once(self, work: Sequence[Work]) -> list[Outcome | LedgerError]:
        results: list[Any] = [None] * len(work)

        async def one(index: int) -> None:
            call, terms = work[index]
            try:
                results[index] = await self.ledger.apply(call, terms=terms)
            except LedgerError as refused:
                results[index] = refused

        async def all_of_them() -> None:
            async with anyio.create_task_group() as tasks:
                for index in range(len(work)):
                    tasks.start_soon(one, index)

        self.run(all_of_them())
        return results

    def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> int:
        return self.run(self.ledger.open_account(player_id, opening))

    def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> int:
        return self.run(self.ledger.adjust(player_id, amount, reference=reference))

    def add_source(self, name: str) -> None:
        self.run(self.ledger.add_source(name))

    def balance(self, player_id: str) -> int:
        return self.run(self.ledger.balance(player_id))

    def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        return self.run(self.ledger.bet(bet_id, source=source))

    def bets(self, **bounds: Any) -> list[BetRecord]:
        async def listed() -> list[BetRecord]:
            return [bet async for bet in self.ledger.bets(**bounds)]

        return self.run(listed())

    def reopen(self) -> None:
        self.run(self.ledger.close())
        self.ledger = self.run(self._open())

    def another(self) -> AnyLedger:
        return AsyncInDatabase(self.url)

    def close(self) -> None:
        self._rows.close()
        try:
            self.run(self.ledger.close())
        finally:
            self._opened.__exit__(None, None, None)


def postings_of(ledger: MemoryLedger) -> list[Posting]:
    """Return all movements, oldest first."""
    rows = ledger._read(lambda: _rows(f"SELECT {', '.join(Posting._fields)} FROM game_operator_postings ORDER BY id"))
    return [Posting(*row) for row in rows]


def _rows(sql: str) -> Steps[Rows]:
    rows: Rows = yield Execute(sql, ())
    return rows


def store_of(ledger: SqlLedger | AsyncSqlLedger) -> Any:  # Any: tests look into one or the other kind.
    """Return the connection of *ledger*."""
    return ledger._store
