"""What a call costs once the ledger is large: withdraws at a thousand stored calls and at a million."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from benchmarks.ledger_load import LedgerLoad
from benchmarks.ledger_stage import (
    PREFIX,
    check_books,
    connected,
    fill_players,
    players_of,
    running_postgres,
    sqlite_file,
)
from benchmarks.rates import Comparison, RateRace, RateTurn
from benchmarks.stage import Stage

__all__ = ["races"]

#: 1.2 times the time for a call is this much of the rate.
_GOAL = round(1 / 1.2, 2)
_NUMBERS = {
    "PostgreSQL": "SELECT n FROM generate_series(CAST(1 AS bigint), {rows}) AS each(n)",
    "SQLite": "WITH RECURSIVE each(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each WHERE n < {rows}) "
    "SELECT n FROM each",
}
#: 24 digits without any order, as a service writes ids: what is stored must not lie side by side.
_RANDOM_ID = {"PostgreSQL": "substr(md5(CAST(n AS text)), 1, 24)", "SQLite": "lower(hex(randomblob(12)))"}
_ZEROES = {"PostgreSQL": r"CAST('\x{}' AS bytea)", "SQLite": "x'{}'"}


def races(stage: Stage) -> Iterator[RateRace]:
    """Yield the races of both kinds of database; the books are checked after each kind."""
    small, large = (10, 100) if stage.quick else (1_000, 1_000_000)
    with running_postgres() as server, sqlite_file() as small_file, sqlite_file() as large_file:
        postgres = {server.create_database(): small, server.create_database(): large}
        yield from _races("PostgreSQL", postgres, players_of(quick=stage.quick))
        yield from _races("SQLite", {small_file: small, large_file: large}, players_of(quick=stage.quick))


def _races(kind: str, rows_of: dict[str, int], players: int) -> Iterator[RateRace]:
    for url, rows in rows_of.items():
        fill_players(url, players)
        _store_withdraws(kind, url, rows, players)
    (few_url, few_rows), (many_url, many_rows) = rows_of.items()
    with closing(LedgerLoad(few_url)) as few, closing(LedgerLoad(many_url)) as many:
        for callers in (1, 32):
            who = f"{callers} caller{'s' * (callers > 1)}"
            ours, peer = f"{kind}, {many_rows:,} calls, {who}", f"{few_rows:,} calls"
            runners: dict[str, RateTurn] = {
                ours: partial(many.tasks, callers, players),
                peer: partial(few.tasks, callers, players),
            }
            yield RateRace(f"growth-{kind}-{callers}", runners, (Comparison(ours, peer, _GOAL),), rounds=5)
    for url in rows_of:
        check_books(url)


def _store_withdraws(kind: str, url: str, rows: int, players: int) -> None:
    """Store *rows* withdraws of 1.00 each, as the ledger would have, but all in one transaction."""
    with connected(url) as connection:
        if kind == "SQLite":
            connection.execute("PRAGMA cache_size = -1000000")
        for statement in _statements(kind, rows, players):
            connection.execute(statement)
        connection.commit()
        if kind == "PostgreSQL":
            connection.autocommit = True
            connection.execute("VACUUM ANALYZE")


def _statements(kind: str, rows: int, players: int) -> Iterator[str]:
    digest = _ZEROES[kind].format("00" * 32)
    tx_id, at_millis = "'withdraw:bet:' || bet_id", "1700000000000 + n"
    yield (
        f"CREATE TEMPORARY TABLE fresh AS SELECT n, {_RANDOM_ID[kind]} AS bet_id, "
        f"'p' || CAST(1 + n * 7919 % {players} AS text) AS player FROM ({_NUMBERS[kind].format(rows=rows)}) AS numbers"
    )
    yield (
        f"INSERT INTO {PREFIX}calls (source, operation, tx_id, player_id, account, bet_id, action, amount_cents, code, "
        "balance_cents, at_millis, body, instance_id, game) "
        f"SELECT '', 'withdraw', {tx_id}, player, player, bet_id, 'BET', 100, NULL, 1000000000000, "
        f"{at_millis}, NULL, 'instance-1', 'aviator' FROM fresh"
    )
    yield (
        f"INSERT INTO {PREFIX}bets (bet_id, player_id, account, instance_id, game, round_id, wager_cents, won_cents, "
        "state, opened_at_millis, settled_at_millis, action, withdraw_tx_id, deposit_tx_id, withdraw_digest, source) "
        f"SELECT bet_id, player, player, 'instance-1', 'aviator', NULL, 100, NULL, 'OPEN', "
        f"{at_millis}, NULL, 'BET', {tx_id}, NULL, {digest}, '' FROM fresh"
    )
    yield (
        f"INSERT INTO {PREFIX}postings (from_account, amount_cents, source, operation, tx_id, at_millis) "
        f"SELECT player, 100, '', 'withdraw', {tx_id}, {at_millis} FROM fresh"
    )
    yield (
        f"UPDATE {PREFIX}accounts SET balance_cents = balance_cents - spent.cents "
        "FROM (SELECT player, 100 * count(*) AS cents FROM fresh GROUP BY player) AS spent WHERE account = player"
    )
    yield "DROP TABLE fresh"
