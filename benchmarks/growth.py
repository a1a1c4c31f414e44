"""What a call costs once the ledger is large: withdraws at 1,000 rows and at 1,000,000."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import psycopg

from benchmarks.ledger_stage import (
    PLAYERS,
    PREFIX,
    LedgerLoad,
    books_balance,
    fill_players,
    running_postgres,
    sqlite_file,
)
from benchmarks.rates import Comparison, RateRace
from benchmarks.stage import Stage

__all__ = ["races"]

_SMALL, _LARGE = 1_000, 1_000_000
_CHUNK = 10_000


def races(_stage: Stage) -> Iterator[RateRace]:
    with running_postgres() as server, sqlite_file() as small_file, sqlite_file() as large_file:
        yield from _races("PostgreSQL", server.create_database(), server.create_database())
        yield from _races("SQLite", small_file, large_file)


def _races(name: str, small: str, large: str) -> Iterator[RateRace]:
    for url, rows in ((small, _SMALL), (large, _LARGE)):
        fill_players(url)
        _grow(url, rows)
    with closing(LedgerLoad(small)) as few, closing(LedgerLoad(large)) as many:
        for callers in (1, 32):
            runners = {
                f"{name}, 1,000,000 rows, {callers} callers": partial(many.tasks, callers, PLAYERS),
                f"{name}, 1,000 rows": partial(few.tasks, callers, PLAYERS),
            }
            ours, peer = runners
            # 1.2 times the time for a call is 1 / 1.2 of the rate.
            yield RateRace(f"growth-{name}-{callers}", runners, (Comparison(ours, peer, round(1 / 1.2, 2)),), rounds=5)
    for url in (small, large):
        books_balance(url)


def _grow(url: str, rows: int) -> None:
    """Store *rows* withdraws of 1.00 each, as the ledger would have: ids without any order."""
    for first in range(0, rows, _CHUNK):
        bets = [(f"{random.getrandbits(96):024x}", f"p{random.randint(1, PLAYERS)}") for _ in range(min(_CHUNK, rows))]
        _insert(url, first, bets)
    if not url.startswith("sqlite"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


def _insert(url: str, first: int, bets: list[tuple[str, str]]) -> None:
    mark = "?" if url.startswith("sqlite") else "%s"
    at = 1_700_000_000_000 + first
    digest = bytes(range(32))
    calls = [
        ("", "withdraw", f"withdraw:bet:{bet}", who, who, bet, "BET", 100, None, 10**12, at, None) for bet, who in bets
    ]
    placed = [
        (
            bet,
            who,
            who,
            "instance-1",
            "aviator",
            None,
            100,
            None,
            "OPEN",
            at,
            None,
            "BET",
            f"withdraw:bet:{bet}",
            None,
            digest,
            "",
        )
        for bet, who in bets
    ]
    posted = [(who, 100, "", "withdraw", f"withdraw:bet:{bet}", at) for bet, who in bets]
    connection = sqlite3.connect(url.removeprefix("sqlite:///")) if mark == "?" else psycopg.connect(url)
    with closing(connection):
        cursor = connection.cursor()
        cursor.executemany(f"INSERT INTO {PREFIX}calls VALUES ({', '.join([mark] * 12)})", calls)
        cursor.executemany(f"INSERT INTO {PREFIX}bets VALUES ({', '.join([mark] * 16)})", placed)
        columns = "from_account, amount_cents, source, operation, tx_id, at_millis"
        cursor.executemany(f"INSERT INTO {PREFIX}postings ({columns}) VALUES ({', '.join([mark] * 6)})", posted)
        cursor.executemany(
            f"UPDATE {PREFIX}accounts SET balance_cents = balance_cents - 100 WHERE account = {mark}",
            [(who,) for _, who in bets],
        )
        connection.commit()
