"""What the tests of ledgers share."""

import logging
from collections.abc import Iterator

import pytest

from game_operator.ledger.books.retention import missing_days
from tests.support.crowds import Processes, processes
from tests.support.raw_sql import run
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


@pytest.fixture(scope="module")
def crowd() -> Iterator[Processes]:
    """Four processes, spawned once for all tests of a module."""
    with processes(4) as four:
        yield four


@pytest.fixture
def clock() -> RunningClock:
    """A clock for a ledger on SQLite; PostgreSQL has its own."""
    return RunningClock()


@pytest.fixture
def few_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make fewer days ahead than usual: each is a table, which takes PostgreSQL long."""
    monkeypatch.setattr(missing_days, "__defaults__", (1,))


@pytest.fixture
def clerk(postgres_url: str) -> Iterator[str]:
    """A role that can log in, and has no rights; its name is one that has to be quoted."""
    role = "Clerk of " + postgres_url.partition("///")[2].partition("?")[0]
    run(postgres_url, f'CREATE ROLE "{role}" LOGIN')
    yield role
    run(postgres_url, f'DROP OWNED BY "{role}" CASCADE')
    run(postgres_url, f'DROP ROLE "{role}"')
