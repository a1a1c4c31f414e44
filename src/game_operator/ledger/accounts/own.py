"""The accounts of our own ``accounts`` table: how they are locked, read and moved in each kind of database."""

import json
from collections.abc import Generator, Mapping, Set
from typing import Any, ClassVar

from game_operator.ledger.api import Account
from game_operator.ledger.engine.rows import CLOCK, IN_LIST, JSON_ROWS, KEYS, json_column, json_columns, one_or_many
from game_operator.ledger.engine.script import ConflictError, Execute, Rows, Step, Together
from game_operator.ledger.rules.book import Changes


class OwnSqliteAccounts:
    """Our own accounts in SQLite; the write lock of the file is ours."""

    unknown: ClassVar = "Open it with open_account() first."
    key_parts: ClassVar = 1

    def __init__(self, prefix: str) -> None:
        # S608: the prefix was checked; all else is a parameter.
        select = f"SELECT account, balance_cents, at_millis FROM {prefix}accounts WHERE account "  # noqa: S608
        self._one, self._many = select + "= ?", select + IN_LIST
        self._insert = (
            f"INSERT INTO {prefix}accounts (account, balance_cents, at_millis) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608
        )
        self._update = (
            f"UPDATE {prefix}accounts SET balance_cents = ?, at_millis = ? WHERE account = ? AND balance_cents = ?"  # noqa: S608
        )

    def load(self, keys: Set[str]) -> Generator[Step, Any, list[Account]]:
        """Return those of the accounts that exist."""
        rows: Rows = yield one_or_many(self._one, self._many, (), keys)
        return [Account(*row) for row in rows]

    def store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Open and move accounts; ConflictError if one is not as it was."""
        if changes.new_accounts:
            opened = list(changes.new_accounts.values())
            if (yield Execute(self._insert, opened, many=True)) != len(opened):
                raise ConflictError
        if changes.accounts:
            moved = [(cents, at, key, was[key].balance_cents) for key, cents, at in changes.accounts.values()]
            if (yield Execute(self._update, moved, many=True)) != len(moved):
                raise ConflictError

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents as it is committed, or None if there is no such account."""
        rows: Rows = yield Execute(self._one, (key,))
        return rows[0][1] if rows else None


class OwnPostgresAccounts:
    """Our own accounts in PostgreSQL, locked in sorted order."""

    unknown: ClassVar = OwnSqliteAccounts.unknown
    key_parts: ClassVar = 1

    def __init__(self, prefix: str) -> None:
        self._lock = (
            f"SELECT locked.account, locked.balance_cents, locked.at_millis, {CLOCK} FROM "  # noqa: S608
            f"(SELECT account, balance_cents, at_millis FROM {prefix}accounts "
            f"WHERE account = ANY({KEYS}) ORDER BY account FOR UPDATE) AS locked"
        )
        self._balance = f"SELECT balance_cents FROM {prefix}accounts WHERE account = ?"  # noqa: S608
        #: The statements that write the rows of ``rows``, for the one statement that stores a batch.
        self.parts = {
            "new_accounts": f"INSERT INTO {prefix}accounts (account, balance_cents, at_millis) "  # noqa: S608
            f"SELECT {json_columns('tbb')} FROM {JSON_ROWS} ON CONFLICT DO NOTHING",
            "accounts": (
                f"UPDATE {prefix}accounts SET balance_cents = {json_column(1, 'b')}, at_millis = {json_column(2, 'b')} "  # noqa: S608
                f"FROM {JSON_ROWS} WHERE account = {json_column(0, 't')} AND balance_cents = {json_column(3, 'b')}"
            ),
        }

    def load(
        self, keys: Set[str], others: tuple[Execute, ...]
    ) -> Generator[Step, Any, tuple[list[Account], int | None, list[Rows]]]:
        """Lock the accounts, then read *others*; return those that exist, the clock if it was read, and their rows."""
        rows, *rest = yield Together((Execute(self._lock, (json.dumps(sorted(keys)),)), *others))
        return [Account(*row[:3]) for row in rows], max((row[3] for row in rows), default=None), rest

    def rows(self, changes: Changes, was: Mapping[str, Account]) -> dict[str, list[Any]]:
        """Return the rows to write, as many as each of ``parts`` must change."""
        return {
            "new_accounts": list(changes.new_accounts.values()),
            "accounts": [(*account, was[account.key].balance_cents) for account in changes.accounts.values()],
        }

    def stored(self, statement: Execute, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, Rows]:  # noqa: ARG002 - as others do
        """Perform the statement with ``parts`` and return its rows."""
        return (yield statement)  # type: ignore[no-any-return]  # Drivers send rows back.

    def after_store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:  # noqa: ARG002 - as others do
        """Do what cannot be done by ``parts``: nothing."""
        yield from ()

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents as it is committed, or None if there is no such account."""
        rows: Rows = yield Execute(self._balance, (key,))
        return rows[0][0] if rows else None
