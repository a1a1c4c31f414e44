"""Desks with each kind of wallet, and with the plain one on SQLite for what does not depend on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.tests.support.reconciling import WALLETS, Desk, WalletKind, desk_of
from tests.support.sqlite_tables import sqlite_url_in


@pytest.fixture(params=WALLETS, ids=str)
def any_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """A desk with each kind of wallet."""
    kind: WalletKind = request.param
    is_sqlite = kind.database == "sqlite"
    url = sqlite_url_in(tmp_path, request) if is_sqlite else request.getfixturevalue("postgres_url")
    with desk_of(kind, url) as desk:
        yield desk


@pytest.fixture
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """A desk with a Wallet on SQLite."""
    with desk_of(WALLETS[0], sqlite_url_in(tmp_path, request)) as desk:
        yield desk
