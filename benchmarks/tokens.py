"""Session tokens, signed in this process."""

from collections.abc import Iterator
from decimal import Decimal

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from benchmarks.peers.session_token import session_token
from benchmarks.races import Comparison, Race, cpu
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator import SessionTokenBuilder

__all__ = ["races"]


def races(stage: Stage) -> Iterator[Race]:
    """Yield one race."""
    key, padding, sha256 = stage.private_key, PKCS1v15(), SHA256()
    builder, balance = SessionTokenBuilder(OPERATOR_ID, key), Decimal("12.50")
    ours, pyjwt, signing = "SessionTokenBuilder.build", "PyJWT, key loaded once", "key.sign alone"
    turns = {
        ours: cpu(lambda: builder.build(player_id="player-1", instance_id="instance-1", balance=balance)),
        pyjwt: cpu(lambda: session_token(key, OPERATOR_ID, "player-1", "instance-1", 12.5)),
        signing: cpu(lambda: key.sign(b"m" * 300, padding, sha256)),
    }
    yield Race(turns, [Comparison(ours, pyjwt), Comparison(ours, signing, 1.05)], amount=40, rounds=30)
