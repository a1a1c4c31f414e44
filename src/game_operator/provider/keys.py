"""The keys that webhooks are signed with: the service's, the one before it, and a stranger's."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from game_operator.errors import SigningKeyError, shown
from game_operator.protocol.signing import MIN_KEY_BITS, Signature
from game_operator.provider.delivery import Post
from game_operator.provider.faults import Fault
from game_operator.signers.keys import LocalSigner, load_signer

if TYPE_CHECKING:
    from game_operator.provider.caller import SigningKey

__all__ = ["KeyKeeper", "ServiceKeys", "new_key", "private_pem", "signed_with"]


def new_key() -> RSAPrivateKey:
    """Return a new key of the length that is asked for."""
    return generate_private_key(65537, MIN_KEY_BITS)


def private_pem(key: RSAPrivateKey) -> bytes:
    """Return *key* as PKCS#8 PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class KeyKeeper(Protocol):
    """Keeps the service's keys over a restart."""

    @property
    def where(self) -> str:
        """Where they are, for people."""

    def keep(self, following: RSAPrivateKey) -> None:
        """
        Keep *following* as the service's key from now on, and the one of now as the old one.

        Raises:
            ConfigurationError: That is not possible; then all is as it was.
        """


class ServiceKeys:
    """
    Signs posts as their faults ask for.

    Args:
        current: The service's private key.
        old: The key it had before; made up when it is first needed, if there is none.
        following: The one that it will have after a rotation; made when it is prepared, if there is none.
    """

    def __init__(
        self, current: "SigningKey", old: "SigningKey | None" = None, following: RSAPrivateKey | None = None
    ) -> None:
        #: The key after a rotation, or None if there is none yet.
        self.following = following
        try:
            self.current = _local(current)
            self._old = None if old is None else _local(old)
        finally:
            # Error trackers show the locals of every frame that an error passes.
            del current, old

    @staticmethod
    def maker(
        current: "SigningKey | None", old: "SigningKey | None" = None, following: RSAPrivateKey | None = None
    ) -> "Callable[[], ServiceKeys]":
        """Return what makes keys: of these, which are looked at now, or of a new one, once it is needed."""
        try:
            given = None if current is None else ServiceKeys(current, old, following)
            before = None if old is None else _local(old)
        finally:
            del current, old
        return lambda: given or ServiceKeys(new_key(), before, following)

    def prepared(self) -> RSAPrivateKey:
        """Return the key after a rotation, made if there is none yet; nothing is signed with it before."""
        self.following = self.following or new_key()
        return self.following

    def rotated(self) -> "ServiceKeys":
        """Return keys whose current one is the prepared one of these, and whose old one is their current one."""
        return ServiceKeys(self.prepared(), self.current)

    @cached_property
    def old(self) -> LocalSigner:
        """The key before a rotation, which a wallet must not accept any more."""
        return self._old or LocalSigner(new_key())

    @cached_property
    def stranger(self) -> LocalSigner:
        """A key that no wallet was ever told of."""
        return LocalSigner(new_key())

    def signature(self, post: Post, signed: bytes) -> Signature:
        """Return the value of the signature header for *post*."""
        match post.extra:
            case Fault.FORGED:
                return Signature.of(self.stranger.sign(signed))
            case Fault.OLD_KEY:
                return Signature.of(self.old.sign(signed))
            case _:
                return Signature.of(self.current.sign(signed))

    def __repr__(self) -> str:
        return "ServiceKeys(…)"

    def __reduce__(self) -> str:
        raise TypeError("ServiceKeys holds private keys and is not pickled")


def _local(key: "SigningKey") -> LocalSigner:
    file = key if isinstance(key, Path) else None
    try:
        signer = key if isinstance(key, LocalSigner) else load_signer(key)
    except SigningKeyError as failed:
        raise SigningKeyError(_of_service(str(failed), file)) from None
    finally:
        # Error trackers show the locals of every frame that an error passes.
        del key
    if not isinstance(signer, LocalSigner):
        raise TypeError("the service's key must be a Path, a PEM as str or bytes, or an RSAPrivateKey")
    return signer


def _of_service(problem: str, file: Path | None) -> str:
    """Return *problem*, which speaks of the operator's key, said of the service's, with the file that was meant."""
    problem = problem.replace("the operator's RSA private key", "the service's RSA private key")
    if file is None or not file.name.endswith(".pub.pem"):
        return problem
    private = file.with_name(f"{file.name.removesuffix('.pub.pem')}.pem")
    return f"{problem} {shown(str(private))} lies beside it." if private.is_file() else problem


def signed_with(post: Post) -> str:
    """Return, for people, whose signature *post* bears."""
    match post.extra:
        case Fault.FORGED:
            return "forged"
        case Fault.OLD_KEY:
            return "old key"
        case Fault.RESERIALISED:
            return "other bytes"
        case _:
            return "valid"
