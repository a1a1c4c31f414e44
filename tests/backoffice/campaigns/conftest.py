"""What the tests of campaigns share: a service that grants, and a ledger with players."""

from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.backoffice.campaigns import granting
from game_operator.ledger import SqlLedger
from tests.support.grants import GrantingService, players


@pytest.fixture
def service(private_key: RSAPrivateKey) -> GrantingService:
    """A service that grants, with the instances i1, i2 in EUR and i9 in SEK."""
    return GrantingService(private_key)


@pytest.fixture
def memory() -> Iterator[SqlLedger]:
    """A ledger with the players p1 to p40."""
    with SqlLedger("sqlite:///:memory:") as ledger:
        _open_all(ledger)
        yield ledger


@pytest.fixture
def books(database_url: str) -> Iterator[SqlLedger]:
    """A ledger of each kind of database, with the players p1 to p40."""
    with SqlLedger(database_url) as ledger:
        _open_all(ledger)
        yield ledger


def _open_all(ledger: SqlLedger) -> None:
    for player in players(40):
        ledger.open_account(player)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unanswered is asked for again at once, and those who wait for others look often."""
    monkeypatch.setattr(granting, "AGAIN_MILLIS", 1)
    monkeypatch.setattr(granting, "LONGEST_AGAIN_MILLIS", 5)
