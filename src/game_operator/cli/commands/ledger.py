"""``game-operator ledger``: accounts, histories and the books of a ledger, for an operator's staff."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.database import LedgerOptions
from game_operator.cli.errors import ExitCode
from game_operator.cli.options import AmountArgument, Commands, Moment, OnlySource, Source, check_between, source_in
from game_operator.cli.output import answer, say, show_rows, waiting, when
from game_operator.cli.reports.ledger import (
    MORE,
    balance_document,
    bet_document,
    show_account,
    show_bet,
    show_bets,
    show_books,
    show_maintenance,
)
from game_operator.codes import BetState
from game_operator.errors import AccountNotFoundError, ConfigurationError, one_line, shown
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.ledger import AccountHistory, SqlLedger, TableAccounts

ledgers: Commands = Commands(
    name="ledger", help="Examine a ledger, and correct it: accounts, bets, anomalies, and whether the books agree."
)

Player = Annotated[str, typer.Argument(metavar="PLAYER", help="The account, which is the player's id.")]

# An amount such as -20.00 begins like an option.
_WITH_NEGATIVE_AMOUNTS = {"ignore_unknown_options": True}
#: How long a migration waits for locks.
_MIGRATION_SECONDS = 60.0
#: How far this machine's clock may be ahead of a server's.
#: As far as open bets are counted.
_MOST_BETS = 1_000


@contextmanager
def _checked_values() -> Iterator[None]:
    try:
        yield
    except ValueError as wrong:  # An id, an amount or a name that no ledger can have.
        raise typer.BadParameter(f"{wrong}.") from None


@ledgers.command("open", context_settings=_WITH_NEGATIVE_AMOUNTS)
def open_(*, player: Player, amount: AmountArgument = Decimal(0), place: LedgerOptions) -> None:
    """Open an account. The tables, and the file of SQLite, are made if they are not there."""
    from game_operator.ledger.accounts.choice import check_own

    check_own(place.accounts(), "open")  # Before any tables are made.
    with place.opened(make=True) as ledger, _checked_values():
        cents = ledger.open_account(player, amount)
    answer(balance_document(player, cents), f"{player} holds {amount_from_cents(cents)}.")


@ledgers.command(context_settings=_WITH_NEGATIVE_AMOUNTS)
def adjust(*, player: Player, amount: AmountArgument, reference: str, place: LedgerOptions) -> None:
    """Move money from outside games: a payment, a cash-out, a correction. Never below zero."""
    from game_operator.ledger.sql import adjusted

    if not amount:
        raise typer.BadParameter("An adjustment by 0 moves nothing, and would use up its reference.")
    with place.opened() as ledger, _checked_values():
        done = adjusted(ledger, player, amount, reference=reference)
    known = "" if done.applied else "This reference was known, nothing was moved: "
    sentence = f"{known}{player} holds {amount_from_cents(done.balance_cents)}."
    answer(balance_document(player, done.balance_cents) | {"applied": done.applied}, sentence)


@ledgers.command()
def show(
    *,
    bet_id: Annotated[str | None, typer.Argument()] = None,
    player: Annotated[str | None, typer.Option("--player", "--player-id")] = None,
    most: Annotated[int, typer.Option("--most", "--limit", min=1)] = 50,
    before: str | None = None,
    source: Source = "",
    place: LedgerOptions,
) -> int:
    """
    Show all that is known of a bet, or with --player an account and its latest movements.

    What came before the movements shown is listed with --before. The exit code is 1 for a bet that nothing ever named.
    """
    if (bet_id is None) == (player is None):
        raise typer.BadParameter("Name a bet, or pass --player for an account: one of the two.")
    if before is not None and player is None:
        raise typer.BadParameter("--before goes with --player.")
    with place.opened() as ledger:
        if bet_id is None:
            assert player is not None
            with _checked_values():
                show_account(_account(ledger, player, most, before, place.accounts()))
            return ExitCode.FINE
        history = ledger.history(bet_id, source=source)
    show_bet(bet_id, history)
    return ExitCode.SAID_NO if history.is_unknown else ExitCode.FINE


def _account(
    ledger: "SqlLedger", player: str, most: int, before: str | None, accounts: "TableAccounts | None"
) -> "AccountHistory":
    """Return the history of an account, with its balance out of *accounts*, where it may never have moved."""
    if accounts is None:
        return ledger.account_history(player, most=most, before=before)
    from game_operator.ledger import AccountHistory

    balance_cents = ledger.balance(player)
    try:
        history = ledger.account_history(player, most=most, before=before)
    except AccountNotFoundError:
        history = AccountHistory(player, None, 0, (), ())
    return history._replace(balance_cents=balance_cents)


@ledgers.command()
def bets(
    *,
    only_open: Annotated[bool, typer.Option("--open")] = False,
    state: BetState | None = None,
    player: Annotated[str | None, typer.Option("--player", "--player-id")] = None,
    since: Moment = None,
    until: Moment = None,
    older_than: Moment = None,
    limit: Annotated[int, typer.Option(min=1)] = 50,
    source: OnlySource = None,
    place: LedgerOptions,
) -> None:
    """List bets, the oldest first. Ask the provider about bets that stay open."""
    from game_operator.ledger.sql import oldest_bets
    from game_operator.ledger.staff.queries import BetsWanted

    if only_open and state not in (None, BetState.OPEN):
        raise typer.BadParameter(f"--open lists OPEN bets, and --state is {state.value}. Pass one of the two.")
    check_between(since, until)
    check_between(since, older_than, "--older-than")
    ends = [end for end in (until, older_than) if end is not None]
    wanted = BetsWanted(source, since, min(ends, default=None), BetState.OPEN if only_open else state, player)
    with place.opened() as ledger:
        found = oldest_bets(ledger, wanted, limit + 1)
    listed, more = found[:limit], len(found) > limit
    answer({"bets": list(map(bet_document, listed)), "more": more})
    show_bets(listed)
    if more:
        say(MORE.format(limit))
    if not listed:
        say("There are no such bets.")


@ledgers.command()
def verify(*, full: bool = False, place: LedgerOptions) -> int:
    """
    Check the books: balances, postings, calls and bets must agree.

    It compares all balances, and reads what came after the last checkpoint of maintain; with --full, or without a
    checkpoint, everything. Calls go on meanwhile. The exit code is 1 with findings.
    """
    with place.opened() as ledger, waiting("Checking the books …"):
        report = ledger.verify(full=full)
    show_books(report)
    return ExitCode.FINE if report.sound else ExitCode.SAID_NO


@ledgers.command()
def maintain(
    *,
    seconds: Annotated[float, typer.Option(min=1.0)] = 300.0,
    drop_after: Annotated[int | None, typer.Option(min=90)] = None,
    archive: Annotated[Path | None, typer.Option(exists=True, file_okay=False, writable=True)] = None,
    place: LedgerOptions,
) -> int:
    """
    Do what a ledger needs each night, in bounded time: for cron, beside calls.

    It closes days for totals, checks what is new, reads a part again, and renews statistics. It drops nothing unless
    --drop-after is given. The next run goes on where this one stops. The exit code is 1 with findings.
    """
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
    show_maintenance(report)
    return ExitCode.FINE if report.sound else ExitCode.SAID_NO


@ledgers.command("correct-time")
def correct_time(player: Player, place: LedgerOptions) -> None:
    """
    Bring back the time of an account that a wrong clock has left in the future.

    First set the clock right and restart the wallet's processes, or the next call leaves it there again.
    """
    with place.opened() as ledger:
        done = ledger.correct_time(player)
    sentence = f"{player} had moved last at {when(done.from_millis)} UTC; it says {when(done.to_millis)} now."
    answer(done._asdict(), sentence)


@ledgers.command()
def sources(place: LedgerOptions) -> None:
    """List the services and environments whose calls the ledger takes, with their open bets."""
    from game_operator.ledger.sql import sources_of

    with place.opened() as ledger:
        found = sources_of(ledger)
    answer({"sources": [source._asdict() for source in found]})
    if found:
        names = ("Source", "Registered by", "Open bets")
        origins = {"first call": "its first call", "found": "its calls", "added": "add-source"}
        more = {_MOST_BETS: f"{_MOST_BETS} or more"}
        rows = [(each.name or '"" (no name)', origins[each.origin], each.open_bets) for each in found]
        show_rows("", names, [(*row, more.get(bets, bets)) for *row, bets in rows], numbers=names[2:])
    else:
        say("The ledger knows no source yet: the first withdraw, deposit or rollback registers its own.")


@ledgers.command("add-source")
def add_source(name: Annotated[str, typer.Argument(callback=source_in)], place: LedgerOptions) -> None:
    """
    Take calls of another source, permanently.

    Not for a new name of a service that has open bets: their deposits and rollbacks would not find them.
    """
    from game_operator.ledger.sql import sources_of

    with place.opened() as ledger:
        known = sources_of(ledger)
        ledger.add_source(name)
    others = [source for source in known if source.name != name]
    is_new = len(others) == len(known)
    already = "." if is_new else " already. Nothing was changed."
    document = {"added": name, "others": [source._asdict() for source in others]}
    answer(document, f"The ledger takes calls of {_named(name)}{already}")
    for source in others:
        if is_new and source.open_bets:
            say(
                f"{_named(source.name)} has {_open(source.open_bets)}. If {_named(name)} is a new name for it, they "
                "cannot be settled: keep the old name in the wallet until they are."
            )


@ledgers.command("stop-bets")
def stop_bets(*, actor: str, reason: str, code: str = "LIMIT_EXCEEDED", place: LedgerOptions) -> None:
    """
    Refuse every new bet, in all processes and at once: for an incident.

    Wins, refunds and free bets are still paid. Bets that are refused meanwhile stay declined. start-bets ends it.
    """
    with place.opened() as ledger, _checked_values():
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


def _named(source: str) -> str:
    return one_line(source) if source else '""'


def _open(bets: int) -> str:
    return "1 open bet" if bets == 1 else f"{bets} open bets" if bets < _MOST_BETS else f"{bets} open bets or more"


@ledgers.command()
def migrate(*, place: LedgerOptions) -> None:
    """
    Make the tables, or migrate them to this program's version, while programs that run go on.

    If a wallet has served from your own table of balances, it is looked at, too.
    """
    from game_operator.ledger.engine.tables import VERSION
    from game_operator.ledger.sql import are_balances_elsewhere

    # New tables are not yet known to go with a table of the operator's: the wallet that serves says so.
    with place.opened(migrate=True, accounts=None, patience_seconds=_MIGRATION_SECONDS) as ledger:
        has_served = are_balances_elsewhere(ledger)
    if has_served:
        with place.opened():
            pass
    answer({"version": VERSION}, f"The tables {place.table_prefix}* have version {VERSION}.")
