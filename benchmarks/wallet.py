"""End to end over HTTP: signed withdraws by wrk, committed to the disk, beside pgbench and a wallet made by hand."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.ledger_stage import (
    PREFIX,
    check_books,
    database_name,
    fill_players,
    open_bets,
    players_of,
    running_postgres,
    sqlite_file,
)
from benchmarks.peers.fastapi_sqlalchemy import check_peers_books, create_tables, peers_bets
from benchmarks.peers.pgbench import Pgbench
from benchmarks.rates import Comparison, RateRace, RateTurn
from benchmarks.signed_withdraws import SignedWithdraws
from benchmarks.stage import Stage
from benchmarks.wallet_server import running_wallet
from benchmarks.wrk import HttpLoad

__all__ = ["races"]

_BY_HAND = "FastAPI, SQLAlchemy ORM"
_RAW = "raw ASGI, no database"
_OPENING_CENTS = 10**12
#: The goals at 32 connections and many players.
_GOALS = {("PostgreSQL", "pgbench"): 0.75, ("SQLite", "pgbench"): 0.6, ("SQLite", _BY_HAND): 12.0}


def races(stage: Stage) -> Iterator[RateRace]:
    """Yield a race for each number of connections, many players first; the books are checked at the end."""
    many = players_of(quick=stage.quick)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        server = stack.enter_context(running_postgres())
        postgres, by_hand, sqlite = (
            server.create_database(),
            server.create_database(),
            stack.enter_context(sqlite_file()),
        )
        for each in (postgres, sqlite):
            fill_players(each, many)
        asyncio.run(create_tables(by_hand, many, _OPENING_CENTS))
        bench = Pgbench.found(server.folder, database_name(postgres), PREFIX)
        loads = _loads(stack, stage, postgres, sqlite, by_hand)
        for players in (many, 1):
            withdraws = SignedWithdraws(folder / f"{players}.txt", stage.private_key, players)
            for connections in (1, 8, 32) if players > 1 else (32,):
                yield _race(bench, loads, withdraws, connections, players)
        for each in (postgres, sqlite):
            check_books(each)
        asyncio.run(check_peers_books(by_hand, many * _OPENING_CENTS))


def _loads(stack: ExitStack, stage: Stage, postgres: str, sqlite: str, by_hand: str) -> dict[str, HttpLoad]:
    key = stage.private_key.public_key()
    # All of them first: each takes a while to start.
    ports = {
        "PostgreSQL": stack.enter_context(running_wallet("ours", key, postgres)),
        "SQLite": stack.enter_context(running_wallet("ours", key, sqlite)),
        _BY_HAND: stack.enter_context(running_wallet("by hand", key, by_hand)),
        _RAW: stack.enter_context(running_wallet("raw", key)),
    }
    return {
        "PostgreSQL": HttpLoad(ports["PostgreSQL"](), partial(open_bets, postgres)),
        "SQLite": HttpLoad(ports["SQLite"](), partial(open_bets, sqlite)),
        _BY_HAND: HttpLoad(ports[_BY_HAND](), lambda: asyncio.run(peers_bets(by_hand))),
        _RAW: HttpLoad(ports[_RAW](), None),
    }


def _race(
    bench: Pgbench | None, loads: Mapping[str, HttpLoad], withdraws: SignedWithdraws, connections: int, players: int
) -> RateRace:
    many = players > 1
    what = f"{connections} connection{'s' * (connections > 1)}, {'many players' if many else 'one hot player'}"
    names = {name: f"{name}, {what}" if name in ("PostgreSQL", "SQLite") else name for name in loads}
    runners: dict[str, RateTurn] = {
        names[name]: partial(load.rate, withdraws, connections) for name, load in loads.items()
    }
    if bench:
        runners["pgbench"] = partial(bench, connections, players)
    goals = _GOALS if many and connections == 32 else {}
    comparisons = tuple(
        Comparison(names[ours], peer, goals.get((ours, peer)))
        for peer in ("pgbench", _RAW, _BY_HAND)
        for ours in ("PostgreSQL", "SQLite")
        if peer in runners
    )
    return RateRace(f"wallet-{connections}-{'many' if many else 'hot'}", runners, comparisons)
