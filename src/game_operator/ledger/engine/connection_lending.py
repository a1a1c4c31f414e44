"""
Lending the ledger's connection to the operator's own code, in the middle of a transaction, and getting it back whole.

What that code swallows or ends must not become an answer: PostgreSQL answers COMMIT with a ROLLBACK where a statement
has failed, and a transaction that was rolled back and begun anew commits without the call. A savepoint tells both.
"""

from game_operator.errors import LedgerError
from game_operator.ledger.engine.script import LockAccount, MoveAccount, RunWithin, Step

__all__ = ["RELEASE", "SAVE", "broken_by", "is_lent"]

_NAMES: dict[type, str] = {RunWithin: "within", LockAccount: "Accounts.lock", MoveAccount: "Accounts.move"}
_NAME = "game_operator_lent"
SAVE = f"SAVEPOINT {_NAME}"
RELEASE = f"RELEASE SAVEPOINT {_NAME}"


def broken_by(step: Step) -> LedgerError:
    """Return the error for the operator's code that has ended the transaction, or swallowed what undoes it."""
    return LedgerError(
        f"{_NAMES[type(step)]} was lent the ledger's transaction and has ended it (commit, rollback), or swallowed the "
        "error of a statement, which undoes all before it. Whether the call was kept is unknown: repeat it. Put a "
        "statement that may fail into a savepoint: with connection.transaction(): …"
    )


def is_lent(step: Step) -> bool:
    """Return whether *step* hands the connection over; may_bet gets none."""
    return type(step) in _NAMES
