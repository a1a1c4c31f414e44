"""Webhooks without a database: the receiver under uvicorn beside a raw ASGI handler, and alone beside ``verify``."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from benchmarks.measure import Contender, Race, timed
from benchmarks.peers.beexar_wallet import ANSWER_ENDS, SECRET, SUCCESS, beexar_requests, has_beexar
from benchmarks.stage import Stage
from benchmarks.webhook_load import WebhookLoad, requests_with_hmac, signed_requests
from benchmarks.webhook_server import PlainHandler, running_server
from game_operator.webhooks import RsaSignature, WebhookReceiver

__all__ = ["races"]

_WIDTH = 32


def races(stage: Stage) -> Iterator[Race]:
    requests = signed_requests(stage.private_key, 256)
    with ExitStack() as servers:
        public_key = stage.private_key.public_key()

        def load(name: str, requests: list[bytes], **answers: bytes) -> WebhookLoad:
            return WebhookLoad(servers.enter_context(running_server(name, public_key)), requests, _WIDTH, **answers)

        yield Race(
            "receiver",
            Contender("raw ASGI: verify, json.loads", load("raw", requests)),
            (
                Contender("receiver, async handler", load("async", requests), bar=1.25),
                Contender("receiver, sync handler in threads", load("threads", requests)),
            ),
            calls=2_000,
            rounds=12,
        )
        if has_beexar():
            theirs = load("beexar", beexar_requests(256), success=SUCCESS, ends=ANSWER_ENDS)
            ours = load("hmac", requests_with_hmac(SECRET.encode(), 256))
            yield Race(
                "receiver-beexar",
                Contender("beexar 1.1.0, its own bet call", theirs),
                (Contender("receiver, async handler, HMAC", ours),),
                calls=2_000,
                rounds=12,
            )
        else:
            print("beexar is not installed here, and its row is left out: pip install beexar==1.1.0", file=sys.stderr)
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
