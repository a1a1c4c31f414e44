"""What `game-operator games` does beyond one list: report changes, and watch."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.database import DATABASE, PREFIX, BalancesOptions, DatabaseUrl, TablePrefix
from game_operator.cli.errors import ExitCode, error_text, lost_output, on_signals
from game_operator.cli.options import ServiceOptions
from game_operator.cli.output import remark, say, waiting
from game_operator.cli.reports.catalogue import show_changes, size_of
from game_operator.errors import ApiError, ConfigurationError, LedgerUnavailableError, TransportError

if TYPE_CHECKING:
    from game_operator.backoffice import Catalogue
    from game_operator.ledger import SqlLedger

EVERY_SECONDS = 60.0
_FIRST = "This is the first list: {}. From now on, changes are reported."
#: After these a watch goes on: the next look may succeed.
_PASSING = (ApiError, TransportError, LedgerUnavailableError)


@dataclass(frozen=True, kw_only=True)
class ChangesOptions(BalancesOptions):
    """What is asked beyond one list of games, and where the last good list is kept."""

    changes: bool = False
    watch: bool = False
    most_gone: Annotated[float | None, typer.Option(min=0, max=1)] = None
    database: DatabaseUrl = None
    table_prefix: TablePrefix = PREFIX

    @property
    def are_asked_for(self) -> bool:
        """Whether more than one list of games is wanted."""
        return self.changes or self.watch

    def check(self, *, has_filters: bool, seconds: float | None) -> None:
        """Raise BadParameter if the options do not go together."""
        if self.changes and self.watch:
            raise typer.BadParameter("--changes and --watch exclude each other. Pass one of them.")
        if self.are_asked_for and has_filters:
            raise typer.BadParameter(
                "Changes are those of all games. Leave out --genre, --status, --currency and --active."
            )
        if not self.are_asked_for and self.database is not None:
            raise typer.BadParameter("--database needs --changes or --watch. Pass one of these.")
        if self.most_gone is not None and not self.changes:
            raise typer.BadParameter("--most-gone needs --changes. Pass both, or neither.")
        if seconds is not None and not self.watch:
            raise typer.BadParameter("SECONDS needs --watch. Pass both, or neither.")

    @contextmanager
    def catalogue(self, service: ServiceOptions) -> "Iterator[Catalogue]":
        """
        Yield the catalogue, with its store.

        Raises:
            ConfigurationError: There is no store, and a watch alone needs none.
        """
        from game_operator.backoffice import Catalogue

        with service.client() as client, self._opened() as store, _without_log():
            yield Catalogue(client, store)

    @contextmanager
    def _opened(self) -> "Iterator[SqlLedger | None]":
        address = self.database or os.environ.get(DATABASE)
        if address:
            with self.of_ledger(address, self.table_prefix).opened() as ledger:
                yield ledger
        elif not self.watch:
            raise ConfigurationError(
                "There is no last good list to compare with. Pass the ledger's database, as --database URL or in "
                f"{DATABASE}."
            )
        else:
            yield None


def report_changes(options: ChangesOptions, service: ServiceOptions) -> int:
    """Report once what has changed since the last good list."""
    with options.catalogue(service) as catalogue:
        is_first = catalogue.fetched_at_millis is None
        most_gone = None if options.most_gone is None else Decimal(str(options.most_gone))
        with waiting("Asking for the games …"):
            changes = catalogue.refresh(most_gone=most_gone)
        show_changes(catalogue, changes)
        if catalogue.held is not None:
            return ExitCode.SAID_NO
        if is_first:
            say(_FIRST.format(size_of(catalogue.games)))
        elif not changes:
            say(f"Nothing has changed: {size_of(catalogue.games)}.")
    return ExitCode.FINE


def watch(options: ChangesOptions, service: ServiceOptions, seconds: float) -> int:
    """Report changes as they come, until Ctrl-C or SIGTERM."""
    try:
        with on_signals([signal.SIGTERM], signal.default_int_handler), options.catalogue(service) as catalogue:
            return _watched(catalogue, seconds)
    except KeyboardInterrupt:
        remark("The watch has ended.")
        return ExitCode.FINE


def _watched(catalogue: "Catalogue", seconds: float) -> int:
    shown = None  # Of the list that is held: it is reported once.
    for number, changes in enumerate(catalogue.watch(seconds)):
        failed = catalogue.error
        if failed is not None and not isinstance(failed, _PASSING):
            raise failed
        error = error_text(failed) if failed is not None else ""
        held = catalogue.held and [each.as_dict() | {"at_millis": 0} for each in catalogue.held.changes]
        if not number or changes or error or held != shown:
            show_changes(catalogue, changes, error=error)
            shown = held
        if not number:
            say(f"Watching {size_of(catalogue.games)}, every {seconds:g} s, until Ctrl-C.")
        if lost := lost_output():
            return lost
    return ExitCode.FINE


@contextmanager
def _without_log() -> Iterator[None]:
    """Keep the warnings of the catalogue off stderr, where Python writes what nobody handles: they are reported."""
    log, handler = logging.getLogger("game_operator.backoffice"), logging.NullHandler()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
