"""Why a refusal is committed too: without it, a withdraw that comes after its rollback would debit."""

import sqlite3
import tempfile
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from game_operator import RollbackCall, WithdrawCall
from game_operator.ledger import Outcome, SqlLedger

# The service gave up on this bet before its withdraw arrived, so it sends the rollback first.
withdraw = WithdrawCall(player_id="player-1", bet_id="bet-1", amount_cents=250)
rollback = RollbackCall(player_id="player-1", bet_id="bet-1")


def apply(ledger: SqlLedger, path: Path, call: WithdrawCall | RollbackCall, *, commit_refusals: bool) -> Outcome:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        outcome = ledger.apply(call, connection=connection)
        if commit_refusals or not outcome.refused:
            connection.commit()
        else:
            connection.rollback()
        return outcome


def story(*, commit_refusals: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "casino.db")
        with SqlLedger(f"sqlite:///{path}") as ledger:
            ledger.open_account("player-1", Decimal("10.00"))
            for call in (rollback, withdraw):
                outcome = apply(ledger, path, call, commit_refusals=commit_refusals)
                print(f"  {call.operation}: {outcome.code or 'SUCCESS'}")
            print(f"  balance in cents: {ledger.balance('player-1')}")


print("refusals rolled back: the player pays for a bet that was never played")
story(commit_refusals=False)
print("refusals committed: the rollback's tombstone stops the late withdraw")
story(commit_refusals=True)

# Prints:
# refusals rolled back: the player pays for a bet that was never played
#   rollback: BET_NOT_FOUND
#   withdraw: SUCCESS
#   balance in cents: 750
# refusals committed: the rollback's tombstone stops the late withdraw
#   rollback: BET_NOT_FOUND
#   withdraw: BET_ROLLED_BACK
#   balance in cents: 1000
