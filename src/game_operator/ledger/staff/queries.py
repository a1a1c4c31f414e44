"""
What is read from the tables: bets, balances, histories; and connections beside the ledger's for reading much.

A survey reads everything from one snapshot. A listing reads page by page, each from a snapshot of its page, because a
person may take time over a list. A reader of SQLite's WAL never stops the writer; the file only grows until the reader
is done. In PostgreSQL the snapshot is a REPEATABLE READ transaction that may not write.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from game_operator.codes import BetState
from game_operator.errors import AccountNotFoundError, LedgerUnavailableError, shown
from game_operator.ledger.accounts.choice import is_marked
from game_operator.ledger.api import OPEN_FIRST, BetRecord, CallRecord, Outcome
from game_operator.ledger.engine.address import address_of, path_of, without_password
from game_operator.ledger.engine.dialects import Balances
from game_operator.ledger.engine.script import AskOperator, Execute, Script, Step, drive
from game_operator.ledger.engine.tables import (
    BET_COLUMNS,
    CALL_COLUMNS,
    POSTING_ACCOUNT,
    POSTING_DELTA,
    bet_of,
    sql_texts,
)
from game_operator.ledger.rules.book import body_of
from game_operator.ledger.staff.anomalies import OF_SOURCE, AnomalyRecord, record_of
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall
from game_operator.money import Cents

T = TypeVar("T")
R = TypeVar("R")
#: Makes the script that reads a page of at most so many records, those that follow one.
Page: TypeAlias = Callable[[R | None, int], Script[list[R]]]
_Use: TypeAlias = Literal["survey", "listing", "pages"]

_PATIENCE_SECONDS = 5.0
_LAST_MILLIS = 2**62


def balance_of(account: str, accounts: Balances) -> Script[Cents]:
    """Return a balance in cents; raise AccountNotFoundError if there is none."""
    cents = yield from accounts.balance(account)
    if cents is None:
        raise AccountNotFoundError(f"There is no account {shown(account)}.", remedy=accounts.unknown)
    return Cents(cents)


def _is_left_by(call: MovingCall, outcome: Outcome, bet: BetRecord) -> bool:
    """Return whether *bet* is as *call* left it, by its *outcome*."""
    if isinstance(call, RollbackCall):
        return bet.state not in (BetState.OPEN, BetState.SPENT, BetState.CLOSED)
    if isinstance(call, DepositCall):
        return bet.state is BetState.CLOSED and bet.deposit_tx_id == call.tx_id
    has_debited = bet.state not in (BetState.DECLINED, BetState.TOMBSTONE)
    if outcome.refused:  # A declined bet is stored, for good.
        return not has_debited or bet.state is BetState.ROLLED_BACK
    return has_debited and bet.withdraw_tx_id == call.tx_id


class Movement(NamedTuple):
    """
    One posting, as its account sees it.

    Attributes:
        operation, tx_id, source: The call that moved it; ``carry`` for what ``prune`` has folded.
        bet_id: The bet that the call named, or None.
        account: The account.
        delta_cents: What came to the account, or went when negative.
        at_millis: When.
    """

    operation: str
    tx_id: str
    source: str
    bet_id: str | None
    account: str
    delta_cents: int
    at_millis: int


class BetHistory(NamedTuple):
    """
    All that is known of a bet, each part oldest first.

    Attributes:
        bet: The bet as it stands; None when only calls or anomalies name it.
        calls: The calls that were answered for good, claims that name the bet among them.
        movements: What was posted for those calls; the old ones of them are folded by ``prune``.
        anomalies: What was odd, resolved or not.
    """

    bet: BetRecord | None
    calls: tuple[CallRecord, ...]
    movements: tuple[Movement, ...]
    anomalies: tuple[AnomalyRecord, ...]

    @property
    def is_unknown(self) -> bool:
        """Whether nothing ever named the bet."""
        return self.bet is None and not self.calls and not self.anomalies


class AccountHistory(NamedTuple):
    """
    An account and its latest movements, oldest first.

    Attributes:
        account: Its key.
        balance_cents: What it holds; None when its balance is in the operator's own table.
        at_millis: When it last moved.
        movements: The latest, as many as were asked for.
        open_bets: Its bets that are OPEN, oldest first, as many as were asked for.
    """

    account: str
    balance_cents: int | None
    at_millis: int
    movements: tuple[Movement, ...]
    open_bets: tuple[BetRecord, ...]


def bet(prefix: str, bet_id: str, source: str) -> Script[BetRecord | None]:
    """Return a bet, or None."""
    rows = yield Execute(_sql(prefix)["bet"], (source, bet_id))
    return bet_of(rows[0]) if rows else None


def stored_at(prefix: str, call: MovingCall, outcome: Outcome, source: str) -> Script[int | None]:
    """Return the time of what *call* has stored, by its *outcome*; None if that is not committed."""
    if outcome.anomaly and not outcome.applied:
        return (yield from anomaly_at(prefix, call.operation, outcome.anomaly, body_of(call), source))
    if isinstance(call, DepositCall) and call.is_claim:
        rows = yield Execute(_sql(prefix)["claim_at"], (source, call.tx_id))
        return rows[0][0] if rows else None
    assert call.bet_id is not None
    found = yield from bet(prefix, call.bet_id, source)
    if found is None or not _is_left_by(call, outcome, found):
        return None
    return found.opened_at_millis if call.operation == "withdraw" else found.settled_at_millis or found.opened_at_millis


def anomaly_at(prefix: str, operation: str, kind: str, body: bytes, source: str) -> Script[int | None]:
    """Return when the anomaly of *body* came last; None if it is not committed."""
    rows = yield Execute(_sql(prefix)["anomaly_at"], (source, kind, operation, sha256(body).digest()))
    return rows[0][0] if rows else None


def page_of_bets(
    prefix: str, since_millis: int | None, until_millis: int | None, source: str, after: BetRecord | None, most: int
) -> Script[list[BetRecord]]:
    """Return at most *most* bets by time and id, those that follow *after*."""
    until = _LAST_MILLIS if until_millis is None else until_millis
    millis, bet_id = (after.opened_at_millis, after.bet_id) if after else (-1, "")
    parameters = (source, max(since_millis or 0, millis), until, millis, bet_id, most)
    rows = yield Execute(_sql(prefix)["page_of_bets"], parameters)
    return list(map(bet_of, rows))


def bets_before(
    prefix: str, before_millis: int, most: int, *, only_open: bool, source: str | None
) -> Script[list[BetRecord]]:
    """Return at most *most* bets that were opened before a time, the oldest first; whole tables may be read."""
    conditions = ["opened_at_millis < ?"]
    parameters: list[object] = [before_millis]
    if only_open:
        conditions.append("state = 'OPEN'")
    if source is not None:
        conditions.append(OF_SOURCE)
        parameters.append(source)
    sql = f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE {' AND '.join(conditions)} "  # noqa: S608 - a checked prefix
    rows = yield Execute(f"{sql}ORDER BY opened_at_millis, bet_id LIMIT ?", (*parameters, most))
    return list(map(bet_of, rows))


def bet_history(prefix: str, bet_id: str, source: str) -> Script[BetHistory]:
    """Return the history of a bet; one that is unknown has an empty history."""
    found = yield from bet(prefix, bet_id, source)
    calls = yield Execute(_sql(prefix)["calls_of_bet"], (source, bet_id))
    movements = yield Execute(_sql(prefix)["movements_of_bet"], (source, bet_id))
    anomalies = yield Execute(_sql(prefix)["anomalies_of_bet"], (source, bet_id))
    return BetHistory(
        found,
        tuple(CallRecord(*row) for row in calls),
        tuple(Movement(*row) for row in movements),
        tuple(map(record_of, anomalies)),
    )


def account_history(prefix: str, account: str, most: int) -> Script[AccountHistory]:
    """Return the history of an account; raise AccountNotFoundError if there is none."""
    rows = yield Execute(_sql(prefix)["balance_and_time"], (account, account))
    if not rows:
        advice = OPEN_FIRST
        if (yield from is_marked(prefix)):
            advice = "The balances are in your own table, and no call has moved that account yet."
        raise AccountNotFoundError(f"There is no account {shown(account)}.", remedy=advice)
    movements = yield Execute(_sql(prefix)["movements_of_account"], (account, account, most))
    if len(movements) < most:
        movements = [*movements, *(yield Execute(_sql(prefix)["carried"], (account,)))]
    bets = yield Execute(_sql(prefix)["open_bets"], (account, most))
    latest = tuple(Movement(*row) for row in reversed(movements))
    balance_cents, at_millis = rows[0]
    return AccountHistory(account, balance_cents, at_millis, latest, tuple(map(bet_of, bets)))


def _sql(prefix: str) -> dict[str, str]:
    """Return the statements of queries.sql."""
    return sql_texts(
        __package__,
        "queries.sql",
        prefix=prefix,
        bet_columns=BET_COLUMNS,
        call_columns=CALL_COLUMNS,
        anomaly_columns=", ".join(AnomalyRecord._fields),
        of_source=OF_SOURCE,
        account=POSTING_ACCOUNT.format("p."),
        delta=POSTING_DELTA.format("p."),
    )


def has_own_snapshot(url: str) -> bool:
    """Return whether the database at *url* can be read on a separate connection; one in memory cannot."""
    return not (url.startswith("sqlite:///") and path_of(url) == ":memory:")


class Listing:
    """
    Reads the pages of one list from the database at *url*, over a connection that ``close`` gives up.

    Threads may take turns, as those do that read for an event loop.
    """

    def __init__(self, url: str, use: _Use = "listing") -> None:
        self._url = url
        self._mutex = Lock()
        self._connection: Any = None  # sqlite3's or psycopg's.
        self._closed = False
        self._error: type[Exception]
        self._spelled: Callable[[str], str]
        self._connect: Callable[[], Any]
        if url.startswith("sqlite:///"):
            self._error, self._begin, self._spelled = sqlite3.Error, "BEGIN", str
            self._connect = partial(_sqlite_connection, path_of(url), use)
        else:
            import psycopg

            from game_operator.ledger.postgres.store import for_psycopg

            self._error, self._begin, self._spelled = psycopg.Error, _sql("")[f"begin_{use}"], for_psycopg
            self._connect = partial(
                psycopg.connect,
                address_of(url),
                autocommit=True,
                # Despite what the database, the user or the environment prefers: an id has one spelling in bytes.
                client_encoding="utf8",
                prepare_threshold=None,  # Behind a pooler the next page may meet another server connection.
                connect_timeout=round(_PATIENCE_SECONDS),
            )

    def read(self, script: Callable[[], Script[T]]) -> T:
        """
        Run *script*, which only executes statements that read, from one snapshot.

        Raises:
            LedgerUnavailableError: The database cannot be reached or read.
        """
        try:
            with self._mutex:
                if self._connection is not None:
                    # Between two pages a server may restart. The next page does not depend on the connection.
                    with contextlib.suppress(LedgerUnavailableError):
                        return self._read(script)
                return self._read(script)
        finally:
            if self._closed:
                self.close()

    def close(self) -> None:
        """Close the connection; if a thread reads with it, a task that is cancelled does not wait: the thread does."""
        self._closed = True
        if self._mutex.acquire(blocking=False):
            connection, self._connection = self._connection, None
            self._mutex.release()
            if connection is not None:
                connection.close()

    def _read(self, script: Callable[[], Script[T]]) -> T:
        """Read over the connection, which is opened if there is none, and kept unless the script fails."""
        connection, self._connection = self._connection, None
        try:
            connection = connection or self._connect()
            try:
                connection.execute(self._begin)
                result = drive(script(), partial(self._perform, connection))
                connection.rollback()
            except BaseException:
                connection.close()
                raise
        except self._error as failed:
            reason = without_password(" ".join(str(failed).split()), self._url)[:300]
            raise LedgerUnavailableError(f"The ledger's tables cannot be read: {reason}.") from failed
        self._connection = connection
        return result

    def _perform(self, connection: Any, step: Step) -> Any:
        if isinstance(step, AskOperator):
            return step.answered(connection)
        assert isinstance(step, Execute)
        cursor = connection.execute(self._spelled(step.sql), step.parameters)
        return cursor.fetchall() if cursor.description else []


def survey(url: str, script: Callable[[], Script[T]]) -> T:
    """Run *script* as ``Listing.read`` does, over a connection that is set for reading whole tables."""
    with contextlib.closing(Listing(url, "survey")) as reader:
        return reader.read(script)


def _sqlite_connection(path: str, use: _Use) -> sqlite3.Connection:
    # Where a file was and is no more, an empty one must not take its place: its books would be sound.
    name = f"{Path(path).absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        name, timeout=_PATIENCE_SECONDS, isolation_level=None, uri=True, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA query_only = ON")
        if use == "pages":
            connection.execute("PRAGMA cache_size = -32768")
        if use == "survey":
            connection.execute("PRAGMA cache_size = -131072")
            connection.execute("PRAGMA threads = 2")
    except BaseException:
        connection.close()
        raise
    return connection


def nothing() -> Script[None]:
    """Do nothing, in a transaction that is opened for it."""
    yield from ()
