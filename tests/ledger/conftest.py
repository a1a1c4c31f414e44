"""What the tests of ledgers share."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.ledger_contract")


@pytest.fixture(autouse=True)
def quiet_ledger() -> Iterator[None]:
    """Histories by the thousand would fill the captured log; a test that looks at it sets its own level."""
    logger = logging.getLogger("game_operator.ledger")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'wallet.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an empty database, for what no database decides."""
    return f"sqlite:///{tmp_path / 'wallet.db'}"
