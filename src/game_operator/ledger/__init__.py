"""Ledgers that cannot lose or double money: in memory, on SQLite, on PostgreSQL, or in your own transaction."""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

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
    from game_operator.ledger.staff.prune import PruneReport
    from game_operator.ledger.staff.queries import AccountHistory, BetHistory, Movement
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

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".api": "Account Accounts AsyncAccounts BetRecord Ledger Outcome TableAccounts Terms Unit",
            ".async_sql": "AsyncSqlLedger",
            ".memory": "MemoryLedger",
            ".sql": "SqlLedger",
            ".staff.anomalies": "AnomalyRecord",
            ".staff.queries": "AccountHistory BetHistory Movement",
            ".staff.prune": "PruneReport",
            ".staff.verify": "BooksReport Finding",
        },
    )
