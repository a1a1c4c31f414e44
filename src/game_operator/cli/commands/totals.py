"""``game-operator ledger totals``: what moved by day, game, instance and currency, and the close of finished days."""

import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from game_operator.cli.database import LedgerOptions
from game_operator.cli.errors import ExitCode
from game_operator.cli.files import ReportFiles
from game_operator.cli.options import Moment, OnlySource, comma_separated
from game_operator.cli.output import show_rows, wants_json
from game_operator.cli.own_wallet import check_source
from game_operator.cli.render import answer

if TYPE_CHECKING:
    from game_operator.ledger import SqlLedger, TotalsClose, TotalsReport

_DAY_MILLIS: Final = 86_400_000
_STDOUT: Final = Path("-")


def day_in(text: str | int) -> int:
    """Return the beginning of a UTC day such as 2026-11-23, in Unix milliseconds."""
    if isinstance(text, int):
        return text
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day: write it as 2026-11-23. Days are UTC's.") from None
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000


def totals(
    *,
    since: Annotated[int | None, typer.Option("--from", parser=day_in, metavar="DAY")] = None,
    until: Annotated[int | None, typer.Option("--to", parser=day_in, metavar="DAY")] = None,
    by: Annotated[list[str] | None, typer.Option(callback=comma_separated)] = None,
    source: OnlySource = None,
    close: bool = False,
    now: Moment = None,
    files: ReportFiles,
    place: LedgerOptions,
) -> int:
    """
    Sum up what moved: wagers, wins, refunds and all other money, by UTC day, game, instance and currency.

    With --close it first stores the totals of finished days for good. Run that once a day.
    """
    from game_operator.backoffice.totals import totals_csv, totals_html
    from game_operator.ledger.books.totals import DIMENSIONS

    is_printed = files.csv == _STDOUT
    if is_printed and wants_json():
        raise typer.BadParameter("--json and --csv - would both write to standard output. Pass a file to --csv.")
    if now is not None and not close:
        raise typer.BadParameter("--now says what time it is for --close.")
    if since is not None and until is not None and until < since:
        raise typer.BadParameter("The day of --to is before that of --from.")
    if unknown := [name for name in by or () if name not in DIMENSIONS]:
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(DIMENSIONS)}.")
    if is_printed:
        files = ReportFiles(html=files.html)
    files.check()
    end = None if until is None else until + _DAY_MILLIS
    with place.opened() as ledger:
        if now is not None:
            _check_over(ledger, now)
        if source is not None:
            check_source(ledger, source)
        closed = ledger.close_totals(now_millis=now) if close else None
        report = ledger.totals(since_millis=since, until_millis=end, by=by or DIMENSIONS, source=source)
    is_fine = files.are_written(lambda: totals_html(report), lambda: "".join(totals_csv(report)))
    if is_printed:
        for line in totals_csv(report):
            sys.stdout.write(line.replace("\r\n", "\n"))
    else:
        _show(report, closed)
    return ExitCode.FINE if is_fine else ExitCode.UNWRITABLE


def _check_over(ledger: "SqlLedger", now: int) -> None:
    """Raise BadParameter if *now* closes a day that is not over: nothing opens it again. Postings show a slow clock."""
    if now // _DAY_MILLIS <= time.time_ns() // 1_000_000 // _DAY_MILLIS:
        return
    day = datetime.fromtimestamp(now // 1_000, UTC).date().isoformat()
    if day > max((row.day or "" for row in ledger.totals(by=("day",)).rows), default=""):
        raise typer.BadParameter(
            f"--now is on {day}, which is in the future. Days that are not over would be closed for good. Pass a "
            "time that is not in the future, or correct the clock of this machine."
        )


def _show(report: "TotalsReport", closed: "TotalsClose | None") -> None:
    from game_operator.backoffice.totals import headings, lines

    rows = [
        row._asdict() | {"gross_gaming_revenue_cents": row.gross_gaming_revenue_cents, "postings": row.postings}
        for row in report.rows
    ]
    document = report._asdict() | {"rows": rows, "closed": closed}
    nothing = [] if rows else ["Nothing moved in that time."]
    answer(document, *nothing, view={"closed": "closed_before postings late", "": "complete_since"})
    if rows:
        names = headings(report)
        texts = len(report.by) + ("currency" not in report.by)
        show_rows("Totals in UTC days; in brackets the number of postings", names, lines(report), numbers=names[texts:])
