"""The ledger in a database, for one event loop of asyncio: SQLite or PostgreSQL, by its address."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from game_operator.errors import ConfigurationError, LedgerUnavailableError, shown
from game_operator.ledger.api import DEFAULT_TERMS, BetRecord, Outcome, Terms
from game_operator.ledger.book import Item
from game_operator.ledger.outside import adjust, open_account
from game_operator.ledger.queries import Queries
from game_operator.ledger.queues import AsyncCommitQueue, merged
from game_operator.ledger.schema import check_prefix
from game_operator.ledger.script import ConflictError, Dialect, Result, Step, apply_items
from game_operator.ledger.sqlite import BusyError, SqliteStore, path_of
from game_operator.models.webhooks import WebhookCall
from game_operator.money import Cents

if TYPE_CHECKING:
    from game_operator.ledger.postgres_store import AsyncPostgresStore

__all__ = ["AsyncSqlLedger"]

T = TypeVar("T")

_MOST_CONFLICTS = 10
_PAGE = 1_000


class _Store(Protocol):
    @property
    def dialect(self) -> Dialect: ...

    async def run(self, script: Callable[[], Generator[Step, Any, T]]) -> T: ...

    async def read(self, script: Callable[[], Generator[Step, Any, T]]) -> T: ...

    async def express(self, items: Sequence[Item]) -> Mapping[int, Outcome]: ...

    async def close(self) -> None: ...


class _SqliteOnLoop:
    """
    An SQLite store of an event loop.

    A commit is a fraction of a millisecond, less than handing it to a thread and back; so it is done on the loop. Only
    waiting for another process to finish writing is left to a thread.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.dialect = store.dialect

    async def run(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        try:
            return self._store.run(script, wait=False)
        except BusyError:
            return await asyncio.to_thread(self._store.run, script)

    async def read(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        return self._store.read(script)

    async def express(self, items: Sequence[Item]) -> Mapping[int, Outcome]:
        return self._store.express(items)

    async def close(self) -> None:
        self._store.close()


class AsyncSqlLedger:
    """
    SqlLedger for asyncio: the same names and arguments, awaited.

    The database is opened by ``async with``, or by the first call. ``may_bet`` and ``within`` may be async, on SQLite
    they may not.
    """

    def __init__(
        self,
        url: str,
        *,
        migrate: bool = True,
        table_prefix: str = "game_operator_",
        patience_seconds: float = 5.0,
        clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        prefix = check_prefix(table_prefix)
        self._url, self._prefix, self._migrate = url, prefix, migrate
        self._patience_seconds, self._clock_millis = patience_seconds, clock_millis
        self._store: _Store | None = None
        self._queries = Queries(prefix)
        self._mutex = asyncio.Lock()
        self._queue = AsyncCommitQueue(self._apply_all)

    async def __aenter__(self) -> "AsyncSqlLedger":
        async with self._mutex:
            await self._opened()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        async with self._mutex:
            store, self._store = self._store, None
            if store is not None:
                await store.close()

    async def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS) -> Outcome:
        """
        Apply *call* in one transaction and return what became of it, committed.

        Raises:
            LedgerUnavailableError: The database is down, locked or full. The call may have been committed: repeat it.
        """
        return await self._queue.submit(Item(call, terms))

    async def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> Cents:
        """Open an account, as ``SqlLedger.open_account`` does."""
        return await self._write(lambda dialect: open_account(player_id, opening, dialect))

    async def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> Cents:
        """Move money from outside games, as ``SqlLedger.adjust`` does."""
        return await self._write(lambda dialect: adjust(player_id, amount, reference, dialect))

    async def balance(self, player_id: str) -> Cents:
        """Return the balance in cents; raise AccountNotFoundError if there is no such account."""
        return await self._read(lambda: self._queries.balance(player_id))

    async def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        """Return what is known of a bet, or None."""
        return await self._read(lambda: self._queries.bet(bet_id, source))

    async def bets(
        self, *, since_millis: int | None = None, until_millis: int | None = None, source: str = ""
    ) -> AsyncIterator[BetRecord]:
        """Yield the bets opened from *since_millis* up to but not at *until_millis*, oldest first."""
        after: BetRecord | None = None
        while True:
            page = await self._read(
                lambda: self._queries.bets(since_millis, until_millis, source, after, _PAGE)  # noqa: B023 - run at once
            )
            for bet in page:
                yield bet
            if len(page) < _PAGE:
                return
            after = page[-1]

    async def _apply_all(self, items: Sequence[Item]) -> list[Result]:
        async with self._mutex:
            done = await (await self._opened()).express(items)
        rest = [item for index, item in enumerate(items) if index not in done]
        others = await self._write(lambda dialect: apply_items(rest, dialect)) if rest else []
        return merged(len(items), done, others)

    async def _write(self, script: Callable[[Dialect], Generator[Step, Any, T]]) -> T:
        async with self._mutex:
            store = await self._opened()
            for _ in range(_MOST_CONFLICTS):
                try:
                    return await store.run(lambda: script(store.dialect))
                except ConflictError:
                    continue
        raise LedgerUnavailableError("Other machines kept storing the same call or bet. Repeat the call.")

    async def _read(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        async with self._mutex:
            return await (await self._opened()).read(script)

    async def _opened(self) -> _Store:
        if self._store is None:
            self._store = await self._open()
        return self._store

    async def _open(self) -> _Store:
        if self._url.startswith("sqlite:///"):
            store = await asyncio.to_thread(
                SqliteStore,
                path_of(self._url),
                self._prefix,
                migrate=self._migrate,
                patience_seconds=self._patience_seconds,
                clock_millis=self._clock_millis,
            )
            return _SqliteOnLoop(store)
        if self._url.partition("://")[0].partition("+")[0] in ("postgresql", "postgres"):
            return await self._open_postgres()
        raise ConfigurationError(
            f"{shown(self._url)} is no database we know: use sqlite:///wallet.db or postgresql://…"
        )

    async def _open_postgres(self) -> "AsyncPostgresStore":
        from game_operator.ledger.postgres_store import AsyncPostgresStore, migration

        store = AsyncPostgresStore(self._url, self._prefix, patience_seconds=self._patience_seconds)
        await store.run(lambda: migration(self._prefix, self._migrate))
        return store
