"""Ledgers that cannot lose or double money: in memory, on SQLite, on PostgreSQL, or in your own transaction."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from game_operator.ledger.api import (
        Account,
        Accounts,
        AsyncAccounts,
        BetRecord,
        Ledger,
        Outcome,
        TableAccounts,
        Terms,
        Unit,
    )
    from game_operator.ledger.async_sql import AsyncSqlLedger
    from game_operator.ledger.memory import MemoryLedger
    from game_operator.ledger.sql import SqlLedger
    from game_operator.ledger.staff.anomalies import AnomalyRecord
    from game_operator.ledger.staff.history import AccountHistory, BetHistory, Movement
    from game_operator.ledger.staff.prune import PruneReport
    from game_operator.ledger.staff.verify import BooksReport, Finding

__all__ = [
    "Account",
    "AccountHistory",
    "Accounts",
    "AnomalyRecord",
    "AsyncAccounts",
    "AsyncSqlLedger",
    "BetHistory",
    "BetRecord",
    "BooksReport",
    "Finding",
    "Ledger",
    "MemoryLedger",
    "Movement",
    "Outcome",
    "PruneReport",
    "SqlLedger",
    "TableAccounts",
    "Terms",
    "Unit",
]

#: Where each name lives: whoever wants the ledger in memory loads no database driver.
_HOMES = {
    "Accounts": "api",
    "AsyncAccounts": "api",
    "TableAccounts": "api",
    "Unit": "api",
    "Account": "api",
    "BetRecord": "api",
    "Ledger": "api",
    "Outcome": "api",
    "Terms": "api",
    "AccountHistory": "staff.history",
    "AnomalyRecord": "staff.anomalies",
    "BetHistory": "staff.history",
    "BooksReport": "staff.verify",
    "Finding": "staff.verify",
    "Movement": "staff.history",
    "PruneReport": "staff.prune",
    "AsyncSqlLedger": "async_sql",
    "MemoryLedger": "memory",
    "SqlLedger": "sql",
}

if not TYPE_CHECKING:  # To a type checker it would make every misspelt name look defined.

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
