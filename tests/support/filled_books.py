"""
Books of any size, filled by set-based SQL in minutes: as the ledger would have written them over 120 days.

Each bet has a withdraw, and a deposit, a rollback or a refusal; the last ones are open. One bet in a hundred has an
anomaly, and all but the last fifty of these are resolved. The books are sound: ``verify`` finds nothing.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from game_operator.ledger import SqlLedger

PREFIX: Final = "game_operator_"

_DAYS: Final = 120
_DAY_MILLIS: Final = 86_400_000
_OPENING_CENTS: Final = 10**12
#: A deposit comes so long after its withdraw.
_ROUND_MILLIS: Final = 8_000
#: What makes the numbers from 1 to rows.
NUMBERS: Final = {
    "PostgreSQL": "SELECT n FROM generate_series(CAST(1 AS bigint), {rows}) AS each(n)",
    "SQLite": "WITH RECURSIVE each(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each WHERE n < {rows}) "
    "SELECT n FROM each",
}
#: 24 digits without any order, as a service writes ids: what is stored must not lie side by side.
_RANDOM_ID: Final = {
    "PostgreSQL": "substr(md5(CAST(n AS text) || '{0}'), 1, 24)",
    "SQLite": "lower(hex(randomblob(12))) || ''",
}
_DIGEST: Final = {"PostgreSQL": "decode(md5(bet_id) || md5(bet_id), 'hex')", "SQLite": "randomblob(32)"}
_BODY: Final = {
    "PostgreSQL": "convert_to(repeat(bet_id, 10), 'UTF8')",
    "SQLite": "CAST(replace(printf('%.10c', '.'), '.', bet_id) AS BLOB)",
}
_INDEXES: Final = {
    # An index of a partitioned table brings those of the partitions.
    "PostgreSQL": "SELECT indexname, replace(indexdef, ' ON ONLY ', ' ON ') FROM pg_indexes JOIN pg_class "
    "ON pg_class.oid = to_regclass(indexname) WHERE left(tablename, 14) = 'game_operator_' AND NOT relispartition "
    "AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = indexname) AND indexdef NOT LIKE '% UNIQUE %'",
    "SQLite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL "
    "AND sql NOT LIKE '% UNIQUE %'",
}
_CALL: Final = (
    "source, operation, tx_id, player_id, account, bet_id, action, amount_cents, code, balance_cents, at_millis, body, "
    "instance_id, game"
)


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """Open a connection of the database's own driver, which is Any because there are two; closing commits nothing."""
    connection: Any = (
        psycopg.connect(url) if url.startswith("postgres") else sqlite3.connect(url.removeprefix("sqlite:///"))
    )
    try:
        yield connection
    finally:
        connection.close()


def fill_players(url: str, players: int) -> None:
    """Make the tables, and open the accounts p1, p2 and so on, all at once."""
    SqlLedger(url).close()
    kind = "PostgreSQL" if url.startswith("postgres") else "SQLite"
    with connected(url) as connection:
        for statement in _players(kind, players, time.time_ns() // 1_000_000):
            connection.execute(statement)
        connection.commit()


def fill_books(url: str, bets: int, *, players: int) -> None:
    """Make the tables, and store *bets* bets of *players* players in one transaction."""
    SqlLedger(url).close()
    kind = "PostgreSQL" if url.startswith("postgres") else "SQLite"
    now = time.time_ns() // 1_000_000
    with connected(url) as connection:
        if kind == "SQLite":
            connection.execute("PRAGMA cache_size = -1000000")
            connection.execute("PRAGMA synchronous = OFF")
        else:
            _make_days(connection)
        with _indexes_built_afterwards(kind, connection):
            for statement in _statements(kind, bets, players, now - 60_000):
                connection.execute(statement)
        connection.commit()
        if kind == "PostgreSQL":
            connection.autocommit = True
            connection.execute("VACUUM")
            connection.execute("CHECKPOINT")
        else:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _make_days(connection: Any) -> None:
    """Make the partitions of all days, as ``maintain`` has made each ahead of time; today it would refuse old ones."""
    name = f"{PREFIX}make_day"
    ((function,),) = connection.execute(f"SELECT pg_get_functiondef(CAST('{name}(date)' AS regprocedure))")
    connection.execute(function.replace("today - 1 AND", f"today - {_DAYS + 1} AND"))
    days = f"CAST(clock_timestamp() AT TIME ZONE 'UTC' AS date) - n FROM generate_series(0, {_DAYS}) AS each(n)"
    connection.execute(f"SELECT {name}(day) FROM (SELECT {days}) AS known (day)")
    connection.execute(function)


@contextmanager
def _indexes_built_afterwards(kind: str, connection: Any) -> Iterator[None]:
    indexes = connection.execute(_INDEXES[kind]).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    yield
    for _, definition in indexes:
        connection.execute(definition)


def _statements(kind: str, bets: int, players: int, end_millis: int) -> Iterator[str]:
    start = end_millis - _DAYS * _DAY_MILLIS
    yield from _players(kind, players, start)
    ids = ", ".join(f"{_RANDOM_ID[kind].format(name)} AS {name}" for name in ("bet_id", "withdraw_tx", "deposit_tx"))
    opened = f"{start} + CAST(CAST(n AS double precision) * {_DAYS * _DAY_MILLIS - _ROUND_MILLIS} / {bets} AS bigint)"
    yield (
        f"CREATE TEMPORARY TABLE fresh AS SELECT n, {ids}, 'p' || CAST(1 + n * 7919 % {players} AS text) AS player, "
        f"{opened} AS at_millis, CASE WHEN n > {bets - max(1, min(1_000, bets // 100))} THEN 'OPEN' "
        "WHEN n % 100 = 7 THEN 'ROLLED_BACK' WHEN n % 100 = 13 THEN 'DECLINED' ELSE 'CLOSED' END AS state, "
        "CASE n % 5 WHEN 0 THEN 250 WHEN 1 THEN 120 ELSE 0 END AS won "
        f"FROM ({NUMBERS[kind].format(rows=bets)}) AS numbers"
    )
    yield (
        "CREATE TEMPORARY TABLE calls AS SELECT n, 'withdraw' AS operation, withdraw_tx AS tx_id, at_millis, "
        "100 AS amount, -100 AS delta FROM fresh UNION ALL SELECT n, CASE state WHEN 'CLOSED' THEN 'deposit' ELSE "
        "'rollback' END, CASE state WHEN 'CLOSED' THEN deposit_tx ELSE withdraw_tx END, "
        f"at_millis + {_ROUND_MILLIS}, CASE state WHEN 'CLOSED' THEN won ELSE 0 END, "
        "CASE state WHEN 'CLOSED' THEN won ELSE 100 END FROM fresh WHERE state IN ('CLOSED', 'ROLLED_BACK')"
    )
    yield "CREATE TEMPORARY TABLE ordered AS SELECT * FROM calls ORDER BY at_millis, n"
    yield "CREATE INDEX fresh_n ON fresh (n)"
    # What is stored lies in the order of time, as the ledger writes it: a join of many rows would mix it.
    yield (
        f"INSERT INTO {PREFIX}calls ({_CALL}) SELECT '', operation, tx_id, player, player, bet_id, 'BET', amount, "
        "CASE state WHEN 'DECLINED' THEN 'INSUFFICIENT_BALANCE' END, 1000000000000, c.at_millis, NULL, 'instance-1', "
        "'aviator' FROM ordered AS c JOIN fresh ON fresh.n = c.n ORDER BY c.at_millis, c.n"
    )
    yield (
        f"INSERT INTO {PREFIX}bets (bet_id, player_id, account, instance_id, game, round_id, wager_cents, won_cents, "
        "state, opened_at_millis, settled_at_millis, action, withdraw_tx_id, deposit_tx_id, withdraw_digest, source) "
        "SELECT bet_id, player, player, 'instance-1', 'aviator', NULL, 100, CASE state WHEN 'CLOSED' THEN won END, "
        f"state, at_millis, CASE WHEN state IN ('CLOSED', 'ROLLED_BACK') THEN at_millis + {_ROUND_MILLIS} END, 'BET', "
        f"withdraw_tx, CASE state WHEN 'CLOSED' THEN deposit_tx END, {_DIGEST[kind]}, '' FROM fresh ORDER BY n"
    )
    yield (
        f"INSERT INTO {PREFIX}postings (from_account, to_account, amount_cents, source, operation, tx_id, at_millis) "
        "SELECT CASE WHEN delta < 0 THEN player END, CASE WHEN delta > 0 THEN player END, abs(delta), '', operation, "
        "tx_id, c.at_millis FROM ordered AS c JOIN fresh ON fresh.n = c.n WHERE delta <> 0 AND state <> 'DECLINED' "
        "ORDER BY c.at_millis, c.n"
    )
    yield (
        f"UPDATE {PREFIX}accounts SET balance_cents = balance_cents + moved.cents, at_millis = moved.last FROM "
        "(SELECT player, sum(delta) AS cents, max(c.at_millis) AS last FROM ordered AS c JOIN fresh ON fresh.n = c.n "
        "WHERE state <> 'DECLINED' GROUP BY player) AS moved WHERE account = player"
    )
    yield from _anomalies(kind, bets)


def _players(kind: str, players: int, start: int) -> Iterator[str]:
    yield f"INSERT INTO {PREFIX}sources VALUES ('', 'first call', {start}, {'true' if kind == 'PostgreSQL' else 1})"
    each = f"FROM ({NUMBERS[kind].format(rows=players)}) AS numbers"
    player = "'p' || CAST(n AS text)"
    yield f"INSERT INTO {PREFIX}accounts SELECT {player}, {_OPENING_CENTS}, {start} {each}"
    yield (
        f"INSERT INTO {PREFIX}calls ({_CALL}) SELECT '', 'open', {player}, {player}, {player}, NULL, 'OPEN', "
        f"{_OPENING_CENTS}, NULL, {_OPENING_CENTS}, {start}, NULL, NULL, NULL {each}"
    )
    yield (
        f"INSERT INTO {PREFIX}postings (to_account, amount_cents, source, operation, tx_id, at_millis) "
        f"SELECT {player}, {_OPENING_CENTS}, '', 'open', {player}, {start} {each}"
    )


def _anomalies(kind: str, bets: int) -> Iterator[str]:
    yield (
        f"INSERT INTO {PREFIX}anomalies (source, kind, code, operation, tx_id, bet_id, player_id, body, digest, "
        "first_at_millis, last_at_millis, seen, resolved_at_millis) SELECT '', CASE n % 3 WHEN 0 THEN 'second_deposit' "
        "WHEN 1 THEN 'early_deposit' ELSE 'unreadable' END, 'BET_ALREADY_CLOSED', 'deposit', "
        f"CASE WHEN n % 3 < 2 THEN deposit_tx || 'x' END, CASE WHEN n % 3 < 2 THEN bet_id END, "
        f"CASE WHEN n % 3 < 2 THEN player END, {_BODY[kind]}, {_DIGEST[kind]}, at_millis, at_millis + n % 2 * 60000, "
        f"1 + n % 2, CASE WHEN n < {bets - min(5_000, bets // 2)} THEN at_millis + 3600000 END "
        "FROM fresh WHERE n % 100 = 50 ORDER BY n"
    )
