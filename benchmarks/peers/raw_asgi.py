"""A withdraw webhook by hand, without a framework or a check too many: verify, parse, answer."""

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["raw_app"]


def raw_app(public_key: RSAPublicKey) -> Callable[..., Awaitable[None]]:
    padding, sha256 = PKCS1v15(), SHA256()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        signature = b""
        for name, value in scope["headers"]:
            if name == b"signature":
                signature = value
        try:
            public_key.verify(urlsafe_b64decode(signature + b"=="), body, padding, sha256)
        except InvalidSignature:
            reply = b'{"type":"ERROR","code":"INVALID_SIGNATURE"}'
        else:
            reply = _withdrawn(json.loads(body))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(reply)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    return application


def _withdrawn(call: dict[str, Any]) -> bytes:
    assert call["amount"] > 0
    return b'{"type":"SUCCESS","balance":%.2f,"timestamp":%d}' % (100.0, time.time() * 1000)
