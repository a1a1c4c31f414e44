"""What `game-operator games` does beyond one list: report changes."""

import logging
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from game_operator.cli.database import DATABASE, LedgerOptions, address_of
from game_operator.cli.errors import ExitCode
from game_operator.cli.options import ServiceOptions
from game_operator.cli.output import waiting
from game_operator.cli.render import answer, cell, label, show_records

if TYPE_CHECKING:
    from game_operator.backoffice import Catalogue
    from game_operator.backoffice.catalogue import CatalogueChange

_COLUMNS: Final = ("at_millis", "kind", "game_id", "instance_id", "change")


def report_changes(place: LedgerOptions, service: ServiceOptions, most_gone: float | None) -> int:
    """Report once what has changed since the last good list."""
    from game_operator.backoffice import Catalogue

    # What it warns of is in the report.
    logging.getLogger("game_operator.backoffice").addHandler(logging.NullHandler())
    address_of(place.database, f"There is no last good list to compare with. Pass --database URL, or set {DATABASE}.")
    with service.client() as client, place.opened() as ledger:
        catalogue = Catalogue(client, ledger)
        is_first = catalogue.fetched_at_millis is None
        with waiting("Asking for the games …"):
            changes = catalogue.refresh(most_gone=None if most_gone is None else Decimal(str(most_gone)))
        first = "This is the first list. From now on, changes are reported."
        is_same = not changes and catalogue.held is None
        _show(catalogue, changes, first if is_first else "Nothing has changed." if is_same else "")
        return ExitCode.FINE if catalogue.held is None else ExitCode.SAID_NO


def _show(catalogue: "Catalogue", changes: "list[CatalogueChange]", sentence: str) -> None:
    """Show *changes*, and what is held for a person to accept."""
    held = catalogue.held
    held_changes = [] if held is None else [change.as_dict() for change in held.changes]
    document: dict[str, object] = {
        "changes": [change.as_dict() for change in changes],
        "games": len(catalogue.games),
        "instances": sum(len(game.instances) for game in catalogue.games),
        "fetched_at_millis": catalogue.fetched_at_millis,
        "held": held and {"reason": held.reason, "changes": held_changes},
    }
    sentences = [sentence] if sentence else []
    if held is not None:
        sentences.append(
            f"Held for a person: {held.reason} Nothing of this list is applied. If it is right: `game-operator games "
            "--changes --most-gone 1`."
        )
    answer(document, *sentences, view={"": "games instances fetched_at_millis"})
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
    changed = (name for name in before | after if before.get(name) != after.get(name))
    return ", ".join(f"{label(name)} {cell('', before.get(name))} → {cell('', after.get(name))}" for name in changed)
