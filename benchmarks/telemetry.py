"""The ready wallet with telemetry, beside the same wallet without: processor time of its process for each webhook."""

from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.http_load import HttpLoad, signed_withdraws
from benchmarks.ledger_stage import running_postgres, sqlite_file
from benchmarks.races import Comparison, Race
from benchmarks.stage import Stage
from benchmarks.wallet_server import running_wallet
from tests.support.filled_books import fill_players

__all__ = ["races"]

_CALLS, _ROUNDS, _PLAYERS = 400, 15, 100
_GOAL = 1.10
_OBSERVED = {"metrics": "metrics alone", "traces": "metrics, all traces"}


def races(stage: Stage) -> Iterator[Race]:
    """Yield a race for each database and number of connections."""
    # Each bet is placed once in each database: in all rounds of both races, and before them.
    bets = 10 if stage.quick else 2 * _ROUNDS * _CALLS + 10
    requests = signed_withdraws(stage.private_key, bets, _PLAYERS)
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres())
        for database in ("PostgreSQL", "SQLite"):
            ports, left = {}, {}
            for name in ("ours", *_OBSERVED):
                url = server.create_database() if database == "PostgreSQL" else stack.enter_context(sqlite_file())
                fill_players(url, _PLAYERS)
                ports[name] = stack.enter_context(running_wallet(name, stage.private_key.public_key(), url))
                left[name] = iter(requests)
            for width in (1, 32):
                what = {name: f"{database}, {width} at once: {text}" for name, text in _OBSERVED.items()}
                what["ours"] = "the same without telemetry"
                turns = {what[name]: HttpLoad(port, left[name], width).cpu for name, port in ports.items()}
                comparisons = [Comparison(what[name], what["ours"], _GOAL) for name in _OBSERVED]
                yield Race(turns, comparisons, amount=_CALLS, rounds=_ROUNDS)
