"""Who signs: a key on this machine, a key management service, or anything with a ``sign`` method (spec §5)."""

from typing import TYPE_CHECKING, Any

from game_operator.signers.api import AsyncSigner, Signer
from game_operator.signers.keys import KeySource, LocalSigner, load_signer, public_key_of
from game_operator.signers.remembered import RememberedAsyncSignatures, RememberedSignatures

if TYPE_CHECKING:
    from game_operator.signers.aws import AwsKmsSigner as AwsKmsSigner

__all__ = [
    "AsyncSigner",
    "AwsKmsSigner",
    "KeySource",
    "LocalSigner",
    "RememberedAsyncSignatures",
    "RememberedSignatures",
    "Signer",
    "load_signer",
    "public_key_of",
]


if not TYPE_CHECKING:  # To a type checker it would make every misspelt name look defined.

    def __getattr__(name: str) -> Any:
        if name == "AwsKmsSigner":
            from game_operator.signers.aws import AwsKmsSigner

            return AwsKmsSigner
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
