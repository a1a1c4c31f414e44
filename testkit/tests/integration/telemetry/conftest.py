"""What tests of telemetry share: a run that makes every metric and span."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from testkit.tests.support.observed_run import ObservedRun, observed_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, private_key: RSAPrivateKey) -> Iterator[ObservedRun]:
    """Return what the run made, once for all that is compared with it."""
    folder: Path = tmp_path_factory.mktemp("observed")
    with observed_run(folder, private_key) as made:
        yield made
