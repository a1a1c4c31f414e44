"""The fixtures of all tests of commands."""

from pathlib import Path

import pytest

from tests.support.command_fixtures import _no_settings, database, key_file, keys, nobody, run

__all__ = ["_no_settings", "any_database", "database", "file", "key_file", "keys", "nobody", "run"]

VARIABLE = "GAME_OPERATOR_DATABASE_URL"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database in a file that is not there yet, named by the environment."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    monkeypatch.setenv(VARIABLE, url)
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def any_database(request: pytest.FixtureRequest, file: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database of each kind, named by the environment."""
    if request.param == "sqlite":
        return file
    url: str = request.getfixturevalue("postgres_url")
    monkeypatch.setenv(VARIABLE, url)
    return url
