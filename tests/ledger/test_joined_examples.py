"""The examples of the operator's own transaction print on PostgreSQL what they print on SQLite."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.artefact, pytest.mark.outside]

_FOLDER = Path(__file__).parents[2] / "examples"
_EXAMPLES = sorted(_FOLDER.glob("own_transaction_*.py"))


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda example: str(example.stem))
def test_an_example_prints_the_same_on_postgresql(example: Path, postgres_url: str) -> None:
    """The second statement fails, nothing of the call remains, and the repeat is no second debit."""
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    command = [sys.executable, "-W", "error", str(example), postgres_url]
    ran = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=50, check=False)
    # The server of the tests runs without fsync, which the ledger warns of.
    assert [line for line in ran.stderr.splitlines() if not line.startswith("PostgreSQL runs with")] == []
    printed = ran.stdout.splitlines()
    promised = [line.removeprefix("# ") for line in example.read_text().partition("\n# Prints:\n")[2].splitlines()]
    # The example that needs a server begins by saying so when it has none.
    assert printed == promised[-len(printed) :]
    assert len(printed) == 5
