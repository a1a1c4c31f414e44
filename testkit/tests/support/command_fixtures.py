"""What tests of commands share, and a sandbox that knows the operator's key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator_testkit import Sandbox
from tests.support.command_fixtures import _no_settings, database, key_file, keys, nobody, run

__all__ = ["_no_settings", "database", "key_file", "keys", "nobody", "run", "sandbox", "settings"]


@pytest.fixture(scope="package")
def sandbox(public_key: RSAPublicKey) -> Iterator[Sandbox]:
    """A service that all tests share: they grant under reference ids of their own and change nothing else."""
    with Sandbox(operator_public_key=public_key) as sandbox:
        yield sandbox


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox, key_file: Path) -> dict[str, str]:
    """The settings of the sandbox's operator, in the environment."""
    settings = {
        "GAME_OPERATOR_BASE_URL": sandbox.base_url,
        "GAME_OPERATOR_ID": sandbox.operator_id,
        "GAME_OPERATOR_PRIVATE_KEY_FILE": str(key_file),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return settings
