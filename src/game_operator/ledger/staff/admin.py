"""What an operator's staff needs of a ledger beside calls: anomalies, histories, checked books and pruning."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from game_operator.ledger.accounts.claims import is_marked
from game_operator.ledger.api import DEFAULT_TERMS, AccountsSpec, BetRecord, Outcome, Terms, account_asked_for
from game_operator.ledger.engine.address import is_postgres
from game_operator.ledger.engine.schema import back
from game_operator.ledger.engine.script import Dialect, Step, Work, at_once, awaited
from game_operator.ledger.engine.sources import SourceDetails, source_details
from game_operator.ledger.staff.adjustments import Adjustment, TimeCorrection, adjust, correct_time
from game_operator.ledger.staff.anomalies import Anomalies, AnomalyRecord, Wanted
from game_operator.ledger.staff.listings import Listing, has_own_snapshot, survey
from game_operator.ledger.staff.prune import PAUSE_SECONDS, Prune, PruneReport, age_millis
from game_operator.ledger.staff.queries import AccountHistory, BetHistory, Queries
from game_operator.ledger.staff.verify import BooksReport, Verify
from game_operator.models.webhooks import WebhookCall

T = TypeVar("T")

_PAGE = 100


class _Admin(ABC):
    """
    The operations of several steps, written once for threads and for asyncio.

    What ``apply``, ``_read``, ``_write`` and ``_sleep`` return is awaited by an AsyncSqlLedger.
    """

    _url: str
    _prefix: str
    _accounts: AccountsSpec
    _queries: Queries
    _sleep: Callable[[float], Any]

    @abstractmethod
    def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS) -> Any:
        """Apply *call*; the ledger itself says how."""

    @property
    @abstractmethod
    def _dialect(self) -> Dialect:
        """How statements are written for this database; the ledger is open."""

    @abstractmethod
    def _read(self, script: Callable[[], Generator[Step, Any, T]]) -> Any:
        """Run a script that changes nothing."""

    @abstractmethod
    def _write(self, script: Callable[[], Generator[Step, Any, T]]) -> Any:
        """Run a script in a transaction."""

    def _retried(self, anomaly_id: int, terms: Terms, *, accept_foreign: bool) -> Work[Outcome]:
        anomalies = Anomalies(self._prefix)
        call, its_terms, _ = yield self._read(
            lambda: anomalies.to_retry(anomaly_id, terms, accept_foreign=accept_foreign)
        )
        outcome: Outcome = yield self.apply(call, terms=its_terms)
        if not outcome.refused:
            yield from self._resolved([anomaly_id])
        return outcome

    def _resolved(self, ids: Sequence[int]) -> Work[None]:
        anomalies = Anomalies(self._prefix)
        yield self._read(lambda: anomalies.check(ids))
        for start in range(0, len(ids), _PAGE):
            page = ids[start : start + _PAGE]
            yield self._write(lambda: anomalies.resolve(page, self._dialect))  # noqa: B023 - run at once

    def _pruned(self, older_than: timedelta | int, now_millis: int | None) -> Work[PruneReport]:
        age = age_millis(older_than)
        in_order = "tx_id, operation, source" if is_postgres(self._url) else "source, operation, tx_id"
        run = Prune(self._prefix, identity=in_order)
        for work in (yield self._write(lambda: run.begin(age, now_millis, self._dialect))):
            position = work.start
            while position is not None:
                dropped, position = yield self._write(partial(run.batch, work, position))
                run.count(work, dropped)
                yield self._sleep(PAUSE_SECONDS)
        return run.report


class SqlAdmin(_Admin):
    """What SqlLedger does for staff."""

    _sleep = staticmethod(time.sleep)

    def _survey(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        result: T = survey(self._url, script) if has_own_snapshot(self._url) else self._read(script)
        return result

    @contextmanager
    def _listing(self) -> Iterator[Callable[..., Any]]:
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
        page = partial(Anomalies(self._prefix).page, wanted)
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
        return at_once(self._retried(anomaly_id, terms, accept_foreign=accept_foreign))

    def resolve(self, anomaly_id: int) -> None:
        """Mark an anomaly as looked after; raise RetryRefusedError if there is none."""
        at_once(self._resolved([anomaly_id]))

    def history(self, bet_id: str, *, source: str = "") -> BetHistory:
        """Return all that is known of a bet; it reads whole tables, so it is for people."""
        return self._survey(lambda: self._queries.of_bet(bet_id, source))

    def account_history(self, player_id: str | tuple[str, ...], *, most: int = 50) -> AccountHistory:
        """
        Return an account, its *most* latest movements and open bets; it reads whole tables, so it is for people.

        Where the key of accounts has several columns, it takes their values, or the account as a bet names it.

        Raises:
            AccountNotFoundError: There is no such account.
        """
        account = account_asked_for(player_id, self._accounts)
        return self._survey(lambda: self._queries.of_account(account, most))

    def verify(self) -> BooksReport:
        """Check the books from one snapshot, while calls go on; what is wrong is in the report and never raised."""
        return self._survey(Verify(self._prefix).report)

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
        corrected: TimeCorrection = self._write(lambda: correct_time(player_id, self._prefix, self._dialect))
        return corrected

    def prune(self, older_than: timedelta | int, *, now_millis: int | None = None) -> PruneReport:
        """
        Drop old details: bodies and replies of calls, and postings folded into one for each account.

        Identities, bets with their final states, and digests stay for ever, and so does everything of an open bet. It
        works in many small transactions while calls go on; one that was stopped is finished by the next.

        Args:
            older_than: A timedelta, or milliseconds; at least 90 days.
            now_millis: The time it is, instead of the clock's: SQLite's is this machine's, PostgreSQL's the server's.

        Raises:
            TypeError, ValueError: *older_than* is neither, or under 90 days.
            LedgerError: The newest posting is more than a day later than now; or more than 30 days earlier, and
                *now_millis* is not given. Then a clock is likely to be wrong.
        """
        return at_once(self._pruned(older_than, now_millis))


class AsyncSqlAdmin(_Admin):
    """What AsyncSqlLedger does for staff: the same names and arguments, awaited."""

    _sleep = staticmethod(asyncio.sleep)

    async def _survey(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        if not has_own_snapshot(self._url):
            result: T = await self._read(script)
            return result
        await self._read(_nothing)  # It makes the tables, should nobody have done so yet.
        return await asyncio.to_thread(survey, self._url, script)

    @asynccontextmanager
    async def _listing(self) -> AsyncIterator[Callable[..., Any]]:
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
        page = partial(Anomalies(self._prefix).page, wanted)
        after = 0
        async with self._listing() as read:
            while records := await read(partial(page, after, _PAGE)):
                for record in filter(wanted.admits, records):
                    yield record
                after = records[-1].id

    async def retry(self, anomaly_id: int, terms: Terms = DEFAULT_TERMS, *, accept_foreign: bool = False) -> Outcome:
        """Apply the call of an anomaly again, as ``SqlLedger.retry`` does."""
        return await awaited(self._retried(anomaly_id, terms, accept_foreign=accept_foreign))

    async def resolve(self, anomaly_id: int) -> None:
        """Mark an anomaly as looked after; raise RetryRefusedError if there is none."""
        await awaited(self._resolved([anomaly_id]))

    async def history(self, bet_id: str, *, source: str = "") -> BetHistory:
        """Return all that is known of a bet, as ``SqlLedger.history`` does."""
        return await self._survey(lambda: self._queries.of_bet(bet_id, source))

    async def account_history(self, player_id: str | tuple[str, ...], *, most: int = 50) -> AccountHistory:
        """Return an account with its movements, as ``SqlLedger.account_history`` does."""
        account = account_asked_for(player_id, self._accounts)
        return await self._survey(lambda: self._queries.of_account(account, most))

    async def verify(self) -> BooksReport:
        """Check the books, as ``SqlLedger.verify`` does."""
        return await self._survey(Verify(self._prefix).report)

    async def correct_time(self, player_id: str) -> TimeCorrection:
        """Bring the time of an account back, as ``SqlLedger.correct_time`` does."""
        corrected: TimeCorrection = await self._write(lambda: correct_time(player_id, self._prefix, self._dialect))
        return corrected

    async def prune(self, older_than: timedelta | int, *, now_millis: int | None = None) -> PruneReport:
        """Drop old details, as ``SqlLedger.prune`` does."""
        return await awaited(self._pruned(older_than, now_millis))


def adjusted(ledger: SqlAdmin, player_id: str, amount: Decimal, *, reference: str) -> Adjustment:
    """Adjust an account of the ledger's own, as ``SqlLedger.adjust`` does, and report whether it was moved now."""
    done: Adjustment = ledger._write(lambda: adjust(player_id, amount, reference, ledger._dialect))
    return done


def resolve_anomalies(ledger: SqlAdmin, ids: Sequence[int]) -> None:
    """Mark anomalies as looked after; if one does not exist, mark none and raise RetryRefusedError."""
    at_once(ledger._resolved(ids))


def are_balances_elsewhere(ledger: SqlAdmin) -> bool:
    """Return whether a ledger was opened here whose balances are in the operator's own table."""
    return bool(ledger._read(lambda: is_marked(ledger._prefix)))


def sources_of(ledger: SqlAdmin, most_bets: int = 1_000) -> list[SourceDetails]:
    """Return the sources that the ledger knows, with how many bets of each are OPEN."""
    return ledger._survey(lambda: source_details(ledger._prefix, most_bets))


def migrated_back(ledger: SqlAdmin) -> int:
    """Undo the latest migration of the tables; return the version they have then."""
    return int(ledger._write(lambda: back(ledger._prefix)))


def old_bets(
    ledger: SqlAdmin, before_millis: int, most: int, *, only_open: bool, source: str | None
) -> list[BetRecord]:
    """Return at most *most* bets that were opened before a time, the oldest first."""
    with ledger._listing() as read:
        return list(read(lambda: ledger._queries.bets_before(before_millis, most, only_open=only_open, source=source)))


def _nothing() -> Generator[Step, Any, None]:
    yield from ()
