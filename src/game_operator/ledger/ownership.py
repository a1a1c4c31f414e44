"""
Whose ledger it is: the players that it owns, and its name.

A router may send a call to the wrong ledger, and a test environment may have the address of production. Then every
player or bet seems unknown, and a refusal would be final. So a program can say which players a ledger owns, which is
asked before anything is read, and what its ledger is called, which is asked when it is opened.
"""

import inspect
from collections.abc import Callable
from typing import TypeAlias

from game_operator.errors import ConfigurationError, LedgerError, SchemaError, shown
from game_operator.ledger.api import problem_of_name
from game_operator.ledger.steps import Execute, Rows, Steps

#: Whether the ledger owns the player with this id; None owns all.
Owns: TypeAlias = Callable[[str], bool] | None


def check_ownership(owns: Owns, name: str | None) -> None:
    """Raise TypeError or ConfigurationError for what ``owns=`` and ``name=`` do not take."""
    if owns is not None and not callable(owns):
        raise TypeError(f"owns must be a function of a player's id, not {shown(owns)}")
    if inspect.iscoroutinefunction(owns) or inspect.iscoroutinefunction(getattr(owns, "__call__", None)):  # noqa: B004 - of an object
        raise TypeError("owns is async, and it is not awaited: pass a plain function that answers from memory")
    if name is None:
        return
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    if problem := problem_of_name(name):
        raise ConfigurationError(f"The name of the ledger {problem}, it is {shown(name)}.", setting="name")


def check_owned(owns: Owns, player_id: str, error: type[LedgerError] = LedgerError) -> None:
    """Raise *error* unless *owns* answers True."""
    if owns is None:
        return
    try:
        answer: object = owns(player_id)
    except Exception as raised:
        raise error(
            f"owns() raised {type(raised).__name__} for the player {shown(player_id)}, so nobody knows whose player "
            "that is. Nothing was moved. Fix owns(), and repeat it."
        ) from raised
    if answer is True:
        return
    if inspect.iscoroutine(answer):
        answer.close()
    raise error(
        f"This ledger does not own the player {shown(player_id)}: owns() answered {shown(answer)}. Nothing was moved. "
        "Send it to the ledger that owns the player. If that is this one, correct owns(): it must answer True or False."
    )


def check_name(prefix: str, name: str | None) -> Steps[bool]:
    """Return whether the tables have a name; raise SchemaError if it is not *name*. None is any."""
    if name is None:
        return True
    rows: Rows = yield Execute(f"SELECT name FROM {prefix}ledger_name", ())  # noqa: S608 - a checked prefix
    if rows and rows[0][0] != name:
        raise SchemaError(
            f"The tables {prefix}* belong to the ledger {shown(rows[0][0])}, and this program wants {shown(name)}. "
            "Nothing was moved. Is the address right? If it is, pass the name that the ledger has."
        )
    return bool(rows)


def settle_name(prefix: str, name: str | None, at_millis: int) -> Steps[None]:
    """Give the tables *name* if they have none; raise SchemaError if they have another."""
    if (yield from check_name(prefix, name)):
        return
    sql = f"INSERT INTO {prefix}ledger_name (number, name, at_millis) VALUES (1, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608
    yield Execute(sql, (name, at_millis))
    yield from check_name(prefix, name)  # Another program may have been first.
