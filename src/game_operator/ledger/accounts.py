"""Balances that live in the operator's own tables: which table, or an object that locks and moves them."""

import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from game_operator.errors import ConfigurationError, shown
from game_operator.money import Cents

__all__ = ["Accounts", "AccountsSpec", "AsyncAccounts", "TableAccounts", "Unit"]

#: Hundredths, ones and millionths of the currency unit.
Unit: TypeAlias = Literal["cents", "units", "micros"]

_UNITS: Final = ("cents", "units", "micros")
#: A name as it is written without quotes; PostgreSQL keeps 63 bytes of it.
_NAME: Final = re.compile(r"[^\W\d][\w$]{0,62}")
_MOST_BYTES: Final = 63


class Accounts(Protocol):
    """
    The operator's own accounts, asked and moved one call at a time in the transaction of the call.

    *connection* is what the call is applied with: the one that was given to ``apply``, or the ledger's own
    (``sqlite3.Connection``, ``psycopg.Connection``). What a method raises undoes the call.
    """

    def lock(self, connection: Any, account: str) -> Cents | None:
        """Lock the account's row until the transaction ends; return its balance in cents, or None if there is none."""

    def move(self, connection: Any, account: str, delta_cents: int) -> Cents:
        """Add *delta_cents*, which may be negative, to an account that is locked; return its new balance in cents."""


class AsyncAccounts(Protocol):
    """Accounts, awaited: for an AsyncSqlLedger on PostgreSQL, or in a transaction of asyncio."""

    def lock(self, connection: Any, account: str) -> Awaitable[Cents | None]:
        """Lock the account's row until the transaction ends; return its balance in cents, or None if there is none."""

    def move(self, connection: Any, account: str, delta_cents: int) -> Awaitable[Cents]:
        """Add *delta_cents*, which may be negative, to an account that is locked; return its new balance in cents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccounts:
    """
    Balances in a table of the operator's, in the ledger's own database; read and moved for whole batches at once.

    Args:
        table: The table, perhaps with its schema: ``players``, ``shop.players``. Names are taken as they are stored:
            what was created without quotes is lowercase in PostgreSQL.
        key: The column that holds the player id: text, varchar, uuid or integer, and unique by itself.
        balance: The column that holds the balance: exact, so integer or numeric.
        unit: What the balance counts: ``cents``, ``units`` (of the currency) or ``micros`` (millionths of a unit).
            None is cents, in a column of integers; of another column the unit must be told.

    Raises:
        ConfigurationError: A name or the unit cannot be one.
    """

    table: str
    key: str
    balance: str
    unit: Unit | None = None

    def __post_init__(self) -> None:
        parts = self.table.split(".") if type(self.table) is str else [str(self.table), "", ""]
        if len(parts) > 2:
            raise ConfigurationError(f"table must be a table or schema.table, not {shown(self.table)}")
        for name in (*parts, self.key, self.balance):
            _check_name(name)
        if self.unit is not None and self.unit not in _UNITS:
            raise ConfigurationError(f"unit must be one of {', '.join(_UNITS)}, not {shown(self.unit)}")

    @property
    def quoted_table(self) -> str:
        """The table as SQL names it."""
        return ".".join(f'"{part}"' for part in self.table.split("."))


#: What ``accounts=`` takes; None is the ledger's own table.
AccountsSpec: TypeAlias = TableAccounts | Accounts | AsyncAccounts | None


def _check_name(name: object) -> None:
    # No quotes among these characters, so a quoted name ends where we end it.
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name.encode()) > _MOST_BYTES:
        raise ConfigurationError(
            f"{shown(name)} is no name of a table or column that TableAccounts takes: letters, digits, _ and $, at "
            f"most {_MOST_BYTES} bytes, not beginning with a digit. Rename it, or write an Accounts object."
        )
