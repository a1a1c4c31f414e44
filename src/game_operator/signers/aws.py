"""
Signing with a key that never leaves AWS Key Management Service (extra ``aws``).

boto3 is imported when a signer is made, never before.
"""

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from game_operator.errors import ConfigurationError, RequestNotSentError, SigningKeyError, shown
from game_operator.protocol.signing import MIN_KEY_BITS
from game_operator.signers.keys import checked_signature

_ALGORITHM: Final = "RSASSA_PKCS1_V1_5_SHA_256"
_LONGEST_RAW_MESSAGE: Final = 4096

_MAKE_ONE = "Make a key with KeyUsage SIGN_VERIFY and KeySpec RSA_2048 (or RSA_3072, RSA_4096) and pass its ARN."
_CREDENTIALS = "Check the AWS credentials of this process (`aws sts get-caller-identity`) and its clock."
_ADVICE = {
    "AccessDeniedException": "Allow kms:Sign and kms:GetPublicKey on this key to the role of this process, "
    "in its own policy and in the key's.",
    "NotFoundException": "This account and region have no such key: check the id, the region, or pass the ARN.",
    "InvalidArnException": "Pass a key id, a key ARN, an alias name that begins with 'alias/', or an alias ARN.",
    "ValidationException": f"Check the key id, and what the key was made for. {_MAKE_ONE}",
    "InvalidKeyUsageException": f"It was made for another use, or is not RSA. {_MAKE_ONE}",
    "UnsupportedOperationException": f"It is not an RSA key pair. {_MAKE_ONE}",
    "DisabledException": "The key is disabled: enable it (`aws kms enable-key`).",
    "KMSInvalidStateException": "The key is pending deletion or import: bring it back "
    "(`aws kms cancel-key-deletion`), or pass another.",
}
#: KMS's words for "later"; every 429 and 5xx is one as well.
_LATER = frozenset({
    "DependencyTimeoutException",
    "KMSInternalException",
    "KeyUnavailableException",
    "LimitExceededException",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
})  # fmt: skip


_REPEAT = (
    "Nothing was sent to the service: repeat the call. If it goes on, check the network to AWS KMS, "
    "its request quota, and https://health.aws.amazon.com."
)


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
        ConfigurationError: boto3 is not installed, or a client needs more settings.
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
            problem = str(error.response.get("Error", {}).get("Code", "no code"))
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            is_later = problem in _LATER or status == 429 or status >= 500
            setting, remedy = "key_id", _ADVICE.get(problem.partition(":")[0], _CREDENTIALS)
        except exceptions.BotoCoreError as error:
            problem, remedy = type(error).__name__, _CREDENTIALS
            is_later = isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError)
            timed_out = isinstance(error, exceptions.ConnectTimeoutError | exceptions.ReadTimeoutError)
        # Raised out of the handler, so that the error of AWS is not its context: that one may quote credentials.
        story = f"AWS KMS did not perform {operation} with key {shown(self._key_id)}: {shown(problem)[1:-1]}"
        if is_later:
            elapsed = time.monotonic() - began
            raise RequestNotSentError(story, attempts=0, elapsed_seconds=elapsed, timed_out=timed_out, remedy=_REPEAT)
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
