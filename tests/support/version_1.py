"""A ledger of version 1: its tables, which never change, and a withdraw as programs of versions 1 and 2 sent it."""

import hashlib
import sqlite3
from contextlib import closing
from importlib.resources import files

from tests.support.raw_sql import is_sqlite, path_in, rows, run

__all__ = ["old_tables", "old_withdraw"]

DIGESTS = {
    "postgres": "73f20b71bec1634cd204d9325538700a73f224f1892e8bf3b41e960317772a2b",
    "sqlite": "f92d8826911089a4e7be93220c93c56cba30dd6d87a3dece082dbe78ff39dced",
}
#: A withdraw of 5.00: the rows of three tables. Version 2 names the columns of the first two, version 1 does not.
CALL_COLUMNS = (
    "(source, operation, tx_id, player_id, account, bet_id, action, amount_cents, code, balance_cents, at_millis, body)"
)
BET_COLUMNS = (
    "(bet_id, player_id, account, instance_id, game, round_id, wager_cents, won_cents, state, opened_at_millis, "
    "settled_at_millis, action, withdraw_tx_id, deposit_tx_id, withdraw_digest, source)"
)
OLD_CALL = "INSERT INTO {{p}}calls {} VALUES (?, 'withdraw', ?, 'p1', 'p1', ?, 'BET', 500, NULL, ?, ?, NULL)"
OLD_BET = (
    "INSERT INTO {{p}}bets {} "
    "VALUES (?, 'p1', 'p1', NULL, NULL, NULL, 500, NULL, 'OPEN', ?, NULL, 'BET', ?, NULL, NULL, ?)"
)
OLD_POSTING = (
    "INSERT INTO {p}postings (from_account, to_account, amount_cents, source, operation, tx_id, at_millis) "
    "VALUES ('p1', NULL, 500, ?, 'withdraw', ?, ?)"
)
OLD_MOVE = "UPDATE {p}accounts SET balance_cents = balance_cents - 500, at_millis = at_millis + 1 WHERE account = 'p1'"


def old_tables(url: str) -> None:
    """Make the tables of version 1, with an account that has 100.00."""
    kind = "sqlite" if is_sqlite(url) else "postgres"
    text = (files("game_operator.ledger") / "engine" / "migrations" / f"{kind}_0001.sql").read_text()
    assert hashlib.sha256(text.encode()).hexdigest() == DIGESTS[kind]
    text = text.replace("{prefix}", "game_operator_")
    if is_sqlite(url):
        with closing(sqlite3.connect(path_in(url))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(text)
    else:
        run(url, text)
    run(url, "INSERT INTO {p}accounts VALUES ('p1', 10000, 1)")
    run(url, "INSERT INTO {p}calls VALUES ('', 'open', 'p1', 'p1', 'p1', NULL, 'OPEN', 10000, NULL, 10000, 1, NULL)")
    run(
        url,
        "INSERT INTO {p}postings (from_account, to_account, amount_cents, source, operation, tx_id, at_millis) "
        "VALUES (NULL, 'p1', 10000, '', 'open', 'p1', 1)",
    )


def old_withdraw(url: str, bet_id: str, source: str = "", *, version: int = 2) -> None:
    """Withdraw 5.00 as a program of an older version does that has been running since before the migration."""
    calls, bets = (CALL_COLUMNS, BET_COLUMNS) if version == 2 else ("", "")
    run(url, OLD_MOVE)
    ((cents, at_millis),) = rows(url, "SELECT balance_cents, at_millis FROM {p}accounts WHERE account = 'p1'")
    run(url, OLD_CALL.format(calls), source, f"withdraw:bet:{bet_id}", bet_id, cents, at_millis)
    run(url, OLD_BET.format(bets), bet_id, at_millis, f"withdraw:bet:{bet_id}", source)
    run(url, OLD_POSTING, source, f"withdraw:bet:{bet_id}", at_millis)
