"""Session tokens, signed in this process."""

from collections.abc import Iterator
from decimal import Decimal

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from benchmarks.measure import Contender, Race, timed
from benchmarks.peers.session_token import session_token
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator import SessionTokenBuilder

__all__ = ["races"]


def races(stage: Stage) -> Iterator[Race]:
    builder = SessionTokenBuilder(OPERATOR_ID, stage.private_key)
    message, padding, sha256 = b"m" * 300, PKCS1v15(), SHA256()

    def with_pyjwt(calls: int) -> None:
        for _ in range(calls):
            session_token(stage.private_key, OPERATOR_ID, "player-1", "instance-1", 12.5)

    def sign_alone(calls: int) -> None:
        for _ in range(calls):
            stage.private_key.sign(message, padding, sha256)

    def build(calls: int) -> None:
        for _ in range(calls):
            builder.build(player_id="player-1", instance_id="instance-1", balance=Decimal("12.50"))

    ours = Contender("SessionTokenBuilder.build", timed(build))
    yield Race("token", Contender("PyJWT, key loaded once", timed(with_pyjwt)), (ours,), calls=40, rounds=30)
    yield Race("token-signing", Contender("key.sign alone", timed(sign_alone)), (ours,), calls=40, rounds=30)
