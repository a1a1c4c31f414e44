"""End to end over HTTP: signed withdraws by wrk, committed to the disk, beside pgbench and a wallet made by hand."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.ledger_stage import PLAYERS, PREFIX, books_balance, fill_players, running_postgres, sqlite_file
from benchmarks.peers.fastapi_sqlalchemy import create_tables
from benchmarks.peers.pgbench import pgbench
from benchmarks.rates import Comparison, RateRace
from benchmarks.stage import Stage
from benchmarks.wallet_server import running_wallet
from benchmarks.wrk import SignedWithdraws, Wrk

__all__ = ["races"]

_BY_HAND = "FastAPI, SQLAlchemy ORM"
_RAW = "raw ASGI, no database"


def races(stage: Stage) -> Iterator[RateRace]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        server = stack.enter_context(running_postgres())
        public_key = stage.private_key.public_key()
        postgres, by_hand = server.create_database(), server.create_database()
        sqlite = stack.enter_context(sqlite_file())
        fill_players(postgres)
        fill_players(sqlite)
        asyncio.run(create_tables(by_hand, PLAYERS, 10**12))
        ports = {
            "PostgreSQL": stack.enter_context(running_wallet("ours", public_key, postgres)),
            "SQLite": stack.enter_context(running_wallet("ours", public_key, sqlite)),
            _BY_HAND: stack.enter_context(running_wallet("fastapi", public_key, by_hand)),
            _RAW: stack.enter_context(running_wallet("raw", public_key)),
        }
        bench = partial(pgbench, server.folder, postgres.partition("?")[0].rpartition("/")[2], PREFIX)
        for players in (PLAYERS, 1):
            withdraws = SignedWithdraws(folder / f"{players}.txt", stage.private_key, players)
            loads = {name: Wrk(port, withdraws, folder / f"{players}.lua") for name, port in ports.items()}
            for connections in (1, 8, 32) if players > 1 else (32,):
                yield _race(partial(bench, connections, players), loads, connections, players)
        for each in (postgres, sqlite):
            books_balance(each)


def _race(bench: Callable[[float], float], loads: dict[str, Wrk], connections: int, players: int) -> RateRace:
    where = f"{connections} connections" if connections > 1 else "1 connection"
    what = f"{where}, {'one hot player' if players == 1 else 'many players'}"
    runners: dict[str, Callable[[float], float]] = {
        name: partial(load.rate, connections) for name, load in loads.items()
    }
    runners["pgbench"] = bench
    named = {f"{name}, {what}" if name in ("PostgreSQL", "SQLite") else name: turn for name, turn in runners.items()}
    at_32 = connections == 32 and players > 1
    ours = {f"PostgreSQL, {what}": 0.4 if at_32 else None, f"SQLite, {what}": 0.7 if at_32 else None}
    comparisons = [Comparison(name, "pgbench", goal) for name, goal in ours.items()]
    comparisons += [Comparison(name, _RAW) for name in ours]
    comparisons += [Comparison(name, _BY_HAND, 12.0 if at_32 and name.startswith("SQLite") else None) for name in ours]
    return RateRace(f"wallet-{connections}-{players}", named, tuple(comparisons))
