"""
A call in the transaction that the caller opened.

It runs under a savepoint, so that a failure leaves nothing of the call and does not abort the caller's transaction.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio

from game_operator.errors import (
    LedgerError,
    LedgerUnavailableError,
    SchemaError,
    TransactionRequiredError,
    shown,
)
from game_operator.ledger.accounts.choice import claim, dialect_for, mark
from game_operator.ledger.api import AccountsSpec, Outcome, TableAccounts, watched
from game_operator.ledger.engine.batch import apply_items
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.process_safety import is_inside
from game_operator.ledger.engine.tables import (
    DURABLE,
    FULL,
    OLDEST_WRITER,
    UNDEFINED_TABLE,
    VERSION,
    check_version,
    stored_version,
)
from game_operator.ledger.joined_connections import Caller, caller_of, failure_of, sqlstates
from game_operator.ledger.ownership import Owns, check_name
from game_operator.ledger.postgres.hazards import SHOW_WARNINGS, Identities
from game_operator.ledger.rules.book import Item
from game_operator.ledger.steps import (
    AFTER,
    MAY_BET,
    RELEASE,
    SAVE,
    Answer,
    AskOperator,
    ConflictError,
    Connection,
    Execute,
    Kind,
    Rows,
    Step,
    Steps,
    Together,
    driver,
)

T = TypeVar("T")

#: Makes a script to run in the caller's transaction, anew for each attempt.
Attempt: TypeAlias = Callable[[Kind], Steps[T]]

_MOST_CONFLICTS = 5
_ROLLBACK_SECONDS = 5

_NO_TRANSACTION = "25P01"
_FAILED_TRANSACTION = "25P02"
#: Django and SQLAlchemy refuse further statements after one that failed.
_REFUSED_BY_LIBRARY = frozenset({"TransactionManagementError", "PendingRollbackError"})
#: PostgreSQL has rolled back, and asks to repeat: serialization failures and deadlocks.
_AGAIN = frozenset({"40001", "40P01"})
#: For PostgreSQL: the commit waits for the disk, and a commit in doubt is reported. A transaction that goes on seeing
#: an old state would not see that programs of this version may not write any more: locking that row then fails.
_SURE = (
    f"{DURABLE}, {SHOW_WARNINGS}, ({OLDEST_WRITER} AND current_setting('transaction_isolation') <> 'read committed' "
    "FOR SHARE)"
)

_APPLY = "game_operator_apply"
#: Of a call that is held. No other call goes back to it: that would make a failed transaction look sound.
_HOLD = "game_operator_hold"


class _TablesNotReadyError(SchemaError):
    """The tables are missing or old where a call joins. Catch it as ``SchemaError``."""


class Joiner:
    """
    Applies calls of one ledger in transactions of its callers.

    Attributes:
        make_tables: A script that makes the tables where a call did not find them; None where that is the caller's.
    """

    def __init__(
        self,
        prefix: str,
        accounts: AccountsSpec,
        clock_millis: Callable[[], int],
        *,
        awaits: bool,
        pooler: bool | None = None,
        owns: Owns = None,
        name: str | None = None,
        ledger: Callable[[], object] = object,
    ) -> None:
        self._awaits, self._owns, self._name, self._ledger = awaits, owns, name, ledger
        self._done = driver(awaits=awaits)
        self._prefix, self._accounts, self._clock_millis = prefix, accounts, clock_millis
        if pooler is not None and not isinstance(pooler, bool):  # "false", from an environment, is true.
            raise TypeError(f"pooler must be True, False or None, not {type(pooler).__name__} {shown(pooler)}")
        self._pooler, self._identities = pooler, Identities(prefix)
        self._dialects: dict[Kind, SqlDialect] = {}
        self.make_tables: Attempt[None] | None = None

    def apply(self, item: Item, connection: Connection) -> Steps[Outcome]:
        """Apply *item* with *connection*, whose transaction is open."""
        caller = yield from self._caller(connection)
        outcome = yield from self._run(caller, partial(self._applied, item), _APPLY)
        has_failed = failure_of(caller)
        return outcome if has_failed is None else watched(outcome, has_failed)

    def apply_held(self, item: Item, connection: Connection) -> Steps[Outcome]:
        """
        Apply *item*; with *connection*'s transaction, the operator gives up all of it if this raises.

        Raises:
            LedgerError: The transaction has failed or ended in the operator's own code.
        """
        caller = yield from caller_of(connection, awaits=self._awaits)
        return (yield from self._run(caller, partial(self._applied, item), _HOLD))

    def run(self, script: Callable[[SqlDialect], Steps[T]], connection: Connection, *, held: bool = False) -> Steps[T]:
        """Run a script that stores in *connection*'s open transaction; if it fails, as ``apply`` or ``apply_held``."""
        caller = yield from caller_of(connection, awaits=self._awaits)
        return (yield from self._run(caller, partial(self._stored, script), _HOLD if held else _APPLY))

    def read(self, script: Callable[[Kind], Steps[T]], connection: Connection) -> Steps[T]:
        """Run a script that only reads in *connection*'s open transaction."""
        caller = yield from self._caller(connection, only_reads=True)
        yield from caller.enter(self._pooler)
        return (yield partial(self._done, script(caller.kind), self._performer(caller, "")))  # type: ignore[no-any-return]  # What the script returns.

    def _caller(self, connection: Connection, *, only_reads: bool = False) -> Steps[Caller]:
        # What an AsyncSqlLedger lends on SQLite is not awaited.
        is_lent = isinstance(connection, sqlite3.Connection) and (only_reads or is_inside(self._ledger()))
        return (yield from caller_of(connection, awaits=self._awaits and not is_lent))

    def _run(self, caller: Caller, attempt: Attempt[T], point: str) -> Steps[T]:
        yield from caller.enter(self._pooler)
        try:
            script = self._settled(attempt, caller.kind, point)
            return (yield partial(self._done, script, self._performer(caller, point)))  # type: ignore[no-any-return]  # As above.
        except Exception:  # The script has seen it, and has undone what it did.
            raise
        except BaseException:  # Ctrl-C, or cancelled in the middle: the script has not seen it.
            seconds = anyio.move_on_after(_ROLLBACK_SECONDS, shield=True) if self._awaits else contextlib.nullcontext()
            with contextlib.suppress(Exception), seconds:
                yield from caller.execute(f"ROLLBACK TO SAVEPOINT {point}", ())
            raise

    def _settled(self, attempt: Attempt[T], kind: Kind, point: str) -> Steps[T]:
        """Repeat *attempt* after conflicts, missing tables and sequences that were behind."""
        has_made_tables = False
        for _ in range(_MOST_CONFLICTS):
            try:
                return (yield from _saved(attempt(kind), point))
            except ConflictError:
                continue
            except _TablesNotReadyError:
                if self.make_tables is None or has_made_tables:
                    raise
                has_made_tables = True
                self._dialects.clear()
                repair = self.make_tables(kind)
            except Exception as failed:  # Any driver's: it is known by its text.
                table = self._identities.table_of(failed) if kind == "postgres" else None
                if table is None:
                    raise
                repair = self._identities.advanced(failed_table=table)
            yield from _saved(repair, _APPLY)
        raise LedgerUnavailableError(
            "Other machines kept storing the same call or bet. Nothing of this call was kept: roll back and repeat it."
        )

    def _applied(self, item: Item, kind: Kind) -> Steps[Outcome]:
        dialect = yield from self._begun(kind)
        result = (yield from apply_items([item], dialect))[0]
        if isinstance(result, Exception):
            raise result
        # What is applied is stored by a statement that raises it already.
        if kind == "postgres" and not result.applied and item.call.operation != "player-balance":
            yield Execute(self._sure(), ())
        return result

    def _stored(self, script: Callable[[SqlDialect], Steps[T]], kind: Kind) -> Steps[T]:
        result = yield from script((yield from self._begun(kind)))
        if kind == "postgres":
            yield Execute(self._sure(), ())
        return result

    def _sure(self) -> str:
        return f"SELECT {_SURE.format(prefix=self._prefix)}"

    def _begun(self, kind: Kind) -> Steps[SqlDialect]:
        """
        Return the dialect for *kind*; on SQLite, take the write lock first.

        Raises:
            LedgerError: A power cut would lose a commit of this SQLite connection.
        """
        if kind == "sqlite":
            # A write that changes nothing: it takes the lock, so that all that is read after it stands still.
            yield Execute(f"UPDATE {self._prefix}meta SET value = value WHERE name = ''", ())  # noqa: S608 - a checked prefix
            synchronous: Rows = yield Execute("PRAGMA main.synchronous", ())
            if synchronous[0][0] < FULL and (yield Execute("PRAGMA main.journal_mode", ()))[0][0] == "wal":
                raise LedgerError(
                    "This connection has PRAGMA synchronous below FULL, so a power cut would lose calls that were "
                    "answered SUCCESS. Nothing was kept. Set it right after connecting: "
                    'connection.execute("PRAGMA synchronous = FULL")'
                )
        return (yield from self._dialect(kind))

    def _dialect(self, kind: Kind) -> Steps[SqlDialect]:
        """Return the dialect for *kind*; the first call of each looks at the tables, and later ones trust it."""
        known = self._dialects.get(kind)
        if known is None:
            version = yield from stored_version(self._prefix)
            if (version or 0) < VERSION:
                check_version(version or 0, self._prefix)
                raise _TablesNotReadyError(
                    f"The tables {self._prefix}* are old: open a ledger on their database to migrate them."
                )
            yield from check_name(self._prefix, self._name)
            # If they are newer, this program may have run before: each write asks whether it may go on.
            known = yield from dialect_for(
                kind, self._prefix, self._accounts, self._clock_millis, beside=f", {_SURE.format(prefix=self._prefix)}"
            )
            known.sources.joined, known.owns = True, self._owns
            if kind == "postgres":
                yield from self._identities.advanced()
            if isinstance(self._accounts, TableAccounts):
                yield from claim(kind, self._prefix, self._accounts, joined=True)
            # Until it is known to be committed, the mark is left anew.
            if self._accounts is None or (yield from mark(kind, self._prefix, joined=True)):
                self._dialects[kind] = known
        return known

    def _performer(self, caller: Caller, point: str) -> Callable[[Step], Answer]:
        return lambda step: self._done(self._performed(caller, point, step))

    def _performed(self, caller: Caller, point: str, step: Step) -> Steps[Answer]:
        try:
            match step:
                case Execute(sql, rows, True):
                    changed = 0
                    for row in rows:
                        changed += (yield from caller.execute(sql, row))[1]
                    return changed
                case Execute(sql, parameters):
                    return (yield from caller.execute(sql, parameters))[0]
                case Together(statements):
                    answers = []
                    for each in statements:
                        answers.append((yield from self._performed(caller, point, each)))  # noqa: PERF401 - a comprehension cannot yield
                    return answers
        except Exception as failed:  # Any driver's: it is known by its SQLSTATE or its text.
            self._raise_translated(failed)
            raise
        assert isinstance(step, AskOperator)
        if step.name not in (MAY_BET, AFTER):
            return (yield from step.answering(caller.original, awaits=self._awaits))
        return (yield from self._asked(caller, step, held=point == _HOLD and step.name == AFTER))

    def _asked(self, caller: Caller, step: AskOperator, *, held: bool) -> Steps[Any]:
        """
        Let the operator's code answer, and make sure that the transaction is as sound as it was.

        Under a savepoint; if the call is *held*, that is the call's own, because nothing of it is stored afterwards.
        """
        if step.name == AFTER:
            yield from caller.flush(forget=True)
        if not held:
            yield from caller.execute(SAVE, ())
        answer = yield from step.answering(caller.original, awaits=self._awaits)
        try:
            yield from caller.flush(forget=False)
        except Exception as failed:  # Each library has errors of its own, and none of them is imported here.
            if type(failed).__name__ not in _REFUSED_BY_LIBRARY:  # It is the operator's statement, executed only now.
                raise
            raise _swallowed(step.name) from failed
        try:
            yield from caller.execute(f"RELEASE SAVEPOINT {_HOLD}" if held else RELEASE, ())
        except Exception as failed:  # As above.
            if asks_to_repeat(failed):
                raise
            if _FAILED_TRANSACTION in sqlstates(failed) or type(failed).__name__ in _REFUSED_BY_LIBRARY:
                raise _swallowed(step.name) from failed
            raise LedgerError(
                f"{step.name}() has ended the transaction by itself (commit, rollback, executescript), or swallowed "
                "the error of a flush, after which SQLAlchemy does, or lost its connection. Whether the call was kept "
                "is unknown: its repeat finds out. Leave commit and rollback to transaction=, and let errors through."
            ) from failed
        return answer

    def _raise_translated(self, failed: Exception) -> None:
        """Raise what only we can explain; everything else is the caller's, unchanged."""
        states = set(sqlstates(failed))
        if _NO_TRANSACTION in states:
            raise TransactionRequiredError(
                "connection= commits each statement by itself (autocommit), so the call would not be committed "
                "together with yours: open a transaction on a connection without autocommit."
            ) from failed
        # The driver's own words: SQLAlchemy adds the statement, which names our tables whichever is missing. SQLite has
        # no code for a missing table, and neither database names the table anywhere else.
        message = str(getattr(failed, "orig", failed))
        if (UNDEFINED_TABLE in states or "no such table" in message) and self._prefix in message:
            advice = (
                "Open a ledger on that database once, which makes them, or run the statements that "
                "SqlLedger(url, migrate=False) lists. In a Django project make the ledger with DjangoLedger(alias)."
            )
            message = f"The tables {self._prefix}* are not in the database of connection=. {advice}"
            raise _TablesNotReadyError(message) from failed


def _swallowed(name: str) -> LedgerError:
    return LedgerError(
        f"{name}() swallowed the error of a statement, and a failed statement fails the whole transaction. Nothing of "
        "the call is kept: its repeat is applied afresh. Let the error through, or put a statement that may fail into "
        "a savepoint: connection.transaction() of psycopg, begin_nested() of SQLAlchemy, atomic() of Django."
    )


def asks_to_repeat(failed: BaseException) -> bool:
    """Return whether PostgreSQL has rolled back a transaction for *failed*, and asks to repeat all of it."""
    return not _AGAIN.isdisjoint(sqlstates(failed))


def _saved(script: Steps[T], point: str) -> Steps[T]:
    """Run *script* under a savepoint, and roll back to it on failure. ``_asked`` gives up a held one."""
    yield Execute(f"SAVEPOINT {point}", ())
    try:
        result = yield from script
    except Exception:  # Whatever it is, nothing of the script may stay.
        # If the connection is gone, the first error is the one to raise.
        with contextlib.suppress(Exception):
            yield Execute(f"ROLLBACK TO SAVEPOINT {point}", ())
            yield Execute(f"RELEASE SAVEPOINT {point}", ())
        raise
    if point != _HOLD:
        yield Execute(f"RELEASE SAVEPOINT {point}", ())
    return result
