"""A ledger of version 3: its tables, and bets that programs of that version have taken."""

import sqlite3
from contextlib import closing

from game_operator.ledger.engine.tables import ddl
from tests.support.raw_sql import is_sqlite, path_in, run
from tests.support.version_1 import old_withdraw

__all__ = ["bets_of_version_3", "tables_of_version_3"]


def tables_of_version_3(url: str) -> None:
    """Make the tables, without any account."""
    made = ddl("sqlite" if is_sqlite(url) else "postgres", "game_operator_").partition("-- Version 4.")[0]
    if is_sqlite(url):
        with closing(sqlite3.connect(path_in(url))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(made)
    else:
        run(url, made)


def bets_of_version_3(url: str, *bet_ids: str) -> None:
    """Make the tables, an account with 100.00, and bets of 5.00."""
    tables_of_version_3(url)
    run(url, "INSERT INTO {p}accounts VALUES ('p1', 10000, 1)")
    run(
        url,
        "INSERT INTO {p}calls (source, operation, tx_id, player_id, account, action, amount_cents, balance_cents, "
        "at_millis) VALUES ('', 'open', 'p1', 'p1', 'p1', 'OPEN', 10000, 10000, 1)",
    )
    run(
        url,
        "INSERT INTO {p}postings (to_account, amount_cents, source, operation, tx_id, at_millis) "
        "VALUES ('p1', 10000, '', 'open', 'p1', 1)",
    )
    for bet_id in bet_ids:
        old_withdraw(url, bet_id)
