"""A session token by hand: PyJWT, with the key loaded once."""

import time
import uuid

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

__all__ = ["session_token"]


def session_token(
    private_key: RSAPrivateKey, operator_id: str, player_id: str, instance_id: str, balance: float
) -> str:
    now = int(time.time())
    claims = {
        "iss": operator_id,
        "sub": player_id,
        "aud": instance_id,
        "iat": now,
        "exp": now + 900,
        "jti": str(uuid.uuid4()),
        "data": {"balance": balance},
    }
    return jwt.encode(claims, private_key, algorithm="RS256")
