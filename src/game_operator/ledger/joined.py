"""
A call in the transaction that the caller opened: under a savepoint, so that whatever fails leaves nothing of the call
and does not abort the caller's transaction.
"""

import contextlib
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import anyio

from game_operator.errors import LedgerUnavailableError, SchemaError, TransactionRequiredError
from game_operator.ledger.accounts import AccountsSpec
from game_operator.ledger.api import Outcome
from game_operator.ledger.book import Item
from game_operator.ledger.connections import AsyncCaller, Caller, async_caller_of, caller_of, sqlstates
from game_operator.ledger.dialects import AnyDialect, Kind, dialect_for
from game_operator.ledger.elsewhere import mark_joined
from game_operator.ledger.schema import VERSION, check_version
from game_operator.ledger.script import (
    ConflictError,
    Execute,
    Rows,
    Step,
    Together,
    answered,
    apply_items,
    awaited_answer,
    drive,
    drive_async,
)

__all__ = ["Joiner"]

T = TypeVar("T")

_MOST_CONFLICTS = 5
_ROLLBACK_SECONDS = 5
_NAME = "game_operator_apply"
_SAVE = Execute(f"SAVEPOINT {_NAME}", ())
_RELEASE = Execute(f"RELEASE SAVEPOINT {_NAME}", ())
_BACK = Execute(f"ROLLBACK TO SAVEPOINT {_NAME}", ())

_UNDEFINED_TABLE = "42P01"
_NO_TRANSACTION = "25P01"


class Joiner:
    """Applies calls of one ledger in transactions of its callers."""

    def __init__(self, prefix: str, accounts: AccountsSpec, clock_millis: Callable[[], int]) -> None:
        self._prefix, self._accounts, self._clock_millis = prefix, accounts, clock_millis
        self._dialects: dict[Kind, AnyDialect] = {}

    def apply(self, item: Item, connection: Any) -> Outcome:
        """Apply *item* with *connection*, whose transaction is open."""
        caller = caller_of(connection)
        caller.enter()
        try:
            return drive(self._joined(item, caller.kind), lambda step: self._perform(caller, step))
        except Exception:  # The script was told, and has undone what it did.
            raise
        except BaseException:  # Ctrl-C in the middle; the script was not told.
            with contextlib.suppress(Exception):
                caller.execute(*_BACK[:2])
            raise

    async def apply_async(self, item: Item, connection: Any) -> Outcome:
        """Apply *item* with *connection* of asyncio, whose transaction is open."""
        caller = await async_caller_of(connection)
        await caller.enter()
        try:
            return await drive_async(self._joined(item, caller.kind), lambda step: self._perform_async(caller, step))
        except Exception:  # The script was told, and has undone what it did.
            raise
        except BaseException:  # Cancelled in the middle; the script was not told.
            with contextlib.suppress(Exception), anyio.move_on_after(_ROLLBACK_SECONDS, shield=True):
                await caller.execute(*_BACK[:2])
            raise

    def _joined(self, item: Item, kind: Kind) -> Generator[Step, Any, Outcome]:
        for _ in range(_MOST_CONFLICTS):
            with contextlib.suppress(ConflictError):
                return (yield from _saved(self._attempt(item, kind)))
        raise LedgerUnavailableError(
            "Other machines kept storing the same call or bet. Nothing of this call was kept: roll back and repeat it."
        )

    def _attempt(self, item: Item, kind: Kind) -> Generator[Step, Any, Outcome]:
        if kind == "sqlite":
            # A write, which writes nothing: it takes the lock, so that whatever is read after it stands still.
            yield Execute(f"UPDATE {self._prefix}meta SET value = value WHERE name = ''", ())  # noqa: S608 - a checked prefix
        dialect = yield from self._dialect(kind)
        result = (yield from apply_items([item], dialect))[0]
        if isinstance(result, Exception):
            raise result
        return result

    def _dialect(self, kind: Kind) -> Generator[Step, Any, AnyDialect]:
        """Return the dialect for *kind*; the first call of each looks at the tables, and later ones trust it."""
        known = self._dialects.get(kind)
        if known is None:
            rows: Rows = yield Execute(f"SELECT value FROM {self._prefix}meta WHERE name = 'version'", ())  # noqa: S608
            if not rows or check_version(int(rows[0][0]), self._prefix) != VERSION:
                raise SchemaError(
                    f"The tables {self._prefix}* are old: open a ledger on their database to migrate them."
                )
            known = yield from dialect_for(kind, self._prefix, self._accounts, self._clock_millis)
            # Until it is known to be committed, the mark is left anew.
            if self._accounts is None or (yield from mark_joined(self._prefix, kind)):
                self._dialects[kind] = known
        return known

    def _perform(self, caller: Caller, step: Step) -> Any:
        try:
            match step:
                case Execute(sql, parameters, True):
                    return sum(caller.execute(sql, row)[1] for row in parameters)
                case Execute(sql, parameters):
                    return caller.execute(sql, parameters)[0]
                case Together(statements):
                    return [caller.execute(each.sql, each.parameters)[0] for each in statements]
        except Exception as failed:
            self._raise_translated(failed)
            raise
        return answered(step, caller.original)

    async def _perform_async(self, caller: AsyncCaller, step: Step) -> Any:
        try:
            match step:
                case Execute(sql, parameters, True):
                    return sum([(await caller.execute(sql, row))[1] for row in parameters])
                case Execute(sql, parameters):
                    return (await caller.execute(sql, parameters))[0]
                case Together(statements):
                    return [(await caller.execute(each.sql, each.parameters))[0] for each in statements]
        except Exception as failed:
            self._raise_translated(failed)
            raise
        return await awaited_answer(step, caller.original)

    def _raise_translated(self, failed: Exception) -> None:
        """Raise what only we can explain; everything else is the caller's, unchanged."""
        states = set(sqlstates(failed))
        if _NO_TRANSACTION in states:
            raise TransactionRequiredError(
                "connection= commits each statement by itself (autocommit), so the call would not be committed "
                "together with yours: open a transaction on a connection without autocommit."
            ) from failed
        # The driver's own words: SQLAlchemy adds the statement, which names our tables whatever is missing.
        told = str(getattr(failed, "orig", failed))
        if (_UNDEFINED_TABLE in states or "no such table" in told) and self._prefix in told:
            raise SchemaError(
                f"The tables {self._prefix}* are not in the database of connection=. Open a ledger on that database "
                "once, which makes them, or run the statements that SqlLedger(url, migrate=False) tells."
            ) from failed


def _saved(script: Generator[Step, Any, T]) -> Generator[Step, Any, T]:
    """Run *script* under a savepoint: kept, or rolled back to before it."""
    yield _SAVE
    try:
        result = yield from script
    except Exception:
        # Should the connection be gone, what happened first is what counts.
        with contextlib.suppress(Exception):
            yield _BACK
            yield _RELEASE
        raise
    yield _RELEASE
    return result
