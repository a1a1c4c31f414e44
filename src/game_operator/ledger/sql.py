"""The ledger in a database, for threads: SQLite or PostgreSQL, by its address."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import timedelta
from decimal import Decimal
from functools import partial
from os import PathLike
from pathlib import Path
from random import uniform
from time import sleep
from typing import TYPE_CHECKING, TypeVar

from game_operator.codes import BetState
from game_operator.errors import LedgerUnavailableError, RetryRefusedError
from game_operator.ledger.accounts.choice import check_own, most_calls
from game_operator.ledger.api import DEFAULT_TERMS, BetRecord, Outcome, Terms, account_asked_for
from game_operator.ledger.base import LedgerBase
from game_operator.ledger.books import totals
from game_operator.ledger.books.maintain import MaintainReport, Maintenance, analyzed, last_run, own_tables
from game_operator.ledger.books.retention import age_millis, check_archive
from game_operator.ledger.books.slices import mark
from game_operator.ledger.books.totals import (
    DIMENSIONS,
    TotalsClose,
    TotalsReport,
    checked_bound,
    totals_asked,
)
from game_operator.ledger.books.verify import BooksReport, read_marks
from game_operator.ledger.books.whole_books import verified
from game_operator.ledger.doctor.examined import DoctorReport
from game_operator.ledger.engine.batch import Result
from game_operator.ledger.engine.commit_queue import CommitQueue, PatientLock
from game_operator.ledger.engine.process_safety import Transaction, check_outside
from game_operator.ledger.engine.sources import refusal
from game_operator.ledger.engine.tables import by_writer, rights_explained
from game_operator.ledger.ownership import check_owned
from game_operator.ledger.ping import PingReport
from game_operator.ledger.rules.book import Item
from game_operator.ledger.sqlite import SqliteStore
from game_operator.ledger.staff import queries
from game_operator.ledger.staff.adjustments import TimeCorrection, adjust, correct_time, open_account
from game_operator.ledger.staff.anomalies import (
    AnomalyRecord,
    Wanted,
    check_anomalies,
    keep_anomaly,
    page_of_anomalies,
    resolve_anomalies,
    to_retry,
)
from game_operator.ledger.staff.findings import check_person
from game_operator.ledger.staff.limits import BetStop, Spent, checked_since, checked_stop, spent, start_bets, stop_bets
from game_operator.ledger.staff.queries import AccountHistory, BetHistory, BetsWanted, Page, Use, has_own_snapshot
from game_operator.ledger.steps import Connection, Steps, as_steps, run
from game_operator.models.webhooks import WebhookCall
from game_operator.money import Cents

if TYPE_CHECKING:
    from game_operator.ledger.postgres.store import PostgresStore
    from game_operator.telemetry import Telemetry
else:
    Telemetry = object  # Who reads hints at run time loads no OpenTelemetry.

T = TypeVar("T")
R = TypeVar("R")

#: How many anomalies are resolved in one transaction.
_MOST_RESOLVED = 100
#: How often a close asks for its lock, each time for a second, and how many seconds calls then have for themselves.
_MOST_LOCKS = 5
_BETWEEN_LOCKS = (0.1, 0.3)


class SqlLedger(LedgerBase, AbstractContextManager["SqlLedger"]):
    """
    A Ledger in SQLite (``sqlite:///wallet.db``) or PostgreSQL (``postgresql://…``, extra ``postgres``).

    It may be shared between threads, and the database between processes; PostgreSQL also between machines. Every call
    is one transaction, and calls that wait share a commit.

    Args:
        url: The database.
        accounts: Where balances live: None for a table of our own, a TableAccounts for a table of yours, or any object
            with the methods of Accounts.
        migrate: Make or migrate the tables on opening; False raises SchemaError with the statements to run instead.
        table_prefix: How the names of the tables begin.
        patience_seconds: How long a call waits for a database that is down or locked before LedgerUnavailableError.
        pooler: Whether a pooler such as PgBouncer is between us and PostgreSQL; None finds out at each connect.
        clock_millis: The clock, in Unix milliseconds, for SQLite and for tests; PostgreSQL's is the server's.
        telemetry: A ``game_operator.telemetry.Telemetry``, for spans of commits and metrics of money (extra ``otel``).
        owns: ``owns(player_id)`` answers from memory whether this ledger owns a player; None owns all. It is asked
            before anything is read, and where it is not True, nothing is moved: ``apply`` raises LedgerError, which is
            answered SYSTEM_ERROR, and keeps a deposit or rollback as the anomaly ``foreign_player``. Opening,
            adjusting, campaigns, repairs and payments refuse, too.
        name: What this ledger is called, such as ``production``. The first opening with a name keeps it in the tables,
            also with migrate=False. None asks for no name.

    Raises:
        ConfigurationError: The address or the prefix cannot be used.
        TypeError: *url* is not a str, *pooler* is not True, False or None, or *owns* is async.
        SchemaError: The tables have a version that this program cannot take, or are missing with migrate=False; or the
            columns of a TableAccounts are not there, not unique or not exact; or the ledger has another *name*.
        LedgerUnavailableError: The database cannot be reached.
    """

    _awaits = False
    _store: "SqliteStore | PostgresStore"

    def _begin(self) -> None:
        run(self._open())

    def _make_queue(self) -> None:
        # PostgreSQL ends a transaction in which nothing happens after six times patience_seconds.
        longest_seconds = max(30.0, 8 * self._patience_seconds)
        self._mutex = PatientLock(longest_seconds)
        self._queue = CommitQueue(
            self._run_of_queue(), most=most_calls(self._accounts), longest_seconds=longest_seconds
        )

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        check_outside(self)
        self._watch(is_open=False)
        with self._mutex.lock:
            self._store.close()

    def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS, connection: Connection = None) -> Outcome:
        """
        Apply *call* in one transaction and return what became of it, committed.

        With *connection* it is the transaction that you have opened on it, and you who commit; the database's own
        errors pass through unchanged. **Commit whatever the outcome**: a refusal stores a decline or a tombstone, and
        if it is rolled back, a late withdraw debits. Taken are ``sqlite3``, psycopg, SQLAlchemy's Connection and
        Session, and ``django.db.connection``.

        Raises:
            LedgerUnavailableError: The database is down, locked or full. The call may have been committed: repeat it.
            TransactionRequiredError: *connection* has no open transaction.
            SchemaError: The tables are not in the database of *connection*.
            TypeError: The ledger does not take *connection*.
            UnknownSourceError: The ledger knows other sources, and not that of *terms*. A deposit or rollback is
                kept as an anomaly; with *connection*, if you commit.
            LedgerError: It is called from within a transaction of this ledger, without its *connection*; or another
                transaction registers the first source at this moment, and a repeat will find it; or *owns* does not
                answer True.
        """
        if self._owns is not None:
            run(self._owned(call, terms, connection))
        if connection is not None:
            return run(self._joined(call, terms, connection))
        check_outside(self)
        waiting = None if self._telemetry is None else self._telemetry.waiting_call()
        return self._queue.submit(Item(call, terms, None, waiting))

    def keep_anomaly(
        self, operation: str, kind: str, body: bytes, *, source: str = "", connection: Connection = None
    ) -> None:
        """
        Keep a genuine call that was refused before it was a call; the same body again is counted.

        Args:
            operation: The path it was posted to: ``withdraw``, ``deposit``, ``rollback`` or ``deposit-batch``.
            kind: ``unreadable``, behind which money may be owed, or ``foreign_instance``.
            body: The bytes as they came in.
            source: The service and environment that it came from.
            connection: Keeps it in the transaction that you have opened on it, as ``apply`` does; None in one of ours.
        """
        script = partial(keep_anomaly, operation, kind, body, source)
        if connection is not None:
            return run(self._joiner.run(script, connection))
        return self._write(lambda: script(self._fit))

    def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> Cents:
        """
        Open an account with *opening* currency units; return its balance in cents.

        Raises:
            AccountExistsError: It is open already.
            TypeError: *opening* is not a Decimal.
            ValueError: *opening* is negative or finer than a cent, or no account can have that id.
            ConfigurationError: The accounts are not the ledger's own.
        """
        check_own(self._accounts, "open_account")
        check_owned(self._owns, player_id)
        return self._write(lambda: open_account(player_id, opening, self._fit))

    def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> Cents:
        """
        Move *amount* currency units from outside games, once for each *reference*; return the balance in cents.

        Raises:
            AccountNotFoundError: There is no such account.
            AdjustmentRefusedError: It would go below zero, or the reference belongs to another adjustment.
            TypeError: *amount* is not a Decimal.
            ConfigurationError: The accounts are not the ledger's own.
        """
        check_own(self._accounts, "adjust")
        check_owned(self._owns, player_id)
        return self._write(lambda: adjust(player_id, amount, reference, self._fit)).balance_cents

    def balance(self, player_id: str | tuple[str, ...]) -> Cents:
        """
        Return the balance in cents; raise AccountNotFoundError if there is no such account.

        Where the key of accounts has several columns, it takes their values, or the account as a bet names it.
        """
        account = account_asked_for(player_id, self._accounts)
        return self._read(lambda: queries.balance_of(account, self._fit.accounts))

    def spent(self, account: str | tuple[str, ...], *, since_millis: int, connection: Connection = None) -> Spent:
        """
        Return what an account has wagered and got for the bets that were opened since a time, over all its sources.

        It is for limits: ask it in ``may_bet``, with the connection given there. The call in hand is not in it. An
        index leads to the bets, which stay for ever. An account without bets has spent nothing.

        Args:
            account: The account. Where the key of accounts has several columns, their values, or the account as a bet
                names it.
            since_millis: Bets opened and claims credited at this time (Unix milliseconds) or later.
            connection: Reads in the transaction that is open on it, as ``apply`` takes one; None in one of ours.

        Raises:
            AccountNotFoundError: No account can have this key.
            TypeError: *since_millis* is not an int.
            TransactionRequiredError: *connection* has no open transaction.
        """
        key, since = account_asked_for(account, self._accounts), checked_since(since_millis)
        if connection is None:
            return self._read(lambda: spent(self._fit.kind, self._prefix, key, since))
        return run(self._joiner.read(lambda kind: spent(kind, self._prefix, key, since), connection))

    def ping(self, *, timeout_seconds: float = 1.0) -> PingReport:
        """
        Check whether the database answers and takes writes. It uses a separate connection, so no call waits.

        It writes nothing, and looks at no table but that of ``stop_bets``. What only a write finds out, such as a full
        disk, it does not see.

        Args:
            timeout_seconds: The longest that it waits; above 0.

        Raises:
            LedgerUnavailableError: The database does not answer in time.
            ValueError: *timeout_seconds* is not above 0.
        """
        return self._pinger.ping(self._url, timeout_seconds)

    def sources(self) -> list[str]:
        """Return the sources whose calls are taken, the oldest first."""
        return self._read(lambda: self._fit.sources.load())

    def add_source(self, name: str) -> None:
        """
        Take calls of a further source; a known one stays as it is. Sources are never removed.

        The same bet under two sources is two bets: add a service or an environment, never a new name for an old one,
        whose open bets would be stranded.

        Raises:
            TypeError, ValueError: *name* is not a text, is longer than 256 characters, begins or ends with a blank, or
                holds an invisible character.
        """
        return run(self._added(name))

    def check_source(self, source: str) -> None:
        """Raise UnknownSourceError if calls of *source* would be refused; a Wallet asks when it is made."""
        if self._fit.sources.knows(source):
            return
        with suppress(LedgerUnavailableError):  # Each call asks again.
            names = self.sources()
            if names and source not in names:
                raise refusal(source, names)

    def stop_bets(self, *, actor: str, reason: str, code: str = "LIMIT_EXCEEDED") -> BetStop:
        """
        Refuse withdraws that would debit, in all processes, until ``start_bets``: for an incident.

        No withdraw that begins after this returns debits; its bet is DECLINED for good, with *code*. Known withdraws
        are answered as before, and deposits, rollbacks, claims and repairs go on. A stop that holds already is
        replaced. Who stopped bets and why is kept.

        Args:
            actor: Who decides.
            reason: Why.
            code: What these withdraws are answered: LIMIT_EXCEEDED, PLAYER_BLOCKED or a code of yours.

        Returns:
            The stop.

        Raises:
            ConfigurationError: The actor or the reason is missing.
            ValueError: No withdraw can be refused with *code*.
        """
        stop = checked_stop(actor, reason, code)
        return self._write(lambda: stop_bets(stop, self._fit))

    def start_bets(self, *, actor: str, reason: str) -> BetStop | None:
        """
        Take bets again after ``stop_bets``; bets that were declined meanwhile stay so.

        Returns:
            The stop that ended, or None if bets were not stopped.

        Raises:
            ConfigurationError: The actor or the reason is missing.
        """
        check_person(actor, reason)
        return self._write(lambda: start_bets(actor, reason, self._fit))

    def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        """Return what is known of a bet, or None."""
        return self._read(partial(queries.bet, self._prefix, bet_id, source))

    def bets(
        self,
        *,
        since_millis: int | None = None,
        until_millis: int | None = None,
        source: str = "",
        state: BetState | None = None,
        player_id: str | None = None,
    ) -> Iterator[BetRecord]:
        """
        Yield the bets opened from *since_millis* up to but not at *until_millis*, oldest first.

        Args:
            since_millis: Those opened at this time (Unix milliseconds) or later; None for all.
            until_millis: Those opened before this time; None for no end.
            source: Those of this source.
            state: Those in this state; None for all.
            player_id: Those of this player; None for all.
        """
        wanted = BetsWanted(source, since_millis, until_millis, state, player_id)
        return self._listed(partial(queries.page_of_bets, self._prefix, wanted), 1_000)

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
    ) -> Iterator[AnomalyRecord]:
        """
        Yield the anomalies, oldest first.

        Args:
            source: Those of one source; None for all.
            resolved: Those to be looked at (False), those resolved (True), or both (None).
            since_millis: Those that came at this time or later, the last time at least.
            until_millis: Those that came before this time, the first time at least; None for no end.
            kind: Those of a kind, or of one of several; None for all.
            player_id: Those that name this player. Of a call that could not be read, the body is looked through.
            id_prefix: Those whose bet id or transaction id begins with this text; or a text in a body that could
                not be read.
        """
        wanted = Wanted(source, resolved, since_millis, until_millis, kind, player_id, id_prefix)
        return self._listed(partial(page_of_anomalies, self._prefix, wanted), 100, wanted.admits)

    def retry(self, anomaly_id: int, terms: Terms = DEFAULT_TERMS, *, accept_foreign: bool = False) -> Outcome:
        """
        Apply the call of an anomaly again, by the same rules; resolve the anomaly if it is answered SUCCESS.

        Args:
            anomaly_id: Its number.
            terms: The profile its body is read by, and the rules it is applied by; the source is the anomaly's own.
            accept_foreign: Apply also what was refused because it names another operator's game instance, or a player
                whom this ledger does not own while it has no ``owns``.

        Raises:
            RetryRefusedError: There is no such anomaly, it is resolved, its body cannot be read, or it is a withdraw.
            UnknownSourceError: The ledger does not know the source of the anomaly.
        """
        asks_owns = self._owns is not None
        find = partial(to_retry, self._prefix, anomaly_id, terms, accept_foreign=accept_foreign, asks_owns=asks_owns)
        with rights_explained(self._prefix):
            item = self._read(find)
            check_owned(self._owns, item.call.player_id, RetryRefusedError)  # Applied, it is counted as seen again.
            outcome = self.apply(item.call, terms=item.terms)
            if not outcome.refused:
                self.resolve(anomaly_id)
        return outcome

    def resolve(self, anomaly_id: int) -> None:
        """Mark the anomaly with the number *anomaly_id* as looked after; raise RetryRefusedError if there is none."""
        self._resolve([anomaly_id])

    def _resolve(self, ids: Sequence[int]) -> None:
        self._read(partial(check_anomalies, self._prefix, ids))
        for start in range(0, len(ids), _MOST_RESOLVED):
            page = ids[start : start + _MOST_RESOLVED]
            self._write(lambda: resolve_anomalies(self._prefix, page, self._fit))  # noqa: B023 - run at once

    def history(self, bet_id: str, *, source: str = "") -> BetHistory:
        """Return all that is known of a bet; indexes lead to it, over a connection beside the ledger's."""
        return self._survey(partial(queries.bet_history, self._prefix, bet_id, source), "history")

    def account_history(self, player_id: str | tuple[str, ...], *, most: int = 50) -> AccountHistory:
        """
        Return an account, its *most* latest movements and open bets; indexes lead to them.

        Args:
            player_id: The account. Where the key of accounts has several columns, their values, or the account as a
                bet names it.
            most: How many movements, and how many open bets.

        Raises:
            AccountNotFoundError: There is no such account.
            ValueError: *most* is below 1.
        """
        account = account_asked_for(player_id, self._accounts)
        return self._survey(partial(queries.account_history, self._prefix, account, most), "history")

    def verify(self, *, full: bool = False) -> BooksReport:
        """
        Check the books, while calls go on; what is wrong is in the report and never raised.

        It compares every account with its postings, and reads what came after the last checkpoint of ``maintain``, and
        again what was found damaged before it. Without a checkpoint it reads everything.

        Args:
            full: Read everything, also what is sealed.
        """
        with self._beside("pages") as read:
            return run(verified(as_steps(read), self._prefix, full=full))

    def doctor(self) -> DoctorReport:
        """
        Look for what could lose or double money here: settings, rights, disks, clocks, and what nobody has looked at.

        It only reads, over a separate connection, and calls go on. What is wrong is in the report and never raised.
        """
        from game_operator.ledger.doctor.examination import doctor_script  # Those who only serve calls do without.

        return self._survey(partial(doctor_script, self._url, self._prefix))

    def totals(
        self,
        *,
        since_millis: int | None = None,
        until_millis: int | None = None,
        by: Sequence[str] = DIMENSIONS,
        source: str | None = None,
    ) -> TotalsReport:
        """
        Sum up wagers, wins, refunds and all other money from *since_millis* up to but not at *until_millis*.

        It reads one snapshot, while calls go on: what closes have stored, and the postings of all other days. Days are
        UTC's. Currencies are never summed up together, with any *by*.

        Args:
            since_millis: What moved at this time (Unix milliseconds) or later; in closed days a midnight. None for all.
            until_millis: What moved before this time; in closed days a midnight. None for no end.
            by: What to group by: any of ``day``, ``game``, ``instance``, ``currency``.
            source: What belongs to one source; None for all. Openings and adjustments belong to the source "".

        Raises:
            TypeError, ValueError: *by* has another name, or a bound is not an int.
            LedgerError: A bound cuts a closed day.
        """
        return self._survey(totals_asked(self._prefix, since_millis, until_millis, by, source))

    def close_totals(self, *, now_millis: int | None = None) -> TotalsClose:
        """
        Store the totals of all days that are over in UTC, as they are now, for good.

        What comes later with a time in a closed day is a late entry, apart from the rest of its day. Closing again
        changes nothing that is stored, and several processes may close at once. ``maintain`` closes each night.

        Args:
            now_millis: The time it is, instead of the clock's: SQLite's is this machine's, PostgreSQL's the server's.

        Raises:
            LedgerError: The newest posting is more than 30 days earlier than now and *now_millis* is not given: then
                the clock is likely to be ahead.
            LedgerUnavailableError: On PostgreSQL, a transaction that has moved money stayed open for seconds.
        """
        return self._days_closed(checked_bound("now_millis", now_millis))

    def correct_time(self, player_id: str) -> TimeCorrection:
        """
        Bring the time of an account that a wrong clock has left in the future back to now.

        Until then every movement of it would be one millisecond later than the one before, for as long as the clock
        was ahead. Set the clock right first, and start the processes anew. What was posted stays as it is; the
        correction is noted, so that ``verify`` finds nothing wrong.

        Raises:
            AccountNotFoundError: There is no such account.
            LedgerError: Its time is not in the future.
        """
        return self._write(lambda: correct_time(player_id, self._prefix, self._fit))

    def maintain(
        self,
        *,
        seconds: float = 300.0,
        drop_after: timedelta | int | None = None,
        archive: str | PathLike[str] | None = None,
    ) -> MaintainReport:
        """
        Do what is due each night, beside calls: close days, verify what is new, read a part again, tidy up.

        It seals what it has read, so that ``verify`` need not read it again; everything is read again within 30 days.
        On PostgreSQL it makes the partitions of the next 14 days. What does not fit into *seconds* is done by the next
        run. Two runs at once do no harm.

        It drops nothing unless *drop_after* is given. Then old days lose their postings, whose sums are kept by
        account, and old calls and resolved anomalies lose their bodies. Identities, bets with their final states, and
        digests stay for ever. A day goes whole or stays whole; the report has the reason.

        Args:
            seconds: About how long it may take.
            drop_after: How old what is dropped must be: a timedelta, or milliseconds; at least 90 days. None to drop
                nothing.
            archive: A folder that gets the postings of each day as a CSV file before they are dropped.

        Raises:
            TypeError, ValueError: *drop_after* is neither, or under 90 days; or *archive* is given without it.
            LedgerError: The newest posting is more than 30 days older than the clock, which may be wrong.
            LedgerUnavailableError: On PostgreSQL, a transaction that has moved money stayed open for seconds.
            SchemaError: On PostgreSQL, this user lacks a right.
            OSError: *archive* is no folder, or a file in it cannot be written. The day was not dropped.
        """
        age = None if drop_after is None else age_millis(drop_after)
        folder = check_archive(archive, age)
        with rights_explained(self._prefix):
            return self._maintained(seconds, age, folder)

    def _maintained(self, seconds: float, age: int | None, folder: Path | None) -> MaintainReport:
        prefix = self._prefix
        last_millis = self._read(partial(last_run, prefix))
        close = self._days_closed(None)
        begun = self._locked(lambda: totals.close_begun(prefix, 0, None, self._fit))
        with self._beside("pages") as read:
            maintenance = Maintenance(self._fit, as_steps(read), as_steps(self._write), seconds)
            if self._fit.kind == "postgres":
                run(maintenance.days_made())
            run(maintenance.news(begun.position, begun.at_millis))
            run(maintenance.again(begun.at_millis, last_millis))
            if age is not None:
                run(maintenance.dropped(begun.at_millis - age, folder))
        if maintenance.goes_on():
            if isinstance(self._store, SqliteStore):
                self._store.tidy()
            else:
                self._analyze()
            self._write(partial(mark, prefix, "maintained_millis", begun.at_millis))
        return maintenance.report(self._read(partial(read_marks, prefix)), close)

    def _analyze(self) -> None:
        """Renew the statistics of PostgreSQL."""
        for table in self._read(partial(own_tables, self._prefix)):
            self._write(partial(analyzed, table))

    def _locked(self, script: Callable[[], Steps[T]]) -> T:
        """Run a script that takes a lock which calls must not wait for long; again if it was not to be had."""
        for _ in range(_MOST_LOCKS - 1):
            with suppress(totals._StillOpenError):
                return self._write(script)
            sleep(uniform(*_BETWEEN_LOCKS))  # noqa: S311 - spreads the attempts, hides nothing
        return self._write(script)

    def _days_closed(self, now_millis: int | None) -> TotalsClose:
        """Store the totals of finished days; what of them is stored stays as it is."""
        prefix = self._prefix
        wanted = self._locked(lambda: totals.close_begun(prefix, None, now_millis, self._fit))
        while True:  # No lock is held while whole tables are read.
            draft = self._survey(partial(totals.close_drafted, prefix, wanted))
            if draft.is_empty or self._write(partial(totals.close_stored, prefix, draft)):
                return draft.report

    def _apply_all(self, items: Sequence[Item]) -> list[Result]:
        with self._alone():
            return run(self._applied(items))

    def _alone(self) -> AbstractContextManager[object]:
        """Return a context manager for using the connection alone."""
        return self._mutex

    def _write(self, script: Callable[[], Steps[T]]) -> T:
        check_outside(self)
        with self._alone(), rights_explained(self._prefix):
            return run(self._written(lambda: by_writer(self._fit.kind, self._prefix, script)))

    def _read(self, script: Callable[[], Steps[T]]) -> T:
        check_outside(self)
        with self._alone(), Transaction(self):
            return self._store.read(script)

    def _survey(self, script: Callable[[], Steps[T]], use: Use = "survey") -> T:
        with self._beside(use) as read:
            return read(script)

    @contextmanager
    def _beside(self, use: Use) -> Iterator[Callable[[Callable[[], Steps[T]]], T]]:
        """Open what reads a script from one snapshot, beside our connection where that is possible: no call waits."""
        if not has_own_snapshot(self._url):
            yield self._read
            return
        with closing(queries.Listing(self._url, use, self._prefix)) as beside:
            yield beside.read

    def _listed(self, page: Page[R], most: int, admits: Callable[[R], bool] = lambda _: True) -> Iterator[R]:
        """Yield the admitted records of all pages of at most so many."""
        self._read(queries.nothing)  # The ledger must be open, and outside its own transactions.
        after: R | None = None
        with self._beside("listing") as read:
            while True:
                records: list[R] = read(partial(page, after, most))
                yield from filter(admits, records)
                if len(records) < most:
                    return
                after = records[-1]
