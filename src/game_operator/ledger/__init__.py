"""Ledgers that cannot lose or double money: in memory, on SQLite, on PostgreSQL, or in your own transaction."""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator.codes import BetState as BetState
    from game_operator.errors import AdjustmentRefusedError as AdjustmentRefusedError
    from game_operator.errors import LedgerUnavailableError as LedgerUnavailableError
    from game_operator.errors import RetryRefusedError as RetryRefusedError
    from game_operator.errors import UnknownSourceError as UnknownSourceError
    from game_operator.ledger.api import Account as Account
    from game_operator.ledger.api import Accounts as Accounts
    from game_operator.ledger.api import AsyncAccounts as AsyncAccounts
    from game_operator.ledger.api import BetRecord as BetRecord
    from game_operator.ledger.api import Ledger as Ledger
    from game_operator.ledger.api import Outcome as Outcome
    from game_operator.ledger.api import TableAccounts as TableAccounts
    from game_operator.ledger.api import Terms as Terms
    from game_operator.ledger.api import Unit as Unit
    from game_operator.ledger.async_sql import AsyncSqlLedger as AsyncSqlLedger
    from game_operator.ledger.books.maintain import MaintainReport as MaintainReport
    from game_operator.ledger.books.retention import DroppedDay as DroppedDay
    from game_operator.ledger.books.retention import KeptDay as KeptDay
    from game_operator.ledger.books.totals import TotalsClose as TotalsClose
    from game_operator.ledger.books.totals import TotalsReport as TotalsReport
    from game_operator.ledger.books.totals import TotalsRow as TotalsRow
    from game_operator.ledger.books.verify import BooksReport as BooksReport
    from game_operator.ledger.books.verify import Finding as Finding
    from game_operator.ledger.doctor.examined import DoctorCheck as DoctorCheck
    from game_operator.ledger.doctor.examined import DoctorReport as DoctorReport
    from game_operator.ledger.memory import MemoryLedger as MemoryLedger
    from game_operator.ledger.ping import PingReport as PingReport
    from game_operator.ledger.sql import SqlLedger as SqlLedger
    from game_operator.ledger.staff.anomalies import AnomalyRecord as AnomalyRecord
    from game_operator.ledger.staff.limits import BetStop as BetStop
    from game_operator.ledger.staff.limits import Spent as Spent
    from game_operator.ledger.staff.queries import AccountHistory as AccountHistory
    from game_operator.ledger.staff.queries import BetHistory as BetHistory
    from game_operator.ledger.staff.queries import Movement as Movement

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".api": "Account Accounts AsyncAccounts BetRecord Ledger Outcome TableAccounts Terms Unit",
            ".async_sql": "AsyncSqlLedger",
            ".doctor.examined": "DoctorCheck DoctorReport",
            ".memory": "MemoryLedger",
            ".ping": "PingReport",
            ".sql": "SqlLedger",
            ".staff.anomalies": "AnomalyRecord",
            ".staff.limits": "BetStop Spent",
            ".staff.queries": "AccountHistory BetHistory Movement",
            ".books.maintain": "MaintainReport",
            ".books.retention": "DroppedDay KeptDay",
            ".books.totals": "TotalsClose TotalsReport TotalsRow",
            ".books.verify": "BooksReport Finding",
            "game_operator.codes": "BetState",
            "game_operator.errors": (
                "AdjustmentRefusedError LedgerUnavailableError RetryRefusedError UnknownSourceError"
            ),
        },
    )
