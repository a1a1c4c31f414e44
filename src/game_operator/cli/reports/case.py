"""How ``game-operator case`` looks for people; programs and pages have all of it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from game_operator.cli.output import say, show_details, show_rows, wants_json, when
from game_operator.errors import one_line
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.backoffice import CaseFile

#: Of a text in a table.
_LONGEST: Final = 200
_BET: Final = (
    "state player_id account wager_cents won_cents opened_at_millis settled_at_millis settled_by game round_id"
)
_TABLES: Final = {
    "Calls; amounts in currency units": ("calls", "at_millis operation tx_id amount_cents code balance_cents"),
    "Postings; amounts in currency units": ("postings", "at_millis operation tx_id account delta_cents"),
    "Anomalies": ("anomalies", "id kind code operation tx_id seen last_at_millis resolved_at_millis"),
    "Findings": ("findings", "id kind detail seen last_at_millis resolved_at_millis resolved_by resolution"),
    "Reconciliations": ("reconciliations", "run_id verdict at_millis service"),
}


def show_case(case: "CaseFile") -> None:
    """Show a case file in short."""
    if wants_json():
        return
    contents = case.contents
    for sentence in contents["summary"]:
        say(sentence)
    ledger = contents["ledger"]
    bet = ledger["bet"]
    if bet is not None:
        show_details((_heading(name), _cell(name, bet[name])) for name in _BET.split())
    every = contents | {"calls": ledger["calls"], "postings": ledger["postings"]}
    for title, (key, fields) in _TABLES.items():
        _show_table(title, fields.split(), every[key])
    for note in ledger["notes"]:
        say(f"· {note}", style="dim")
    if contents["comparison"]["agrees"] is False:
        say(f"· {contents['comparison']['text']}", style="yellow")
    if problem := contents["provider"]["problem"]:
        say(f"· The provider: {problem}", style="dim")
    say(f"SHA-256 of the contents: {case.digest}")


def _show_table(title: str, names: list[str], records: Iterable[Mapping[str, Any]]) -> None:
    rows = [[_cell(name, record[name]) for name in names] for record in records]
    if rows:
        numbers = {_heading(name) for name in names if name.endswith("_cents") or name in ("id", "seen")}
        show_rows(title, tuple(map(_heading, names)), rows, numbers=numbers)


def _heading(name: str) -> str:
    words = name.removesuffix("_id").removesuffix("_cents").replace("_millis", " (UTC)").replace("_", " ")
    return {"id": "ID", "tx": "Transaction"}.get(words, words.capitalize().replace("utc", "UTC"))


def _cell(name: str, value: Any) -> object:  # Any: JSON.
    if name == "code" and value is None:
        return "SUCCESS"
    if value is None or value == "":
        return "–"
    if name.endswith("_millis"):
        return when(value)
    if name.endswith("_cents"):
        return amount_from_cents(value)
    return one_line(value, _LONGEST) if isinstance(value, str) else value
