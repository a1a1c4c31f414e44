"""``fetch_games`` of 2,000 games, three instances to each, through the whole client."""

from collections.abc import Iterator

from benchmarks.measure import Contender, Race, timed
from benchmarks.peers.by_hand import ByHand
from benchmarks.stage import OPERATOR_ID, Stage

__all__ = ["races"]


def races(stage: Stage) -> Iterator[Race]:
    by_hand = ByHand(stage.base_url, OPERATOR_ID, stage.private_key)
    with stage.client() as client:

        def bare(calls: int) -> None:
            for _ in range(calls):
                by_hand.fetch_games_unsigned()

        def typed(calls: int) -> None:
            for _ in range(calls):
                client.fetch_games()

        yield Race(
            "fetch-games",
            Contender("httpx.Client, unsigned, .json()", timed(bare)),
            (Contender("fetch_games, 2,000 games", timed(typed)),),
            calls=2,
            rounds=30,
        )
    by_hand.close()
