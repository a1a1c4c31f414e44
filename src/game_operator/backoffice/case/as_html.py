"""A case file as one page that needs nothing else. The page holds the case file as JSON, too."""

import json
from pathlib import Path
from typing import Any, Final

from game_operator import text as words
from game_operator.backoffice.exports import page

_TEMPLATE: Final = Path(__file__).parent / "templates" / "case.html"
#: Of one text; the JSON in the page has all of it.
_SHOWN: Final = 2_000
#: The fields of a record in the order in which people read them; others follow by name.
_ORDER: Final = (
    "id state status kind verdict operation tx_id player_id account action amount_cents wager_cents won_cents wager "
    "won cents owed_cents paid_cents code balance_cents at_millis opened_at_millis settled_at_millis settled_by "
    "timestamp first_at_millis last_at_millis seen game instance_id round_id round_no currency detail "
    "resolved_at_millis resolved_by resolution"
)
#: Shown elsewhere on the page, or the same for all of it.
_LEFT_TO_OTHERS: Final = frozenset({"bet_id", "source", "subject", "is_held", "is_unreadable"})
_ABBREVIATIONS: Final = {"id": "ID", "tx": "transaction", "sha256": "SHA-256"}


def html(document: str) -> str:
    """
    Return a case file, given as JSON, as a page, to be written in UTF-8.

    The page follows from the JSON alone, in any order of its members.
    """
    parsed = json.loads(document)
    filters = (value, label, cut, facts)
    return page(_TEMPLATE, *filters, case=parsed["contents"], digest=parsed["digest"], document=document)


def facts(record: dict[str, Any]) -> list[tuple[str, Any]]:  # Any: JSON.
    """Return the plain fields of *record* that say something, in their order."""
    known = {name: place for place, name in enumerate(_ORDER.split())}
    names = sorted(record, key=lambda name: (known.get(name, len(known)), name))
    says = (name for name in names if record[name] not in (None, "") and name not in _LEFT_TO_OTHERS)
    return [(name, record[name]) for name in says if not isinstance(record[name], dict | list)]


def label(name: str) -> str:
    """Return the heading of a field: ``Opened at (UTC)`` for ``opened_at_millis``."""
    bare = name.removesuffix("_cents").replace("_millis", "").removeprefix("is_")
    heading = " ".join(_ABBREVIATIONS.get(word, word) for word in bare.split("_"))
    return heading[:1].upper() + heading[1:] + (" (UTC)" if name.endswith("_millis") else "")


def value(given: Any, name: str = "") -> str:  # Any: JSON.
    """Return the value of the field *name* for people, by its unit."""
    if given is None or given == "":
        return "–"
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, int) and (name.endswith("_millis") or name == "timestamp"):
        return words.when(given)
    if isinstance(given, int) and (name.endswith("_cents") or name in ("wager", "won")):
        return words.money(given)
    return cut(str(given))


def cut(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… and {len(text) - _SHOWN:,} more characters"
