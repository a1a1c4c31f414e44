"""Desks with each kind of wallet, and with the plain one on SQLite for what does not depend on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.reconciling import WALLETS, Desk, WalletKind, desk_of


@pytest.fixture(params=WALLETS, ids=str)
def any_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """A desk with each kind of wallet."""
    kind: WalletKind = request.param
    url = (
        f"sqlite:///{tmp_path / 'wallet.db'}" if kind.database == "sqlite" else request.getfixturevalue("postgres_url")
    )
    with desk_of(kind, url) as desk:
        yield desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk with a Wallet on SQLite."""
    with desk_of(WALLETS[0], f"sqlite:///{tmp_path / 'wallet.db'}") as desk:
        yield desk
