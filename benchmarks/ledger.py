"""The ledger alone: fresh withdraws, committed to the disk, beside pgbench that writes the same rows."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from benchmarks.ledger_load import LedgerLoad
from benchmarks.ledger_stage import (
    PREFIX,
    check_books,
    database_name,
    fill_players,
    players_of,
    running_postgres,
    sqlite_file,
)
from benchmarks.peers.pgbench import Pgbench
from benchmarks.rates import Comparison, RateRace, RateTurn
from benchmarks.stage import Stage

__all__ = ["races"]

#: The goals on PostgreSQL beside pgbench, by kind, callers and whether they are one hot player. One caller must never
#: wait too long, in either kind; many callers are for asyncio, which most services use.
_GOALS = {
    ("threads", 1, False): 0.7,
    ("threads", 1, True): 0.7,
    ("asyncio", 1, False): 0.65,
    ("asyncio", 1, True): 0.65,
    ("asyncio", 32, False): 1.6,
    ("asyncio", 32, True): 3.0,
}


def races(stage: Stage) -> Iterator[RateRace]:
    """Yield a race for each number of callers, many players first; the books are checked at the end."""
    many = players_of(quick=stage.quick)
    with running_postgres() as server, sqlite_file() as file:
        url = server.create_database()
        for each in (url, file):
            fill_players(each, many)
        bench = Pgbench.found(server.folder, database_name(url), PREFIX)
        with closing(LedgerLoad(url)) as postgres, closing(LedgerLoad(file)) as sqlite:
            for players in (many, 1):
                for callers in (1, 8, 32):
                    yield _race(bench, postgres, sqlite, callers, players)
        for each in (url, file):
            check_books(each)


def _race(bench: Pgbench | None, postgres: LedgerLoad, sqlite: LedgerLoad, callers: int, players: int) -> RateRace:
    what = f"{callers} caller{'s' * (callers > 1)}, {'one hot player' if players == 1 else 'many players'}"
    ours: dict[str, RateTurn] = {
        f"PostgreSQL, threads, {what}": partial(postgres.threads, callers, players),
        f"PostgreSQL, asyncio, {what}": partial(postgres.tasks, callers, players),
        f"SQLite, threads, {what}": partial(sqlite.threads, callers, players),
        f"SQLite, asyncio, {what}": partial(sqlite.tasks, callers, players),
    }
    goals = {
        f"PostgreSQL, {kind}, {what}": _GOALS.get((kind, callers, players == 1)) for kind in ("threads", "asyncio")
    }
    peers: dict[str, RateTurn] = {"pgbench": partial(bench, callers, players)} if bench else {}
    comparisons = tuple(Comparison(name, peer, goals.get(name)) for peer in peers for name in ours)
    return RateRace(f"ledger-{callers}-{'hot' if players == 1 else 'many'}", {**ours, **peers}, comparisons)
