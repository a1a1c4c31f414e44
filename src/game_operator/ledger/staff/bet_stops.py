"""
Stops of bets: in an incident no further withdraw debits, in all processes, while wins and refunds go on.

A stop is a row. Each statement that could debit asks for the row that holds, so a stop takes effect with its commit.
The rows stay: they say who stopped bets, who started them again, and why.
"""

from typing import Final, NamedTuple

from game_operator.codes import WebhookErrorCode
from game_operator.errors import shown
from game_operator.ledger.engine.batch import may_refuse
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.staff.findings import check_person
from game_operator.ledger.steps import Execute, Steps

_ABOVE_EVERY_VERSION: Final = 2**31
#: Every other code of ours says something that is not so.
_OURS: Final = frozenset(WebhookErrorCode) - {WebhookErrorCode.LIMIT_EXCEEDED, WebhookErrorCode.PLAYER_BLOCKED}


class BetStop(NamedTuple):
    """
    A stop of bets.

    Attributes:
        code: What withdraws are answered that would debit.
        actor, reason: Who stopped bets and why.
        at_millis: When, in Unix milliseconds.
    """

    code: str
    actor: str
    reason: str
    at_millis: int


def checked_stop(actor: str, reason: str, code: str, now_millis: int = 0) -> BetStop:
    """
    Return a stop.

    Raises:
        ConfigurationError: The actor or the reason is missing.
        ValueError: No withdraw can be refused with *code*.
    """
    check_person(actor, reason)
    if not may_refuse(code) or code in _OURS:
        raise ValueError(
            f"code is {shown(code)}, and cannot refuse a withdraw. Pass LIMIT_EXCEEDED, PLAYER_BLOCKED, or one of your "
            "own codes of 1 to 64 of A-Z, 0-9 and _"
        )
    return BetStop(code, actor, reason, now_millis)


def bet_stop(prefix: str) -> Steps[BetStop | None]:
    """Return the stop that holds, or None."""
    rows = yield Execute(_sql(prefix)["now"], ())
    return BetStop(*rows[0]) if rows else None


def stop_bets(stop: BetStop, dialect: SqlDialect) -> Steps[BetStop]:
    """Begin *stop* now and return it; it takes the place of one that holds."""
    yield from start_bets(stop.actor, stop.reason, dialect)
    begun = stop._replace(at_millis=(yield from dialect.now_millis()))
    yield Execute(_sql(dialect.prefix)["begin"], begun)
    yield Execute(_sql(dialect.prefix)["mark"], (_ABOVE_EVERY_VERSION,))
    return begun


def start_bets(actor: str, reason: str, dialect: SqlDialect) -> Steps[BetStop | None]:
    """End the stop that holds and return it; None if there is none."""
    sql = _sql(dialect.prefix)
    if dialect.kind == "postgres":
        yield Execute(sql["alone"], ())
    held = yield from bet_stop(dialect.prefix)
    yield Execute(sql["end"], (actor, reason, (yield from dialect.now_millis())))
    yield Execute(sql["mark"], (0,))
    return held


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(__package__, "bet_stops.sql", prefix=prefix)
