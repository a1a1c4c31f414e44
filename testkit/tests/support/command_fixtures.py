"""What tests of commands share, and a sandbox that knows the operator's key."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator_testkit import Sandbox
from tests.support.command_fixtures import _no_settings, database, key_file, keys, nobody, run
from tests.support.command_line import Forked, started

__all__ = ["_no_settings", "database", "key_file", "keys", "nobody", "run", "sandbox", "served", "settings"]


@contextmanager
def served(*args: str, **environ: str) -> Iterator[tuple[dict[str, Any], Forked]]:
    """Start a sandbox, and yield what it says about itself."""
    with started("sandbox", "--json", *args, **environ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline()), process
        finally:
            process.terminate()  # It takes its keys away with it.


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
