"""What `game-operator games` does beyond one list: report changes, watch, and accept a list that is held."""

import logging
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from game_operator.cli.database import DATABASE, PREFIX, BalancesOptions, DatabaseUrl, TablePrefix
from game_operator.cli.errors import ExitCode, error_text, lost_output, on_signals
from game_operator.cli.options import ServiceOptions
from game_operator.cli.output import remark, waiting
from game_operator.cli.render import answer, cell, label, show_records
from game_operator.errors import ApiError, ConfigurationError, LedgerUnavailableError, TransportError

if TYPE_CHECKING:
    from game_operator.backoffice import Catalogue
    from game_operator.backoffice.catalogue import CatalogueChange
    from game_operator.ledger import SqlLedger

EVERY_SECONDS = 60.0
#: After these a watch goes on: the next look may succeed.
_PASSING = (ApiError, TransportError, LedgerUnavailableError)
_VIEW: Final = {"": "games instances fetched_at_millis error"}
_COLUMNS: Final = ("at_millis", "kind", "game_id", "instance_id", "change")


@dataclass(frozen=True, kw_only=True)
class ChangesOptions(BalancesOptions):
    """What is asked beyond one list of games, and where the last good list is kept."""

    changes: bool = False
    watch: bool = False
    accept_held: Annotated[str | None, typer.Option(metavar="DIGEST")] = None
    store: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    database: DatabaseUrl = None
    table_prefix: TablePrefix = PREFIX

    @property
    def are_asked_for(self) -> bool:
        """Whether more than one list of games is wanted."""
        return self.changes or self.watch or self.accept_held is not None

    def check(self, *, has_filters: bool, seconds: float | None) -> None:
        """Raise BadParameter if the options do not go together."""
        if self.changes + self.watch + (self.accept_held is not None) > 1:
            raise typer.BadParameter("--changes, --watch and --accept-held exclude each other. Pass one of them.")
        if self.are_asked_for and has_filters:
            raise typer.BadParameter(
                "Changes are those of all games. Leave out --genre, --status, --currency and --active."
            )
        if not self.are_asked_for and (self.store is not None or self.database is not None):
            raise typer.BadParameter(
                "--store and --database need --changes, --watch or --accept-held. Pass one of these."
            )
        if self.store is not None and self.database is not None:
            raise typer.BadParameter("--store and --database exclude each other. Pass one of them.")
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
    def _opened(self) -> "Iterator[Path | SqlLedger | None]":
        address = self.database or os.environ.get(DATABASE)
        if self.store is None and address:
            with self.of_ledger(address, self.table_prefix).opened() as ledger:
                yield ledger
        elif self.store is None and not self.watch:
            raise ConfigurationError(
                "There is no last good list to compare with. Pass --store FILE; or the ledger's database, as "
                f"--database URL or in {DATABASE}."
            )
        else:
            yield self.store


def report_changes(options: ChangesOptions, service: ServiceOptions) -> int:
    """Report once what has changed since the last good list, or apply the list that is held."""
    with options.catalogue(service) as catalogue:
        is_first = catalogue.fetched_at_millis is None
        if options.accept_held is not None:
            changes = catalogue.accept_held(options.accept_held)
        else:
            with waiting("Asking for the games …"):
                changes = catalogue.refresh()
        first = "This is the first list. From now on, changes are reported."
        is_same = not changes and catalogue.held is None
        _show(catalogue, changes, first if is_first else "Nothing has changed." if is_same else "")
        return ExitCode.FINE if catalogue.held is None else ExitCode.SAID_NO


def watch(options: ChangesOptions, service: ServiceOptions, seconds: float) -> int:
    """Report changes as they come, until Ctrl-C or SIGTERM."""
    try:
        with on_signals([signal.SIGTERM], signal.default_int_handler), options.catalogue(service) as catalogue:
            return _watched(catalogue, seconds)
    except KeyboardInterrupt:
        remark("The watch has ended.")
        return ExitCode.FINE


def _watched(catalogue: "Catalogue", seconds: float) -> int:
    reported = None  # Of the list that is held: it is reported once.
    for number, changes in enumerate(catalogue.watch(seconds)):
        failed = catalogue.error
        if failed is not None and not isinstance(failed, _PASSING):
            raise failed
        error = error_text(failed) if failed is not None else ""
        held = catalogue.held and catalogue.held.digest
        if not number or changes or error or held != reported:
            sentence = "" if number else f"Watching, every {seconds:g} s, until Ctrl-C."
            _show(catalogue, changes, sentence, **({"error": error} if error else {}))
            reported = held
        if lost := lost_output():
            return lost
    return ExitCode.FINE


def _show(catalogue: "Catalogue", changes: "list[CatalogueChange]", sentence: str, **more: str) -> None:
    """Show *changes*, and what is held for a person to accept."""
    held, held_changes = catalogue.held, [change.as_dict() for change in catalogue.held_changes]
    document: dict[str, object] = {
        "changes": [change.as_dict() for change in changes],
        "games": len(catalogue.games),
        "instances": sum(len(game.instances) for game in catalogue.games),
        "fetched_at_millis": catalogue.fetched_at_millis,
        "held": held
        and {
            "digest": held.digest,
            "reason": held.reason,
            "at_millis": held.at_millis,
            "games": len(held.games),
            "instances": len(held.instances),
            "changes": held_changes,
        },
    }
    sentences = [sentence] if sentence else []
    if held is not None:
        sentences.append(
            f"Held for a person: {held.reason} Nothing of this list is applied. If it is right: `game-operator games "
            f"--accept-held {held.digest}`, with the same store."
        )
    answer(document | more, *sentences, view=_VIEW)
    _show_changes("Changes", [change.as_dict() for change in changes])
    # First what would be gone, for that is why the list is held.
    _show_changes("Would be", sorted(held_changes, key=lambda change: change["after"] is not None))


def _show_changes(title: str, changes: Iterable[dict[str, Any]]) -> None:
    rows = [each | {"change": what_changed(each["before"], each["after"])} for each in changes]
    show_records(title, _COLUMNS, rows)


def what_changed(before: Any, after: Any) -> str:  # Any: JSON.
    """Return what has changed, in one line; of what comes or goes as a whole, its name."""
    if before is None or after is None:
        about = before or after
        return str(about.get("name", "")) if isinstance(about, dict) else f"{cell('', before)} → {cell('', after)}"
    if not isinstance(after, dict):
        return f"{cell('', before)} → {cell('', after)}"
    changed = (name for name in after if before.get(name) != after[name])
    return ", ".join(f"{label(name)} {cell('', before.get(name))} → {cell('', after[name])}" for name in changed)


@contextmanager
def _without_log() -> Iterator[None]:
    """Keep the warnings of the catalogue off stderr, where Python writes what nobody handles: they are reported."""
    log, handler = logging.getLogger("game_operator.backoffice"), logging.NullHandler()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
