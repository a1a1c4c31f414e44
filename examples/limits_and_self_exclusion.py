"""
Limits and self-exclusion over all providers, race-free, with a JoinedWallet and an AsyncJoinedWallet on PostgreSQL.

The limits stand in the operator's own tables, because a legal limit counts the wagers with every provider. `may_bet`
locks the player's own row and reads them; `after` notes each wager in the transaction of its call.

It needs game-operator[postgres] and a PostgreSQL. Without an address it prints the expected output.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import psycopg

from game_operator import DepositCall, MovingCall, Reply, RollbackCall, WithdrawCall
from game_operator.ledger import Account, AsyncSqlLedger, Outcome, SqlLedger, TableAccounts
from game_operator.wallet import AsyncJoinedWallet, JoinedWallet

TABLES = """
CREATE TABLE players (id text PRIMARY KEY, balance_cents bigint NOT NULL);
-- One row for each player from the first day: a row that is missing cannot be locked.
CREATE TABLE protection (
    player_id text PRIMARY KEY REFERENCES players,
    excluded_until timestamptz NOT NULL DEFAULT '-infinity',  -- 'infinity' for good; a cooling-off ends by itself
    daily_loss_cents bigint NOT NULL,
    weekly_wager_cents bigint NOT NULL
);
-- The wagers of all providers: each wallet writes its own. All in one currency: with several, add a column of the
-- currency, and convert each amount before it is noted and compared.
CREATE TABLE wagers (
    provider text NOT NULL,
    bet_id text NOT NULL,
    player_id text NOT NULL REFERENCES players,
    placed_at timestamptz NOT NULL DEFAULT now(),
    wagered_cents bigint NOT NULL,
    returned_cents bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (provider, bet_id)
);
CREATE INDEX wagers_by_player ON wagers (player_id, placed_at);
"""
PLAYERS = TableAccounts(table="players", key="id", balance="balance_cents", unit="cents")
PROVIDER = "provider-a"

# FOR UPDATE: bets of one player wait for each other here, over all providers and all accounts of the player, and an
# exclusion waits for the bets under way. No bet that comes after it debits.
LOCK = """
SELECT excluded_until > now() AS excluded, daily_loss_cents, weekly_wager_cents
FROM protection WHERE player_id = %s FOR UPDATE
"""
# A statement of its own, after the lock: only then it sees the wagers of those that held the lock before.
SPENT = """
SELECT
    coalesce(sum(wagered_cents - returned_cents) FILTER (
        WHERE placed_at >= date_trunc('day', now(), 'Europe/Malta')
    ), 0) AS lost_cents,
    coalesce(sum(wagered_cents), 0) AS wagered_cents
FROM wagers WHERE player_id = %s AND placed_at >= date_trunc('week', now(), 'Europe/Malta')
"""


class Protection(NamedTuple):
    """The limits of a player."""

    excluded: bool
    daily_loss_cents: int
    weekly_wager_cents: int


def refusal(call: WithdrawCall, limits: Protection, lost_cents: int, wagered_cents: int) -> str | None:
    """Return the code that refuses the bet, or None. A wager counts as lost until its winnings come."""
    if limits.excluded:
        return "PLAYER_BLOCKED"
    if call.action != "BET":  # Money that is given away, such as a RAIN: no wager, as `note_of` has it.
        return None
    too_much = (
        lost_cents + call.amount_cents > limits.daily_loss_cents
        or wagered_cents + call.amount_cents > limits.weekly_wager_cents
    )
    return "LIMIT_EXCEEDED" if too_much else None


def note_of(call: MovingCall, outcome: Outcome) -> tuple[str, dict[str, Any]] | None:
    """Return the statement that notes what *call* did; None for a refusal, a repeat, a claim and money given away."""
    of_a_bet = not (isinstance(call, DepositCall) and call.is_claim) and call.action == "BET"
    if not (outcome.applied and of_a_bet):
        return None
    values = {"provider": PROVIDER, "bet": call.bet_id, "player": call.player_id, "cents": abs(outcome.delta_cents)}
    if isinstance(call, WithdrawCall):
        columns = "(provider, bet_id, player_id, wagered_cents)"
        return f"INSERT INTO wagers {columns} VALUES (%(provider)s, %(bet)s, %(player)s, %(cents)s)", values
    # A rollback takes the wager back: it counts for no limit.
    change = "wagered_cents = 0" if isinstance(call, RollbackCall) else "returned_cents = returned_cents + %(cents)s"
    return f"UPDATE wagers SET {change} WHERE provider = %(provider)s AND bet_id = %(bet)s", values


def may_bet(call: WithdrawCall, _account: Account, connection: "psycopg.Connection[Any]") -> str | None:
    """Asked about a withdraw that is about to debit, in its transaction."""
    row = connection.execute(LOCK, [call.player_id]).fetchone()
    if row is None:
        return "PLAYER_BLOCKED"
    spent = connection.execute(SPENT, [call.player_id]).fetchone()
    assert spent is not None
    return refusal(call, Protection(*row), *spent)


def after(call: MovingCall, outcome: Outcome, connection: "psycopg.Connection[Any]") -> None:
    """Note the wager, or what came back, in the transaction of the call."""
    if note := note_of(call, outcome):
        connection.execute(*note)


async def may_bet_async(
    call: WithdrawCall, _account: Account, connection: "psycopg.AsyncConnection[Any]"
) -> str | None:
    """The same, awaited."""
    row = await (await connection.execute(LOCK, [call.player_id])).fetchone()
    if row is None:
        return "PLAYER_BLOCKED"
    spent = await (await connection.execute(SPENT, [call.player_id])).fetchone()
    assert spent is not None
    return refusal(call, Protection(*row), *spent)


async def after_async(call: MovingCall, outcome: Outcome, connection: "psycopg.AsyncConnection[Any]") -> None:
    """The same, awaited."""
    if note := note_of(call, outcome):
        await connection.execute(*note)


def wallet_of(ledger: SqlLedger, url: str) -> JoinedWallet:
    """Return the wallet of a program with threads. In production pass a pool's ``connection``."""
    return JoinedWallet(ledger, lambda: psycopg.connect(url), after, may_bet=may_bet)


def async_wallet_of(ledger: AsyncSqlLedger, url: str) -> AsyncJoinedWallet:
    """Return the wallet of a program with asyncio."""

    @asynccontextmanager
    async def transaction() -> "AsyncIterator[psycopg.AsyncConnection[Any]]":
        async with await psycopg.AsyncConnection.connect(url) as connection:
            yield connection

    return AsyncJoinedWallet(ledger, transaction, after_async, may_bet=may_bet_async)


def exclude(connection: "psycopg.Connection[Any]", player_id: str, until: str = "infinity") -> None:
    """Exclude a player from betting until a time; once it is committed, no further bet of the player debits."""
    update = "UPDATE protection SET excluded_until = greatest(excluded_until, %s) WHERE player_id = %s"
    connection.execute(update, (until, player_id))


def may_play(connection: "psycopg.Connection[Any]", player_id: str) -> bool:
    """Ask this before you build a session token: an excluded player gets none."""
    query = "SELECT 1 FROM protection WHERE player_id = %s AND excluded_until <= now()"
    return connection.execute(query, [player_id]).fetchone() is not None


def bet(bet_id: str, wager_cents: int) -> WithdrawCall:
    """Return a bet of Ann's."""
    return WithdrawCall(player_id="ann", bet_id=bet_id, amount_cents=wager_cents, tx_id=f"withdraw:{bet_id}")


def win(bet_id: str, won_cents: int) -> DepositCall:
    """Return what a bet of Ann's won."""
    return DepositCall(player_id="ann", bet_id=bet_id, amount_cents=won_cents, tx_id=f"deposit:{bet_id}")


def tell(what: str, reply: Reply) -> None:
    """Print a reply."""
    print(f"{what}:", reply.code or "SUCCESS", reply.balance)


def in_threads(url: str) -> None:
    """A day of Ann's, with a JoinedWallet."""
    with SqlLedger(url, accounts=PLAYERS) as ledger:
        wallet = wallet_of(ledger, url)
        tell("lost 20.00 of 30.00 today", wallet.withdraw(bet("b1", 2_000)))
        tell("10.01 more would be over it", wallet.withdraw(bet("b2", 1_001)))
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO wagers VALUES ('provider-b', 'x', 'ann', now(), 500, 0)")
        tell("5.00 were lost with another provider", wallet.withdraw(bet("b3", 501)))
        tell("so 5.00 are left", wallet.withdraw(bet("b4", 500)))
        tell("a win makes room", wallet.deposit(win("b4", 1_500)))


async def in_asyncio(url: str) -> None:
    """The rest of it, with an AsyncJoinedWallet."""
    async with AsyncSqlLedger(url, accounts=PLAYERS) as ledger:
        wallet = async_wallet_of(ledger, url)
        tell("10.00 again", await wallet.withdraw(bet("b5", 1_000)))
        with psycopg.connect(url) as connection:
            exclude(connection, "ann")
        tell("excluded", await wallet.withdraw(bet("b6", 1)))
        tell("and still paid", await wallet.deposit(win("b5", 2_500)))
    with psycopg.connect(url) as connection:
        print("may have a session token:", may_play(connection, "ann"))


def main(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(TABLES)
        connection.execute("INSERT INTO players VALUES ('ann', 10000)")
        connection.execute("INSERT INTO protection VALUES ('ann', '-infinity', 3000, 100000)")
    in_threads(url)
    asyncio.run(in_asyncio(url))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        print("python limits_and_self_exclusion.py postgresql://user@host/an_empty_database prints:")
        print("lost 20.00 of 30.00 today: SUCCESS 80.00")
        print("10.01 more would be over it: LIMIT_EXCEEDED 80.00")
        print("5.00 were lost with another provider: LIMIT_EXCEEDED 80.00")
        print("so 5.00 are left: SUCCESS 75.00")
        print("a win makes room: SUCCESS 90.00")
        print("10.00 again: SUCCESS 80.00")
        print("excluded: PLAYER_BLOCKED 80.00")
        print("and still paid: SUCCESS 105.00")
        print("may have a session token: False")

# Prints:
# python limits_and_self_exclusion.py postgresql://user@host/an_empty_database prints:
# lost 20.00 of 30.00 today: SUCCESS 80.00
# 10.01 more would be over it: LIMIT_EXCEEDED 80.00
# 5.00 were lost with another provider: LIMIT_EXCEEDED 80.00
# so 5.00 are left: SUCCESS 75.00
# a win makes room: SUCCESS 90.00
# 10.00 again: SUCCESS 80.00
# excluded: PLAYER_BLOCKED 80.00
# and still paid: SUCCESS 105.00
# may have a session token: False
