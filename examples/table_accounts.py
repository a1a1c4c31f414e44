"""The ready wallet with balances in the operator's own table, without further code."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from game_operator import BalanceCall, DepositCall, WithdrawCall
from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.wallet import Wallet

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "casino.db")
    with closing(sqlite3.connect(path)) as connection:
        # The operator's existing table: fils, thousandths of a dinar, with a number as key.
        connection.execute("CREATE TABLE players (id INTEGER PRIMARY KEY, name TEXT, fils INTEGER NOT NULL)")
        connection.execute("INSERT INTO players VALUES (7, 'Ann', 10009)")
        connection.commit()

        players = TableAccounts(table="players", key="id", balance="fils", unit="thousandths")
        with SqlLedger(f"sqlite:///{path}", accounts=players) as ledger:
            wallet = Wallet(ledger)
            print(wallet.withdraw(WithdrawCall(player_id="7", bet_id="bet-1", amount_cents=250)).balance)
            print(wallet.deposit(DepositCall(player_id="7", bet_id="bet-1", amount_cents=100)).balance)
            # Ids are compared by their spelling: a cast would treat this one as player 7.
            print(wallet.player_balance(BalanceCall(player_id="007")).code)
            # Calls have hundredths of a dinar. What is finer is kept, and the balance is shown rounded down.
            print(connection.execute("SELECT name, fils FROM players").fetchone())

# Prints:
# 7.50
# 8.50
# PLAYER_NOT_FOUND
# ('Ann', 8509)
