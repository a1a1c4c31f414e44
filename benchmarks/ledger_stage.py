"""What the ledger's benchmarks stand on: a PostgreSQL that commits to the disk, an SQLite file, players, and checks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from game_operator.ledger import SqlLedger
from tests.support.filled_books import PREFIX, connected
from tests.support.postgres import PostgresServer

__all__ = ["check_books", "open_bets", "players_of", "running_postgres", "sqlite_file"]

#: Room for a million calls, and no checkpoint in the middle of a turn, whoever's turn it is.
_SETTINGS = {"max_wal_size": "8GB", "checkpoint_timeout": "1h", "shared_buffers": "512MB"}


def players_of(*, quick: bool) -> int:
    """Return how many players "many" are."""
    return 100 if quick else 10_000


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Start a server that commits to the disk."""
    with PostgresServer(durable=True, settings=_SETTINGS) as server:
        yield server


@contextmanager
def sqlite_file() -> Iterator[str]:
    """Yield the address of an SQLite file that is not there yet."""
    with TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'wallet.db'}"


def open_bets(url: str) -> int:
    """Return how many withdraws have debited so far."""
    with connected(url) as connection:
        found: tuple[int] = connection.execute(f"SELECT count(*) FROM {PREFIX}bets WHERE state = 'OPEN'").fetchone()
    return found[0]


def check_books(url: str) -> None:
    """
    Verify the books in full.

    Raises:
        RuntimeError: They are not sound.
    """
    with SqlLedger(url) as ledger:
        if findings := ledger.verify(full=True).findings:
            raise RuntimeError(f"the books are not sound: {findings[:3]}")
