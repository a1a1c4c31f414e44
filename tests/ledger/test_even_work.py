"""What work on the books costs: as much for each bet of large books as of small ones, or as much as what is new."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks.books_filled import fill_books

from game_operator.ledger import SqlLedger
from game_operator.ledger.books import verify, whole_books
from tests.support.calls import withdraw
from tests.support.leftovers import assert_idle
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import is_sqlite, rows

pytestmark = pytest.mark.outside

_SMALL, _LARGE = 2_000, 8_000
_PLAYERS: Final = 50
_PAGE: Final = 100
#: Indexes are deeper in large books, and a last page may be short.
_MOST_TIMES: Final = 1.3
_ROWS_READ: Final = (
    "SELECT (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables) + "
    "(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)"
)


def _verify(ledger: SqlLedger, *, full: bool = False) -> None:
    assert ledger.verify(full=full).sound


def _maintain(ledger: SqlLedger) -> None:
    report = ledger.maintain(seconds=600)
    assert (report.finished, report.findings) == (True, ())


#: What is done, one after the other, and whether it reads all there is; else it reads what is new.
WORKS: Final[dict[str, tuple[Callable[[SqlLedger], object], bool]]] = {
    "verify --full": (lambda ledger: _verify(ledger, full=True), True),
    "the first maintain": (_maintain, True),
    "an idle prune": (lambda ledger: ledger.prune(timedelta(days=90)), False),
    "verify": (_verify, False),
}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_work_grows_evenly(kind: str, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the bets take four times the steps, where all are read, and as many where what is new is read."""
    for module, names in ((verify, ("_ACCOUNTS", "_POSTINGS", "_BETS")), (whole_books, ("_SLICES", "_POSTINGS"))):
        for name in names:
            monkeypatch.setattr(module, name, _PAGE)
    small, large = (
        _steps_of_works(f"sqlite:///{tmp_path}/{bets}.db" if kind == "sqlite" else postgres.create_database(), bets)
        for bets in (_SMALL, _LARGE)
    )
    for work, (_, reads_all) in WORKS.items():
        times = large[work] / small[work] / (_LARGE / _SMALL if reads_all else 1)
        assert times <= _MOST_TIMES, (work, small, large)


def _steps_of_works(url: str, bets: int) -> dict[str, int]:
    fill_books(url, bets, players=_PLAYERS)
    steps = {}
    for name, (work, _) in WORKS.items():
        if name == "verify":
            with SqlLedger(url) as ledger:
                for number in range(200):
                    assert ledger.apply(withdraw(f"new{number}", player_id=f"p{1 + number % _PLAYERS}")).applied
        with _counted(url) as count, SqlLedger(url) as ledger:
            work(ledger)
        steps[name] = count()
    return steps


@contextmanager
def _counted(url: str) -> Iterator[Callable[[], int]]:
    """Count what is done with the database in the meantime: hundreds of steps of SQLite, rows that PostgreSQL reads."""
    if not is_sqlite(url):
        before = _rows_read(url)
        yield lambda: _rows_read(url) - before
        return
    steps = 0
    connect = sqlite3.connect

    def step() -> None:
        nonlocal steps
        steps += 1

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_progress_handler(step, 100)
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", counting)
        yield lambda: steps


def _rows_read(url: str) -> int:
    assert_idle(url)  # A session tells what it has read when it ends.
    return int(rows(url, _ROWS_READ)[0][0] or 0)
