"""Sixteen threads that share one client, each bet signed afresh."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks.measure import Contender, Race, Turn, timed
from benchmarks.peers.by_hand import ByHand
from benchmarks.stage import OPERATOR_ID, Stage

__all__ = ["races"]

_THREADS = 16


def races(stage: Stage) -> Iterator[Race]:
    by_hand = ByHand(stage.base_url, OPERATOR_ID, stage.private_key)
    with ThreadPoolExecutor(_THREADS) as pool, stage.client() as client:

        def shared(call: Callable[[str], object]) -> Turn:
            def work(calls: int) -> None:
                for _ in pool.map(call, [stage.fresh_id("bet") for _ in range(_THREADS * calls)]):
                    pass

            return timed(work)

        yield Race(
            "threads",
            Contender("one httpx.Client, signed by hand, .json()", shared(by_hand.fetch_bet)),
            (Contender("16 calls of fetch_bet on 16 threads", shared(client.fetch_bet)),),
            calls=5,
            rounds=20,
        )
    by_hand.close()
