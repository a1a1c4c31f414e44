"""Signing in AWS KMS: against moto for the service as it is, and a KMS of our own on loopback for its failures."""

import base64
import copy
import json
import pickle
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.config import Config
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from moto import mock_aws

from game_operator import (
    ConfigurationError,
    GameOperatorError,
    RequestNotSentError,
    Signer,
    SigningKeyError,
)
from game_operator.protocol.signing import Signature, verify
from game_operator.signers import AwsKmsSigner
from game_operator.signers.keys import load_public_key, load_signer
from tests.signers.conftest import Keys
from tests.support.hostile_server import Connection, HostileServer, response_bytes
from tests.support.leaks import everything_told

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


pytestmark = pytest.mark.outside


@pytest.fixture(autouse=True)
def no_aws_but_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Point boto3 at nothing: no profile, no credentials, no metadata service, no address but loopback."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    look_up = socket.getaddrinfo

    def loopback_alone(host: Any, *arguments: Any, **options: Any) -> Any:
        assert host == "127.0.0.1", f"a test would have contacted {host}"
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", loopback_alone)


@pytest.fixture
def moto_kms() -> Iterator[Any]:
    """Yield a client of moto's KMS, which answers inside this process."""
    with mock_aws():
        yield boto3.client("kms", region_name="eu-west-1")


@pytest.fixture
def moto_key(moto_kms: Any) -> str:
    """Return the ARN of a fresh RSA key for signing."""
    return made(moto_kms)


@pytest.fixture
def kms(private_key: RSAPrivateKey) -> Iterator[LocalKms]:
    """Yield our own KMS, whose one key is the tests' key."""
    with local_kms(private_key) as served:
        yield served


def made(client: Any, spec: str = "RSA_2048", usage: str = "SIGN_VERIFY") -> str:
    """Return the ARN of a new key."""
    return str(client.create_key(KeySpec=spec, KeyUsage=usage)["KeyMetadata"]["Arn"])


# With moto


def test_a_kms_signature_verifies_with_the_kms_public_key(moto_kms: Any, moto_key: str) -> None:
    """RSASSA_PKCS1_V1_5_SHA_256 is the RSA-SHA256 that requests carry (spec §5)."""
    signer = AwsKmsSigner(moto_key, client=moto_kms)
    signature = Signature.of(signer.sign(b"acme:bet-1"))
    public_key = load_public_key(signer.public_key_pem())
    assert verify(public_key, b"acme:bet-1", signature)
    assert not verify(public_key, b"acme:bet-2", signature)


def test_without_a_client_one_is_made_from_the_environment(moto_kms: Any, moto_key: str) -> None:
    """Region and credentials come from where boto3 finds them (spec §5)."""
    assert AwsKmsSigner(moto_key).public_key_pem() == AwsKmsSigner(moto_key, client=moto_kms).public_key_pem()


def test_without_a_region_no_client_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which setting is missing (spec §5)."""
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigurationError, match=r"NoRegionError.*Set AWS_REGION, or pass client="):
        AwsKmsSigner("alias/operator")


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 is imported when a signer is made; without it the error names what to install (spec §5)."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'game-operator\[aws\]'"):
        AwsKmsSigner("alias/operator")


@pytest.mark.parametrize(
    ("spec", "usage", "sign_words", "public_key_words"),
    [
        pytest.param("ECC_NIST_P256", "SIGN_VERIFY", "KeySpec RSA_2048", "ECC_NIST_P256.*asks for RSA", id="not RSA"),
        pytest.param(
            "RSA_2048", "ENCRYPT_DECRYPT", "KeyUsage SIGN_VERIFY", "made for 'ENCRYPT_DECRYPT'", id="encrypts"
        ),
    ],
)
def test_a_key_of_another_kind_is_refused(
    spec: str, usage: str, sign_words: str, public_key_words: str, moto_kms: Any
) -> None:
    """A key that is not RSA, or not for signing, is a SigningKeyError that says what to make (spec §5)."""
    signer = AwsKmsSigner(made(moto_kms, spec, usage), client=moto_kms)
    with pytest.raises(SigningKeyError, match=sign_words):
        signer.sign(b"acme")
    with pytest.raises(SigningKeyError, match=public_key_words):
        signer.public_key_pem()


# With our own


@pytest.mark.parametrize(("size", "kind"), [(4096, "RAW"), (4097, "DIGEST")])
def test_a_long_message_goes_as_its_digest(size: int, kind: str, kms: LocalKms, public_key: RSAPublicKey) -> None:
    """KMS takes 4,096 bytes; what is longer is hashed here, and the signature is the same (spec §5)."""
    message = b"m" * size
    signature = Signature.of(AwsKmsSigner("key-1", client=kms.client()).sign(message))
    assert verify(public_key, message, signature)
    (operation, arguments), *more = kms.requests
    assert (operation, arguments["MessageType"], more) == ("Sign", kind, [])
    assert arguments["SigningAlgorithm"] == "RSASSA_PKCS1_V1_5_SHA_256"


def test_the_public_key_is_asked_for_once(kms: LocalKms, public_pem: bytes) -> None:
    """GetPublicKey is called once; a client never needs it (spec §5)."""
    signer = AwsKmsSigner("key-1", client=kms.client())
    assert signer.public_key_pem() == signer.public_key_pem() == public_pem
    assert [operation for operation, _ in kms.requests] == ["GetPublicKey"]


def test_a_public_key_of_another_use_is_refused(kms: LocalKms) -> None:
    """What KMS says the key may do is checked beside the key itself (spec §5)."""
    kms.described["SigningAlgorithms"] = ["RSASSA_PSS_SHA_256"]
    with pytest.raises(SigningKeyError, match="does not sign with RSASSA_PKCS1"):
        AwsKmsSigner("key-1", client=kms.client()).public_key_pem()


def test_a_short_key_is_refused_by_both_ways(keys: Keys) -> None:
    """Under 2048 bits neither its public key nor its signature is taken (spec §5)."""
    with local_kms(keys.bits_1024) as kms:
        signer = AwsKmsSigner("key-1", client=kms.client())
        with pytest.raises(SigningKeyError, match="1024 bits"):
            signer.public_key_pem()
        with pytest.raises(SigningKeyError, match="128 bytes"):
            signer.sign(b"acme")


PERMANENT = [
    pytest.param(400, "AccessDeniedException", "Allow kms:Sign and kms:GetPublicKey", id="denied"),
    pytest.param(400, "NotFoundException", "check the id, the region", id="unknown"),
    pytest.param(400, "ExpiredTokenException", "credentials", id="expired credentials"),
    pytest.param(400, "InvalidSignatureException", "clock", id="credentials do not fit"),
]
PASSING = [
    pytest.param(400, "ThrottlingException", id="throttled"),
    pytest.param(503, "DependencyTimeoutException", id="dependency"),
    pytest.param(429, "SomethingNew", id="429"),
]


def refusals(signer: AwsKmsSigner, kms: LocalKms, status: int, code: str) -> Iterator[GameOperatorError]:
    """Yield the errors that both methods of *signer* raise when KMS answers so."""
    calls: list[Callable[[], bytes]] = [lambda: signer.sign(b"acme:bet-1"), signer.public_key_pem]
    for call in calls:
        kms.failures = [(status, code)]
        with pytest.raises(GameOperatorError) as refused:
            call()
        yield refused.value


@pytest.mark.parametrize(("status", "code", "words"), PERMANENT)
def test_what_somebody_must_change_is_a_signing_key_error(status: int, code: str, words: str, kms: LocalKms) -> None:
    """The error names the key, KMS's code and what to do, and holds nothing of the credentials (spec §5)."""
    for error in refusals(AwsKmsSigner("alias/operator", client=kms.client()), kms, status, code):
        assert type(error) is SigningKeyError
        for word in ("alias/operator", code, words):
            assert word in str(error)
        assert_safe(error)


@pytest.mark.parametrize(("status", "code"), PASSING)
def test_what_passes_is_a_request_not_sent(status: int, code: str, kms: LocalKms) -> None:
    """Nothing reached the game service, and repeating may help (spec §5)."""
    for error in refusals(AwsKmsSigner("alias/operator", client=kms.client()), kms, status, code):
        assert isinstance(error, RequestNotSentError)
        assert not error.timed_out
        assert error.attempts == 0
        for word in ("alias/operator", code, "repeat the call", "quota"):
            assert word in str(error)
        assert_safe(error)


def assert_safe(error: GameOperatorError) -> None:
    """Assert that *error* pickles, copies, and holds neither credentials nor the error of AWS."""
    assert error.__cause__ is error.__context__ is None
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(twin), str(twin)) == (type(error), str(error))
    told = everything_told(error)
    for secret in (SECRET_ACCESS_KEY, SESSION_TOKEN, "AKIAPLANTED"):
        assert secret not in told


def test_a_kms_out_of_reach_is_a_request_not_sent(kms: LocalKms) -> None:
    """A refused connection is not the fault of the key (spec §5)."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        kms.port = taken.getsockname()[1]
        with pytest.raises(RequestNotSentError, match=r"EndpointConnectionError.*check the network") as refused:
            AwsKmsSigner("key-1", client=kms.client()).sign(b"acme")
    assert not refused.value.timed_out
    assert_safe(refused.value)


def test_a_kms_that_does_not_answer_is_a_timeout(kms: LocalKms) -> None:
    """A silent KMS is given up after the client's own patience (spec §5)."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kms.port = silent.getsockname()[1]
        with pytest.raises(RequestNotSentError, match="ReadTimeoutError") as refused:
            AwsKmsSigner("key-1", client=kms.client(read_timeout=0.2)).sign(b"acme")
    assert refused.value.timed_out
    assert 0.15 < refused.value.elapsed_seconds < 5
    assert_safe(refused.value)


def test_without_credentials_the_error_says_so(kms: LocalKms) -> None:
    """A process without credentials learns where to look, and KMS is not asked (spec §5)."""
    client = boto3.session.Session().client("kms", endpoint_url=f"http://127.0.0.1:{kms.port}")
    with pytest.raises(SigningKeyError, match=r"NoCredentialsError.*aws sts get-caller-identity") as refused:
        AwsKmsSigner("key-1", client=client).sign(b"acme")
    assert_safe(refused.value)
    assert kms.requests == []


def test_a_kms_signer_shows_its_key_id_alone(kms: LocalKms) -> None:
    """Its repr is the key id; it is a Signer; it is not pickled (spec §5)."""
    signer = AwsKmsSigner("alias/operator", client=kms.client())
    assert repr(signer) == "AwsKmsSigner('alias/operator')"
    assert isinstance(signer, Signer)
    assert load_signer(signer) is signer
    with pytest.raises(TypeError, match="make one in each process"):
        pickle.dumps(signer)


def test_the_key_id_is_checked_first() -> None:
    """A missing key id is found before any call is made (spec §5)."""
    with pytest.raises(ConfigurationError, match="Pass the ARN"):
        AwsKmsSigner("")
    with pytest.raises(TypeError, match="not NoneType"):
        AwsKmsSigner(None)  # type: ignore[arg-type]  # that is the point
