"""The ledger alone: fresh withdraws, committed to the disk, beside pgbench that writes the same rows."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from benchmarks.ledger_stage import (
    PLAYERS,
    PREFIX,
    LedgerLoad,
    books_balance,
    fill_players,
    running_postgres,
    sqlite_file,
)
from benchmarks.peers.pgbench import pgbench
from benchmarks.rates import Comparison, RateRace
from benchmarks.stage import Stage

__all__ = ["races"]

#: The goals on PostgreSQL by (callers, players).
_GOALS = {(1, PLAYERS): 0.6, (32, PLAYERS): 1.1, (32, 1): 3.0}


def races(_stage: Stage) -> Iterator[RateRace]:
    with running_postgres() as server, sqlite_file() as file:
        url = server.create_database()
        for each in (url, file):
            fill_players(each)
        with closing(LedgerLoad(url)) as postgres, closing(LedgerLoad(file)) as sqlite:
            bench = partial(pgbench, server.folder, url.partition("?")[0].rpartition("/")[2], PREFIX)
            for players in (PLAYERS, 1):
                for callers in (1, 8, 32):
                    yield _race(bench, postgres, sqlite, callers, players)
        for each in (url, file):
            books_balance(each)


def _race(bench: "partial[float]", postgres: LedgerLoad, sqlite: LedgerLoad, callers: int, players: int) -> RateRace:
    where = f"{callers} callers" if callers > 1 else "1 caller"
    what = f"{where}, {'one hot player' if players == 1 else 'many players'}"
    runners = {
        "pgbench": partial(bench, callers, players),
        f"PostgreSQL, threads, {what}": partial(postgres.threads, callers, players),
        f"PostgreSQL, asyncio, {what}": partial(postgres.tasks, callers, players),
        f"SQLite, threads, {what}": partial(sqlite.threads, callers, players),
        f"SQLite, asyncio, {what}": partial(sqlite.tasks, callers, players),
    }
    # The goal is held by whichever of the two ledgers suits the program; that is threads for one caller.
    goal = _GOALS.get((callers, players))
    held_by = "threads" if callers == 1 else "asyncio"
    comparisons = tuple(
        Comparison(name, "pgbench", goal if name.startswith(f"PostgreSQL, {held_by}") else None)
        for name in runners
        if name != "pgbench"
    )
    return RateRace(f"ledger-{callers}-{players}", runners, comparisons)
