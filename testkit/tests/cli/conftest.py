"""The fixtures of all tests of commands, beside a sandbox."""

from pathlib import Path

import pytest

from testkit.tests.support.command_fixtures import (
    _no_settings,
    database,
    key_file,
    keys,
    nobody,
    run,
    sandbox,
    settings,
)

__all__ = ["_no_settings", "database", "key_file", "keys", "nobody", "run", "sandbox", "service_pem", "settings"]


@pytest.fixture(scope="package")
def service_pem(tmp_path_factory: pytest.TempPathFactory, private_pem: bytes) -> Path:
    """The service's private key, as it should lie on a disk."""
    path = tmp_path_factory.mktemp("service") / "service.pem"
    path.touch(0o600)
    path.write_bytes(private_pem)
    return path
