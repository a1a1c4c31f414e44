"""Databases for tests that break them."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def quiet_ledger() -> Iterator[None]:
    """Traffic by the thousand would fill the captured log."""
    logger = logging.getLogger("game_operator.ledger")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


@pytest.fixture
def anyio_backend() -> str:
    """The ledgers are for asyncio."""
    return "asyncio"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A fresh SQLite file."""
    return f"sqlite:///{tmp_path / 'wallet.db'}"
