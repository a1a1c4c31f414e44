"""A key management service on loopback, which fails on demand in ways that moto does not know."""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.hostile_server import Connection, HostileServer, response_bytes

SECRET_ACCESS_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYplanted"
SESSION_TOKEN = "IQoJb3JpZ2luX2VjEPLANTEDplanted"


class LocalKms:
    """
    A KMS with one key, which is ours.

    Attributes:
        failures: (HTTP status, error code) of the answers to come; then it works.
        requests: (operation, arguments) received.
        described: What GetPublicKey says beside the key.
    """

    def __init__(self, key: RSAPrivateKey) -> None:
        self.key = key
        self.failures: list[tuple[int, str]] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.described = {
            "KeySpec": "RSA_2048",
            "KeyUsage": "SIGN_VERIFY",
            "SigningAlgorithms": ["RSASSA_PKCS1_V1_5_SHA_256", "RSASSA_PSS_SHA_256"],
        }
        self.port = 0

    def answer(self, operation: str, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and the body for a request."""
        self.requests.append((operation, arguments))
        if self.failures:
            status, code = self.failures.pop(0)
            # AWS quotes what was signed when it finds a signature wrong, and that holds the session token.
            return status, {"__type": code, "message": f"x-amz-security-token:{SESSION_TOKEN} {SECRET_ACCESS_KEY}"}
        if operation == "GetPublicKey":
            der = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            return 200, self.described | {"KeyId": arguments["KeyId"], "PublicKey": _text(der)}
        message = base64.b64decode(arguments["Message"])
        # A digest is signed as it is, which moto does not do.
        hashed = Prehashed(SHA256()) if arguments["MessageType"] == "DIGEST" else SHA256()
        return 200, {"KeyId": arguments["KeyId"], "Signature": _text(self.key.sign(message, PKCS1v15(), hashed))}

    def client(self, **config: Any) -> Any:
        """Return a boto3 client for this KMS; *config* goes into its Config."""
        settings: dict[str, Any] = {"retries": {"total_max_attempts": 1}, "proxies": {}} | config
        address = f"http://127.0.0.1:{self.port}"
        return _session().client("kms", region_name="eu-west-1", endpoint_url=address, config=Config(**settings))


@cache
def _session() -> Any:
    """Return one session for all tests: each one reads the description of KMS again."""
    return boto3.session.Session("AKIAPLANTED", SECRET_ACCESS_KEY, SESSION_TOKEN)


@contextmanager
def local_kms(key: RSAPrivateKey) -> Iterator[LocalKms]:
    """Serve *key* until the block ends."""
    kms = LocalKms(key)

    def serve(connection: Connection) -> None:
        while request := connection.read_request():
            head, _, body = request.partition(b"\r\n\r\n")
            (operation,) = re.findall(r"(?i)^x-amz-target: TrentService\.(\w+)", head.decode(), re.MULTILINE)
            status, answer = kms.answer(operation, json.loads(body))
            connection.send(response_bytes(status, json.dumps(answer).encode()))

    with HostileServer(serve) as server:
        kms.port = server.port
        yield kms


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
