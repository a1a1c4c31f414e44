"""
What limits bets: stops of all bets in an incident, and what an account has spent, for limits of the operator's.

A stop is a row. While one holds, no further withdraw debits, in all processes, and wins and refunds go on. Each
statement that could debit asks for the row, so a stop takes effect with its commit. The rows stay: they say who stopped
bets, who started them again, and why. What an account has wagered and got is read from bets and claims, which stay too.
"""

from typing import Final, NamedTuple

from game_operator.codes import OPERATORS_RULES, WebhookErrorCode
from game_operator.errors import shown
from game_operator.ledger.engine.batch import may_refuse
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.staff.findings import check_person
from game_operator.ledger.steps import Execute, Kind, Steps

_ABOVE_EVERY_VERSION: Final = 2**31
_LAST_MILLIS: Final = 2**62
#: What these say would not be so.
_OTHER_CODES: Final = frozenset(WebhookErrorCode) - OPERATORS_RULES


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
    if not may_refuse(code) or code in _OTHER_CODES:
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
    """End the stop that holds and return it; None if bets are not stopped."""
    sql = _sql(dialect.prefix)
    if dialect.kind == "postgres":
        yield Execute(sql["alone"], ())
    held = yield from bet_stop(dialect.prefix)
    yield Execute(sql["end"], (actor, reason, (yield from dialect.now_millis())))
    yield Execute(sql["mark"], (0,))
    return held


class Spent(NamedTuple):
    """
    What an account has spent since some time, in cents.

    Attributes:
        wagered_cents: Wagers of the accepted bets that were opened since then, without RAIN.
        won_cents: What came for those bets, by deposits, repairs and payments by hand.
        refunded_cents: What was refunded of those bets, by rollbacks, repairs and payments by hand.
        open_cents: The wagers of those bets that are OPEN, a part of ``wagered_cents``.
        claimed_cents: Free bets and jackpots that were credited since then.
    """

    wagered_cents: int
    won_cents: int
    refunded_cents: int
    open_cents: int
    claimed_cents: int

    @property
    def net_loss_cents(self) -> int:
        """What was wagered and has not come back; below zero for a player who won."""
        return self.wagered_cents - self.won_cents - self.refunded_cents


def checked_since(since_millis: int) -> int:
    """Return a time that every database takes; raise TypeError for what is not an int."""
    if type(since_millis) is not int:
        raise TypeError(f"since_millis must be an int of Unix milliseconds, not {shown(since_millis)}")
    return max(-_LAST_MILLIS, min(since_millis, _LAST_MILLIS))


def spent(kind: Kind, prefix: str, account: str, since_millis: int) -> Steps[Spent]:
    """Return what *account* has spent, by one statement."""
    sql = _sql(prefix)[f"{kind}_spent"]
    rows = yield Execute(sql, (account, since_millis) * 3 + (since_millis,))
    closed, won, still_open, back, claimed, paid_won, paid_back = map(int, rows[0])
    return Spent(closed + still_open + back, won + paid_won, back + paid_back, still_open, claimed)


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(__package__, "limits.sql", prefix=prefix)
