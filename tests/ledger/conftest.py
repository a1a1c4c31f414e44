"""What the tests of ledgers share."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from tests.support.times import RunningClock

pytest.register_assert_rewrite("tests.ledger_contract")


@pytest.fixture(autouse=True)
def quiet_ledger() -> Iterator[None]:
    """Histories by the thousand would fill the captured log; a test that looks at it sets its own level."""
    logger = logging.getLogger("game_operator.ledger")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


@pytest.fixture
def anyio_backend() -> str:
    """The ledgers and the drivers of databases are for asyncio."""
    return "asyncio"


@pytest.fixture
def clock() -> RunningClock:
    """A clock for a ledger on SQLite; PostgreSQL has its own."""
    return RunningClock()


@pytest.fixture(scope="module")
def module_url(postgres: PostgresServer) -> Iterator[str]:
    """One PostgreSQL database for the tests of a module, which is quicker than one for each."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database of each kind."""
    return _database(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same."""
    return _database(request, tmp_path)


def _database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'wallet.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an empty database, for what no database decides."""
    return f"sqlite:///{tmp_path / 'wallet.db'}"
