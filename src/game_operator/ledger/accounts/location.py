"""
The mark of a database whose balances are not in our own table, so that nobody moves others by mistake.

Whoever opens a ledger with ``accounts=`` leaves the mark; whoever opens it without, finds it. A command line knows no
``accounts=``: it would open and credit accounts that no player has.
"""

from collections.abc import Generator
from typing import Any, Literal, NoReturn

from game_operator.errors import ConfigurationError, SchemaError
from game_operator.ledger.engine.script import Execute, Rows, Step

_NAME = "balances_elsewhere"
_DENIED = "42501"


class Elsewhere:
    """What stands for the operator's Accounts in a ledger that was not given them: none is locked, and none moved."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def lock(self, _connection: object, _account: str) -> NoReturn:
        """Raise ConfigurationError."""
        raise ConfigurationError(
            f"The balances of the ledger {self._prefix}* are in a table of the operator's own, and it was opened "
            "without accounts=: no account of it can be opened, read or moved. Nothing was moved. Pass the accounts= "
            "that your wallet passes; on the command line, --accounts-table and its companions to a command that has "
            "them. Open and adjust accounts in the table itself."
        )

    def move(self, connection: object, account: str, _delta_cents: int) -> NoReturn:
        """Raise ConfigurationError."""
        self.lock(connection, account)


def is_marked(prefix: str) -> Generator[Step, Any, bool]:
    """Return whether a ledger was opened here whose balances are in the operator's own table."""
    rows: Rows = yield Execute(f"SELECT value FROM {prefix}meta WHERE name = '{_NAME}'", ())  # noqa: S608 - a checked prefix
    return bool(rows)


def mark(prefix: str) -> Generator[Step, Any, None]:
    """
    Leave the mark, unless it is there.

    Raises:
        SchemaError: This user may not write it.
    """
    if (yield from is_marked(prefix)):
        return
    statement = f"INSERT INTO {prefix}meta (name, value) VALUES ('{_NAME}', 1) ON CONFLICT (name) DO NOTHING"  # noqa: S608
    try:
        yield Execute(statement, ())
    except Exception as failed:
        if getattr(failed, "sqlstate", None) != _DENIED:
            raise
        raise SchemaError(
            f"The ledger's user may not note in {prefix}meta that balances are in your own table. Grant INSERT on it, "
            f"or let somebody who may run this statement once: {statement}"
        ) from failed


def mark_joined(prefix: str, kind: Literal["sqlite", "postgres"]) -> Generator[Step, Any, bool]:
    """
    Leave the mark in a transaction of the caller's; return whether it was there.

    It is kept only if the caller commits. Nobody waits for a caller who has yet to: a wait while the caller holds locks
    of their own could be for one who waits for those.
    """
    if (yield from is_marked(prefix)):
        return True
    alone = f" WHERE pg_try_advisory_xact_lock(hashtext('{prefix}{_NAME}'))" if kind == "postgres" else " WHERE true"
    insert = f"INSERT INTO {prefix}meta (name, value)"
    yield Execute(f"{insert} SELECT '{_NAME}', 1{alone} ON CONFLICT (name) DO NOTHING", ())
    return False
