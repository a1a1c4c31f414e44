"""``game-operator ledger``: accounts, histories and the books of a ledger, for an operator's staff."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from game_operator.cli.commands.anomalies import COLUMNS as ANOMALY_COLUMNS
from game_operator.cli.commands.anomalies import anomaly_document
from game_operator.cli.database import DATABASE, LedgerOptions, address_of, check_file, check_source
from game_operator.cli.errors import ExitCode
from game_operator.cli.files import check_writable, is_written
from game_operator.cli.options import (
    AmountArgument,
    Commands,
    Limit,
    Moment,
    OnlySource,
    Player,
    Source,
    check_between,
    checked_values,
    comma_separated,
    source_in,
)
from game_operator.cli.output import (
    answer,
    answer_list,
    counted,
    remark,
    say,
    show_kinds,
    waiting,
)
from game_operator.codes import BetState
from game_operator.errors import ConfigurationError, one_line, shown
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.ledger import BetRecord, TotalsClose, TotalsReport, TotalsRow
    from game_operator.ledger.books.verify import Finding


ledgers: Commands = Commands(
    name="ledger", help="Examine a ledger, and correct it: accounts, bets, anomalies, and whether the books agree."
)

PlayerArgument = Annotated[str, typer.Argument(metavar="PLAYER", help="The account, which is the player's id.")]

# An amount such as -20.00 begins like an option.
_WITH_NEGATIVE_AMOUNTS = {"ignore_unknown_options": True}
_DAY_MILLIS: Final = 86_400_000
#: How long a migration waits for locks.
_MIGRATION_SECONDS = 60.0
_MAINTAINED: Final = {
    "": "finished read sealed read_again closed_before",
    "dropped": "day postings cents file sha256",
    "kept": "day reason",
}
_BET: Final = (
    "bet_id state player_id account wager_cents won_cents opened_at_millis settled_at_millis action game instance_id "
    "round_id source"
)
_MOVEMENTS: Final = "at_millis operation tx_id bet_id account delta_cents"
_HISTORY: Final = {
    "bet": _BET,
    "calls": "at_millis operation tx_id action amount_cents code balance_cents",
    "movements": _MOVEMENTS,
    "anomalies": ANOMALY_COLUMNS,
}
_ACCOUNT: Final = {"": "player_id balance at_millis", "open_bets": _BET, "movements": _MOVEMENTS}
_BETS: Final = "opened_at_millis bet_id state player_id account wager_cents won_cents game round_id source"
_BOOKS: Final = {
    "": "accounts balances house bets calls postings checkpoint_millis dropped_before_millis",
    "notes": "kind detail",
}


def _balance(player: str, cents: int | None) -> dict[str, object]:
    balance = None if cents is None else amount_from_cents(cents)
    return {"player_id": player, "balance": balance, "balance_cents": cents}


def _bet(bet: "BetRecord") -> dict[str, Any]:
    digest = bet.withdraw_digest
    return bet._asdict() | {"state": bet.state.value, "withdraw_digest": digest.hex() if digest else None}


@ledgers.command("open", context_settings=_WITH_NEGATIVE_AMOUNTS)
def open_(*, player: PlayerArgument, amount: AmountArgument = Decimal(0), place: LedgerOptions) -> None:
    """Open an account. The tables, and the file of SQLite, are made if they are not there."""
    from game_operator.ledger.accounts.choice import check_own

    check_own(place.accounts(), "open")  # Before any tables are made.
    with place.opened(make=True) as ledger, checked_values():
        cents = ledger.open_account(player, amount)
    answer(_balance(player, cents), f"{player} holds {amount_from_cents(cents)}.")


@ledgers.command(context_settings=_WITH_NEGATIVE_AMOUNTS)
def adjust(*, player: PlayerArgument, amount: AmountArgument, reference: str, place: LedgerOptions) -> None:
    """Move money from outside games: a payment, a cash-out, a correction. Never below zero."""
    from game_operator.ledger.office import Office

    if not amount:
        raise typer.BadParameter("An adjustment by 0 moves nothing, and would use up its reference.")
    with place.opened() as ledger, checked_values():
        done = Office(ledger).adjust(player, amount, reference=reference)
    known = "" if done.applied else "This reference was known, nothing was moved: "
    sentence = f"{known}{player} holds {amount_from_cents(done.balance_cents)}."
    answer(_balance(player, done.balance_cents) | {"applied": done.applied}, sentence)


@ledgers.command()
def show(
    *,
    bet_id: Annotated[str | None, typer.Argument()] = None,
    player: Player = None,
    limit: Limit = 50,
    source: Source = "",
    place: LedgerOptions,
) -> int:
    """
    Show all that is known of a bet, or with --player an account and its latest movements.

    The exit code is 1 for a bet that nothing ever named.
    """
    if (bet_id is None) == (player is None):
        raise typer.BadParameter("Name a bet, or pass --player for an account: one of the two.")
    with place.opened() as ledger:
        if bet_id is None:
            assert player is not None
            with checked_values():
                account = ledger.account_history(player, most=limit)
            cents = account.balance_cents if place.accounts() is None else ledger.balance(player)
            elsewhere = ["The balance is in your own table."] if cents is None else []
            document = _balance(account.account, cents) | {
                "at_millis": account.at_millis,
                "open_bets": list(map(_bet, account.open_bets)),
                "movements": account.movements,
            }
            answer(document, *elsewhere, view=_ACCOUNT)
            return ExitCode.FINE
        history = ledger.history(bet_id, source=source)
    bet, found = history.bet and _bet(history.bet), list(map(anomaly_document, history.anomalies))
    sentences = [] if bet else [f"The bet {shown(bet_id)} is not there."]
    if history.is_unknown:
        sentences.append("No call names it. If it is of a source, add --source. For a player, pass --player.")
    answer({"bet_id": bet_id} | history._asdict() | {"bet": bet, "anomalies": found}, *sentences, view=_HISTORY)
    return ExitCode.SAID_NO if history.is_unknown else ExitCode.FINE


@ledgers.command()
def bets(
    *,
    state: BetState | None = None,
    player: Player = None,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = 50,
    source: OnlySource = None,
    place: LedgerOptions,
) -> None:
    """List bets, the oldest first. Ask the provider about bets that stay open."""
    from game_operator.ledger.office import Office
    from game_operator.ledger.staff.queries import BetsWanted

    check_between(since, until)
    wanted = BetsWanted(source, since, until, state, player)
    with place.opened() as ledger:
        found = Office(ledger).oldest_bets(wanted, limit + 1)
    answer_list("bets", list(map(_bet, found)), limit, _BETS)


@ledgers.command()
def verify(*, full: bool = False, place: LedgerOptions) -> int:
    """
    Check the books: balances, postings, calls and bets must agree.

    It compares all balances, and reads what came after the last checkpoint of maintain; with --full, or without a
    checkpoint, everything. Calls go on meanwhile. The exit code is 1 with findings.
    """
    with place.opened() as ledger, waiting("Checking the books …"):
        report = ledger.verify(full=full)
    balances, house = amount_from_cents(report.balances_cents), amount_from_cents(report.house_cents)
    document = report._asdict() | {"sound": report.sound, "balances": balances, "house": house}
    answer(document, view=_BOOKS)
    _show_verdict(report.findings)
    return ExitCode.FINE if report.sound else ExitCode.SAID_NO


def _show_verdict(findings: "tuple[Finding, ...]") -> None:
    show_kinds(findings, "bet_id", "tx_id", "account")
    what = f'{counted(len(findings), "finding")}. docs/how-to/runbook.md, "verify finds something", says what to do'
    say(f"✗ The books are not sound: {what}." if findings else "✓ The books are sound.")


@ledgers.command()
def maintain(
    *,
    seconds: Annotated[float, typer.Option(min=1.0)] = 300.0,
    drop_after: Annotated[int | None, typer.Option(min=90, max=36_500)] = None,
    archive: Annotated[Path | None, typer.Option(exists=True, file_okay=False, writable=True)] = None,
    place: LedgerOptions,
) -> int:
    """
    Do what a ledger needs each night, in bounded time: for cron, beside calls.

    It closes days for totals, checks what is new, reads a part again, and renews statistics. It drops nothing unless
    --drop-after is given. The next run goes on where this one stops. The exit code is 1 with findings.
    """
    if archive is not None and drop_after is None:
        raise typer.BadParameter("--archive is for what is dropped. Pass --drop-after, too. Nothing was done.")
    age = None if drop_after is None else timedelta(days=drop_after)
    with place.opened() as ledger, waiting("Maintaining the ledger …"):
        try:
            report = ledger.maintain(seconds=seconds, drop_after=age, archive=archive)
        except ValueError as wrong:
            raise typer.BadParameter(str(wrong)) from None
        except OSError as failed:  # Only files of the archive are written.
            raise ConfigurationError(
                f"{shown(failed.filename)} cannot be written: {failed.strerror}. The day was not dropped.",
                remedy="Make room, or pass another folder to --archive.",
            ) from None
    answer(report._asdict() | {"sound": report.sound}, view=_MAINTAINED)
    _show_verdict(report.findings)
    return ExitCode.FINE if report.sound else ExitCode.SAID_NO


@ledgers.command("correct-time")
def correct_time(player: PlayerArgument, place: LedgerOptions) -> None:
    """
    Bring back the time of an account that a wrong clock has left in the future.

    First set the clock right and restart the wallet's processes, or the next call leaves it there again.
    """
    with place.opened() as ledger:
        done = ledger.correct_time(player)
    answer(done._asdict(), view={"": " ".join(done._fields)})


@ledgers.command()
def sources(place: LedgerOptions) -> None:
    """List the services and environments whose calls the ledger takes, the oldest first."""
    with place.opened() as ledger:
        names = ledger.sources()
    nothing = "The ledger knows no source yet: the first withdraw, deposit or rollback registers its own."
    answer({"sources": _named(names)}, *([] if names else [nothing]), view={"sources": "name"})


def _named(names: list[str]) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


@ledgers.command("add-source")
def add_source(name: Annotated[str, typer.Argument(callback=source_in)], place: LedgerOptions) -> None:
    """
    Take calls of another source, permanently.

    Not for a new name of a service that has open bets: their deposits and rollbacks would not find them.
    """
    with place.opened() as ledger:
        known = ledger.sources()
        ledger.add_source(name)
    already = " already. Nothing was changed." if name in known else "."
    others = _named([each for each in known if each != name])
    answer(
        {"added": name, "others": others}, f"The ledger takes calls of {shown(name)}{already}", view={"others": "name"}
    )


@ledgers.command("stop-bets")
def stop_bets(*, actor: str, reason: str, code: str = "LIMIT_EXCEEDED", place: LedgerOptions) -> None:
    """
    Refuse every new bet, in all processes and at once: for an incident.

    Wins, refunds and free bets are still paid. Bets that are refused meanwhile stay declined. start-bets ends it.
    """
    with place.opened() as ledger, checked_values():
        stop = ledger.stop_bets(actor=actor, reason=reason, code=code)
    answer({"stopped": stop._asdict()}, f"Bets are stopped: a new one is answered {stop.code}.")


@ledgers.command("start-bets")
def start_bets(*, actor: str, reason: str, place: LedgerOptions) -> None:
    """Take bets again after stop-bets."""
    with place.opened() as ledger:
        ended = ledger.start_bets(actor=actor, reason=reason)
    sentence = (
        "Bets are taken." if ended is None else f"Bets are taken again; {one_line(ended.actor)} had stopped them."
    )
    answer({"ended": None if ended is None else ended._asdict()}, sentence)


@ledgers.command()
def migrate(*, place: LedgerOptions) -> None:
    """
    Make the tables, or migrate them to this program's version, while programs that run go on.

    It waits up to a minute for locks, and for a server that does not answer.

    If a wallet has served from your own table of balances, it is looked at, too.
    """
    from game_operator.ledger.engine.tables import VERSION
    from game_operator.ledger.office import Office

    # New tables are not yet known to go with a table of the operator's: the wallet that serves says so.
    with place.opened(migrate=True, accounts=None, patience_seconds=_MIGRATION_SECONDS) as ledger:
        has_served = Office(ledger).are_balances_elsewhere()
    if has_served:
        with place.opened():
            pass
    answer({"version": VERSION}, f"The tables {place.table_prefix}* have version {VERSION}.")


@ledgers.command()
def schema(
    *,
    sql: bool = False,
    grants: str | None = None,
    dialect: Literal["sqlite", "postgres"] | None = None,
    place: LedgerOptions,
) -> None:
    """
    Print the version of the tables, or with --sql the statements that make or migrate them. It changes nothing.

    The statements begin at the version that the tables have. With --dialect no database is asked.
    """
    from game_operator.ledger.engine.tables import VERSION, schema_sql
    from game_operator.ledger.staff.queries import tables_at

    if not sql and grants is not None:
        raise typer.BadParameter("--grants says which statements to print. Pass --sql too.")
    if dialect is not None and place.database:
        raise typer.BadParameter("--dialect asks no database. Pass --dialect or --database.")
    kind, version = dialect, 0
    if kind is None:
        address = address_of(place.database, f"Pass --dialect, or --database, or set {DATABASE}.")
        check_file(address, "Check the path, or pass --dialect sqlite.")
        kind, version = tables_at(address, place.table_prefix)
    if grants is not None and kind == "sqlite":
        raise typer.BadParameter("--grants names a role of PostgreSQL. SQLite has no roles.")
    if dialect is not None and not sql:
        answer({"dialect": kind, "to": VERSION}, f"This program needs version {VERSION}.")
        return
    document: dict[str, object] = {"dialect": kind, "from": version, "to": VERSION}
    if not sql:
        has = f"have version {version}" if version else "do not exist"
        answer(document, f"The tables {place.table_prefix}* {has}, and this program needs version {VERSION}.")
        return
    statements = schema_sql(kind, place.table_prefix, after=version, role=grants)
    answer(document | {"statements": statements})
    for line in statements.splitlines():
        say(line)
    if not statements:
        remark(f"The tables {place.table_prefix}* have version {version} already.")


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
    csv: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    place: LedgerOptions,
) -> int:
    """
    Sum up what moved: wagers, wins, refunds and all other money, by UTC day, game, instance and currency.

    With --close it first stores the totals of finished days for good. Run that once a day.
    """
    from game_operator.backoffice.exports import totals_csv
    from game_operator.ledger.books.totals import DIMENSIONS

    if since is not None and until is not None and until < since:
        raise typer.BadParameter("The day of --to is before that of --from.")
    if unknown := [name for name in by or () if name not in DIMENSIONS]:
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(DIMENSIONS)}.")
    if csv is not None:
        check_writable("--csv", csv, ".csv", may_be_device=True)
    end = None if until is None else until + _DAY_MILLIS
    with place.opened() as ledger:
        if source is not None:
            check_source(ledger, source)
        closed = ledger.close_totals() if close else None
        report = ledger.totals(since_millis=since, until_millis=end, by=by or DIMENSIONS, source=source)
    is_fine = csv is None or is_written(csv, "".join(totals_csv(report)), "report")
    _show_totals(report, closed)
    return ExitCode.FINE if is_fine else ExitCode.UNWRITABLE


def _show_totals(report: "TotalsReport", closed: "TotalsClose | None") -> None:
    from game_operator.ledger.books.totals import KINDS

    rows, sums = ([_totals_row(each) for each in listed] for listed in (report.rows, report.by_currency()))
    # Of the kinds people see those that there are.
    kinds = [f"{kind}_cents" for kind in KINDS if any(row[kind] for row in rows)]
    amounts = " ".join([*kinds, "gross_gaming_revenue_cents"])
    view = {
        "closed": "closed_before postings late",
        "": "complete_since",
        "rows": f"{' '.join(name for name in report.by if name != 'currency')} currency late {amounts}",
        "by_currency": f"currency {amounts}",
    }
    nothing = [] if rows else ["Nothing moved in that time."]
    document = report._asdict() | {"rows": rows, "by_currency": sums, "closed": closed}
    answer(document, *nothing, view=view)


def _totals_row(row: "TotalsRow") -> dict[str, Any]:
    more = {"gross_gaming_revenue_cents": row.gross_gaming_revenue_cents, "postings": row.postings}
    return row._asdict() | more
