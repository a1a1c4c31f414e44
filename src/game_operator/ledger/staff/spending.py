"""What an account has wagered and got since some time, for limits: read from bets and claims, which stay for ever."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from game_operator.codes import BetState
from game_operator.errors import shown
from game_operator.ledger.api import BetRecord, CallRecord
from game_operator.ledger.engine.script import Execute, Kind, Script
from game_operator.ledger.engine.tables import sql_texts

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


def spent(kind: Kind, prefix: str, account: str, since_millis: int) -> Script[Spent]:
    """Return what *account* has spent, by one statement."""
    sql = sql_texts(__package__, "spending.sql", prefix=prefix)[f"{kind}_spent"]
    rows = yield Execute(sql, (account, since_millis) * 3 + (since_millis,))
    closed, won, still_open, back, claimed, paid_won, paid_back = map(int, rows[0])
    return Spent(closed + still_open + back, won + paid_won, back + paid_back, still_open, claimed)


def spent_in_memory(bets: Iterable[BetRecord], calls: Iterable[CallRecord], account: str, since_millis: int) -> Spent:
    """Return the same of records that are in memory."""
    wagers = dict.fromkeys((BetState.CLOSED, BetState.OPEN, BetState.ROLLED_BACK), 0)
    won_cents = 0
    for bet in bets:
        is_counted = bet.account == account and bet.opened_at_millis >= since_millis and bet.state in wagers
        if is_counted and not (bet.state is BetState.ROLLED_BACK and bet.action == "RAIN"):
            wagers[bet.state] += bet.wager_cents
            won_cents += bet.won_cents or 0
    claimed_cents = sum(
        call.amount_cents
        for call in calls
        if (call.operation, call.account, call.code) == ("deposit", account, None)
        and call.action != "BET"
        and call.at_millis >= since_millis
    )
    refunded_cents, open_cents = wagers[BetState.ROLLED_BACK], wagers[BetState.OPEN]
    return Spent(sum(wagers.values()), won_cents, refunded_cents, open_cents, claimed_cents)
