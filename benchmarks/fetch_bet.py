"""One signed, typed ``fetch_bet``, and the same bet again."""

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
                by_hand.fetch_bet(stage.fresh_id("bet"))

        def fresh(calls: int) -> None:
            for _ in range(calls):
                client.fetch_bet(stage.fresh_id("bet"))

        def again(calls: int) -> None:
            for _ in range(calls):
                client.fetch_bet("bet-again")

        yield Race(
            "fetch-bet",
            Contender("httpx.Client, signed by hand, .json()", timed(bare)),
            (Contender("fetch_bet", timed(fresh), 1.00), Contender("fetch_bet, same bet again", timed(again), 0.50)),
            calls=25,
            rounds=60,
        )
    by_hand.close()
