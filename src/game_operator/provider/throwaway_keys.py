"""Keys that are made when they are first needed, and live as long as the program: none is shipped, none is kept."""

from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.provider.keys import ServiceKeys, new_key

__all__ = ["ThrowAwayKeys"]


class ThrowAwayKeys:
    """The operator's key and the service's, for any number of sandboxes: making one takes longer than all the rest."""

    @cached_property
    def operator(self) -> RSAPrivateKey:
        """What the operator signs its calls with (spec §5)."""
        return new_key()

    @cached_property
    def service(self) -> ServiceKeys:
        """What webhooks are signed with, and the keys that they must not be signed with."""
        return ServiceKeys(new_key())

    def __repr__(self) -> str:
        return "ThrowAwayKeys(…)"

    def __reduce__(self) -> str:
        raise TypeError("ThrowAwayKeys holds private keys and is not pickled; make others in each process")
