"""A ledger's files in SQLite: who may read them, as they name every player, and how the log comes into the file."""

import contextlib
import os
import sqlite3
import stat
from decimal import Decimal
from pathlib import Path

import pytest

from game_operator.ledger import SqlLedger
from tests.support.ledgers import store_of
from tests.support.raw_sql import path_in

NAMES = ("wallet.db", "wallet.db-shm", "wallet.db-wal")


def modes(folder: Path) -> dict[str, str]:
    """Return the modes of all files in *folder* while a ledger has them open."""
    return {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in sorted(folder.iterdir())}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=oct)
def test_the_files_of_a_new_ledger_are_its_owners_alone(tmp_path: Path, umask: int) -> None:
    """The database, its log and its index, whatever the umask, which stays as it is; and nothing else is left."""
    before = os.umask(umask)
    try:
        with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as ledger:
            ledger.open_account("p1", Decimal("1.00"))
            assert modes(tmp_path) == dict.fromkeys(NAMES, "0o600")
    finally:
        assert os.umask(before) == umask


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    """A group that was let in stays in."""
    (tmp_path / "wallet.db").touch()
    (tmp_path / "wallet.db").chmod(0o640)
    with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as ledger:
        ledger.open_account("p1", Decimal("1.00"))
        assert modes(tmp_path) == dict.fromkeys(NAMES, "0o640")


# --- statistics -------------------------------------------------------------------------------------------------------


def test_statistics_beside_a_writer_are_left_to_the_next_run(sqlite_url: str) -> None:
    """Nothing fails, and calls go on."""
    with (
        SqlLedger(sqlite_url, patience_seconds=0.1) as ledger,
        contextlib.closing(sqlite3.connect(path_in(sqlite_url))) as writer,
    ):
        writer.execute("BEGIN IMMEDIATE")
        store_of(ledger).tidy()
        writer.rollback()
        ledger.open_account("p1", Decimal(1))
