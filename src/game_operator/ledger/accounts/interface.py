"""Balances that live in the operator's own tables: which table, or an object that locks and moves them."""

import json
import re
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from game_operator.errors import AccountNotFoundError, ConfigurationError, shown
from game_operator.money import Cents

__all__ = [
    "Accounts",
    "AccountsSpec",
    "AsyncAccounts",
    "TableAccounts",
    "Unit",
    "account_asked_for",
    "account_of_parts",
    "parts_of_account",
]

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
        key: The column that holds the player id: text, varchar, uuid or integer, and unique by itself. Or a tuple of
            columns that are unique together, such as ``("player_id", "currency")``: then ``account_of`` returns a
            tuple of as many texts, and an account is known by their compact JSON array, ``["p1","EUR"]``.
        balance: The column that holds the balance: exact, so integer or numeric.
        unit: What the balance counts: ``cents``, ``units`` (of the currency) or ``micros`` (millionths of a unit).
            None is cents, in a column of integers; of another column the unit must be told. Columns with decimals
            hold units, columns without hold cents or micros.
        shared: Whether ledgers with other table prefixes move these balances too. A call that reaches two ledgers moves
            money twice, so a second ledger is refused without it.

    Raises:
        ConfigurationError: A name, the key or the unit is invalid.
    """

    table: str
    key: str | tuple[str, ...]
    balance: str
    unit: Unit | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        parts = self.table.split(".") if type(self.table) is str else [str(self.table), "", ""]
        if len(parts) > 2:
            raise ConfigurationError(f"table must be a table or schema.table, not {shown(self.table)}")
        if not isinstance(self.key, str | tuple):
            raise ConfigurationError(
                f"key must be a column, or a tuple of columns, not {type(self.key).__name__} {shown(self.key)}. "
                'Pass key="id", or key=("player_id", "currency").'
            )
        if isinstance(self.key, tuple) and not 1 < len(self.key) == len(set(self.key)):
            raise ConfigurationError(
                f"key must be a column, or a tuple of two or more different columns, not {shown(self.key)}"
            )
        for name in (*parts, *self.keys, self.balance):
            _check_name(name)
        if self.unit is not None and self.unit not in _UNITS:
            raise ConfigurationError(f"unit must be one of {', '.join(_UNITS)}, not {shown(self.unit)}")
        if not isinstance(self.shared, bool):
            raise ConfigurationError(f"shared must be True or False, not {shown(self.shared)}")

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self.key if isinstance(self.key, tuple) else (self.key,)

    @property
    def quoted_table(self) -> str:
        """The table as SQL names it."""
        return ".".join(f'"{part}"' for part in self.table.split("."))


#: What ``accounts=`` takes; None is the ledger's own table.
AccountsSpec: TypeAlias = TableAccounts | Accounts | AsyncAccounts | None


def account_of_parts(parts: Iterable[str]) -> str:
    """
    Return the account whose key has several *parts*: a compact JSON array (docs/decisions/0021).

    Its bytes are kept for good: no spaces, and nothing is escaped that JSON lets stand. Escaped, an id of 256 emoji
    would not fit in PostgreSQL's index.
    """
    return json.dumps(list(parts), ensure_ascii=False, separators=(",", ":"))


def parts_of_account(account: str, count: int) -> tuple[str, ...] | None:
    """Return the *count* parts of *account*, or None if ``account_of_parts`` does not write it so, byte by byte."""
    try:
        parts: object = json.loads(account)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parts, list) or len(parts) != count or not all(isinstance(part, str) for part in parts):
        return None
    return tuple(parts) if account_of_parts(parts) == account else None


def account_asked_for(key: str | tuple[str, ...], accounts: AccountsSpec) -> str:
    """
    Return the account that a program names by a text, or by the parts of its key.

    Raises:
        AccountNotFoundError: The keys of *accounts* have another number of parts.
    """
    if not isinstance(key, tuple):
        return key
    names = accounts.keys if isinstance(accounts, TableAccounts) else ()
    if len(names) < 2 or len(key) != len(names):
        wanted = f"a tuple of {', '.join(names)}" if len(names) > 1 else "one text"
        raise AccountNotFoundError(f"There is no account {shown(key)}: the key of an account is {wanted}.")
    return account_of_parts(key)


def _check_name(name: object) -> None:
    # No quotes among these characters, so a quoted name ends where we end it.
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name.encode()) > _MOST_BYTES:
        raise ConfigurationError(
            f"{shown(name)} cannot be the name of a table or column in TableAccounts. A name has letters, digits, _ "
            f"and $, at most {_MOST_BYTES} bytes, and begins with no digit. Rename it, or write an Accounts object."
        )
