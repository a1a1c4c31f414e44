"""Balances behind an object of the operator's: locked and moved by its methods, one call at a time."""

import json
from collections.abc import Generator, Iterable, Mapping, Set
from typing import Any

from game_operator.errors import LedgerError, shown
from game_operator.ledger.api import MAX_BALANCE_CENTS, Account, Accounts, AsyncAccounts
from game_operator.ledger.engine.rows import CLOCK, IN_LIST, KEYS, clocks_part
from game_operator.ledger.engine.script import Execute, LockAccount, MoveAccount, Rows, Step, Together
from game_operator.ledger.rules.book import Changes

_UNKNOWN = "Accounts.lock answered None."


class _ObjectAccounts:
    """What both databases share: the object's methods, and what they may answer."""

    unknown = _UNKNOWN
    key_parts = 1

    def __init__(self, accounts: Accounts | AsyncAccounts) -> None:
        self._accounts = accounts

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents, or None if there is no such account."""
        cents = yield LockAccount(self._accounts, key)
        return None if cents is None else _checked("lock", key, cents)

    def _locked(self, keys: Iterable[str]) -> Generator[Step, Any, dict[str, int]]:
        """Return the balances of those accounts that exist, locked in sorted order."""
        balances = {}
        for key in sorted(keys):
            cents = yield from self.balance(key)
            if cents is not None:
                balances[key] = cents
        return balances

    def _move(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        for key, cents, _ in changes.accounts.values():
            delta_cents = cents - was[key].balance_cents
            if delta_cents:
                answer = yield MoveAccount(self._accounts, key, delta_cents)
                _check_move(key, was[key].balance_cents, delta_cents, _checked("move", key, answer))


class ObjectSqliteAccounts(_ObjectAccounts):
    """An object's accounts, for a ledger in SQLite."""

    def __init__(self, prefix: str, accounts: Accounts | AsyncAccounts) -> None:
        super().__init__(accounts)
        self._clocks = f"SELECT account, at_millis FROM {prefix}clocks WHERE account {IN_LIST}"  # noqa: S608 - a checked prefix
        self._upsert_clock = (
            f"INSERT INTO {prefix}clocks (account, at_millis) VALUES (?, ?) "  # noqa: S608
            "ON CONFLICT (account) DO UPDATE SET at_millis = excluded.at_millis"
        )

    def load(self, keys: Set[str]) -> Generator[Step, Any, list[Account]]:
        """Return those of the accounts that exist, locked."""
        balances = yield from self._locked(keys)
        rows: Rows = yield Execute(self._clocks, (json.dumps(sorted(balances)),))
        at_millis = {row[0]: row[1] for row in rows}
        return [Account(key, cents, at_millis.get(key, 0)) for key, cents in balances.items()]

    def store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Move the accounts."""
        if changes.accounts:
            yield Execute(self._upsert_clock, [(key, at) for key, _, at in changes.accounts.values()], many=True)
        yield from self._move(changes, was)


class ObjectPostgresAccounts(_ObjectAccounts):
    """An object's accounts, for a ledger in PostgreSQL."""

    def __init__(self, prefix: str, accounts: Accounts | AsyncAccounts) -> None:
        super().__init__(accounts)
        self._clocks = f"SELECT account, at_millis FROM {prefix}clocks WHERE account = ANY({KEYS})"  # noqa: S608 - a checked prefix
        #: The statements that write the rows of ``rows``, for the one statement that stores a batch.
        self.parts = {"clocks": clocks_part(prefix)}

    def load(
        self, keys: Set[str], others: tuple[Execute, ...]
    ) -> Generator[Step, Any, tuple[list[Account], int | None, list[Rows]]]:
        """Lock the accounts, then read *others*; return those that exist, the clock, and their rows."""
        balances = yield from self._locked(keys)
        clocks = Execute(self._clocks, (json.dumps(sorted(balances)),))
        rows, now, *rest = yield Together((clocks, Execute(f"SELECT {CLOCK}", ()), *others))
        at_millis = {row[0]: row[1] for row in rows}
        accounts = [Account(key, cents, at_millis.get(key, 0)) for key, cents in balances.items()]
        return accounts, now[0][0], rest

    def rows(self, changes: Changes, was: Mapping[str, Account]) -> dict[str, list[Any]]:  # noqa: ARG002 - as others do
        """Return the rows to write, as many as each of ``parts`` must change."""
        return {"clocks": [(key, at) for key, _, at in changes.accounts.values()]}

    def stored(self, statement: Execute, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, Rows]:  # noqa: ARG002 - as others do
        """Perform the statement with ``parts`` and return its rows."""
        return (yield statement)  # type: ignore[no-any-return]  # Drivers send rows back.

    def after_store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Move the accounts."""
        yield from self._move(changes, was)


def _checked(method: str, key: str, cents: object) -> int:
    # bool is an int, and a float would be money lost.
    if type(cents) is not int or abs(cents) > MAX_BALANCE_CENTS:
        raise LedgerError(
            f"Accounts.{method} answered {shown(cents)} for {shown(key)}; it must answer the balance as an int of cents"
        )
    return cents


def _check_move(key: str, before_cents: int, delta_cents: int, after_cents: int) -> None:
    if after_cents != before_cents + delta_cents:
        raise LedgerError(
            f"Accounts.move answered {after_cents} cents for {shown(key)}, which held {before_cents} and was moved by "
            f"{delta_cents}. Nothing was kept: lock and move must speak of one and the same balance."
        )
