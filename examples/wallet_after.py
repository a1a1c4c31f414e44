"""
Write your own row in the transaction of each call: both are stored, or neither.

`after` gets the call, its outcome, and the database's connection. It also gets calls that moved nothing, such as
repeats and refusals: check `outcome.applied`. An exception undoes the call.
"""

import sqlite3
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from game_operator import MovingCall, WithdrawCall
from game_operator.ledger import Outcome, SqlLedger
from game_operator.wallet import Wallet

MOST_POINTS = 10


def collect_points(call: MovingCall, outcome: Outcome, connection: sqlite3.Connection) -> None:
    """Give a point for each whole unit that was wagered, at most ten at once."""
    if isinstance(call, WithdrawCall) and outcome.applied:
        points = call.amount_cents // 100
        connection.execute("INSERT INTO points VALUES (?, ?, ?)", (call.bet_id, call.player_id, points))
        if points > MOST_POINTS:
            raise ValueError(f"{points} points are more than {MOST_POINTS}")


with TemporaryDirectory() as folder:
    database = Path(folder) / "casino.db"
    with sqlite3.connect(database) as own:
        own.execute("CREATE TABLE points (bet_id TEXT PRIMARY KEY, player_id TEXT, points INTEGER)")

    with SqlLedger(f"sqlite:///{database}") as ledger:
        ledger.open_account("ann", Decimal("100.00"))
        wallet = Wallet(ledger, after=collect_points)
        five = WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500)
        print("a bet:", wallet.withdraw(five).balance)
        print("sent again:", wallet.withdraw(five).balance)
        try:
            wallet.withdraw(WithdrawCall(player_id="ann", bet_id="b2", amount_cents=2_000))
        except ValueError as failed:  # The receiver answers SYSTEM_ERROR to this: the call comes again.
            print("undone:", failed)
        print("balance:", Decimal(ledger.balance("ann")) / 100, "second bet:", ledger.bet("b2"))
    print("points:", own.execute("SELECT bet_id, points FROM points").fetchall())
    own.close()

# Prints:
# a bet: 95.00
# sent again: 95.00
# undone: 20 points are more than 10
# balance: 95 second bet: None
# points: [('b1', 5)]
