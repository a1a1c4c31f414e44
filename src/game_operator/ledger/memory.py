"""A ledger in memory: the same rules and the same statements as in a file, for tests and for trying things out."""

import sqlite3
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import TypeVar

from game_operator.ledger.api import account_asked_for
from game_operator.ledger.engine.address import IN_MEMORY
from game_operator.ledger.engine.process_safety import is_inside
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.sqlite import SqliteStore
from game_operator.ledger.staff.limits import Spent, checked_since, spent
from game_operator.ledger.steps import Answer, AskOperator, Connection, Step, Steps, run

T = TypeVar("T")


class _Unshared(SqliteStore):
    """A connection that the operator's code does not get."""

    def within(self, steps: Steps[T]) -> T:
        """Perform *steps* in the transaction under way."""
        return run(steps, partial(self._perform, self._mine()))

    def _perform(self, connection: sqlite3.Connection, step: Step, *, awaits: bool = False) -> Answer:
        if isinstance(step, AskOperator):
            return step.answered(None)
        return super()._perform(connection, step, awaits=awaits)


class MemoryLedger(SqlLedger):
    """
    A SqlLedger on SQLite in memory. Nothing but it can reach its tables, and a forked child has none of them.

    ``may_bet`` and ``after`` are called with None for a connection; ``may_bet`` may ask ``spent`` without one.

    Args:
        opening_cents: Balances by player id, for accounts that are open from the start.
        clock_millis: The clock, in Unix milliseconds.
    """

    _store_of_file = _Unshared
    _store: _Unshared

    def __init__(
        self,
        opening_cents: Mapping[str, int] | None = None,
        *,
        clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__(f"sqlite:///{IN_MEMORY}", clock_millis=clock_millis)
        for player_id, cents in (opening_cents or {}).items():
            self.open_account(player_id, Decimal(cents).scaleb(-2))

    def spent(self, account: str | tuple[str, ...], *, since_millis: int, connection: Connection = None) -> Spent:
        """Return what an account has wagered and got, as ``SqlLedger.spent`` does."""
        if connection is not None or not is_inside(self):
            return super().spent(account, since_millis=since_millis, connection=connection)
        key = account_asked_for(account, self._accounts)
        return self._store.within(spent("sqlite", self._prefix, key, checked_since(since_millis)))
