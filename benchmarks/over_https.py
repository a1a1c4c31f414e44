"""A look-up and a grant over https, where a grant opens a connection; and a look-up over a client of the user's."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import trustme

from benchmarks.measure import Contender, Race, timed
from benchmarks.peers.by_hand import ByHand
from benchmarks.service import running_service
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator import OperatorClient

__all__ = ["races"]

_INSTANCE_ID = "65a1b2c3d4e5f60000000007"
_PEER = "httpx.Client, signed by hand, .json()"


def races(stage: Stage) -> Iterator[Race]:
    with TemporaryDirectory() as folder:
        authority, file = trustme.CA(), Path(folder) / "service.pem"
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(file))
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        with running_service(str(file)) as base_url:
            yield from _over_https(stage, base_url, trusting)
    yield from _over_yours(stage)


def _over_https(stage: Stage, base_url: str, trusting: ssl.SSLContext) -> Iterator[Race]:
    by_hand = ByHand(base_url, OPERATOR_ID, stage.private_key, verify=trusting)
    with OperatorClient(base_url, OPERATOR_ID, stage.private_key, ssl_context=trusting) as client:

        def bare(calls: int) -> None:
            for _ in range(calls):
                by_hand.fetch_bet(stage.fresh_id("bet"))

        def typed(calls: int) -> None:
            for _ in range(calls):
                client.fetch_bet(stage.fresh_id("bet"))

        def bare_grant(calls: int) -> None:
            for _ in range(calls):
                by_hand.grant_free_bet(**_grant(stage))

        def typed_grant(calls: int) -> None:
            for _ in range(calls):
                client.grant_free_bet(**_grant(stage))  # type: ignore[arg-type] # texts and numbers

        ours = Contender("fetch_bet over https", timed(typed), 1.05)
        yield Race("https-fetch-bet", Contender(_PEER, timed(bare)), (ours,), calls=25, rounds=30)
        ours = Contender("grant_free_bet over https", timed(typed_grant))
        yield Race("https-grant", Contender(_PEER, timed(bare_grant)), (ours,), calls=20, rounds=25)
    by_hand.close()


def _over_yours(stage: Stage) -> Iterator[Race]:
    by_hand = ByHand(stage.base_url, OPERATOR_ID, stage.private_key)
    with httpx.Client() as http_client:
        client = OperatorClient(stage.base_url, OPERATOR_ID, stage.private_key, http_client=http_client)

        def bare(calls: int) -> None:
            for _ in range(calls):
                by_hand.fetch_bet(stage.fresh_id("bet"))

        def typed(calls: int) -> None:
            for _ in range(calls):
                client.fetch_bet(stage.fresh_id("bet"))

        ours = Contender("fetch_bet over a client of yours", timed(typed))
        yield Race("yours-fetch-bet", Contender(_PEER, timed(bare)), (ours,), calls=25, rounds=25)
    by_hand.close()


def _grant(stage: Stage) -> dict[str, str | int]:
    return {
        "player_id": "player-1",
        "instance_id": _INSTANCE_ID,
        "count": 5,
        "wager_amount_cents": 100,
        "expire_duration_millis": 86_400_000,
        "reference_id": stage.fresh_id("reference"),
    }
