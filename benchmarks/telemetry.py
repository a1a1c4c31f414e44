"""The ready wallet with telemetry, beside the same wallet without: processor time of its process for each webhook."""

from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal

from benchmarks.ledger_stage import running_postgres, sqlite_file
from benchmarks.measure import Contender, Race
from benchmarks.stage import Stage
from benchmarks.wallet_server import running_wallet
from benchmarks.webhook_load import WebhookLoad, signed_requests
from game_operator.ledger import SqlLedger

__all__ = ["races"]

_CALLS, _ROUNDS = 400, 15
#: Each bet is placed once in each database: in all rounds of all races, and before them.
_BETS = 2 * _ROUNDS * _CALLS + 20
#: The share of traces that are kept, by the application's name.
_OBSERVED = {
    "metrics": "metrics alone",
    "a tenth of traces": "metrics, 10 % of traces",
    "all traces": "metrics, all traces",
}


def races(stage: Stage) -> Iterator[Race]:
    """Yield a race for each database and number of connections."""
    requests = signed_requests(stage.private_key, 200 if stage.quick else _BETS)
    key = stage.private_key.public_key()
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres())
        for database in ("PostgreSQL", "SQLite"):
            ports = {}
            for name in ("ours", *_OBSERVED):
                url = server.create_database() if database == "PostgreSQL" else stack.enter_context(sqlite_file())
                _open_players(url)
                ports[name] = stack.enter_context(running_wallet(name, key, url))()
            left = {name: iter(requests) for name in ports}
            for width in (1, 32):
                loads = {name: _Load(port, left[name], width) for name, port in ports.items()}
                yield Race(
                    f"telemetry, {database}, {width} connection{'s'[: width != 1]}",
                    Contender("the same without telemetry", loads["ours"]),
                    tuple(
                        Contender(f"{database}, {width} connection{'s'[: width != 1]}: {what}", loads[name], bar=1.10)
                        for name, what in _OBSERVED.items()
                    ),
                    calls=_CALLS,
                    rounds=_ROUNDS,
                )


class _Load(WebhookLoad):
    """Posts what is left of *requests*, which other loads take from, too."""

    def __init__(self, port: int, requests: Iterator[bytes], width: int) -> None:
        super().__init__(port, (), width)
        self._requests = requests


def _open_players(url: str) -> None:
    with SqlLedger(url) as ledger:
        for number in range(100):
            ledger.open_account(f"player-{number:03d}", Decimal(1_000_000))
