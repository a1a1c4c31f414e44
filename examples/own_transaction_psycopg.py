"""
A bet and the operator's own rows in one transaction of bare psycopg: together, or not at all.

It needs game-operator[postgres] and a PostgreSQL, and without an address says what it would print.
"""

import sys

import psycopg

from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.models.webhooks import WithdrawCall

TABLES = """
CREATE TABLE players (id bigint PRIMARY KEY, balance_cents bigint NOT NULL CHECK (balance_cents >= 0));
CREATE TABLE visits (id bigint PRIMARY KEY, player_id bigint NOT NULL REFERENCES players);
INSERT INTO players VALUES (7, 1000);
INSERT INTO visits VALUES (1, 7);
"""

call = WithdrawCall(player_id="7", bet_id="bet-1", amount_cents=250)
players = TableAccounts(table="players", key="id", balance="balance_cents", unit="cents")


def place_bet(ledger: SqlLedger, url: str, visit_id: int) -> None:
    with psycopg.connect(url) as connection:  # It commits at the end, and rolls back what fails.
        outcome = ledger.apply(call, connection=connection)
        connection.execute("INSERT INTO visits VALUES (%s, 7)", (visit_id,))  # If this fails, so does the bet.
        print("applied" if outcome.applied else "known", outcome.reply().balance)


def show(ledger: SqlLedger, url: str) -> None:
    with psycopg.connect(url) as connection:
        visits = connection.execute("SELECT id FROM visits").fetchall()
        print("cents", ledger.balance("7"), "visits", len(visits), "bet", ledger.bet("bet-1") is not None)


def main(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(TABLES)
    with SqlLedger(url, accounts=players) as ledger:
        try:
            place_bet(ledger, url, visit_id=1)  # There is a visit 1 already.
        except psycopg.errors.UniqueViolation as failed:
            print(type(failed).__name__)
        show(ledger, url)
        place_bet(ledger, url, visit_id=2)
        place_bet(ledger, url, visit_id=3)  # The service repeats its call: no second debit.
        show(ledger, url)


if len(sys.argv) > 1:
    main(sys.argv[1])
else:
    print("python own_transaction_psycopg.py postgresql://user@host/an_empty_database prints:")
    print("UniqueViolation")
    print("cents 1000 visits 1 bet False")
    print("applied 7.50")
    print("known 7.50")
    print("cents 750 visits 3 bet True")

# Prints:
# python own_transaction_psycopg.py postgresql://user@host/an_empty_database prints:
# UniqueViolation
# cents 1000 visits 1 bet False
# applied 7.50
# known 7.50
# cents 750 visits 3 bet True
