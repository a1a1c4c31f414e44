"""The ledger in a database, for one event loop of asyncio: SQLite or PostgreSQL, by its address."""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from game_operator.errors import LedgerError, LedgerUnavailableError, UnknownSourceError
from game_operator.ledger.accounts.choice import check_own, most_calls
from game_operator.ledger.api import DEFAULT_TERMS, BetRecord, Outcome, Terms, account_asked_for
from game_operator.ledger.base import LedgerBase
from game_operator.ledger.engine.address import check_psycopg, is_postgres
from game_operator.ledger.engine.commit_queue import AsyncCommitQueue
from game_operator.ledger.engine.process_safety import Transaction, check_outside
from game_operator.ledger.engine.script import Result, Script, awaited
from game_operator.ledger.engine.sources import check_source_name, refusal
from game_operator.ledger.rules.book import Item
from game_operator.ledger.sqlite import AsyncSqliteStore
from game_operator.ledger.staff import queries
from game_operator.ledger.staff.adjustments import TimeCorrection, adjust, correct_time, open_account
from game_operator.ledger.staff.anomalies import AnomalyRecord, Wanted, keep_anomaly, page_of_anomalies
from game_operator.ledger.staff.prune import PruneReport
from game_operator.ledger.staff.queries import AccountHistory, BetHistory, Page, has_own_snapshot
from game_operator.ledger.staff.verify import BooksReport, books_report
from game_operator.models.webhooks import WebhookCall
from game_operator.money import Cents

T = TypeVar("T")
R = TypeVar("R")

_INHERITED: list[object] = []


class AsyncSqlLedger(LedgerBase):
    """
    SqlLedger for asyncio: the same names and arguments, awaited.

    The database is opened by ``async with``, or by the first call. ``may_bet`` and ``within`` may be async, on SQLite
    they may not.

    Raises:
        ConfigurationError: The prefix cannot be used, or the database is PostgreSQL and psycopg is not installed.
    """

    _awaits = True
    _sleep = staticmethod(asyncio.sleep)

    _closed = False

    def _begin(self) -> None:
        self._expected: set[str] = set()
        if is_postgres(self._url):
            check_psycopg()

    def _make_queue(self) -> None:
        self._mutex = asyncio.Lock()
        self._queue = AsyncCommitQueue(self._apply_all, most=most_calls(self._accounts))

    def after_fork(self, *, in_child: bool) -> None:
        """In the child, begin anew: the parent's connection and its event loop are the parent's."""
        if in_child:
            if self._store is not None:
                _INHERITED.append(self._store)  # Never closed by us, nor by a collection of garbage.
            self._store = None
        super().after_fork(in_child=in_child)

    async def __aenter__(self) -> "AsyncSqlLedger":
        self._closed = False
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
        async with self._mutex:
            store, self._store = self._store, None
            if store is not None:
                await store.close()

    async def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS, connection: Any = None) -> Outcome:
        """
        Apply *call* in one transaction and return what became of it, committed.

        With *connection* it is the transaction that you have opened on it, as ``SqlLedger.apply`` describes; taken are
        psycopg's AsyncConnection and SQLAlchemy's AsyncConnection and AsyncSession. The ledger need not be open, but
        must have been once on that database, to make its tables.

        Raises:
            LedgerUnavailableError: The database is down, locked or full. The call may have been committed: repeat it.
            TransactionRequiredError: *connection* has no open transaction.
            SchemaError: The tables are not in the database of *connection*.
            TypeError: The ledger does not take *connection*.
            UnknownSourceError: The ledger knows other sources, and not that of *terms*.
            LedgerError: It is called from within a transaction of this ledger, without its *connection*; or another
                transaction registers the first source at this moment, and a repeat will find it.
        """
        if connection is not None:
            try:
                return await awaited(self._joiner.apply(Item(call, terms), connection))
            except UnknownSourceError:
                await self._keep_unknown(call, terms)
                raise
        check_outside(self)
        # What within runs belongs to its caller: it sees the caller's context variables.
        context = contextvars.copy_context() if terms.within is not None else None
        return await self._queue.submit(Item(call, terms, context))

    async def _keep_unknown(self, call: WebhookCall, terms: Terms) -> None:
        """Keep a joined deposit or rollback of an unknown source, as ``SqlLedger`` does."""
        script = self._keeping_unknown(call, terms)
        if script is not None and not self._mutex.locked():
            with contextlib.suppress(LedgerError):
                await self._write(script)

    async def keep_anomaly(
        self, operation: str, kind: str, body: bytes, *, source: str = "", connection: Any = None
    ) -> None:
        """Keep a genuine call that was refused, as ``SqlLedger.keep_anomaly`` does."""
        if connection is not None:
            await awaited(self._joiner.run(partial(keep_anomaly, operation, kind, body, source), connection))
        else:
            await self._write(lambda: keep_anomaly(operation, kind, body, source, self._fit))

    async def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> Cents:
        """Open an account, as ``SqlLedger.open_account`` does."""
        check_own(self._accounts, "open_account")
        return await self._write(lambda: open_account(player_id, opening, self._fit))

    async def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> Cents:
        """Move money from outside games, as ``SqlLedger.adjust`` does."""
        check_own(self._accounts, "adjust")
        return (await self._write(lambda: adjust(player_id, amount, reference, self._fit))).balance_cents

    async def balance(self, player_id: str | tuple[str, ...]) -> Cents:
        """Return the balance in cents, as ``SqlLedger.balance`` does."""
        account = account_asked_for(player_id, self._accounts)
        return await self._read(lambda: queries.balance_of(account, self._fit.accounts))

    async def sources(self) -> list[str]:
        """Return the sources whose calls are taken, the oldest first."""
        return await self._read(lambda: self._fit.sources.load())

    async def add_source(self, name: str) -> None:
        """Take calls of a further source, as ``SqlLedger.add_source`` does."""
        check_source_name(name)
        await self._write(lambda: self._fit.sources.add(name, self._fit))
        self._fit.sources.known.add(name)

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

    async def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        """Return what is known of a bet, or None."""
        return await self._read(partial(queries.bet, self._prefix, bet_id, source))

    def bets(
        self, *, since_millis: int | None = None, until_millis: int | None = None, source: str = ""
    ) -> AsyncIterator[BetRecord]:
        """Yield the bets opened from *since_millis* up to but not at *until_millis*, oldest first."""
        return self._listed(partial(queries.page_of_bets, self._prefix, since_millis, until_millis, source), 1_000)

    def anomalies(
        self,
        *,
        source: str | None = None,
        resolved: bool | None = False,
        since_millis: int = 0,
        until_millis: int | None = None,
        kind: str | Collection[str] | None = None,
        player_id: str | None = None,
        id_prefix: str | None = None,
    ) -> AsyncIterator[AnomalyRecord]:
        """Yield the anomalies, as ``SqlLedger.anomalies`` does."""
        wanted = Wanted(source, resolved, since_millis, until_millis, kind, player_id, id_prefix)
        return self._listed(partial(page_of_anomalies, self._prefix, wanted), 100, wanted.admits)

    async def retry(self, anomaly_id: int, terms: Terms = DEFAULT_TERMS, *, accept_foreign: bool = False) -> Outcome:
        """Apply the call of an anomaly again, as ``SqlLedger.retry`` does."""
        return await awaited(self._retried(anomaly_id, terms, accept_foreign=accept_foreign))

    async def resolve(self, anomaly_id: int) -> None:
        """Mark an anomaly as looked after; raise RetryRefusedError if there is none."""
        await awaited(self._resolved([anomaly_id]))

    async def history(self, bet_id: str, *, source: str = "") -> BetHistory:
        """Return all that is known of a bet, as ``SqlLedger.history`` does."""
        return await self._survey(partial(queries.bet_history, self._prefix, bet_id, source))

    async def account_history(self, player_id: str | tuple[str, ...], *, most: int = 50) -> AccountHistory:
        """Return an account with its movements, as ``SqlLedger.account_history`` does."""
        account = account_asked_for(player_id, self._accounts)
        return await self._survey(partial(queries.account_history, self._prefix, account, most))

    async def verify(self) -> BooksReport:
        """Check the books, as ``SqlLedger.verify`` does."""
        return await self._survey(partial(books_report, self._prefix))

    async def correct_time(self, player_id: str) -> TimeCorrection:
        """Bring the time of an account back, as ``SqlLedger.correct_time`` does."""
        return await self._write(lambda: correct_time(player_id, self._prefix, self._fit))

    async def prune(self, older_than: timedelta | int, *, now_millis: int | None = None) -> PruneReport:
        """Drop old details, as ``SqlLedger.prune`` does."""
        return await awaited(self._pruned(older_than, now_millis))

    async def _apply_all(self, items: Sequence[Item]) -> list[Result]:
        async with self._mutex:
            await self._opened()
            return await awaited(self._applied(items))

    async def _write(self, script: Callable[[], Script[T]]) -> T:
        check_outside(self)
        async with self._mutex:
            await self._opened()
            return await awaited(self._written(script))

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
        return AsyncSqliteStore(await asyncio.to_thread(super()._open_sqlite))

    async def _survey(self, script: Callable[[], Script[T]]) -> T:
        if not has_own_snapshot(self._url):
            return await self._read(script)
        await self._read(queries.nothing)  # It makes the tables, should nobody have done so yet.
        return await asyncio.to_thread(queries.survey, self._url, script)

    async def _listed(self, page: Page[R], most: int, admits: Callable[[R], bool] = lambda _: True) -> AsyncIterator[R]:
        """Yield the records that are admitted, of all pages of at most so many, read in a thread beside the loop."""
        read: Callable[..., Any] = self._read
        with contextlib.ExitStack() as stack:
            if has_own_snapshot(self._url):
                await self._read(queries.nothing)  # The ledger must be open, and outside its own transactions.
                listing: Any = stack.enter_context(contextlib.closing(queries.Listing(self._url)))
                read = partial(asyncio.to_thread, listing.read)
            after: R | None = None
            while True:
                records = await read(partial(page, after, most))
                for record in filter(admits, records):
                    yield record
                if len(records) < most:
                    return
                after = records[-1]
