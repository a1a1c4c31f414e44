"""What an account has wagered and got since some time, for limits: read from bets and claims, which stay for ever."""

from typing import Final, NamedTuple

from game_operator.errors import shown
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.steps import Execute, Kind, Steps

_LAST_MILLIS: Final = 2**62


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
    sql = sql_texts(__package__, "spending.sql", prefix=prefix)[f"{kind}_spent"]
    rows = yield Execute(sql, (account, since_millis) * 3 + (since_millis,))
    closed, won, still_open, back, claimed, paid_won, paid_back = map(int, rows[0])
    return Spent(closed + still_open + back, won + paid_won, back + paid_back, still_open, claimed)
