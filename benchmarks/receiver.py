"""Webhooks without a database: the receiver under uvicorn beside a raw ASGI handler, and alone beside ``verify``."""

from collections.abc import Iterator
from contextlib import ExitStack

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from benchmarks.measure import Contender, Race, timed
from benchmarks.stage import Stage
from benchmarks.webhook_load import WebhookLoad, signed_requests
from benchmarks.webhook_server import APPLICATIONS, PlainHandler, running_server
from game_operator.webhooks import RsaSignature, WebhookReceiver

__all__ = ["races"]

_WIDTH = 32


def races(stage: Stage) -> Iterator[Race]:
    requests = signed_requests(stage.private_key, 256)
    with ExitStack() as servers:
        public_key = stage.private_key.public_key()
        turns = {
            name: WebhookLoad(servers.enter_context(running_server(name, public_key)), requests, _WIDTH)
            for name in APPLICATIONS
        }
        yield Race(
            "receiver",
            Contender("raw ASGI: verify, json.loads", turns["raw"]),
            (
                Contender("receiver, async handler", turns["async"], bar=1.25),
                Contender("receiver, sync handler in threads", turns["threads"]),
            ),
            calls=2_000,
            rounds=12,
        )
    yield _alone(stage, requests)


def _alone(stage: Stage, requests: list[bytes]) -> Race:
    """Return the race of one call, from bytes to bytes, beside the verification that it contains."""
    public_key, padding, sha256 = stage.private_key.public_key(), PKCS1v15(), SHA256()
    receiver, handler = WebhookReceiver(authenticator=RsaSignature(public_key)), PlainHandler()
    head, _, body = requests[0].partition(b"\r\n\r\n")
    headers = [(name, value) for name, _, value in (line.partition(b": ") for line in head.split(b"\r\n")[1:])]
    signature = stage.private_key.sign(body, padding, sha256)

    def verify(calls: int) -> None:
        for _ in range(calls):
            public_key.verify(signature, body, padding, sha256)

    def handle(calls: int) -> None:
        for _ in range(calls):
            receiver.handle("/withdraw", headers, body, handler)

    ours = Contender("receiver.handle", timed(handle))
    return Race("receiver-alone", Contender("public_key.verify alone", timed(verify)), (ours,), calls=1_000, rounds=20)
