"""`game-operator ledger totals`: tables, JSON, CSV and HTML, and the close of finished days."""

import csv
import io
import json
import os
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from game_operator.backoffice.totals import totals_csv, totals_html
from game_operator.ledger import SqlLedger, Terms, TotalsReport
from tests.support.calls import deposit, withdraw
from tests.support.command_line import Run

NOON = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * 1_000
DAY = 86_400_000
HOSTILE = '=cmd|"/c calc"!A1<script>alert(1)</script>'


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger in which money moved on 21 and 22 November 2026, the second day in two currencies."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", url)
    now = [NOON]
    with SqlLedger(url, clock_millis=lambda: now[0]) as ledger:
        ledger.open_account("p1", Decimal(100))
        euros, dollars = (Terms(currency_of=lambda _, name=name: name) for name in ("EUR", "USD"))  # type: ignore[misc]
        ledger.apply(withdraw("b1", game="aviator"), terms=euros)
        ledger.apply(deposit("b1"), terms=euros)
        now[0] += DAY
        ledger.apply(withdraw("b2", game="aviator"), terms=euros)
        ledger.apply(withdraw("b3", game=HOSTILE), terms=dollars)
    return url


def test_a_table(run: Run, database: str) -> None:
    """Days, kinds that there are, counts, and the sum of each currency."""
    told = run("ledger", "totals", "--by", "day,currency")
    assert told.code == 0
    lines = [re.sub(r"[\s│┃|]+", " ", line).strip() for line in told.out.splitlines()]
    assert "2026-11-21 EUR 5.00 (1) 12.50 (1) – -7.50" in lines
    assert "2026-11-21 unknown – – 100.00 (1) 0.00" in lines
    assert "2026-11-22 USD 5.00 (1) – – 5.00" in lines
    assert "all EUR 10.00 (2) 12.50 (1) – -2.50" in lines
    assert "RAIN" not in told.out


@pytest.mark.parametrize(
    ("options", "days"),
    [
        ([], ["2026-11-21", "2026-11-22"]),
        (["--from", "2026-11-22"], ["2026-11-22"]),
        (["--to", "2026-11-21"], ["2026-11-21"]),
        (["--from", "2026-11-22", "--to", "2026-11-22"], ["2026-11-22"]),
        (["--from", "2026-11-23"], []),
    ],
)
def test_days(run: Run, database: str, options: list[str], days: list[str]) -> None:
    """Both days are in the report."""
    document = run("ledger", "totals", *options, "--json").document
    assert sorted({row["day"] for row in document["rows"]}) == days
    assert document["closed"] is None


def test_close(run: Run, database: str) -> None:
    """It stores finished days, once, and says so; --now is for a ledger in which nothing happened for a month."""
    first = run("ledger", "totals", "--close", "--now", "2026-11-22T12:00", "--json").document
    assert first["closed"] == {"closed_before": "2026-11-22", "position": 5, "postings": 3, "late": 0}
    again = run("ledger", "totals", "--close", "--now", "2026-11-22T12:00")
    assert again.out.startswith("closed before  2026-11-22\npostings       0\nlate           0\n")
    assert run("ledger", "totals", "--json").document["rows"] == first["rows"]


def test_csv(run: Run, database: str, tmp_path: Path) -> None:
    """It can be read back, numbers are numbers, and no text is a formula; to a file or to standard output."""
    file = tmp_path / "totals.csv"
    assert run("ledger", "totals", "--csv", str(file)).code == 0
    with file.open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["game"] for row in rows if row["currency"] == "USD"] == ["'" + HOSTILE]
    assert [row["gross_gaming_revenue_cents"] for row in rows if row["currency"] == "EUR"] == ["-750", "500"]
    assert {row["late"] for row in rows} == {"no"}
    assert list(rows[0])[:5] == ["day", "game", "instance", "currency", "late"]
    told = run("ledger", "totals", "--csv", "-")
    assert list(csv.DictReader(io.StringIO(told.out))) == rows


def test_html(run: Run, database: str, tmp_path: Path) -> None:
    """One page: nothing that runs, nothing that is loaded."""
    file = tmp_path / "totals.html"
    assert run("ledger", "totals", "--html", str(file)).code == 0
    page = file.read_text(encoding="utf-8")
    assert "2026-11-22" in page
    assert "-2.50" in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(src|href)=", page)


def test_a_report_of_nothing() -> None:
    """It has the names of columns, and no chart."""
    empty = TotalsReport((), ("day",), None, None, None, None)
    assert len(list(totals_csv(empty))) == 1
    assert "Nothing moved in that time." in totals_html(empty)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--from", "yesterday"], "is not a day"),
        (["--from", "2026-11-22", "--to", "2026-11-21"], "before that of --from"),
        (["--by", "days"], "is not one of day, game, instance, currency"),
        (["--now", "2026-11-22"], "--now says what time it is for --close"),
        (["--close", "--now", "2999-11-22"], "which is in the future"),
    ],
)
def test_wrong_options(run: Run, database: str, options: list[str], problem: str) -> None:
    """They are exit code 2, in words."""
    told = run("ledger", "totals", *options)
    assert told.code == 2
    assert problem in " ".join(told.err.replace("│", " ").split())


def test_a_close_in_the_future_closes_nothing(run: Run, database: str) -> None:
    """Neither a year that is mistyped nor the day after the newest posting; that posting's own day may begin."""
    for now in ("2999-11-22", "2998-01-01T12:00"):
        assert run("ledger", "totals", "--close", "--now", now).code == 2
    assert run("ledger", "totals", "--json").document["closed_before"] is None
    assert run("ledger", "totals", "--close", "--now", "2026-11-22", "--json").document["closed_before"] == "2026-11-22"


@pytest.mark.parametrize(("option", "ending"), [("--csv", ".csv"), ("--html", ".html")])
def test_a_file_that_cannot_be_written(run: Run, database: str, tmp_path: Path, option: str, ending: str) -> None:
    """It is refused before anything is done; only what is called like a report is replaced."""
    told = run("ledger", "totals", option, str(tmp_path / "missing" / f"totals{ending}"))
    assert (told.code, told.out) == (2, "")
    assert "there is no folder" in told.err
    for name, code in ((f"old{ending}", 0), ("wallet.db", 2), ("notes.txt", 2)):
        file = tmp_path / name
        before = file.read_bytes() if file.exists() else b"before"
        file.write_bytes(before)
        told = run("ledger", "totals", option, str(file))
        assert (told.code, file.read_bytes() == before) == (code, code == 2)
        assert code == 0 or f"only a file whose name ends in {ending} is overwritten" in told.err


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


def test_an_unknown_source(run: Run, database: str) -> None:
    """It is a typing mistake, and would look as if nothing had moved."""
    told = run("ledger", "totals", "--source", "nosuch")
    assert (told.code, told.out) == (2, "")
    assert "does not know the source 'nosuch'" in told.err


def test_two_documents_on_one_stream(run: Run, database: str) -> None:
    """JSON and CSV cannot both be on standard output."""
    told = run("ledger", "totals", "--csv", "-", "--json")
    assert told.code == 2
    assert "Pass a file to --csv" in json.loads(told.out)["error"]["message"]
