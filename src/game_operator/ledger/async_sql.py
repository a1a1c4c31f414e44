"""The ledger in a database, for one event loop of asyncio: SQLite or PostgreSQL, by its address."""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from game_operator.codes import BetState
from game_operator.errors import LedgerUnavailableError
from game_operator.ledger.accounts.choice import check_own, most_calls
from game_operator.ledger.api import DEFAULT_TERMS, BetRecord, Outcome, Terms, account_asked_for
from game_operator.ledger.base import LedgerBase
from game_operator.ledger.books.verify import BooksReport
from game_operator.ledger.books.whole_books import verified
from game_operator.ledger.engine.address import check_psycopg, is_postgres
from game_operator.ledger.engine.batch import Result
from game_operator.ledger.engine.commit_queue import AsyncCommitQueue
from game_operator.ledger.engine.process_safety import Transaction, check_outside
from game_operator.ledger.engine.sources import refusal
from game_operator.ledger.engine.tables import by_writer, rights_explained
from game_operator.ledger.ownership import check_owned
from game_operator.ledger.ping import PingReport
from game_operator.ledger.rules.book import Item, asks_operator
from game_operator.ledger.sqlite import AsyncSqliteStore
from game_operator.ledger.staff import queries
from game_operator.ledger.staff.adjustments import adjust, open_account
from game_operator.ledger.staff.anomalies import keep_anomaly
from game_operator.ledger.staff.findings import check_person
from game_operator.ledger.staff.limits import BetStop, Spent, checked_since, checked_stop, spent, start_bets, stop_bets
from game_operator.ledger.staff.queries import BetsWanted, has_own_snapshot
from game_operator.ledger.steps import Connection, Steps, as_steps, run, run_async
from game_operator.models.webhooks import WebhookCall
from game_operator.money import Cents

if TYPE_CHECKING:
    from game_operator.ledger.postgres.store import AsyncPostgresStore

T = TypeVar("T")

_INHERITED: list[object] = []


class AsyncSqlLedger(LedgerBase):
    """
    SqlLedger for asyncio: the same names and arguments, awaited, of what a program that serves calls needs.

    The database is opened by ``async with``, or by the first call. ``may_bet`` and ``after`` may be async. For
    anomalies, histories, totals, nightly maintenance and the doctor, open a SqlLedger at the same address.

    Raises:
        ConfigurationError: The prefix cannot be used, or the database is PostgreSQL and psycopg is not installed.
    """

    _awaits = True
    _store: "AsyncSqliteStore | AsyncPostgresStore | None" = None
    _closed = False

    def _begin(self) -> None:
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

    async def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS, connection: Connection = None) -> Outcome:
        """
        Apply *call* in one transaction and return what became of it, committed.

        With *connection* it is the transaction that you have opened on it, as ``SqlLedger.apply`` describes; taken are
        psycopg's AsyncConnection and SQLAlchemy's AsyncConnection and AsyncSession. The ledger need not be open, but
        must have been once on that database, to make its tables. It raises what ``SqlLedger.apply`` raises.
        """
        if self._owns is not None:
            await run_async(self._owned(call, terms, connection))
        if connection is not None:
            return await run_async(self._joined(call, terms, connection))
        check_outside(self)
        # The operator's code belongs to its caller: it sees the caller's context variables.
        context = contextvars.copy_context() if asks_operator(call, terms) else None
        waiting = None if self._telemetry is None else self._telemetry.waiting_call()
        return await self._queue.submit(Item(call, terms, context, waiting))

    def check_source(self, source: str) -> None:
        """
        Raise UnknownSourceError if calls of *source* would be refused; an AsyncWallet asks when it is made.

        A ledger that is open goes by what it knew then: ``sources`` reads again what was added since. One that is not
        open leaves it to the first call.
        """
        known = self._fit.sources.known if self._store is not None else ()
        if known and source not in known:
            raise refusal(source, known)

    async def ping(self, *, timeout_seconds: float = 1.0) -> PingReport:
        """Return how the database answers, as ``SqlLedger.ping`` does; the ledger may be closed."""
        return await self._pinger.ping_async(self._url, timeout_seconds)

    async def keep_anomaly(
        self, operation: str, kind: str, body: bytes, *, source: str = "", connection: Connection = None
    ) -> None:
        """Keep a genuine call that was refused, as ``SqlLedger.keep_anomaly`` does."""
        script = partial(keep_anomaly, operation, kind, body, source)
        if connection is not None:
            return await run_async(self._joiner.run(script, connection))
        return await self._write(lambda: script(self._fit))

    async def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> Cents:
        """Open an account, as ``SqlLedger.open_account`` does."""
        check_own(self._accounts, "open_account")
        check_owned(self._owns, player_id)
        return await self._write(lambda: open_account(player_id, opening, self._fit))

    async def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> Cents:
        """Move money from outside games, as ``SqlLedger.adjust`` does."""
        check_own(self._accounts, "adjust")
        check_owned(self._owns, player_id)
        return (await self._write(lambda: adjust(player_id, amount, reference, self._fit))).balance_cents

    async def balance(self, player_id: str | tuple[str, ...]) -> Cents:
        """Return the balance in cents, as ``SqlLedger.balance`` does."""
        account = account_asked_for(player_id, self._accounts)
        return await self._read(lambda: queries.balance_of(account, self._fit.accounts))

    async def spent(self, account: str | tuple[str, ...], *, since_millis: int, connection: Connection = None) -> Spent:
        """Return what an account has wagered and got, as ``SqlLedger.spent`` does."""
        key, since = account_asked_for(account, self._accounts), checked_since(since_millis)
        if connection is None:
            return await self._read(lambda: spent(self._fit.kind, self._prefix, key, since))
        return await run_async(self._joiner.read(lambda kind: spent(kind, self._prefix, key, since), connection))

    async def sources(self) -> list[str]:
        """Return the sources whose calls are taken, the oldest first."""
        return await self._read(lambda: self._fit.sources.load())

    async def add_source(self, name: str) -> None:
        """Take calls of a further source, as ``SqlLedger.add_source`` does."""
        await run_async(self._added(name))

    async def stop_bets(self, *, actor: str, reason: str, code: str = "LIMIT_EXCEEDED") -> BetStop:
        """Refuse withdraws that would debit, as ``SqlLedger.stop_bets`` does."""
        stop = checked_stop(actor, reason, code)
        return await self._write(lambda: stop_bets(stop, self._fit))

    async def start_bets(self, *, actor: str, reason: str) -> BetStop | None:
        """Take bets again, decided by *actor* for a *reason*, as ``SqlLedger.start_bets`` does; return the stop."""
        check_person(actor, reason)
        return await self._write(lambda: start_bets(actor, reason, self._fit))

    async def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        """Return what is known of a bet, or None."""
        return await self._read(partial(queries.bet, self._prefix, bet_id, source))

    async def bets(
        self,
        *,
        since_millis: int | None = None,
        until_millis: int | None = None,
        source: str = "",
        state: BetState | None = None,
        player_id: str | None = None,
    ) -> AsyncIterator[BetRecord]:
        """Yield bets, oldest first, as ``SqlLedger.bets`` does; they are read in a thread beside the loop."""
        wanted = BetsWanted(source, since_millis, until_millis, state, player_id)
        read: Callable[..., Any] = self._read
        with contextlib.ExitStack() as stack:
            if has_own_snapshot(self._url):
                await self._read(queries.nothing)  # The ledger must be open, and outside its own transactions.
                listing: Any = stack.enter_context(contextlib.closing(queries.Listing(self._url)))
                read = partial(asyncio.to_thread, listing.read)
            after: BetRecord | None = None
            while True:
                bets = await read(partial(queries.page_of_bets, self._prefix, wanted, after, 1_000))
                for bet in bets:
                    yield bet
                if len(bets) < 1_000:
                    return
                after = bets[-1]

    async def verify(self, *, full: bool = False) -> BooksReport:
        """Return what is wrong in the books, as ``SqlLedger.verify`` does, while calls go on."""
        await self._read(queries.nothing)  # It makes the tables, should nobody have done so yet.
        if not has_own_snapshot(self._url):
            return await run_async(verified(as_steps(self._read), self._prefix, full=full))

        def in_thread() -> BooksReport:
            with contextlib.closing(queries.Listing(self._url, "pages", self._prefix)) as pages:
                return run(verified(as_steps(pages.read), self._prefix, full=full))

        return await asyncio.to_thread(in_thread)

    async def _apply_all(self, items: Sequence[Item]) -> list[Result]:
        async with self._mutex:
            await self._opened()
            return await run_async(self._applied(items))

    async def _write(self, script: Callable[[], Steps[T]]) -> T:
        check_outside(self)
        async with self._mutex:
            await self._opened()
            with rights_explained(self._prefix):
                return await run_async(self._written(lambda: by_writer(self._fit.kind, self._prefix, script)))

    async def _read(self, script: Callable[[], Steps[T]]) -> T:
        check_outside(self)
        async with self._mutex:
            store = await self._opened()
            with Transaction(self):
                return await store.read(script)

    async def _opened(self) -> "AsyncSqliteStore | AsyncPostgresStore":
        if self._closed:
            raise LedgerUnavailableError("The ledger is closed. Repeat the call with one that is open.")
        if self._store is None:
            await run_async(self._open())
        assert self._store is not None
        return self._store
