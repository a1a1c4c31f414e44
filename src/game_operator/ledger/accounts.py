"""Balances that live in the operator's own tables."""

from collections.abc import Awaitable
from typing import Any, Protocol

from game_operator.money import Cents

__all__ = ["Accounts", "AsyncAccounts"]


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
    """Accounts, awaited: for an AsyncSqlLedger."""

    def lock(self, connection: Any, account: str) -> Awaitable[Cents | None]:
        """Lock the account's row until the transaction ends; return its balance in cents, or None if there is none."""

    def move(self, connection: Any, account: str, delta_cents: int) -> Awaitable[Cents]:
        """Add *delta_cents*, which may be negative, to an account that is locked; return its new balance in cents."""
