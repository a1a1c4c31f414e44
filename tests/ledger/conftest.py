"""What the tests of ledgers share."""

import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg
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


@pytest.fixture
def emptied_url(module_url: str) -> str:
    """That database, emptied."""
    with psycopg.connect(module_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return module_url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an emptied database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'wallet.db'}"
    address: str = request.getfixturevalue("emptied_url")
    return address


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
