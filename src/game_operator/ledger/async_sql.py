"""The ledger in a database, for one event loop of asyncio: SQLite or PostgreSQL, by its address."""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from decimal import Decimal
from functools import partial, wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from game_operator.errors import LedgerError, LedgerUnavailableError, UnknownSourceError
from game_operator.ledger.accounts.choice import check_own, most_calls
from game_operator.ledger.api import DEFAULT_TERMS, Outcome, Terms
from game_operator.ledger.base import LedgerBase
from game_operator.ledger.books.verify import Reader
from game_operator.ledger.engine.address import check_psycopg, is_postgres
from game_operator.ledger.engine.commit_queue import AsyncCommitQueue
from game_operator.ledger.engine.process_safety import Transaction, check_outside
from game_operator.ledger.engine.script import Result, Script, Work, at_once, awaited
from game_operator.ledger.engine.sources import refusal
from game_operator.ledger.engine.tables import by_writer, rights_explained
from game_operator.ledger.ownership import check_owned
from game_operator.ledger.ping import PingReport
from game_operator.ledger.rules.book import Item, asks_operator
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.sqlite import AsyncSqliteStore
from game_operator.ledger.staff import queries
from game_operator.ledger.staff.adjustments import adjust
from game_operator.ledger.staff.queries import Page, Use, has_own_snapshot
from game_operator.models.webhooks import WebhookCall
from game_operator.money import Cents

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

_INHERITED: list[object] = []


def _awaited(method: Callable[Concatenate[SqlLedger, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return *method* for an AsyncSqlLedger, where its answer is awaited."""

    @wraps(method)
    async def awaiting(ledger: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: Any = method(ledger, *args, **kwargs)
        return await answer  # type: ignore[no-any-return]  # What the method returns for threads.

    return awaiting


def _iterated(
    method: Callable[Concatenate[SqlLedger, P], Iterator[R]],
) -> Callable[Concatenate[Any, P], AsyncIterator[R]]:
    """Return *method* for an AsyncSqlLedger, where ``async for`` takes its records."""

    @wraps(method)
    def listing(ledger: Any, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
        answer: Any = method(ledger, *args, **kwargs)
        return answer  # type: ignore[no-any-return]

    described: Any = listing
    described.__signature__ = signature(method).replace(return_annotation="AsyncIterator")
    return listing


class AsyncSqlLedger(LedgerBase):
    """
    SqlLedger for asyncio: the same names and arguments, awaited.

    The database is opened by ``async with``, or by the first call. ``may_bet`` and ``after`` may be async.

    Raises:
        ConfigurationError: The prefix cannot be used, or the database is PostgreSQL and psycopg is not installed.
    """

    _awaits = True
    _sleep = staticmethod(asyncio.sleep)
    _done = staticmethod(awaited)

    _closed = False

    def _begin(self) -> None:
        self._expected: set[str] = set()
        if is_postgres(self._url):
            check_psycopg()

    def _make_queue(self) -> None:
        self._mutex = asyncio.Lock()
        self._queue = AsyncCommitQueue(self._run_of_queue(), most=most_calls(self._accounts))

    def after_fork(self, *, in_child: bool) -> None:
        """With *in_child*, begin anew: the connection and the event loop are the parent's."""
        if in_child:
            if self._store is not None:
                _INHERITED.append(self._store)  # Never closed by us, nor by a collection of garbage.
            self._store = None
        super().after_fork(in_child=in_child)

    async def __aenter__(self) -> "AsyncSqlLedger":
        self._closed = False
        self._watch(is_open=True)
        async with self._mutex:
            await self._opened()
        try:
            for source in self._expected:
                self._check_known(source)
        except BaseException:  # A block that is never entered is never left: nothing else would close it.
            await self.close()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; what still waits raises LedgerUnavailableError. ``async with`` opens it again."""
        check_outside(self)
        self._closed = True
        self._watch(is_open=False)
        async with self._mutex:
            store, self._store = self._store, None
            if store is not None:
                await store.close()

    async def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS, connection: Any = None) -> Outcome:
        """
        Apply *call* in one transaction and return what became of it, committed.

        With *connection* it is the transaction that you have opened on it, as ``SqlLedger.apply`` describes; taken are
        psycopg's AsyncConnection and SQLAlchemy's AsyncConnection and AsyncSession. The ledger need not be open, but
        must have been once on that database, to make its tables. It raises what ``SqlLedger.apply`` raises.
        """
        if self._owns is not None:
            await awaited(self._owned(call, terms, connection))
        if connection is not None:
            try:
                return await awaited(self._joiner.apply(Item(call, terms), connection))
            except UnknownSourceError:
                await self._keep_beside(self._keeping_unknown(call, terms))
                raise
        check_outside(self)
        # The operator's code belongs to its caller: it sees the caller's context variables.
        context = contextvars.copy_context() if asks_operator(call, terms) else None
        waiting = None if self._telemetry is None else self._telemetry.waiting_call()
        return await self._queue.submit(Item(call, terms, context, waiting))

    async def _keep_beside(self, script: Callable[[], Script[None]] | None) -> None:
        """Keep a joined deposit or rollback that was refused, as ``SqlLedger`` does."""
        if script is not None and not self._mutex.locked():
            with contextlib.suppress(LedgerError):
                await self._write(script)

    async def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> Cents:
        """Move money from outside games, as ``SqlLedger.adjust`` does."""
        check_own(self._accounts, "adjust")
        check_owned(self._owns, player_id)
        return (await self._write(lambda: adjust(player_id, amount, reference, self._fit))).balance_cents

    def check_source(self, source: str) -> None:
        """
        Raise UnknownSourceError if calls of *source* would be refused; an AsyncWallet asks when it is made.

        A ledger that is not open yet asks when it is opened. One that is open goes by what it knew then: ``sources``
        reads again what was added since.
        """
        if self._store is not None:
            self._check_known(source)
        self._expected.add(source)

    def _check_known(self, source: str) -> None:
        known = self._fit.sources.known
        if known and source not in known:
            raise refusal(source, known)

    async def ping(self, *, timeout_seconds: float = 1.0) -> PingReport:
        """Look whether the database answers and takes writes, as ``SqlLedger.ping`` does; the ledger may be closed."""
        return await self._pinger.ping_async(self._url, timeout_seconds)

    # The bodies are SqlLedger's: what they ask of the ledger, such as ``_read`` and ``_write``, is awaited here.
    keep_anomaly = _awaited(SqlLedger.keep_anomaly)
    open_account = _awaited(SqlLedger.open_account)
    balance = _awaited(SqlLedger.balance)
    spent = _awaited(SqlLedger.spent)
    sources = _awaited(SqlLedger.sources)
    add_source = _awaited(SqlLedger.add_source)
    stop_bets = _awaited(SqlLedger.stop_bets)
    start_bets = _awaited(SqlLedger.start_bets)
    bet = _awaited(SqlLedger.bet)
    bets = _iterated(SqlLedger.bets)
    anomalies = _iterated(SqlLedger.anomalies)
    retry = _awaited(SqlLedger.retry)
    resolve = _awaited(SqlLedger.resolve)
    history = _awaited(SqlLedger.history)
    account_history = _awaited(SqlLedger.account_history)
    verify = _awaited(SqlLedger.verify)
    doctor = _awaited(SqlLedger.doctor)
    correct_time = _awaited(SqlLedger.correct_time)
    maintain = _awaited(SqlLedger.maintain)
    totals = _awaited(SqlLedger.totals)
    close_totals = _awaited(SqlLedger.close_totals)

    async def _apply_all(self, items: Sequence[Item]) -> list[Result]:
        async with self._mutex:
            await self._opened()
            return await awaited(self._applied(items))

    async def _write(self, script: Callable[[], Script[T]]) -> T:
        check_outside(self)
        async with self._mutex:
            await self._opened()
            work = self._written(lambda: by_writer(self._fit.kind, self._prefix, script))
            return await awaited(rights_explained(self._prefix, work))

    async def _read(self, script: Callable[[], Script[T]]) -> T:
        check_outside(self)
        async with self._mutex:
            await self._opened()
            with Transaction(self):
                return await self._store.read(script)  # type: ignore[no-any-return]  # What the script returns.

    async def _opened(self) -> None:
        if self._closed:
            raise LedgerUnavailableError("The ledger is closed. Repeat the call with one that is open.")
        if self._store is None:
            await awaited(self._open())

    async def _open_sqlite(self) -> AsyncSqliteStore:
        store = AsyncSqliteStore()
        await store.open(super()._open_sqlite)
        return store

    async def _survey(self, script: Callable[[], Script[T]], use: Use = "survey") -> T:
        if not has_own_snapshot(self._url):
            return await self._read(script)
        await self._read(queries.nothing)  # It makes the tables, should nobody have done so yet.
        return await asyncio.to_thread(queries.survey, self._url, script, use, self._prefix)

    async def _in_pages(self, work: Callable[[Reader], Work[T]]) -> T:
        if not has_own_snapshot(self._url):
            return await awaited(work(self._read))
        await self._read(queries.nothing)  # It makes the tables, should nobody have done so yet.

        def in_thread() -> T:
            with contextlib.closing(queries.Listing(self._url, "pages", self._prefix)) as pages:
                return at_once(work(pages.read))

        return await asyncio.to_thread(in_thread)

    def _elsewhere(self, work: Callable[[], object]) -> Any:
        return asyncio.to_thread(work)

    @contextlib.contextmanager
    def _beside(self) -> Iterator[Reader]:
        if not has_own_snapshot(self._url):
            yield self._read
            return
        with contextlib.closing(queries.Listing(self._url, "pages", self._prefix)) as pages:
            read: Callable[..., Any] = pages.read
            yield partial(asyncio.to_thread, read)

    async def _listed(self, page: Page[R], most: int, admits: Callable[[R], bool] = lambda _: True) -> AsyncIterator[R]:
        """Yield the records that are admitted, of all pages of at most so many, read in a thread beside the loop."""
        read: Callable[..., Any] = self._read
        with contextlib.ExitStack() as stack:
            if has_own_snapshot(self._url):
                await self._read(queries.nothing)  # The ledger must be open, and outside its own transactions.
                listing: Any = stack.enter_context(contextlib.closing(queries.Listing(self._url)))
                read = partial(asyncio.to_thread, listing.read)
            after: R | None = None
            for size in queries.page_sizes(most):
                records = await read(partial(page, after, size))
                for record in filter(admits, records):
                    yield record
                if len(records) < size:
                    return
                after = records[-1]
