"""
SQLite files with the tables of a new ledger: made once, and copied for each test.

Making the tables takes four times as long as opening a file that has them.
"""

import tempfile
from functools import cache
from pathlib import Path

import pytest

from game_operator.ledger import SqlLedger


def sqlite_url_in(folder: Path, request: pytest.FixtureRequest) -> str:
    """Return the URL of a file with the tables of a new ledger; for a test with the mark ``bare``, of a file to be."""
    path = folder / "wallet.db"
    return f"sqlite:///{path}" if request.node.get_closest_marker("bare") else new_file(path)


def new_file(path: Path) -> str:
    """Make a file with the tables of a new ledger, and return its URL."""
    path.write_bytes(_new())
    return f"sqlite:///{path}"


@cache
def _new() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wallet.db"
        SqlLedger(f"sqlite:///{path}").close()
        assert [other.name for other in path.parent.iterdir()] == [path.name]
        return path.read_bytes()
