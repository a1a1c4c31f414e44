"""Who signs: a key on this machine, a key management service, or anything with a ``sign`` method (spec §5)."""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator.signers.aws import AwsKmsSigner as AwsKmsSigner

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(__name__, {".aws": "AwsKmsSigner"})
