"""A receiver, and a key that it does not know."""

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator.webhooks import HttpReply, RsaSignature, WebhookReceiver
from tests.support.webhooks import Handler, encoded, signed

#: Posts a signed body to a path and returns the reply.
Post = Callable[[str, object], HttpReply]


@pytest.fixture
def handler() -> Handler:
    """A handler that answers 100.00."""
    return Handler()


@pytest.fixture
def receiver(public_key: RSAPublicKey) -> WebhookReceiver:
    """A receiver with the defaults."""
    return WebhookReceiver(authenticator=RsaSignature(public_key))


@pytest.fixture
def post(receiver: WebhookReceiver, handler: Handler, private_key: RSAPrivateKey) -> Post:
    """Post to the receiver, signed; a body that is no bytes is written as JSON first."""

    def send(path: str, body: object) -> HttpReply:
        raw = body if isinstance(body, bytes) else encoded(body)
        return receiver.handle(path, signed(private_key, raw), raw, handler)

    return send


@pytest.fixture
def anyio_backend() -> str:
    """The receiver runs under asyncio alone."""
    return "asyncio"
