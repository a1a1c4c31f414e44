"""From the bytes of an answer to typed values, without the network."""

import json
from collections.abc import Iterator

from benchmarks.bodies import BET_ID, INSTANCE_ID, ROUND_ID, catalogue, one_bet, round_of
from benchmarks.measure import Contender, Race, timed
from benchmarks.peers.games_by_hand import games_of
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator.protocol import operations
from game_operator.protocol.http import HttpReply

__all__ = ["races"]


def races(stage: Stage) -> Iterator[Race]:
    bet, long_round, games = one_bet(), round_of(5_000), catalogue()
    read_bet = operations.fetch_bet(OPERATOR_ID, BET_ID).parse
    read_round = operations.fetch_round_bets(instance_id=INSTANCE_ID, round_id=ROUND_ID).parse
    read_games = operations.fetch_games(OPERATOR_ID).parse

    def bare_bet(calls: int) -> None:
        for _ in range(calls):
            json.loads(bet)

    def typed_bet(calls: int) -> None:
        for _ in range(calls):
            read_bet(HttpReply(200, {}, bet))

    def bare_round(calls: int) -> None:
        for _ in range(calls):
            json.loads(long_round)

    def typed_round(calls: int) -> None:
        for _ in range(calls):
            read_round(HttpReply(200, {}, long_round))

    def games_by_hand(calls: int) -> None:
        for _ in range(calls):
            games_of(games)

    def typed_games(calls: int) -> None:
        for _ in range(calls):
            read_games(HttpReply(200, {}, games))

    yield Race(
        "parse-bet",
        Contender("json.loads", timed(bare_bet)),
        (Contender("reading one bet", timed(typed_bet)),),
        calls=2_000,
        rounds=15,
    )
    yield Race(
        "parse-round",
        Contender("json.loads", timed(bare_round)),
        (Contender("reading a round of 5,000 bets", timed(typed_round)),),
        calls=2,
        rounds=25,
    )
    yield Race(
        "parse-games",
        Contender("pydantic by hand, parse_float=Decimal", timed(games_by_hand)),
        (Contender("reading 2,000 games", timed(typed_games), 0.50),),
        calls=2,
        rounds=25,
    )
