"""What work on the books costs: as much for each bet of large books as of small ones, or as much as what is new."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from game_operator.ledger import SqlLedger
from game_operator.ledger.books import verify, whole_books
from tests.support.calls import withdraw
from tests.support.filled_books import fill_books

pytestmark = pytest.mark.outside

_SMALL, _LARGE = 600, 2_400
_PLAYERS: Final = 50
_PAGE: Final = 100
#: Indexes are deeper in large books, a last page may be short, and a little is done for each day.
_MOST_TIMES, _DAYS_HUNDREDS = 1.3, 20


def _verify(ledger: SqlLedger, *, full: bool = False) -> None:
    assert ledger.verify(full=full).sound


def _maintain(ledger: SqlLedger) -> None:
    report = ledger.maintain(seconds=600)
    assert (report.finished, report.findings) == (True, ())


#: What is done, one after the other, and whether it reads all there is; else it reads what is new.
WORKS: Final[dict[str, tuple[Callable[[SqlLedger], object], bool]]] = {
    "verify --full": (lambda ledger: _verify(ledger, full=True), True),
    "the first maintain": (_maintain, True),
    "verify": (_verify, False),
}


def test_work_grows_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Four times the bets take four times the steps where all are read, and as many where what is new is read.

    The pages are small: one that reads more than what is its own shows. PostgreSQL reads small tables as a whole, so
    benchmarks.growth shows the same of it, with large ones.
    """
    for module, names in ((verify, ("_ACCOUNTS", "_POSTINGS", "_BETS")), (whole_books, ("_SLICES", "_POSTINGS"))):
        for name in names:
            monkeypatch.setattr(module, name, _PAGE)
    small, large = (_hundreds_of_steps(f"sqlite:///{tmp_path}/{bets}.db", bets) for bets in (_SMALL, _LARGE))
    for work, (_, reads_all) in WORKS.items():
        expected = small[work] * (_LARGE / _SMALL if reads_all else 1)
        assert large[work] <= expected * _MOST_TIMES + _DAYS_HUNDREDS, (work, small, large)


def _hundreds_of_steps(url: str, bets: int) -> dict[str, int]:
    fill_books(url, bets, players=_PLAYERS)
    steps = {}
    for name, (work, _) in WORKS.items():
        with SqlLedger(url) as ledger:
            for number in range(200 if name == "verify" else 0):
                assert ledger.apply(withdraw(f"new{number}", player_id=f"p{1 + number % _PLAYERS}")).applied
        with _counted() as count, SqlLedger(url) as ledger:
            work(ledger)
        steps[name] = count()
    return steps


@contextmanager
def _counted() -> Iterator[Callable[[], int]]:
    """Count the steps of SQLite on the connections that are opened in the meantime."""
    steps = 0
    connect = sqlite3.connect

    def step() -> None:
        nonlocal steps
        steps += 1

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_progress_handler(step, 100)
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", counting)
        yield lambda: steps
