"""Who signs: a key on this machine, a key management service, or anything with a ``sign`` method (spec §5)."""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator.signers.aws import AwsKmsSigner as AwsKmsSigner
    from game_operator.signers.keys import AsyncSigner as AsyncSigner
    from game_operator.signers.keys import KeySource as KeySource
    from game_operator.signers.keys import LocalSigner as LocalSigner
    from game_operator.signers.keys import RememberedSignatures as RememberedSignatures
    from game_operator.signers.keys import Signer as Signer
    from game_operator.signers.keys import load_signer as load_signer
    from game_operator.signers.keys import public_key_of as public_key_of

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".aws": "AwsKmsSigner",
            ".keys": "AsyncSigner KeySource LocalSigner RememberedSignatures Signer load_signer public_key_of",
        },
    )
