"""
A bet and the operator's own rows in one transaction of bare psycopg: together, or not at all.

It needs game-operator[postgres] and a PostgreSQL. Without an address it prints the expected output.
"""

import sys
from typing import Any

import psycopg

from game_operator import MovingCall, WithdrawCall
from game_operator.ledger import Outcome, SqlLedger, TableAccounts
from game_operator.wallet import JoinedWallet

TABLES = """
CREATE TABLE players (id bigint PRIMARY KEY, balance_cents bigint NOT NULL CHECK (balance_cents >= 0));
CREATE TABLE visits (id bigint PRIMARY KEY, player_id bigint NOT NULL REFERENCES players);
INSERT INTO players VALUES (7, 1000);
INSERT INTO visits VALUES (1, 7);
"""

call = WithdrawCall(player_id="7", bet_id="bet-1", amount_cents=250)
players = TableAccounts(table="players", key="id", balance="balance_cents", unit="cents")


visit_ids = iter([1, 2, 3])


def add_visit(_call: MovingCall, outcome: Outcome, connection: "psycopg.Connection[Any]") -> None:
    """Run in the transaction of the call: if this fails, the bet fails too."""
    connection.execute("INSERT INTO visits VALUES (%s, 7)", (next(visit_ids),))
    print("applied" if outcome.applied else "known")


def show(ledger: SqlLedger, url: str) -> None:
    with psycopg.connect(url) as connection:
        visits = connection.execute("SELECT id FROM visits").fetchall()
        print("cents", ledger.balance("7"), "visits", len(visits), "bet", ledger.bet("bet-1") is not None)


def main(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(TABLES)
    with SqlLedger(url, accounts=players) as ledger:
        # A connection commits on exit, and rolls back after an exception. In production: pool.connection.
        wallet = JoinedWallet(ledger, lambda: psycopg.connect(url), add_visit)
        try:
            wallet.withdraw(call)  # There is a visit 1 already.
        except psycopg.errors.UniqueViolation as failed:
            print(type(failed).__name__)
        show(ledger, url)
        wallet.withdraw(call)
        wallet.withdraw(call)  # The service repeats its call: no second debit.
        show(ledger, url)


if len(sys.argv) > 1:
    main(sys.argv[1])
else:
    print("python own_transaction_psycopg.py postgresql://user@host/an_empty_database prints:")
    print("UniqueViolation")
    print("cents 1000 visits 1 bet False")
    print("applied")
    print("known")
    print("cents 750 visits 3 bet True")

# Prints:
# python own_transaction_psycopg.py postgresql://user@host/an_empty_database prints:
# UniqueViolation
# cents 1000 visits 1 bet False
# applied
# known
# cents 750 visits 3 bet True
