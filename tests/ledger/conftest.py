"""What the tests of ledgers share."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.raw_sql import run
from tests.support.sqlite_tables import sqlite_url_in
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


def _database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database of each kind."""
    if request.param == "sqlite":
        return sqlite_url_in(tmp_path, request)
    url: str = request.getfixturevalue("postgres_url")
    return url


url, database_url = (
    pytest.fixture(params=["sqlite", "postgres"], name=name)(_database) for name in ("url", "database_url")
)


@pytest.fixture
def sqlite_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database in a file, for what no database decides."""
    return sqlite_url_in(tmp_path, request)


@pytest.fixture
def clerk(postgres_url: str) -> Iterator[str]:
    """A role that can log in, and has no rights; its name is one that has to be quoted."""
    role = "Clerk of " + postgres_url.partition("///")[2].partition("?")[0]
    run(postgres_url, f'CREATE ROLE "{role}" LOGIN')
    yield role
    run(postgres_url, f'DROP OWNED BY "{role}" CASCADE')
    run(postgres_url, f'DROP ROLE "{role}"')
