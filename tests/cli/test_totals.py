"""`game-operator ledger totals`: tables, JSON and CSV, and the close of finished days."""

import csv
import os
import re
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from game_operator.ledger import SqlLedger, Terms
from tests.support.calls import deposit, withdraw
from tests.support.command_line import Run

NOON = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * 1_000
DAY = 86_400_000
HOSTILE = '=cmd|"/c calc"!A1<script>alert(1)</script>'


@pytest.fixture
def database(file: str) -> str:
    """A ledger in which money moved on 21 and 22 November 2026, the second day in two currencies."""
    now = [NOON]
    with SqlLedger(file, clock_millis=lambda: now[0]) as ledger:
        ledger.open_account("p1", Decimal(100))
        euros, dollars = (Terms(currency_of=lambda _, name=name: name) for name in ("EUR", "USD"))  # type: ignore[misc]
        ledger.apply(withdraw("b1", game="aviator"), terms=euros)
        ledger.apply(deposit("b1"), terms=euros)
        now[0] += DAY
        ledger.apply(withdraw("b2", game="aviator"), terms=euros)
        ledger.apply(withdraw("b3", game=HOSTILE), terms=dollars)
    return file


def test_a_table(run: Run, database: str) -> None:
    """Days, kinds that there are, and the sum of each currency."""
    told = run("ledger", "totals", "--by", "day,currency")
    assert told.code == 0
    lines = [re.sub(r"[\s│┃|]+", " ", line).strip() for line in told.out.splitlines()]
    assert "2026-11-21 EUR no 5.00 12.50 0.00 -7.50" in [line.strip() for line in lines]
    assert "2026-11-21 unknown no 0.00 0.00 100.00 0.00" in lines
    assert "2026-11-22 USD no 5.00 0.00 0.00 5.00" in lines
    assert "EUR 10.00 12.50 0.00 -2.50" in lines
    assert "RAIN" not in told.out


@pytest.mark.parametrize(
    ("options", "days"),
    [
        ([], ["2026-11-21", "2026-11-22"]),
        (["--from", "2026-11-22", "--to", "2026-11-22"], ["2026-11-22"]),
        (["--from", "2026-11-23"], []),
    ],
)
def test_days(run: Run, database: str, options: list[str], days: list[str]) -> None:
    """Both days are in the report."""
    document = run("ledger", "totals", *options, "--json").document
    assert sorted({row["day"] for row in document["rows"]}) == days
    assert document["closed"] is None


def test_close(run: Run, tmp_path: Path) -> None:
    """It stores finished days, once, and says so."""
    url, now = f"sqlite:///{tmp_path / 'lately.db'}", time.time_ns() // 1_000_000
    with SqlLedger(url, clock_millis=lambda: now - 2 * DAY) as ledger:
        ledger.open_account("p1", Decimal(100))
    first = run("ledger", "totals", "--close", "--database", url, "--json").document
    assert (first["closed"]["postings"], first["closed"]["late"]) == (1, 0)
    today = datetime.fromtimestamp(now // 1_000, UTC).date()
    assert first["closed"]["closed_before"] in (str(today), str(today + timedelta(days=1)))
    again = run("ledger", "totals", "--close", "--database", url)
    assert re.match(r"closed before  \S+\npostings       0\nlate           0\n", again.out)
    assert run("ledger", "totals", "--database", url, "--json").document["rows"] == first["rows"]


def test_csv(run: Run, database: str, tmp_path: Path) -> None:
    """It can be read back, numbers are numbers, and no text is a formula."""
    file = tmp_path / "totals.csv"
    assert run("ledger", "totals", "--csv", str(file)).code == 0
    with file.open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["game"] for row in rows if row["currency"] == "USD"] == ["'" + HOSTILE]
    assert [row["gross_gaming_revenue_cents"] for row in rows if row["currency"] == "EUR"] == ["-750", "500"]
    assert {row["late"] for row in rows} == {"no"}
    assert list(rows[0])[:5] == ["day", "game", "instance", "currency", "late"]


def test_a_file_that_cannot_be_written(run: Run, database: str, tmp_path: Path) -> None:
    """It is refused before anything is done; only what is called like a report is replaced."""
    told = run("ledger", "totals", "--csv", str(tmp_path / "missing" / "totals.csv"))
    assert (told.code, told.out) == (2, "")
    assert "there is no folder" in told.err
    for name, code in (("old.csv", 0), ("wallet.db", 2), ("notes.txt", 2)):
        file = tmp_path / name
        before = file.read_bytes() if file.exists() else b"before"
        file.write_bytes(before)
        told = run("ledger", "totals", "--csv", str(file))
        assert (told.code, file.read_bytes() == before) == (code, code == 2)
        assert code == 0 or "only a file whose name ends in .csv is overwritten" in told.err


def test_a_pipe_is_written_to_and_not_replaced(run: Run, database: str, tmp_path: Path) -> None:
    """As root, a file in the place of /dev/null or /dev/stdout would harm the whole machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("ledger", "totals", "--csv", str(pipe)).code == 0
        assert os.read(reader, 65_536).startswith(b"day,game,instance,currency,late")
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert run("ledger", "totals", "--csv", str(tmp_path)).code == 2
