"""What an operator's staff needs of a ledger beside calls: anomalies, histories, checked books and pruning."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, TypeVar

from game_operator.ledger.accounts.claims import is_marked
from game_operator.ledger.api import DEFAULT_TERMS, AccountsSpec, BetRecord, Outcome, Terms, account_asked_for
from game_operator.ledger.engine.address import is_postgres
from game_operator.ledger.engine.schema import back
from game_operator.ledger.engine.script import Dialect, Step
from game_operator.ledger.engine.sources import SourceDetails, source_details
from game_operator.ledger.staff.adjustments import Adjustment, TimeCorrection, adjustment, correct_time
from game_operator.ledger.staff.anomalies import Anomalies, AnomalyRecord, Wanted
from game_operator.ledger.staff.history import AccountHistory, BetHistory, Histories, bets_before
from game_operator.ledger.staff.listings import Listing, has_own_snapshot, survey
from game_operator.ledger.staff.prune import PAUSE_SECONDS, Prune, PruneReport, age_millis
from game_operator.ledger.staff.verify import BooksReport, Verify
from game_operator.models.webhooks import WebhookCall

__all__ = [
    "AsyncSqlAdmin",
    "SqlAdmin",
    "adjusted",
    "are_balances_elsewhere",
    "migrated_back",
    "old_bets",
    "resolve_anomalies",
    "sources_of",
]

T = TypeVar("T")

_PAGE = 100


class _Read(Protocol):
    """Runs a script that reads one page of a list."""

    def __call__(self, script: Callable[[], Generator[Step, Any, T]], /) -> T: ...


class _AsyncRead(Protocol):
    """The same, awaited."""

    def __call__(self, script: Callable[[], Generator[Step, Any, T]], /) -> Awaitable[T]: ...


class _Tables:
    """The scripts for one ledger's tables, made when staff first asks."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url = url
        self.prefix = prefix
        self.anomalies = Anomalies(prefix)
        self.histories = Histories(prefix)
        self.verify = Verify(prefix)

    def prune(self) -> Prune:
        """Return a new run of ``prune``."""
        in_order = "tx_id, operation, source" if is_postgres(self.url) else "source, operation, tx_id"
        return Prune(self.prefix, identity=in_order)


class SqlAdmin(ABC):
    """What SqlLedger does for staff."""

    _url: str
    _prefix: str
    _accounts: AccountsSpec

    @abstractmethod
    def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS) -> Outcome:
        """Apply *call*; the ledger itself says how."""

    @property
    @abstractmethod
    def _dialect(self) -> Dialect:
        """How statements are written for this database."""

    @abstractmethod
    def _read(self, script: Callable[[], Generator[Any, Any, T]]) -> T:
        """Run a script that changes nothing."""

    @abstractmethod
    def _write(self, script: Callable[[], Generator[Any, Any, T]]) -> T:
        """Run a script in a transaction of its own."""

    @property
    def _tables(self) -> _Tables:
        return _Tables(self._url, self._prefix)

    def _survey(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        return survey(self._url, script) if has_own_snapshot(self._url) else self._read(script)

    @contextmanager
    def _listing(self) -> Iterator[_Read]:
        """Yield what reads the pages of a list: beside the ledger's own connection, so that calls do not wait."""
        if not has_own_snapshot(self._url):
            yield self._read
            return
        self._read(_nothing)  # The ledger must be open, and outside its own transactions.
        with closing(Listing(self._url)) as listing:
            yield listing.read

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
        page = partial(self._tables.anomalies.page, wanted)
        after = 0
        with self._listing() as read:
            while records := read(partial(page, after, _PAGE)):
                yield from filter(wanted.admits, records)
                after = records[-1].id

    def retry(self, anomaly_id: int, terms: Terms = DEFAULT_TERMS, *, accept_foreign: bool = False) -> Outcome:
        """
        Apply the call of an anomaly again, by the same rules; resolve the anomaly if it is answered SUCCESS.

        Args:
            anomaly_id: Its number.
            terms: The profile its body is read by, and the rules it is applied by; the source is the anomaly's own.
            accept_foreign: Apply also what the receiver refused because it names another operator's game instance.

        Raises:
            RetryRefusedError: There is no such anomaly, it is resolved, its body cannot be read, or it is a withdraw.
            UnknownSourceError: The ledger does not know the source of the anomaly.
        """
        tables = self._tables.anomalies
        call, its_terms, _ = self._read(lambda: tables.to_retry(anomaly_id, terms, accept_foreign=accept_foreign))
        outcome = self.apply(call, terms=its_terms)
        if not outcome.refused:
            self.resolve(anomaly_id)
        return outcome

    def resolve(self, anomaly_id: int) -> None:
        """Mark an anomaly as looked after; raise RetryRefusedError if there is none."""
        self._read(lambda: self._tables.anomalies.one(anomaly_id))
        self._write(lambda: self._tables.anomalies.resolve([anomaly_id], self._dialect))

    def history(self, bet_id: str, *, source: str = "") -> BetHistory:
        """Return all that is known of a bet; it reads whole tables, so it is for people."""
        return self._survey(lambda: self._tables.histories.of_bet(bet_id, source))

    def account_history(self, player_id: str | tuple[str, ...], *, most: int = 50) -> AccountHistory:
        """
        Return an account, its *most* latest movements and open bets; it reads whole tables, so it is for people.

        Where the key of accounts has several columns, it takes their values, or the account as a bet names it.

        Raises:
            AccountNotFoundError: There is no such account.
        """
        account = account_asked_for(player_id, self._accounts)
        return self._survey(lambda: self._tables.histories.of_account(account, most))

    def verify(self) -> BooksReport:
        """Check the books from one snapshot, while calls go on; what is wrong is in the report and never raised."""
        return self._survey(self._tables.verify.report)

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
        return self._write(lambda: correct_time(player_id, self._prefix, self._dialect))

    def prune(self, older_than: timedelta | int, *, now_millis: int | None = None) -> PruneReport:
        """
        Drop old details: bodies and replies of calls, and postings folded into one for each account.

        Identities, bets with their final states, and digests stay for ever, and so does everything of an open bet. It
        works in many small transactions while calls go on; one that was stopped is finished by the next.

        Args:
            older_than: A timedelta, or milliseconds; at least 90 days.
            now_millis: The time it is, instead of the clock's: SQLite's is this machine's, PostgreSQL's the server's.

        Raises:
            TypeError, ValueError: *older_than* is none, or under 90 days.
            LedgerError: The newest posting is more than a day later than now; or more than 30 days earlier, and
                *now_millis* is not given. Then a clock is likely to be wrong.
        """
        age, run = age_millis(older_than), self._tables.prune()
        for work in self._write(lambda: run.begin(age, now_millis, self._dialect)):
            position = work.start
            while position is not None:
                dropped, position = self._write(partial(work.batch, position))
                run.count(work, dropped)
                time.sleep(PAUSE_SECONDS)
        return run.report


class AsyncSqlAdmin(ABC):
    """What AsyncSqlLedger does for staff: the same names and arguments, awaited."""

    _url: str
    _prefix: str
    _accounts: AccountsSpec

    @abstractmethod
    async def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS) -> Outcome:
        """Apply *call*; the ledger itself says how."""

    @property
    @abstractmethod
    def _dialect(self) -> Dialect:
        """How statements are written for this database."""

    @abstractmethod
    async def _read(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        """Run a script that changes nothing."""

    @abstractmethod
    async def _write(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        """Run a script in a transaction of its own."""

    @property
    def _tables(self) -> _Tables:
        return _Tables(self._url, self._prefix)

    async def _survey(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        if not has_own_snapshot(self._url):
            return await self._read(script)
        await self._read(_nothing)  # It makes the tables, should nobody have done so yet.
        return await asyncio.to_thread(survey, self._url, script)

    @asynccontextmanager
    async def _listing(self) -> AsyncIterator[_AsyncRead]:
        """Yield what reads the pages of a list, in a thread beside the event loop."""
        if not has_own_snapshot(self._url):
            yield self._read
            return
        await self._read(_nothing)  # As above; and the ledger must be open, and outside its own transactions.
        with closing(Listing(self._url)) as listing:

            async def read(script: Callable[[], Generator[Step, Any, T]], /) -> T:
                return await asyncio.to_thread(listing.read, script)

            yield read

    async def anomalies(
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
        page = partial(self._tables.anomalies.page, wanted)
        after = 0
        async with self._listing() as read:
            while records := await read(partial(page, after, _PAGE)):
                for record in filter(wanted.admits, records):
                    yield record
                after = records[-1].id

    async def retry(self, anomaly_id: int, terms: Terms = DEFAULT_TERMS, *, accept_foreign: bool = False) -> Outcome:
        """Apply the call of an anomaly again, as ``SqlLedger.retry`` does."""
        tables = self._tables.anomalies
        call, its_terms, _ = await self._read(lambda: tables.to_retry(anomaly_id, terms, accept_foreign=accept_foreign))
        outcome = await self.apply(call, terms=its_terms)
        if not outcome.refused:
            await self.resolve(anomaly_id)
        return outcome

    async def resolve(self, anomaly_id: int) -> None:
        """Mark an anomaly as looked after; raise RetryRefusedError if there is none."""
        await self._read(lambda: self._tables.anomalies.one(anomaly_id))
        await self._write(lambda: self._tables.anomalies.resolve([anomaly_id], self._dialect))

    async def history(self, bet_id: str, *, source: str = "") -> BetHistory:
        """Return all that is known of a bet, as ``SqlLedger.history`` does."""
        return await self._survey(lambda: self._tables.histories.of_bet(bet_id, source))

    async def account_history(self, player_id: str | tuple[str, ...], *, most: int = 50) -> AccountHistory:
        """Return an account with its movements, as ``SqlLedger.account_history`` does."""
        account = account_asked_for(player_id, self._accounts)
        return await self._survey(lambda: self._tables.histories.of_account(account, most))

    async def verify(self) -> BooksReport:
        """Check the books, as ``SqlLedger.verify`` does."""
        return await self._survey(self._tables.verify.report)

    async def correct_time(self, player_id: str) -> TimeCorrection:
        """Bring the time of an account back, as ``SqlLedger.correct_time`` does."""
        return await self._write(lambda: correct_time(player_id, self._prefix, self._dialect))

    async def prune(self, older_than: timedelta | int, *, now_millis: int | None = None) -> PruneReport:
        """Drop old details, as ``SqlLedger.prune`` does."""
        age, run = age_millis(older_than), self._tables.prune()
        for work in await self._write(lambda: run.begin(age, now_millis, self._dialect)):
            position = work.start
            while position is not None:
                dropped, position = await self._write(lambda: work.batch(position))  # noqa: B023 - run at once
                run.count(work, dropped)
                await asyncio.sleep(PAUSE_SECONDS)
        return run.report


def adjusted(ledger: SqlAdmin, player_id: str, amount: Decimal, *, reference: str) -> Adjustment:
    """Adjust an account of the ledger's own, as ``SqlLedger.adjust`` does, and tell whether it was moved now."""
    return ledger._write(lambda: adjustment(player_id, amount, reference, ledger._dialect))


def resolve_anomalies(ledger: SqlAdmin, ids: Sequence[int]) -> None:
    """Mark anomalies as looked after; none, and RetryRefusedError, if there is one that does not exist."""
    anomalies = ledger._tables.anomalies

    def check() -> Generator[Step, Any, None]:
        for each in ids:
            yield from anomalies.one(each)

    ledger._read(check)
    for start in range(0, len(ids), _PAGE):
        ledger._write(partial(_resolved, ledger, ids[start : start + _PAGE]))


def _resolved(ledger: SqlAdmin, ids: Sequence[int]) -> Generator[Step, Any, None]:
    yield from ledger._tables.anomalies.resolve(ids, ledger._dialect)


def are_balances_elsewhere(ledger: SqlAdmin) -> bool:
    """Return whether a ledger was opened here whose balances are in the operator's own table."""
    return ledger._read(lambda: is_marked(ledger._prefix))


def sources_of(ledger: SqlAdmin, most_bets: int = 1_000) -> list[SourceDetails]:
    """Return the sources that the ledger knows, with how many bets of each are OPEN."""
    return ledger._survey(lambda: source_details(ledger._prefix, most_bets))


def migrated_back(ledger: SqlAdmin) -> int:
    """Undo the latest migration of the tables; return the version they have then."""
    return ledger._write(lambda: back(ledger._prefix))


def old_bets(
    ledger: SqlAdmin, before_millis: int, most: int, *, only_open: bool, source: str | None
) -> list[BetRecord]:
    """Return at most *most* bets that were opened before a time, the oldest first."""
    with ledger._listing() as read:
        return read(lambda: bets_before(ledger._prefix, before_millis, most, only_open=only_open, source=source))


def _nothing() -> Generator[Step, Any, None]:
    yield from ()
