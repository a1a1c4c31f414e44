"""``game-operator ledger``: accounts, histories, anomalies and the books of a ledger, for an operator's staff."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli._database import DATABASE, PREFIX, TablePrefix, address_of, check_folder, file_of, tables_missing
from game_operator.cli._failures import ExitCode
from game_operator.cli._ledger_output import (
    anomaly_document,
    balance_document,
    bet_document,
    report_document,
    show_account,
    show_anomalies,
    show_bet,
    show_bets,
    tell_balance,
    tell_report,
    when,
)
from game_operator.cli._options import AsJson
from game_operator.cli._output import say, show_details, waiting, write_document
from game_operator.cli.profile import read_profile
from game_operator.errors import ConfigurationError, shown
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.ledger import (
        SqlLedger,
    )

__all__ = ["ledgers"]

ledgers = typer.Typer(help="Look into a ledger and mend it: accounts, bets, anomalies, and whether the books agree.")

Database = Annotated[
    str | None,
    typer.Option(metavar="URL", help=f"sqlite:///wallet.db or postgresql://…; else {DATABASE}."),
]
Source = Annotated[str, typer.Option(help="The service and environment, if the wallet names one.")]
Player = Annotated[str, typer.Argument(metavar="PLAYER", help="The account, which is the player's id.")]

# An amount such as -20.00 begins like an option.
_WITH_NEGATIVE_AMOUNTS = {"ignore_unknown_options": True}


# What Decimal takes besides, such as 1e3 and 1_000, is a slip of the hand rather than an amount.
_AMOUNT = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,2})?")
_NUMBER = re.compile(r"[0-9]{1,30}")
_AGE = re.compile(r"([0-9]{1,6})([dhms])")
_MILLIS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_NO_TABLES = "`game-operator ledger open` makes them; `game-operator serve --no-migrate` prints the statements."


def _amount(text: str | Decimal) -> Decimal:
    # What is not given is the default, which has been read already.
    if not _AMOUNT.fullmatch(str(text)):
        problem = f"{text!r} is no amount in currency units with at most two decimals, such as 12.50."
        raise typer.BadParameter(problem)
    return Decimal(text)


def _anomaly_id(text: str | int) -> int:
    if not _NUMBER.fullmatch(str(text)):
        raise typer.BadParameter(f"{text!r} is no number of an anomaly: `game-operator ledger anomalies` lists them.")
    return int(text)


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if not match:
        raise typer.BadParameter(f"{text!r} is no age: write a number and d, h, m or s, such as 2d or 12h.")
    return timedelta(milliseconds=int(match[1]) * _MILLIS[match[2]])


AnomalyId = Annotated[
    int, typer.Argument(parser=_anomaly_id, metavar="ID", help="The anomaly's number, as `anomalies` lists it.")
]


@ledgers.command("open", context_settings=_WITH_NEGATIVE_AMOUNTS)
def open_(
    player: Player,
    amount: Annotated[
        Decimal, typer.Argument(parser=_amount, metavar="AMOUNT", help="What it holds, in currency units.")
    ] = Decimal(0),
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """Open an account. The tables, and the file of SQLite, are made if they are not there."""
    with _ledger(database, table_prefix, make=True) as ledger, _checked_amounts():
        cents = ledger.open_account(player, amount)
    tell_balance(player, cents, as_json=as_json)


@ledgers.command(context_settings=_WITH_NEGATIVE_AMOUNTS)
def adjust(
    player: Player,
    amount: Annotated[
        Decimal, typer.Argument(parser=_amount, metavar="AMOUNT", help="Currency units to add; -20.00 takes away.")
    ],
    reference: Annotated[str, typer.Option(help="What makes it this adjustment: the same one again moves nothing.")],
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """Move money from outside games: a payment, a cash-out, a correction. Never below zero."""
    from game_operator.ledger.admin import adjusted

    if not amount:
        raise typer.BadParameter("An adjustment by 0 moves nothing, and would use up its reference.")
    with _ledger(database, table_prefix) as ledger, _checked_amounts():
        done = adjusted(ledger, player, amount, reference=reference)
    if as_json:
        write_document(balance_document(player, done.balance_cents) | {"applied": done.applied})
    elif done.applied:
        tell_balance(player, done.balance_cents, as_json=False)
    else:
        say(f"This reference was known, nothing was moved: {player} holds {amount_from_cents(done.balance_cents)}.")


@ledgers.command()
def show(
    bet_id: Annotated[str | None, typer.Argument(metavar="[BET_ID]", help="A bet, with its whole history.")] = None,
    player: Annotated[str | None, typer.Option("--player", "--player-id", help="An account instead.")] = None,
    most: Annotated[int, typer.Option(min=1, help="How many movements of an account, the latest.")] = 50,
    source: Source = "",
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> int:
    """
    Show all that is known of a bet, or with --player an account and its latest movements.

    The exit code is 1 for a bet that nothing ever named.
    """
    if (bet_id is None) == (player is None):
        raise typer.BadParameter("Name a bet, or pass --player for an account: one of the two.")
    with _ledger(database, table_prefix) as ledger:
        if player is not None:
            account = ledger.account_history(player, most=most)
            show_account(account, as_json=as_json)
            return ExitCode.FINE
        assert bet_id is not None
        history = ledger.history(bet_id, source=source)
    show_bet(bet_id, history, as_json=as_json)
    return ExitCode.SAID_NO if history.is_unknown else ExitCode.FINE


@ledgers.command()
def bets(
    only_open: Annotated[bool, typer.Option("--open", help="Those that wait for a deposit or rollback.")] = False,
    older_than: Annotated[
        timedelta | None,
        typer.Option(parser=_age, metavar="AGE", help="Those opened longer ago than this: 2d, 12h, 30m."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the oldest.")] = 50,
    source: Annotated[str | None, typer.Option(help="Those of one service and environment; else all.")] = None,
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """List bets, the oldest first. One that stays open for long is worth a question to the provider."""
    from game_operator.ledger.admin import old_bets

    now_millis = time.time_ns() // 1_000_000
    before_millis = 1 << 62 if older_than is None else now_millis - older_than // timedelta(milliseconds=1)
    with _ledger(database, table_prefix) as ledger:
        found = old_bets(ledger, before_millis, limit + 1, only_open=only_open, source=source)
    listed, more = found[:limit], len(found) > limit
    if as_json:
        write_document({"bets": [bet_document(bet) for bet in listed], "more": more})
    elif listed:
        show_bets(listed)
    else:
        say("There are no such bets.")
    if more and not as_json:
        say(f"There are more than these {limit}: pass --limit.")


@ledgers.command()
def verify(database: Database = None, table_prefix: TablePrefix = PREFIX, as_json: AsJson = False) -> int:
    """
    Check the books: balances, postings, calls and bets must tell one story.

    It reads everything, from one moment, and calls go on meanwhile. The exit code is 1 with findings.
    """
    with _ledger(database, table_prefix) as ledger, waiting("Checking the books …"):
        report = ledger.verify()
    if as_json:
        write_document(report_document(report))
    else:
        tell_report(report)
    return ExitCode.FINE if report.sound else ExitCode.SAID_NO


@ledgers.command()
def anomalies(
    source: Annotated[str | None, typer.Option(help="Those of one service and environment; else all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Those that are resolved as well.")] = False,
    bodies: Annotated[bool, typer.Option("--bodies", help="With the body of each.")] = False,
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """List what somebody should look at: refused deposits and rollbacks, conflicts, calls that cannot be read."""
    with _ledger(database, table_prefix) as ledger:
        records = list(ledger.anomalies(source=source, resolved=None if every else False))
    if as_json:
        write_document({"anomalies": [anomaly_document(record) for record in records]})
    elif records:
        show_anomalies(records, every=every, bodies=bodies)
    else:
        say("There are no anomalies." if every else "There is nothing to look at.")


@ledgers.command()
def retry(
    anomaly_id: AnomalyId,
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="How its body is read, as TOML; the wallet's own profile.")
    ] = None,
    accept_foreign: Annotated[
        bool, typer.Option("--accept-foreign", help="Also if it names an instance that is not yours.")
    ] = False,
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> int:
    """
    Apply the deposit or rollback of an anomaly again, by the same rules; nothing is ever moved twice.

    Answered SUCCESS, the anomaly is resolved. The exit code is 1 if it is refused again.
    """
    from game_operator.ledger import Terms

    rules = read_profile(profile)
    with _ledger(database, table_prefix) as ledger:
        outcome = ledger.retry(anomaly_id, Terms(rules=rules), accept_foreign=accept_foreign)
    balance = None if outcome.balance_cents is None else amount_from_cents(outcome.balance_cents)
    if as_json:
        write_document(
            {
                "id": anomaly_id,
                "resolved": not outcome.refused,
                "code": outcome.code,
                "applied": outcome.applied,
                "replayed": outcome.replayed,
                "balance": balance,
            }
        )
    elif outcome.refused:
        say(f"Refused again with {outcome.code}: nothing was moved, and the anomaly stays.")
    else:
        did = "It was carried out" if outcome.applied else "It was carried out before, and nothing was moved now"
        say(f"{did}; the balance is {balance}. The anomaly is resolved.")
    return ExitCode.SAID_NO if outcome.refused else ExitCode.FINE


@ledgers.command()
def resolve(
    anomaly_id: AnomalyId, database: Database = None, table_prefix: TablePrefix = PREFIX, as_json: AsJson = False
) -> None:
    """Mark an anomaly as looked after, without applying anything."""
    with _ledger(database, table_prefix) as ledger:
        ledger.resolve(anomaly_id)
    if as_json:
        write_document({"id": anomaly_id, "resolved": True})
    else:
        say(f"The anomaly {anomaly_id} is resolved.")


@ledgers.command()
def prune(
    days: Annotated[int, typer.Option(min=90, metavar="DAYS", help="Drop the details of what is older.")] = 90,
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """Drop old bodies and replies, and fold old postings; what tells a call from a new one stays for ever."""
    with _ledger(database, table_prefix) as ledger, waiting("Pruning …"):
        report = ledger.prune(timedelta(days=days))
    if as_json:
        write_document(report._asdict())
        return
    say(f"Before {when(report.before_millis)} UTC, of whatever is not open:")
    names = {"calls": "without body and reply", "postings": "folded", "anomalies": "resolved, without body"}
    show_details((name, f"{getattr(report, name)} {what}") for name, what in names.items())


@contextmanager
def _ledger(database: str | None, prefix: str, *, make: bool = False) -> "Iterator[SqlLedger]":
    address = address_of(database)
    _check_there(address, make=make)
    from game_operator.ledger import SqlLedger

    with tables_missing(prefix, _NO_TABLES):
        ledger = SqlLedger(address, migrate=make, table_prefix=prefix)
    with ledger:
        yield ledger


def _check_there(address: str, *, make: bool) -> None:
    """Raise ConfigurationError for an SQLite file that is not there: a new one would look sound, and be empty."""
    check_folder(address)
    file = file_of(address)
    if file is not None and not file.exists() and not make:
        raise ConfigurationError(f"There is no file {shown(str(file))}. `game-operator ledger open` makes one.")


@contextmanager
def _checked_amounts() -> Iterator[None]:
    try:
        yield
    except ValueError as wrong:  # An id or an amount that no account can have.
        raise typer.BadParameter(f"{wrong}.") from None
