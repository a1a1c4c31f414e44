"""The fixtures of all tests of commands, beside a sandbox."""

from functools import partial
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
from tests.support.command_line import Run

__all__ = ["_no_settings", "certify", "database", "key_file", "keys", "nobody", "run", "sandbox", "settings"]


@pytest.fixture
def certify(run: Run, key_file: Path) -> Run:
    """Certifies the wallet at a URL by the players ann and bob, with these options."""
    return partial(run, "certify", "--service-private-key", key_file, "--player", "ann", "--other-player", "bob")
