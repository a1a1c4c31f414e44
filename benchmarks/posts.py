"""The two calls with a body: a round of 20 bets looked up, and free bets granted; each signed afresh."""

from collections.abc import Iterator

from benchmarks.measure import Contender, Race, timed
from benchmarks.peers.by_hand import ByHand
from benchmarks.stage import OPERATOR_ID, Stage

__all__ = ["races"]

_INSTANCE_ID = "65a1b2c3d4e5f60000000007"


def races(stage: Stage) -> Iterator[Race]:
    by_hand = ByHand(stage.base_url, OPERATOR_ID, stage.private_key)
    with stage.client() as client:

        def bare_round(calls: int) -> None:
            for _ in range(calls):
                by_hand.fetch_round_bets(_INSTANCE_ID, stage.fresh_id("round"))

        def typed_round(calls: int) -> None:
            for _ in range(calls):
                client.fetch_round_bets(instance_id=_INSTANCE_ID, round_id=stage.fresh_id("round"))

        def bare_grant(calls: int) -> None:
            for _ in range(calls):
                by_hand.grant_free_bet(
                    player_id="player-1",
                    instance_id=_INSTANCE_ID,
                    count=5,
                    wager_amount_cents=100,
                    expire_duration_millis=86_400_000,
                    reference_id=stage.fresh_id("reference"),
                )

        def typed_grant(calls: int) -> None:
            for _ in range(calls):
                client.grant_free_bet(
                    player_id="player-1",
                    instance_id=_INSTANCE_ID,
                    count=5,
                    wager_amount_cents=100,
                    expire_duration_millis=86_400_000,
                    reference_id=stage.fresh_id("reference"),
                )

        peer = "httpx.Client, signed by hand, .json()"
        yield Race(
            "round",
            Contender(peer, timed(bare_round)),
            (Contender("fetch_round_bets, 20 bets", timed(typed_round)),),
            calls=20,
            rounds=25,
        )
        yield Race(
            "grant",
            Contender(peer, timed(bare_grant)),
            (Contender("grant_free_bet", timed(typed_grant)),),
            calls=20,
            rounds=25,
        )
    by_hand.close()
