"""
Signing with a key that never leaves AWS Key Management Service (extra ``aws``).

boto3 is imported when a signer is made, never before.
"""

import time
import tomllib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from game_operator.errors import ConfigurationError, RequestNotSentError, SigningKeyError, shown
from game_operator.protocol.signing import MIN_KEY_BITS
from game_operator.signers.keys import checked_signature

_ALGORITHM: Final = "RSASSA_PKCS1_V1_5_SHA_256"
_LONGEST_RAW_MESSAGE: Final = 4096

#: What to do about errors.
_TEXTS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_MAKE_ONE: Final = _TEXTS["make_one"]


class AwsKmsSigner:
    """
    Signs in AWS KMS with RSASSA_PKCS1_V1_5_SHA_256 (spec §5). Threads may share one.

    ``OperatorClient`` and ``SessionTokenBuilder`` remember signatures where that is safe; this class does not.
    ``AsyncOperatorClient`` and ``build_async`` call it in a worker thread.

    Args:
        key_id: A key id, key ARN, alias name or alias ARN. Prefer the ARN: an alias may come to mean another key
            while signatures of the former are remembered.
        client: Your own ``boto3.client("kms", ...)``. Left out, one is made from the environment, with
            3 attempts, 3 seconds to connect and 5 to answer.

    Raises:
        ConfigurationError: boto3 is not installed, a client needs more settings, or *key_id* is empty.
        TypeError: *key_id* is not a str.
    """

    # boto3's clients have no types.
    def __init__(self, key_id: str, *, client: Any = None) -> None:
        self._key_id = key_id
        if not isinstance(key_id, str):
            raise TypeError(f"key_id must be a str, not {type(key_id).__name__}")
        if not key_id:
            raise ConfigurationError("key_id is empty.", setting="key_id", remedy="Pass the ARN of a KMS key.")
        self._client = _new_client() if client is None else client
        self._public_key_pem: bytes | None = None

    def sign(self, message: bytes) -> bytes:
        """
        Return the raw signature of *message*, made in KMS; blocks for one request. Needs ``kms:Sign`` alone.

        Raises:
            SigningKeyError: KMS will not sign with this key until somebody changes something; the message says what.
            RequestNotSentError: KMS did not sign this time (throttled, unreachable); repeating the call may help.
        """
        # RAW as long as KMS takes it: a policy may then hold this role to kms:MessageType RAW, so that nobody in
        # possession of it can have a digest signed that KMS never saw the message of. Longer messages go as a digest.
        kind, content = "RAW", message
        if len(message) > _LONGEST_RAW_MESSAGE:
            kind, content = "DIGEST", sha256(message).digest()
        return checked_signature(
            self._ask("Sign", self._client.sign, Message=content, MessageType=kind, SigningAlgorithm=_ALGORITHM)[
                "Signature"
            ]
        )

    def public_key_pem(self) -> bytes:
        """
        Return the public key to register with the provider, in PEM. KMS is asked once; needs ``kms:GetPublicKey``.

        Raises:
            SigningKeyError: The key is not RSA, is under 2048 bits, or was not made for signing.
            RequestNotSentError: KMS did not answer this time.
        """
        if self._public_key_pem is None:
            answer = self._ask("GetPublicKey", self._client.get_public_key)
            try:
                key = load_der_public_key(answer["PublicKey"])
            except (ValueError, UnsupportedAlgorithm):
                key = None
            problem = ""
            if not isinstance(key, RSAPublicKey):
                spec = answer.get("KeySpec") or answer.get("CustomerMasterKeySpec")
                problem = f"is of the kind {shown(spec)}, but spec §5 asks for RSA"
            elif key.key_size < MIN_KEY_BITS:
                problem = f"has {key.key_size} bits; under {MIN_KEY_BITS} it can be broken"
            elif answer.get("KeyUsage") != "SIGN_VERIFY" or _ALGORITHM not in answer.get("SigningAlgorithms", ()):
                problem = f"was made for {shown(answer.get('KeyUsage'))} and does not sign with {_ALGORITHM}"
            if problem or key is None:
                what = f"The AWS KMS key {shown(self._key_id)} {problem}."
                raise SigningKeyError(what, setting="key_id", remedy=_MAKE_ONE)
            self._public_key_pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return self._public_key_pem

    def __repr__(self) -> str:
        return f"AwsKmsSigner({self._key_id!r})"

    def __reduce__(self) -> str:
        raise TypeError("an AwsKmsSigner holds a client of boto3 and is not pickled; make one in each process")

    def _ask(self, operation: str, call: Callable[..., Any], **arguments: object) -> Any:
        from botocore import exceptions

        began, setting, timed_out = time.monotonic(), None, False
        try:
            return call(KeyId=self._key_id, **arguments)
        except exceptions.ClientError as error:
            problem = code = error.response.get("Error", {}).get("Code", "no code")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            is_later = code in _TEXTS["later"] or status == 429 or status >= 500
            advice = _TEXTS["advice"].get(code.partition(":")[0], _TEXTS["credentials"])
            setting, remedy = "key_id", advice.format(make_one=_MAKE_ONE)
        except exceptions.BotoCoreError as error:
            problem, remedy = type(error).__name__, _TEXTS["credentials"]
            is_later = isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError)
            timed_out = isinstance(error, exceptions.ConnectTimeoutError | exceptions.ReadTimeoutError)
        # Raised out of the handler, so that the error of AWS is not its context: that one may quote credentials.
        story = f"AWS KMS did not perform {operation} with key {shown(self._key_id)}: {shown(problem)[1:-1]}"
        if is_later:
            elapsed = time.monotonic() - began
            raise RequestNotSentError(
                story, attempts=0, elapsed_seconds=elapsed, timed_out=timed_out, remedy=_TEXTS["repeat"]
            )
        raise SigningKeyError(f"{story}.", setting=setting, remedy=remedy)


def _new_client() -> Any:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise ConfigurationError(
            "AwsKmsSigner needs boto3, which is not installed.", remedy="Run: pip install 'game-operator[aws]'"
        ) from None
    # boto3 would wait 60 seconds, five times over; a call of the service has 30 in all.
    patience = Config(connect_timeout=3, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})
    try:
        # Our own session, because boto3's default one is not safe to use from several threads.
        return boto3.session.Session().client("kms", config=patience)
    except BotoCoreError as error:
        problem = type(error).__name__
    raise ConfigurationError(
        f"No client for AWS KMS can be made ({problem}).",
        setting="client",
        remedy="Set AWS_REGION, or pass client=boto3.client('kms', ...).",
    )
