"""End to end over HTTP: signed withdraws, committed to the disk, beside pgbench and a wallet made by hand."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from benchmarks.http_load import HttpLoad, signed_withdraws
from benchmarks.ledger_stage import check_books, open_bets, players_of, running_postgres, sqlite_file
from benchmarks.peers.fastapi_sqlalchemy import create_tables, peers_bets
from benchmarks.peers.pgbench import Pgbench
from benchmarks.races import Comparison, Race, Turn
from benchmarks.stage import Stage
from benchmarks.wallet_server import running_wallet
from tests.support.filled_books import fill_players

__all__ = ["races"]

_CONNECTIONS, _ROUNDS, _SECONDS = 32, 3, 2.0
#: More calls a second than any server here can take.
_MOST = 8_000
_PEER = "FastAPI, SQLAlchemy ORM"
_GOALS = {("PostgreSQL", "pgbench"): 0.75, ("SQLite", "pgbench"): 0.6, ("SQLite", _PEER): 12.0}


def races(stage: Stage) -> Iterator[Race]:
    """Yield one race; then the books are checked, and that each answer has its bet."""
    players = players_of(quick=stage.quick)
    count = 500 if stage.quick else round(_MOST * (_ROUNDS + 1) * _SECONDS)
    requests, key = signed_withdraws(stage.private_key, count, players), stage.private_key.public_key()
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres())
        urls = {"PostgreSQL": server.create_database(), "SQLite": stack.enter_context(sqlite_file())}
        for url in urls.values():
            fill_players(url, players)
        by_hand = server.create_database()
        asyncio.run(create_tables(by_hand, players, opening_cents=10**12))
        ports = {name: stack.enter_context(running_wallet("ours", key, url)) for name, url in urls.items()}
        ports[_PEER] = stack.enter_context(running_wallet("by hand", key, by_hand))
        loads = {name: HttpLoad(port, iter(requests), _CONNECTIONS) for name, port in ports.items()}
        what = {name: f"{name}, {_CONNECTIONS} connections" for name in urls} | {_PEER: _PEER, "pgbench": "pgbench"}
        turns: dict[str, Turn] = {what[name]: load.rate for name, load in loads.items()}
        if bench := Pgbench.found(server, urls["PostgreSQL"]):
            turns["pgbench"] = partial(bench, _CONNECTIONS, players)
        pairs = [(ours, peer) for peer in ("pgbench", _PEER) for ours in urls if peer in turns]
        comparisons = [Comparison(what[ours], peer, _GOALS.get((ours, peer))) for ours, peer in pairs]
        yield Race(turns, comparisons, _SECONDS, _ROUNDS, is_rate=True)
        stored = {name: open_bets(url) for name, url in urls.items()} | {_PEER: asyncio.run(peers_bets(by_hand))}
        # pgbench writes into the same tables.
        wrong = [name for name, load in loads.items() if stored[name] < load.answered]
        if wrong or stored["SQLite"] != loads["SQLite"].answered:
            raise RuntimeError(f"not all that was answered is stored, or more: {stored}")
        for url in urls.values():
            check_books(url)
