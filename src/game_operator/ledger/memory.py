"""A ledger in memory: the same rules and the same statements as in a file, for tests and for trying things out."""

import sqlite3
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeVar

from game_operator.ledger.engine.address import IN_MEMORY
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.sqlite import SqliteStore
from game_operator.ledger.steps import Answer, AskOperator, Step

T = TypeVar("T")


class _Unshared(SqliteStore):
    """A connection that the operator's code does not get."""

    def _perform(self, connection: sqlite3.Connection, step: Step, *, awaits: bool = False) -> Answer:
        if isinstance(step, AskOperator):
            return step.answered(None)
        return super()._perform(connection, step, awaits=awaits)


class MemoryLedger(SqlLedger):
    """
    A SqlLedger on SQLite in memory. Nothing but it can reach its tables, and a forked child has none of them.

    ``may_bet`` and ``after`` are called with None for a connection. A ``may_bet`` that asks ``spent`` needs one: try it
    out with ``SqlLedger("sqlite:///:memory:")``.

    Args:
        opening_cents: Balances by player id, for accounts that are open from the start.
        clock_millis: The clock, in Unix milliseconds.
    """

    _store_of_file = _Unshared

    def __init__(
        self,
        opening_cents: Mapping[str, int] | None = None,
        *,
        clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__(f"sqlite:///{IN_MEMORY}", clock_millis=clock_millis)
        for player_id, cents in (opening_cents or {}).items():
            self.open_account(player_id, Decimal(cents).scaleb(-2))
