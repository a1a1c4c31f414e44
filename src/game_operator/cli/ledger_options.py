"""The options of ``game-operator ledger``: where the ledger is, and which anomalies are meant."""

import re
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from game_operator.cli.database import DATABASE, PREFIX, TablePrefix, address_of, check_file, check_folder, opened
from game_operator.cli.output import when
from game_operator.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from game_operator.ledger import SqlLedger, TableAccounts

# Decimal also takes 1e3 and 1_000, which are likelier to be typing mistakes than amounts.
_AMOUNT = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,2})?")
_NUMBER = re.compile(r"[0-9]{1,30}")
_AGE = re.compile(r"([0-9]{1,6})([dhms])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_EPOCH = datetime.fromtimestamp(0, UTC)
_NO_TABLES = "`game-operator ledger open` makes them; `game-operator serve --no-migrate` prints the statements."


def amount_in(text: str | Decimal) -> Decimal:
    """Return an amount in currency units; a default is passed as the Decimal that it is."""
    if not _AMOUNT.fullmatch(str(text)):
        problem = f"{text!r} is not an amount in currency units with at most two decimals, such as 12.50."
        raise typer.BadParameter(problem)
    return Decimal(text)


def age_in(text: str) -> timedelta:
    """Return an age such as 2d, 12h, 30m or 5s."""
    match = _AGE.fullmatch(text)
    if not match:
        raise typer.BadParameter(f"{text!r} is not an age: write a number and d, h, m or s, such as 2d or 12h.")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def moment_in(text: str | int) -> int:
    """Return a time in Unix milliseconds: an age, which is so long ago, or a date with or without a time, in UTC."""
    if isinstance(text, int):  # The default was read already.
        return text
    if _AGE.fullmatch(text):
        return time.time_ns() // 1_000_000 - age_in(text) // timedelta(milliseconds=1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is not a time: write 2d, 12h or 30m for so long ago, or 2026-11-22T12:00 in UTC."
        raise typer.BadParameter(problem) from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def _anomaly_id(text: str | int) -> int:
    if not _NUMBER.fullmatch(str(text)):
        raise typer.BadParameter(
            f"{text!r} is not a number of an anomaly: `game-operator ledger anomalies` lists them."
        )
    return int(text)


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """Where the ledger is."""

    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"sqlite:///wallet.db or postgresql://…; else {DATABASE}."),
    ] = None
    table_prefix: TablePrefix = PREFIX

    def opened(
        self, *, make: bool = False, accounts: "TableAccounts | None" = None, **options: Any
    ) -> "AbstractContextManager[SqlLedger]":
        """Open the ledger; with *make* its tables, and the file of SQLite, are made if they are not there."""
        address = address_of(self.database)
        if make:
            check_folder(address)
        else:
            check_file(address, "`game-operator ledger open` makes one.")
        return opened(address, self.table_prefix, _NO_TABLES, accounts=accounts, **{"migrate": make} | options)


@dataclass(frozen=True, kw_only=True)
class AnomalyFilters:
    """
    Which anomalies to list.

    Raises:
        BadParameter: No time is between --since and --until, or a text is not UTF-8.
    """

    source: Annotated[str | None, typer.Option(help="Those of one service and environment; else all.")] = None
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Those of this kind; several with a comma, or more than once."),
    ] = None
    since: Annotated[
        int | None,
        typer.Option(
            parser=moment_in, metavar="TIME", help="Those that came then or later: 2h, 3d, 2026-11-22T12:00 (UTC)."
        ),
    ] = None
    until: Annotated[
        int | None, typer.Option(parser=moment_in, metavar="TIME", help="Those that came before that.")
    ] = None
    player: Annotated[
        str | None, typer.Option("--player", "--player-id", metavar="ID", help="Those that name a player.")
    ] = None
    id_prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Those whose bet or transaction id begins with this.")
    ] = None

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise typer.BadParameter(
                f"--since is {when(self.since)} and --until is {when(self.until)} UTC: nothing is between. An age is "
                "so long ago, so --since takes the greater one."
            )
        for text in (self.source, self.player, self.id_prefix, *(self.kind or ())):
            if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise typer.BadParameter(f"{shown(text)} is not valid UTF-8, so no anomaly can match it.")

    @property
    def wanted(self) -> Mapping[str, Any]:
        """The options that were given, as arguments of ``anomalies``."""
        arguments = {
            "source": self.source,
            "kind": [kind for each in self.kind or () for kind in each.replace(",", " ").split()] or None,
            "since_millis": self.since,
            "until_millis": self.until,
            "player_id": self.player,
            "id_prefix": self.id_prefix,
        }
        return {name: value for name, value in arguments.items() if value is not None}

    def check_kinds(self, ledger: "SqlLedger") -> None:
        """Raise BadParameter for an unknown kind: it is a typing mistake, and would look as if nothing waited."""
        from game_operator.ledger.staff.anomalies import KINDS

        for kind in self.wanted.get("kind", ()):
            # A program may keep kinds of its choice.
            if kind not in KINDS and next(iter(ledger.anomalies(kind=kind, resolved=None)), None) is None:
                raise typer.BadParameter(
                    f"There is no kind {shown(kind)} of anomaly. The kinds are {', '.join(sorted(KINDS))}."
                )

    def nothing_found(self, ledger: "SqlLedger", *, resolved: bool | None = False) -> str:
        """Return what to say where nothing matches: how many anomalies there are without these options."""
        others = sum(1 for _ in ledger.anomalies(resolved=resolved)) if self.wanted else 0
        if others:
            return f"No anomaly matches. Without these options {'1 does' if others == 1 else f'{others} do'}."
        return "There are no anomalies." if resolved is None else "There is nothing to look at."


@dataclass(frozen=True, kw_only=True)
class ChosenAnomalies(AnomalyFilters):
    """
    The anomalies to work on: by their numbers, or all that match.

    Raises:
        BadParameter: The command line has both, neither, or what only goes with the other.
    """

    anomaly_ids: Annotated[
        list[int] | None,
        typer.Argument(parser=_anomaly_id, metavar="[ID]…", help="Numbers of anomalies, as `anomalies` lists them."),
    ] = None
    all_matching: Annotated[
        bool, typer.Option("--all-matching", help="In place of IDs: all that wait and match the options above.")
    ] = False
    expect: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="With --all-matching: how many there must be, or nothing is done."),
    ] = None
    yes: Annotated[
        bool, typer.Option("--yes", help="With --all-matching: however many there are, without a question.")
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.anomaly_ids) == self.all_matching:
            raise typer.BadParameter("Name anomalies by their IDs, or pass --all-matching: one of the two.")
        if not self.all_matching and (self.wanted or self.expect is not None or self.yes):
            raise typer.BadParameter("Options that choose anomalies go with --all-matching. Pass it, or the IDs alone.")

    @property
    def one(self) -> int | None:
        """The number that stands alone on the command line, or None."""
        return self.anomaly_ids[0] if self.anomaly_ids and len(self.anomaly_ids) == 1 else None

    def ids(self, ledger: "SqlLedger", doing: str, *, as_json: bool) -> list[int]:
        """
        Return their numbers; those that match are counted first, and somebody must agree.

        Raises:
            ConfigurationError: There are not as many as expected, or nobody agrees; nothing was done.
        """
        if not self.all_matching:
            return list(dict.fromkeys(self.anomaly_ids or ()))
        self.check_kinds(ledger)
        found = [record.id for record in ledger.anomalies(**self.wanted)]
        count = len(found)
        if self.expect not in (None, count):
            raise ConfigurationError(
                f"{count} anomalies match, and {self.expect} were expected. Nothing was done: look at them with "
                "`game-operator ledger anomalies` and the same options."
            )
        if self.expect is None and not self.yes and count:
            if as_json or not sys.stdin.isatty():
                raise ConfigurationError(
                    f"{count} anomalies match. Nothing was done: pass --expect {count} if these are meant, or --yes "
                    "for however many there are."
                )
            if not typer.confirm(f"{doing} {count} anomalies?", err=True):
                raise ConfigurationError("Nothing was done.")
        return found
