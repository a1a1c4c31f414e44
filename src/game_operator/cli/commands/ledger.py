"""``game-operator ledger``: accounts, histories, anomalies and the books of a ledger, for an operator's staff."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from game_operator.cli.commands.profile import read_profile
from game_operator.cli.database import (
    DATABASE,
    PREFIX,
    AccountsBalance,
    AccountsKey,
    AccountsShared,
    AccountsTable,
    AccountsUnit,
    TablePrefix,
    TablesMissingError,
    accounts_in,
    address_of,
    check_elsewhere,
    check_folder,
    file_of,
    tables_missing,
)
from game_operator.cli.errors import ExitCode
from game_operator.cli.options import AsJson
from game_operator.cli.output import say, show_details, waiting, write_document
from game_operator.cli.reports.anomalies import (
    Chosen,
    check_kinds,
    no_match,
    retried_each,
    tell_none,
    tell_retries,
    tell_retry,
    without_filters,
)
from game_operator.cli.reports.ledger import (
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
from game_operator.errors import AccountNotFoundError, ConfigurationError, one_line, shown
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.ledger import AccountHistory, SqlLedger, TableAccounts

__all__ = ["ledgers"]

ledgers = typer.Typer(help="Examine a ledger, and correct it: accounts, bets, anomalies, and whether the books agree.")

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
#: How long a migration waits for locks.
_PATIENCE_SECONDS = 60.0
#: As far as open bets are counted.
_MOST_BETS = 1_000
_NO_TABLES = "`game-operator ledger open` makes them; `game-operator serve --no-migrate` prints the statements."


def _amount(text: str | Decimal) -> Decimal:
    # What is not given is the default, which has been read already.
    if not _AMOUNT.fullmatch(str(text)):
        problem = f"{text!r} is not an amount in currency units with at most two decimals, such as 12.50."
        raise typer.BadParameter(problem)
    return Decimal(text)


def _anomaly_id(text: str | int) -> int:
    if not _NUMBER.fullmatch(str(text)):
        raise typer.BadParameter(
            f"{text!r} is not a number of an anomaly: `game-operator ledger anomalies` lists them."
        )
    return int(text)


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if not match:
        raise typer.BadParameter(f"{text!r} is not an age: write a number and d, h, m or s, such as 2d or 12h.")
    return timedelta(milliseconds=int(match[1]) * _MILLIS[match[2]])


def _moment(text: str | int) -> int:
    """Return a time in Unix milliseconds: an age, which is so long ago, or a date with or without a time, in UTC."""
    if isinstance(text, int):  # The default was read already.
        return text
    if _AGE.fullmatch(text):
        return time.time_ns() // 1_000_000 - _age(text) // timedelta(milliseconds=1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is not a time: write 2d, 12h or 30m for so long ago, or 2026-11-22T12:00 in UTC."
        raise typer.BadParameter(problem) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


AnomalyIds = Annotated[
    list[int] | None,
    typer.Argument(parser=_anomaly_id, metavar="[ID]…", help="Numbers of anomalies, as `anomalies` lists them."),
]
OfSource = Annotated[str | None, typer.Option(help="Those of one service and environment; else all.")]
Kind = Annotated[
    list[str] | None, typer.Option(metavar="KIND", help="Those of this kind; several with a comma, or more than once.")
]
Since = Annotated[
    int | None,
    typer.Option(parser=_moment, metavar="TIME", help="Those that came then or later: 2h, 3d, 2026-11-22T12:00 (UTC)."),
]
Until = Annotated[int | None, typer.Option(parser=_moment, metavar="TIME", help="Those that came before that.")]
OfPlayer = Annotated[
    str | None, typer.Option("--player", "--player-id", metavar="ID", help="Those that name a player.")
]
IdPrefix = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Those whose bet or transaction id begins with this.")
]
AllMatching = Annotated[
    bool, typer.Option("--all-matching", help="In place of IDs: all that wait and match the options above.")
]
Expect = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="With --all-matching: how many there must be, or nothing is done."),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --all-matching: however many there are, without a question.")]


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
    from game_operator.ledger.staff.admin import adjusted

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
    accounts_table: AccountsTable = None,
    accounts_key: AccountsKey = None,
    accounts_balance: AccountsBalance = None,
    accounts_unit: AccountsUnit = None,
    accounts_shared: AccountsShared = False,
    as_json: AsJson = False,
) -> int:
    """
    Show all that is known of a bet, or with --player an account and its latest movements.

    The exit code is 1 for a bet that nothing ever named.
    """
    if (bet_id is None) == (player is None):
        raise typer.BadParameter("Name a bet, or pass --player for an account: one of the two.")
    accounts = accounts_in(accounts_table, accounts_key, accounts_balance, accounts_unit, accounts_shared)
    with _ledger(database, table_prefix, accounts=accounts) as ledger:
        if player is not None:
            account = _account(ledger, player, most, accounts)
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
    accounts_table: AccountsTable = None,
    accounts_key: AccountsKey = None,
    accounts_balance: AccountsBalance = None,
    accounts_unit: AccountsUnit = None,
    accounts_shared: AccountsShared = False,
    as_json: AsJson = False,
) -> None:
    """List bets, the oldest first. One that stays open for long is worth a question to the provider."""
    from game_operator.ledger.staff.admin import old_bets

    now_millis = time.time_ns() // 1_000_000
    before_millis = 1 << 62 if older_than is None else now_millis - older_than // timedelta(milliseconds=1)
    accounts = accounts_in(accounts_table, accounts_key, accounts_balance, accounts_unit, accounts_shared)
    with _ledger(database, table_prefix, accounts=accounts) as ledger:
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
    source: OfSource = None,
    every: Annotated[bool, typer.Option("--all", help="Those that are resolved as well.")] = False,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    player: OfPlayer = None,
    id_prefix: IdPrefix = None,
    limit: Annotated[int | None, typer.Option(min=1, help="How many, the oldest; else all.")] = None,
    bodies: Annotated[bool, typer.Option("--bodies", help="With the body of each.")] = False,
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """List what somebody should look at: refused deposits and rollbacks, conflicts, calls that cannot be read."""
    wanted = _wanted(source, kind, since, until, player, id_prefix) | {"resolved": None if every else False}
    with _ledger(database, table_prefix) as ledger:
        check_kinds(ledger, wanted)
        found = list(islice(ledger.anomalies(**wanted), limit and limit + 1))
        others = 0 if found or as_json else without_filters(ledger, wanted)
    records, more = found[:limit], limit is not None and len(found) > limit
    if as_json:
        document = {"anomalies": [anomaly_document(record) for record in records]}
        write_document(document if limit is None else document | {"more": more})
    elif records:
        show_anomalies(records, every=every, bodies=bodies)
    elif others:
        say(no_match(others))
    else:
        say("There are no anomalies." if every else "There is nothing to look at.")
    if more and not as_json:
        say(f"There are more than these {limit}: pass --limit.")


@ledgers.command()
def retry(
    anomaly_ids: AnomalyIds = None,
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="How its body is read, as TOML; the wallet's own profile.")
    ] = None,
    accept_foreign: Annotated[
        bool,
        typer.Option("--accept-foreign", help="Also if it names an instance that is not yours. With IDs alone."),
    ] = False,
    all_matching: AllMatching = False,
    source: OfSource = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    player: OfPlayer = None,
    id_prefix: IdPrefix = None,
    expect: Expect = None,
    yes: Yes = False,
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    accounts_table: AccountsTable = None,
    accounts_key: AccountsKey = None,
    accounts_balance: AccountsBalance = None,
    accounts_unit: AccountsUnit = None,
    accounts_shared: AccountsShared = False,
    as_json: AsJson = False,
) -> int:
    """
    Apply the deposit or rollback of an anomaly again, by the same rules; nothing is ever moved twice.

    Answered SUCCESS, the anomaly is resolved. The exit code is 1 if one is refused again, or cannot be retried.
    """
    from game_operator.ledger import Terms

    if accept_foreign and all_matching:
        raise typer.BadParameter("--accept-foreign pays calls of strangers, so it takes IDs, and no --all-matching.")
    filters = _wanted(source, kind, since, until, player, id_prefix)
    chosen = Chosen(anomaly_ids, filters, all_matching=all_matching, expect=expect, yes=yes)
    accounts = accounts_in(accounts_table, accounts_key, accounts_balance, accounts_unit, accounts_shared)
    terms = Terms(rules=read_profile(profile))
    with _ledger(database, table_prefix, accounts=accounts) as ledger:
        if (one := chosen.one) is not None:
            outcome = ledger.retry(one, terms, accept_foreign=accept_foreign)
            tell_retry(one, outcome, as_json=as_json)
            return ExitCode.SAID_NO if outcome.refused else ExitCode.FINE
        if not (ids := chosen.ids_in(ledger, "Retry", as_json=as_json)):
            tell_none(ledger, filters, {"retried": []}, as_json=as_json)
            return ExitCode.FINE
        retried = retried_each(ledger, ids, terms, accept_foreign=accept_foreign, as_json=as_json)
    tell_retries(retried, as_json=as_json)
    return ExitCode.FINE if all(each["resolved"] for each in retried) else ExitCode.SAID_NO


@ledgers.command()
def resolve(
    anomaly_ids: AnomalyIds = None,
    all_matching: AllMatching = False,
    source: OfSource = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    player: OfPlayer = None,
    id_prefix: IdPrefix = None,
    expect: Expect = None,
    yes: Yes = False,
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """Mark anomalies as looked after, without applying anything."""
    from game_operator.ledger.staff.admin import resolve_anomalies

    filters = _wanted(source, kind, since, until, player, id_prefix)
    chosen = Chosen(anomaly_ids, filters, all_matching=all_matching, expect=expect, yes=yes)
    with _ledger(database, table_prefix) as ledger:
        if not (ids := chosen.ids_in(ledger, "Resolve", as_json=as_json)):
            tell_none(ledger, filters, {"resolved": []}, as_json=as_json)
            return
        resolve_anomalies(ledger, ids)
    if as_json:
        write_document({"id": chosen.one, "resolved": True} if chosen.one is not None else {"resolved": ids})
    elif chosen.one is not None:
        say(f"The anomaly {chosen.one} is resolved.")
    else:
        say(f"Resolved: {len(ids)}.")


def _wanted(
    source: str | None,
    kinds: list[str] | None,
    since: int | None,
    until: int | None,
    player: str | None,
    id_prefix: str | None,
) -> dict[str, Any]:
    """
    Return what the options ask ``anomalies`` for: those that were given alone.

    Raises:
        BadParameter: No time is between --since and --until.
    """
    if since is not None and until is not None and since >= until:
        raise typer.BadParameter(
            f"--since is {when(since)} and --until is {when(until)} UTC: nothing is between. An age is so long ago, so "
            "--since takes the greater one."
        )
    wanted = {
        "source": source,
        "kind": [kind for each in kinds for kind in each.replace(",", " ").split()] if kinds else None,
        "since_millis": since,
        "until_millis": until,
        "player_id": player,
        "id_prefix": id_prefix,
    }
    for text in (source, player, id_prefix, *(kinds or ())):
        if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise typer.BadParameter(f"{shown(text)} is not valid UTF-8, so no anomaly can match it.")
    return {name: value for name, value in wanted.items() if value is not None}


@ledgers.command()
def prune(
    days: Annotated[int, typer.Option(min=90, metavar="DAYS", help="Drop the details of what is older.")] = 90,
    now: Annotated[
        int | None,
        typer.Option(
            parser=_moment, metavar="TIME", help="What time it is, such as 2026-11-22T12:00, in UTC; else the clock's."
        ),
    ] = None,
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """
    Drop old bodies and replies, and fold old postings; what tells a call from a new one stays for ever.

    It refuses where the clock and the newest posting cannot both be right: look at the clock, and pass --now.
    """
    with _ledger(database, table_prefix) as ledger, waiting("Pruning …"):
        report = ledger.prune(timedelta(days=days), now_millis=now)
    if as_json:
        write_document(report._asdict())
        return
    say(f"Before {when(report.before_millis)} UTC, of whatever is not open:")
    names = {"calls": "without body and reply", "postings": "folded", "anomalies": "resolved, without body"}
    show_details((name, f"{getattr(report, name)} {what}") for name, what in names.items())


def _account(ledger: "SqlLedger", player: str, most: int, accounts: "TableAccounts | None") -> "AccountHistory":
    """Return the history of an account, with its balance out of *accounts*, where it may never have moved."""
    if accounts is None:
        return ledger.account_history(player, most=most)
    from game_operator.ledger import AccountHistory

    balance_cents = ledger.balance(player)
    try:
        history = ledger.account_history(player, most=most)
    except AccountNotFoundError:
        history = AccountHistory(player, None, 0, (), ())
    return history._replace(balance_cents=balance_cents)


@ledgers.command("correct-time")
def correct_time(
    player: Player, database: Database = None, table_prefix: TablePrefix = PREFIX, as_json: AsJson = False
) -> None:
    """
    Bring back the time of an account that a wrong clock has left in the future.

    Set the clock right and start the wallet's processes anew first, or the next call leaves it there again.
    """
    with _ledger(database, table_prefix) as ledger:
        done = ledger.correct_time(player)
    if as_json:
        write_document(done._asdict())
    else:
        say(f"{player} had moved last at {when(done.from_millis)} UTC; it says {when(done.to_millis)} now.")


@ledgers.command()
def sources(database: Database = None, table_prefix: TablePrefix = PREFIX, as_json: AsJson = False) -> None:
    """List the services and environments whose calls the ledger takes, with their open bets."""
    from game_operator.ledger.staff.admin import sources_of

    with _ledger(database, table_prefix) as ledger:
        found = sources_of(ledger)
    if as_json:
        write_document({"sources": [source._asdict() for source in found]})
    elif found:
        show_details((_named(source.name), f"{source.origin}, {_open(source.open_bets)}") for source in found)
    else:
        say("The ledger knows no source yet: the first withdraw, deposit or rollback registers its own.")


@ledgers.command("add-source")
def add_source(
    name: Annotated[str, typer.Argument(metavar="NAME", help='A service or environment; "" is a name, too.')],
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """
    Take calls of a further source, for good.

    Not for a new name of a service that has open bets: their deposits and rollbacks would not find them.
    """
    from game_operator.ledger.engine.sources import check_source_name
    from game_operator.ledger.staff.admin import sources_of

    try:
        check_source_name(name)
    except ValueError as wrong:
        raise typer.BadParameter(f"{wrong}.") from None
    with _ledger(database, table_prefix) as ledger:
        known = sources_of(ledger)
        others = [source for source in known if source.name != name]
        ledger.add_source(name)
    if as_json:
        write_document({"added": name, "others": [source._asdict() for source in others]})
        return
    if len(others) < len(known):
        say(f"The ledger takes calls of {_named(name)} already. Nothing was changed.")
        return
    say(f"The ledger takes calls of {_named(name)}.")
    for source in others:
        if source.open_bets:
            say(
                f"{_named(source.name)} has {_open(source.open_bets)}. If {_named(name)} is a new name for it, they "
                "are stranded: let the wallet keep the old name until they are settled."
            )


@ledgers.command()
def migrate(
    back: Annotated[
        bool, typer.Option("--back", help="Undo the latest migration, to start programs of the version before again.")
    ] = False,
    database: Database = None,
    table_prefix: TablePrefix = PREFIX,
    as_json: AsJson = False,
) -> None:
    """Migrate the tables to this program's version, while older programs go on; or undo that."""
    from game_operator.ledger.engine.schema import VERSION
    from game_operator.ledger.staff.admin import migrated_back

    try:
        with _ledger(database, table_prefix, migrate=not back, patience_seconds=_PATIENCE_SECONDS) as ledger:
            version = migrated_back(ledger) if back else VERSION
    except TablesMissingError as missing:
        if back and missing.are_old:
            found = str(missing).partition(", and ")[0]
            raise ConfigurationError(f"{found} already. Nothing was undone.") from None
        raise
    if as_json:
        write_document({"version": version})
    else:
        say(f"The tables {table_prefix}* have version {version}.")


def _named(source: str) -> str:
    return one_line(source) if source else '""'


def _open(bets: int) -> str:
    return "1 open bet" if bets == 1 else f"{bets} open bets" if bets < _MOST_BETS else f"{bets} open bets or more"


@contextmanager
def _ledger(
    database: str | None,
    prefix: str,
    *,
    make: bool = False,
    migrate: bool = False,
    accounts: "TableAccounts | None" = None,
    patience_seconds: float | None = None,
) -> "Iterator[SqlLedger]":
    address = address_of(database)
    _check_there(address, make=make)
    from game_operator.ledger import SqlLedger

    with tables_missing(prefix, _NO_TABLES):
        check_elsewhere(address, prefix, accounts)
        patience: dict[str, Any] = {} if patience_seconds is None else {"patience_seconds": patience_seconds}
        ledger = SqlLedger(address, accounts=accounts, migrate=make or migrate, table_prefix=prefix, **patience)
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
