"""What all benchmarks stand on: a running service, one key, and a client of ours for it."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from benchmarks.service import running_service
from game_operator import OperatorClient

__all__ = ["OPERATOR_ID", "Stage", "set_stage"]

OPERATOR_ID = "acme"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the service is, and a key (RSA-2048); *quick* asks for small sizes, which show that all is in order."""

    base_url: str
    private_key: RSAPrivateKey
    quick: bool = False
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def fresh_id(self, kind: str) -> str:
        """Return an id never used before, so that no signature is remembered."""
        return f"{kind}-{next(self._numbers):012d}"

    def client(self) -> OperatorClient:
        """Return a client with the settings every user starts with."""
        return OperatorClient(self.base_url, OPERATOR_ID, self.private_key)


@contextmanager
def set_stage(*, quick: bool = False) -> Iterator[Stage]:
    """Start the service, make the key, and clear up at the end."""
    with running_service() as base_url:
        yield Stage(base_url, generate_private_key(65537, 2048), quick)
