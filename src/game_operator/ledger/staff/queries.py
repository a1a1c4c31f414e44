"""
What is read from the tables: bets, balances, histories; and connections beside the ledger's for reading much.

Bets, histories and anomalies are found by indexes, however large the books are. A listing reads page by page, each from
a snapshot of its page, because a person may take time over a list. A survey reads everything from one snapshot. A
reader of SQLite's WAL never stops the writer; the file only grows until the reader is done. In PostgreSQL the snapshot
is a REPEATABLE READ transaction that may not write.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from game_operator.codes import BetState
from game_operator.errors import AccountNotFoundError, ConfigurationError, LedgerUnavailableError, shown
from game_operator.ledger.accounts.choice import is_marked
from game_operator.ledger.api import OPEN_FIRST, BetRecord, CallRecord, Outcome
from game_operator.ledger.engine.address import (
    CHECK_SERVER,
    address_of,
    check_psycopg,
    is_postgres,
    limits_of,
    path_of,
    sentences,
    unknown_database,
)
from game_operator.ledger.engine.dialects import BET_COLUMNS, CALL_COLUMNS, Balances, bet_of
from game_operator.ledger.engine.tables import (
    POSTING_ACCOUNT,
    POSTING_DELTA,
    check_prefix,
    check_version,
    found_version,
    sql_texts,
)
from game_operator.ledger.rules.book import body_of
from game_operator.ledger.staff.anomalies import OF_SOURCE, AnomalyRecord, record_of
from game_operator.ledger.steps import AskOperator, Execute, Kind, Step, Steps, run
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall
from game_operator.money import Cents

T = TypeVar("T")
R = TypeVar("R")
#: Makes the script that reads a page of at most so many records, those that follow one.
Page: TypeAlias = Callable[[R | None, int], Steps[list[R]]]
Use: TypeAlias = Literal["survey", "listing", "history", "pages"]

_PATIENCE_SECONDS = 5.0
_LAST_MILLIS = 2**62


def balance_of(account: str, accounts: Balances) -> Steps[Cents]:
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
        operation, tx_id, source: The call that moved it; ``carry`` for what ``maintain`` has folded.
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
        movements: What was posted for those calls; the old ones of them are folded by ``maintain``.
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


def bet(prefix: str, bet_id: str, source: str) -> Steps[BetRecord | None]:
    """Return a bet, or None."""
    rows = yield Execute(_sql(prefix)["bet"], (source, bet_id))
    return bet_of(rows[0]) if rows else None


def stored_at(prefix: str, call: MovingCall, outcome: Outcome, source: str) -> Steps[int | None]:
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


def anomaly_at(prefix: str, operation: str, kind: str, body: bytes, source: str) -> Steps[int | None]:
    """Return when the anomaly of *body* came last; None if it is not committed."""
    rows = yield Execute(_sql(prefix)["anomaly_at"], (source, kind, operation, sha256(body).digest()))
    return rows[0][0] if rows else None


class BetsWanted(NamedTuple):
    """Which bets are asked for, as ``SqlLedger.bets`` has it; with the source None those of all sources."""

    source: str | None = ""
    since_millis: int | None = None
    until_millis: int | None = None
    state: BetState | None = None
    player_id: str | None = None

    @property
    def is_by_source(self) -> bool:
        """Whether the index of sources leads to them, and not that of a player or of a state that few bets have."""
        return self.player_id is None and self.state in (None, BetState.CLOSED)

    def parts(self) -> list[list[tuple[str, tuple[object, ...]]]]:
        """Return the conditions beside the time and the parameters of each, for each index that leads to such bets."""
        if self.player_id is None:
            return [self._conditions()]
        named = ("account = ? AND player_id = account", "player_id = ? AND account <> player_id")
        return [[(each, (self.player_id,)), *self._conditions()] for each in named]

    def _conditions(self) -> list[tuple[str, tuple[object, ...]]]:
        found: list[tuple[str, tuple[object, ...]]] = []
        if self.source is not None:
            found.append(("source = ?" if self.is_by_source else OF_SOURCE, (self.source,)))
        if self.state is not None:
            found.append((f"state = '{self.state.value}'", ()))
            if self.state not in (BetState.OPEN, BetState.SPENT, BetState.CLOSED) and self.player_id is None:
                found.append((_RARE, ()))
        return found


#: The predicate of the index of bets in rare states, word for word: SQLite takes the index for no other. With NOT IN it
#: would make a table of the three for each bet that is stored, which takes a tenth of storing it.
_RARE = "state <> 'OPEN' AND state <> 'SPENT' AND state <> 'CLOSED'"


_BY_TIME = attrgetter("opened_at_millis", "bet_id")


def page_of_bets(prefix: str, wanted: BetsWanted, after: BetRecord | None, most: int) -> Steps[list[BetRecord]]:
    """Return at most *most* bets by time and id, those that follow *after*."""
    until = _LAST_MILLIS if wanted.until_millis is None else wanted.until_millis
    start = (after.opened_at_millis, after.bet_id) if after else (max(wanted.since_millis or 0, 0), "")
    found: list[BetRecord] = []
    for conditions in wanted.parts():
        where = "".join(f" AND {condition}" for condition, _ in conditions)
        parameters = (*start, until, *(value for _, values in conditions for value in values), most)
        sql = f"{_sql(prefix)['page_of_bets']}{where} ORDER BY opened_at_millis, bet_id LIMIT ?"
        found += map(bet_of, (yield Execute(sql, parameters)))
    return sorted(found, key=_BY_TIME)[:most]


def oldest_bets(prefix: str, wanted: BetsWanted, most: int) -> Steps[list[BetRecord]]:
    """Return at most *most* bets of one source or of all, the oldest first."""
    if wanted.source is not None or not wanted.is_by_source:
        return (yield from page_of_bets(prefix, wanted, None, most))
    found: list[BetRecord] = []
    for (source,) in (yield Execute(_sql(prefix)["sources"], ())):
        found += yield from page_of_bets(prefix, wanted._replace(source=source), None, most)
    return sorted(found, key=_BY_TIME)[:most]


def bet_history(prefix: str, bet_id: str, source: str) -> Steps[BetHistory]:
    """Return the history of a bet; one that is unknown has an empty history."""
    found = yield from bet(prefix, bet_id, source)
    calls = [call for call, _ in (yield from calls_of_bet(prefix, bet_id, source, found))]
    postings = yield from postings_of_calls(prefix, source, calls)
    movements = (Movement(each[1], each[2], source, bet_id, *each[3:]) for each in postings)
    anomalies = yield Execute(_sql(prefix)["anomalies_of_bet"], (bet_id, source))
    return BetHistory(found, tuple(calls), tuple(movements), tuple(sorted(map(record_of, anomalies))))


def calls_of_bet(
    prefix: str, bet_id: str, source: str, bet: BetRecord | None
) -> Steps[list[tuple[CallRecord, bytes | None]]]:
    """Return the calls of a bet in order of time, each with the body that is kept of it."""
    # In damaged books a call is known and its bet is not: then the identity that a service gives most often.
    withdraw = bet.withdraw_tx_id if bet else f"withdraw:bet:{bet_id}"
    deposit = bet.deposit_tx_id if bet else f"deposit:bet:{bet_id}"
    own = (source, "withdraw", withdraw, bet_id, source, "deposit", deposit, bet_id)
    rows = yield Execute(_sql(prefix)["calls_of_bet"], (*own, bet_id, source))
    return [(CallRecord(*row[:-1]), None if row[-1] is None else bytes(row[-1])) for row in rows]


def postings_of_calls(prefix: str, source: str, calls: Iterable[CallRecord]) -> Steps[list[Sequence[Any]]]:
    """Return what was posted for *calls* of one source, as (id, operation, tx_id, account, delta, time), by id."""
    found: list[Sequence[Any]] = []
    for call in calls:
        if call.code is None and not call.held:
            parameters = (call.account, call.at_millis, source, call.operation, call.tx_id)
            found += yield Execute(_sql(prefix)["posting_of_call"], parameters)
    return sorted(found, key=itemgetter(0))


def account_history(prefix: str, account: str, most: int) -> Steps[AccountHistory]:
    """
    Return an account, its *most* latest movements and open bets.

    Raises:
        AccountNotFoundError: There is no such account.
        ValueError: *most* is below 1.
    """
    if most < 1:
        raise ValueError(f"most is {most}: pass 1 or more")
    rows = yield Execute(_sql(prefix)["balance_and_time"], (account, account))
    if not rows:
        advice = OPEN_FIRST
        if (yield from is_marked(prefix)):
            advice = "The balances are in your own table, and no call has moved that account yet."
        raise AccountNotFoundError(f"There is no account {shown(account)}.", remedy=advice)
    found = yield Execute(_sql(prefix)["movements_of_account"], (account, most))
    if len(found) < most:
        found += yield Execute(_sql(prefix)["carried"], (account,))
    movements = tuple(Movement(*row) for row in reversed(found))
    bets = yield Execute(_sql(prefix)["open_bets"], (account, most))
    balance_cents, at_millis = rows[0]
    return AccountHistory(account, balance_cents, at_millis, movements, tuple(map(bet_of, bets)))


def _sql(prefix: str) -> dict[str, str]:
    """Return the statements of queries.sql."""
    return sql_texts(
        __package__,
        "queries.sql",
        prefix=prefix,
        bet_columns=BET_COLUMNS,
        call_columns=CALL_COLUMNS,
        anomaly_columns=", ".join(AnomalyRecord._fields),
        account=POSTING_ACCOUNT.format("p."),
        delta=POSTING_DELTA.format("p."),
    )


def has_own_snapshot(url: str) -> bool:
    """Return whether the database at *url* can be read on a separate connection; one in memory cannot."""
    return not (url.startswith("sqlite:///") and path_of(url) == ":memory:")


class Listing:
    """
    Reads the pages of one list from the database at *url*, over a connection that ``close`` gives up.

    Threads may take turns, as those do that read for an event loop. For the uses ``history`` and ``pages`` the tables
    have *prefix*.
    """

    def __init__(self, url: str, use: Use = "listing", prefix: str = "") -> None:
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

            self._error, self._begin, self._spelled = psycopg.Error, _sql(prefix)[f"begin_{use}"], for_psycopg
            self._connect = partial(
                psycopg.connect,
                address_of(url),
                autocommit=True,
                # Despite what the database, the user or the environment prefers: an id has one spelling in bytes.
                client_encoding="utf8",
                prepare_threshold=None,  # Behind a pooler the next page may meet another server connection.
                **limits_of(url, _PATIENCE_SECONDS),
            )

    def read(self, script: Callable[[], Steps[T]]) -> T:
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

    def _read(self, script: Callable[[], Steps[T]]) -> T:
        """Read over the connection, which is opened if there is none, and kept unless the script fails."""
        connection, self._connection = self._connection, None
        try:
            connection = connection or self._connect()
            try:
                connection.execute(self._begin)
                result = run(script(), partial(self._perform, connection))
                connection.rollback()
            except BaseException:
                connection.close()
                raise
        except self._error as failed:
            never_answered = is_postgres(self._url) and getattr(failed, "sqlstate", None) is None
            raise LedgerUnavailableError(
                f"The ledger's tables cannot be read: {sentences(failed)}",
                remedy=CHECK_SERVER if never_answered else "",
            ) from failed
        self._connection = connection
        return result

    def _perform(self, connection: Any, step: Step) -> Any:
        if isinstance(step, AskOperator):
            return step.answered(connection)
        assert isinstance(step, Execute)
        cursor = connection.execute(self._spelled(step.sql), step.parameters)
        return cursor.fetchall() if cursor.description else []


def tables_at(url: str, prefix: str) -> tuple[Kind, int]:
    """
    Return which database *url* names, and the version of the tables there, 0 without tables.

    Raises:
        ConfigurationError: *url* or *prefix* is invalid.
        LedgerUnavailableError: The database cannot be read.
        SchemaError: The tables have a version that this program cannot take.
    """
    kind: Kind = "postgres" if is_postgres(url) else "sqlite"
    if kind == "postgres":
        check_psycopg()
    elif not url.startswith("sqlite:///"):
        raise unknown_database(url)
    elif not has_own_snapshot(url):
        raise ConfigurationError("A database in memory ends with its process: it has no tables yet.")
    version = survey(url, partial(found_version, kind, check_prefix(prefix)), "listing")
    return kind, check_version(version, prefix)


def survey(url: str, script: Callable[[], Steps[T]], use: Use = "survey", prefix: str = "") -> T:
    """Run *script* as ``Listing.read`` does, over a connection that is set for reading whole tables, or for *use*."""
    with contextlib.closing(Listing(url, use, prefix)) as reader:
        return reader.read(script)


def _sqlite_connection(path: str, use: Use) -> sqlite3.Connection:
    # Where a file was and is no more, an empty one must not take its place: its books would be sound.
    name = f"{Path(path).absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        name, timeout=_PATIENCE_SECONDS, isolation_level=None, uri=True, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA query_only = ON")
        if use == "pages":
            connection.execute("PRAGMA cache_size = -16384")
        if use == "survey":
            # Each thread that sorts takes as much again.
            connection.execute("PRAGMA cache_size = -12288")
            connection.execute("PRAGMA threads = 2")
    except BaseException:
        connection.close()
        raise
    return connection


def nothing() -> Steps[None]:
    """Do nothing, in a transaction that is opened for it."""
    yield from ()
