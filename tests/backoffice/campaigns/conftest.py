"""What the tests of campaigns share: a service that grants, and a ledger with players."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.backoffice.campaigns import granting
from game_operator.ledger import SqlLedger
from tests.support.grants import GrantingService, players
from tests.support.postgres import PostgresServer


@pytest.fixture
def service(private_key: RSAPrivateKey) -> GrantingService:
    """A service that grants, with the instances i1, i2 in EUR and i9 in SEK."""
    return GrantingService(private_key)


@pytest.fixture
def memory() -> Iterator[SqlLedger]:
    """A ledger with the players p1 to p40."""
    with _with_players("sqlite:///:memory:") as ledger:
        yield ledger


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the players p1 to p40, to be copied."""
    path = tmp_path_factory.mktemp("players") / "wallet.db"
    with _with_players(f"sqlite:///{path}"):
        return path


@pytest.fixture(scope="session")
def postgres_players(postgres: PostgresServer) -> str:
    """The URL of a database with the players p1 to p40, to be copied."""
    url = postgres.create_database()
    with _with_players(url):
        return url


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database of each kind, with the players p1 to p40."""
    if request.param == "sqlite":
        yield f"sqlite:///{shutil.copy(request.getfixturevalue('filled_file'), tmp_path / 'wallet.db')}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.lent_database(template=request.getfixturevalue("postgres_players")) as url:
        yield url


@pytest.fixture
def books(database_url: str) -> Iterator[SqlLedger]:
    """A ledger of each kind of database, with the players p1 to p40."""
    with SqlLedger(database_url) as ledger:
        yield ledger


@contextmanager
def _with_players(url: str) -> Iterator[SqlLedger]:
    with SqlLedger(url) as ledger:
        for player in players(40):
            ledger.open_account(player)
        yield ledger


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unanswered is asked for again at once, and those who wait for others look often."""
    monkeypatch.setattr(granting, "AGAIN_MILLIS", 1)
    monkeypatch.setattr(granting, "LONGEST_AGAIN_MILLIS", 5)
