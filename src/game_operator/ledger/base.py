"""What the ledgers in a database share: opening, transactions, and what staff does in several steps."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar
from weakref import ref

from game_operator.codes import BetState
from game_operator.errors import LedgerError, LedgerUnavailableError, UnknownSourceError
from game_operator.ledger.accounts.choice import check_accounts, check_accounts_first, opened_dialect
from game_operator.ledger.api import AccountsSpec, Outcome, Terms, check_source_name
from game_operator.ledger.engine.address import checked_url, is_postgres, path_of, unknown_database
from game_operator.ledger.engine.batch import Result, apply_items, completed
from game_operator.ledger.engine.commit_queue import observed_batch
from game_operator.ledger.engine.dialects import Balances, SqlDialect
from game_operator.ledger.engine.process_safety import Forkable, Transaction, never_back, notify_of_forks
from game_operator.ledger.engine.tables import (
    check_prefix,
    has_table,
    look_at_server,
    migration_in_postgres,
    rights_explained,
)
from game_operator.ledger.joined_calls import Joiner
from game_operator.ledger.ownership import Owns, check_name, check_owned, check_ownership, settle_name
from game_operator.ledger.ping import Pinger
from game_operator.ledger.rules.book import Anomaly, Item
from game_operator.ledger.sqlite import AsyncSqliteStore, SqliteStore
from game_operator.ledger.staff import anomalies, queries
from game_operator.ledger.steps import Answer, ConflictError, Connection, Kind, Step, Steps, driver
from game_operator.models.webhooks import WebhookCall

if TYPE_CHECKING:
    from game_operator.telemetry import Telemetry
else:
    Telemetry = object  # Who reads hints at run time loads no OpenTelemetry.

T = TypeVar("T")

_MOST_CONFLICTS = 10


class Store(Protocol):
    """A connection to a database, which a ledger uses for one transaction at a time; under asyncio it is awaited."""

    def run(self, script: Callable[[], Steps[T]]) -> T | Awaitable[T]:
        """Run *script* in one transaction."""

    def read(self, script: Callable[[], Steps[T]]) -> T | Awaitable[T]:
        """Run a *script* that only reads."""

    def close(self) -> Awaitable[None] | None:
        """Close the connection."""


class LedgerBase(Forkable, ABC):
    """
    What the ledgers for threads and for asyncio share.

    What is done in several steps is written here once. The ledgers perform the steps, hold the connection meanwhile,
    and offer their users plain or awaited methods.
    """

    #: Whether the calls of the store are awaited.
    _awaits: ClassVar[bool]
    #: What opens a file of SQLite.
    _store_of_file: ClassVar[type[SqliteStore]] = SqliteStore
    _url: str
    _store: Store | None = None
    #: PostgreSQL's express statement, where the accounts are our own.
    _express: Callable[[Sequence[Item]], Answer] | None = None
    #: The dialect for the accounts we were given, once the store is open.
    _fit: SqlDialect

    @property
    def _connected(self) -> Store:
        """The store, which is open."""
        assert self._store is not None
        return self._store

    @abstractmethod
    def _begin(self) -> None:
        """Do what is to be done when the ledger is made."""

    @abstractmethod
    def _make_queue(self) -> None:
        """Make the queue of calls that wait for a commit, with nothing in it."""

    @abstractmethod
    def _apply_all(self, items: Sequence[Item]) -> list[Result] | Awaitable[list[Result]]:
        """Apply calls, and commit them together."""

    @abstractmethod
    def _read(self, script: Callable[[], Steps[T]]) -> T | Awaitable[T]:
        """Run a script that changes nothing."""

    @abstractmethod
    def _write(self, script: Callable[[], Steps[T]]) -> T | Awaitable[T]:
        """Run a script in a transaction."""

    def __init__(
        self,
        url: str,
        *,
        accounts: AccountsSpec = None,
        migrate: bool = True,
        table_prefix: str = "game_operator_",
        patience_seconds: float = 5.0,
        pooler: bool | None = None,
        clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        telemetry: "Telemetry | None" = None,
        owns: Owns = None,
        name: str | None = None,
    ) -> None:
        self._locate(url)
        check_ownership(owns, name)
        self._owns, self._name = owns, name
        self._telemetry = telemetry
        self._prefix = prefix = check_prefix(table_prefix)
        check_accounts(accounts)
        self._accounts, self._migrate, self._patience_seconds = accounts, migrate, patience_seconds
        self._clock_millis, self._pooler = never_back(clock_millis), pooler
        self._joiner = Joiner(
            prefix,
            accounts,
            self._clock_millis,
            awaits=self._awaits,
            pooler=pooler,
            owns=owns,
            name=name,
            ledger=ref(self),
        )
        self._make_queue()
        self._pinger = Pinger(self._prefix)
        notify_of_forks(self)
        self._begin()
        self._watch(is_open=True)

    @property
    def accounts(self) -> AccountsSpec:
        """Where balances live, as ``accounts=`` was given."""
        return self._accounts

    @property
    def telemetry(self) -> "Telemetry | None":
        """What makes its spans and metrics, as ``telemetry=`` was given."""
        return self._telemetry

    @property
    def _system(self) -> str:
        """The database, as the semantic conventions of OpenTelemetry name it."""
        return "postgresql" if is_postgres(self._url) else "sqlite"

    def _nap(self, seconds: float) -> Step:
        return partial(asyncio.sleep if self._awaits else time.sleep, seconds)

    def _watch(self, *, is_open: bool) -> None:
        """Let telemetry ask for the age of the oldest open bet while the ledger is open."""
        if self._telemetry is not None:
            instruments = self._telemetry.instruments
            instruments.forget(self)
            if is_open:
                instruments.watch_oldest_open(self, LedgerBase._oldest_open_seconds)

    def _oldest_open_seconds(self) -> float | None:
        """Return the age of the oldest open bet, 0 if none is open; None where it cannot be read beside calls."""
        if not queries.has_own_snapshot(self._url):
            return None
        open_bets = queries.BetsWanted(None, state=BetState.OPEN)
        bets = queries.survey(
            self._url, partial(queries.oldest_bets, self._prefix, open_bets, 1), "listing", self._prefix
        )
        now_millis = time.time_ns() // 1_000_000 if is_postgres(self._url) else self._clock_millis()
        return max(0, now_millis - bets[0].opened_at_millis) / 1_000 if bets else 0.0

    def _locate(self, url: str) -> None:
        """Keep where the database is."""
        self._url = checked_url(url)

    def _run_of_queue(self) -> Callable[[Sequence[Item]], Answer]:
        """Return what commits a batch of the queue, in a span if there is telemetry."""
        telemetry, run, done = self._telemetry, self._apply_all, driver(awaits=self._awaits)
        if telemetry is None:
            return run
        return lambda items: done(observed_batch(run, items, telemetry, self._system))

    def after_fork(self, *, in_child: bool) -> None:
        """With *in_child*, begin anew: the threads that held our locks do not exist in the child of a fork."""
        if in_child:
            self._make_queue()
            self._pinger = Pinger(self._prefix)

    def _open(self) -> Steps[None]:
        """Connect, make or migrate the tables, and look at the accounts."""
        kind: Kind = "postgres" if is_postgres(self._url) else "sqlite"
        express: Callable[[Sequence[Item]], Answer] | None = None
        if self._url.startswith("sqlite:///"):
            make_file = partial(
                self._store_of_file,
                path_of(self._url),
                self._prefix,
                migrate=self._migrate,
                patience_seconds=self._patience_seconds,
                check=partial(self._checked_first, "sqlite"),
            )
            store: Store = (yield partial(AsyncSqliteStore.opened, make_file)) if self._awaits else make_file()
        elif kind == "postgres":
            from game_operator.ledger.postgres.store import AsyncPostgresStore, PostgresStore

            make = AsyncPostgresStore if self._awaits else PostgresStore
            made = make(self._url, self._prefix, patience_seconds=self._patience_seconds, pooler=self._pooler)
            store, express = made, made.express
        else:
            raise unknown_database(self._url)
        try:
            if kind == "postgres":
                yield partial(store.run, self._migration_in_postgres)
            self._fit = yield partial(store.run, partial(self._fitted, kind))
            self._express = express if type(self._fit.accounts) is Balances else None
        except BaseException:  # A cancelled task, too, leaves no connection behind.
            yield store.close
            raise
        self._store = store

    def _checked_first(self, kind: Kind) -> Steps[None]:
        """Raise SchemaError for a database that is another ledger's, or unfit accounts, before tables are changed."""
        if (yield from has_table(kind, f"{self._prefix}ledger_name")):
            yield from check_name(self._prefix, self._name)
        yield from check_accounts_first(kind, self._prefix, self._accounts)

    def _fitted(self, kind: Kind) -> Steps[SqlDialect]:
        """Return the dialect for our accounts; nothing is noted in tables that have another name."""
        with rights_explained(self._prefix):
            yield from settle_name(self._prefix, self._name, self._clock_millis())
            fit = yield from opened_dialect(kind, self._prefix, self._accounts, self._clock_millis)
        fit.owns = self._owns
        return fit

    def _migration_in_postgres(self) -> Steps[None]:
        check = partial(self._checked_first, "postgres")
        yield from look_at_server(migrate=self._migrate)
        with rights_explained(self._prefix):
            yield from migration_in_postgres(self._prefix, self._migrate, check)

    def _applied(self, items: Sequence[Item]) -> Steps[list[Result]]:
        """Apply *items* of one source: on PostgreSQL what the express statement takes, and the rest the long way."""
        fit = self._fit
        done: Mapping[int, Outcome] = {}
        if self._express is not None and items[0].terms.source in fit.sources.known:
            done = yield partial(self._express, items)
        if not done:
            return (yield from self._written(partial(apply_items, items, fit)))
        return (yield from completed(items, done, lambda rest: self._written(partial(apply_items, rest, fit))))

    def _owned(self, call: WebhookCall, terms: Terms, connection: Connection = None) -> Steps[None]:
        """Raise LedgerError for a call of a player that we do not own; keep a deposit or rollback as an anomaly."""
        if self._owns is None or not isinstance(call, WebhookCall):
            return
        try:
            check_owned(self._owns, call.player_id)
        except LedgerError:
            anomaly = anomalies.foreign_player(call, terms)
            if anomaly is not None:
                if self._telemetry is not None:
                    self._telemetry.instruments.anomalies.add(1, anomaly.kind)
                yield from self._kept(anomaly, terms.source, connection)
            raise

    def _kept(self, anomaly: Anomaly, source: str, connection: Connection) -> Steps[None]:
        """Keep an anomaly; in the transaction of a caller it is kept if that commits."""
        script = partial(anomalies.store_anomaly, anomaly, source)
        if connection is None:
            yield partial(self._write, lambda: script(self._fit))
        else:
            yield from self._joiner.run(script, connection)

    def _joined(self, call: WebhookCall, terms: Terms, connection: Connection) -> Steps[Outcome]:
        """Apply a call in its caller's transaction; keep a deposit or rollback of an unknown source."""
        try:
            return (yield from self._joiner.apply(Item(call, terms), connection))
        except UnknownSourceError:
            anomaly = anomalies.unknown_source(call, terms)
            if anomaly is not None:
                yield from self._kept(anomaly, terms.source, connection)
            raise

    def _written(self, script: Callable[[], Steps[T]]) -> Steps[T]:
        """Run *script* in a transaction; the connection is ours."""
        run = self._connected.run
        with Transaction(self):
            for _ in range(_MOST_CONFLICTS):
                try:
                    return (yield partial(run, script))  # type: ignore[no-any-return]  # What the script returns.
                except ConflictError:
                    continue
        raise LedgerUnavailableError("Other machines kept storing the same call or bet. Repeat the call.")

    def _added(self, source: str) -> Steps[None]:
        check_source_name(source)
        yield partial(self._write, partial(self._source_added, source))
        self._fit.sources.known.add(source)

    def _source_added(self, source: str) -> Steps[None]:
        yield from self._fit.sources.add(source, (yield from self._fit.now_millis()))
