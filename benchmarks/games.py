"""From the bytes of 2,000 games to typed values, without the network."""

from collections.abc import Iterator

from benchmarks.bodies import catalogue
from benchmarks.peers.games_by_hand import games_of
from benchmarks.races import Comparison, Race, cpu
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator.protocol import operations
from game_operator.protocol.http import HttpReply

__all__ = ["races"]


def races(stage: Stage) -> Iterator[Race]:
    """Yield one race."""
    body, read = catalogue(), operations.fetch_games(OPERATOR_ID).parse
    ours, peer = "reading 2,000 games", "pydantic by hand, parse_float=Decimal"
    turns = {ours: cpu(lambda: read(HttpReply(200, {}, body))), peer: cpu(lambda: games_of(body))}
    yield Race(turns, [Comparison(ours, peer, 0.5)], amount=2, rounds=25)
