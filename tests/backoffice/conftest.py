"""A service whose list of games a test decides."""

from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tests.support.catalogues import ListedGames, named


@pytest.fixture
def service(private_key: RSAPrivateKey) -> Iterator[ListedGames]:
    """A service with ten games of one instance each: g0 with i0, and so on."""
    listed = ListedGames(private_key, *(named(f"g{number}", f"i{number}") for number in range(10)))
    yield listed
    listed.waits.set()  # Else a thread that still asks would wait for its time to run out.
    listed.client.close()
