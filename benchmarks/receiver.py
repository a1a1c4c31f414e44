"""Webhooks without a database: the receiver under uvicorn beside a raw ASGI handler."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle

from benchmarks.http_load import HttpLoad, signed_withdraws
from benchmarks.races import Comparison, Race
from benchmarks.stage import Stage
from benchmarks.wallet_server import running_wallet

__all__ = ["races"]

_NAMES = {"raw": "raw ASGI: verify, json.loads", "receiver": "receiver, async handler"}


def races(stage: Stage) -> Iterator[Race]:
    """Yield one race, of the server's processor time for a call."""
    requests = signed_withdraws(stage.private_key, 200, players=100)
    with ExitStack() as servers:
        ports = {name: servers.enter_context(running_wallet(name, stage.private_key.public_key())) for name in _NAMES}
        turns = {_NAMES[name]: HttpLoad(port, cycle(requests), width=32).cpu for name, port in ports.items()}
        yield Race(turns, [Comparison(_NAMES["receiver"], _NAMES["raw"], 1.25)], amount=2_000, rounds=12)
