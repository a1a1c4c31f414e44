"""How the answers of ``game-operator ledger`` look: for people as tables, for programs as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from game_operator.cli.output import answer, counted, say, show_details, show_rows, wants_json, when
from game_operator.errors import MalformedCallError, shown
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.ledger import AccountHistory, AnomalyRecord, BetHistory, BetRecord, BooksReport, Finding
    from game_operator.ledger.books.maintain import MaintainReport

#: What stands below a list that was cut.
MORE: Final = "There are more than these {}: pass a greater --limit."
#: The fields that tables and lists show; the headings are made of their names.
_BETS: Final = "opened_at_millis bet_id state player_id account wager_cents game round_id source"
_CALLS: Final = "at_millis operation tx_id action amount_cents code balance_cents"
_MOVEMENTS: Final = "at_millis operation tx_id bet_id account delta_cents"
_ANOMALIES: Final = "id kind code operation tx_id bet_id player_id seen last_at_millis source"
_BET: Final = (
    "bet_id state player_id account wager_cents won_cents opened_at_millis settled_at_millis action game instance_id "
    "round_id source"
)


def _heading(name: str) -> str:
    """Return the heading of the field *name*: ``Opened at (UTC)`` for ``opened_at_millis``."""
    if name in ("id", "tx_id"):
        return {"id": "ID", "tx_id": "Transaction"}[name]
    words = name.removesuffix("_id").removesuffix("_cents").replace("_millis", " (UTC)")
    return words.replace("_", " ").capitalize().replace("utc", "UTC")


def _cell(name: str, value: Any) -> object:
    """Return the value of the field *name* for people, by its unit."""
    if value is None or value == "":
        return "–"
    if name.endswith("_millis"):
        return when(value)
    return amount_from_cents(value) if name.endswith("_cents") else value


def _show_table(title: str, fields: str, records: Iterable[Mapping[str, Any]]) -> None:
    if wants_json():  # There may be very many.
        return
    names = fields.split()
    rows = [[_cell(name, record[name]) for name in names] for record in records]
    numbers = {_heading(name) for name in names if name.endswith("_cents") or name in ("id", "seen")}
    if rows:
        show_rows(title, tuple(map(_heading, names)), rows, numbers=numbers)


def balance_document(player: str, cents: int | None) -> dict[str, object]:
    """Return what an account holds, for programs."""
    balance = None if cents is None else amount_from_cents(cents)
    return {"player_id": player, "balance": balance, "balance_cents": cents}


def show_bet(bet_id: str, history: "BetHistory") -> None:
    """Show all that is known of a bet."""
    bet = bet_document(history.bet) if history.bet else None
    anomalies = list(map(anomaly_document, history.anomalies))
    answer({"bet_id": bet_id} | history._asdict() | {"bet": bet, "anomalies": anomalies})
    if history.is_unknown:
        say(f"No call names the bet {shown(bet_id)}. If it is of a source, add --source. For a player, pass --player.")
        return
    if bet:
        facts = [(_heading(name).lower(), _cell(name, bet[name])) for name in _BET.split()]
        show_details((heading, value) for heading, value in facts if value != "–")
    else:
        say(f"The bet {shown(bet_id)} is not there; this names it:")
    calls = (
        call._asdict() | {"action": call.action or "(held by the rollback)", "code": call.code or "SUCCESS"}
        for call in history.calls
    )
    _show_table("Calls; amounts in currency units", _CALLS, calls)
    _show_movements(history)
    show_anomalies(history.anomalies, every=True, bodies=False)


def show_bets(bets: "Iterable[BetRecord]") -> None:
    """Show a list of bets."""
    _show_table("Bets; amounts in currency units", _BETS, map(bet_document, bets))


def _show_movements(history: "BetHistory | AccountHistory") -> None:
    movements = (movement._asdict() for movement in history.movements)
    _show_table("Movements; amounts in currency units", _MOVEMENTS, movements)


def show_account(account: "AccountHistory") -> None:
    """Show an account, its open bets and its latest movements."""
    cents = account.balance_cents
    more = {"at_millis": account.at_millis, "movements": account.movements, "earlier": account.earlier}
    open_bets = list(map(bet_document, account.open_bets))
    answer(balance_document(account.account, cents) | more | {"open_bets": open_bets})
    show_details(
        [
            ("account", account.account),
            ("balance", "in your own table" if cents is None else amount_from_cents(cents)),
            ("moved at", when(account.at_millis) if account.at_millis else "never, by a call"),
            ("open bets", ", ".join(bet.bet_id for bet in account.open_bets) or "none"),
        ]
    )
    _show_movements(account)
    if account.earlier:
        say(f"There are earlier movements: pass --before {account.earlier}")


def show_anomalies(records: "Iterable[AnomalyRecord]", *, every: bool, bodies: bool) -> None:
    """Show a list of anomalies, also when they were resolved if *every*."""
    fields = _ANOMALIES + " resolved_at_millis" * every + " body" * bodies
    listed = (anomaly_document(each) | {"code": each.code or "SUCCESS"} | _named_in(each) for each in records)
    _show_table("Anomalies", fields, listed)


def _named_in(record: "AnomalyRecord") -> dict[str, str | None]:
    """Return transaction, bet and player as the body names them, if the call was refused before it was read."""
    from game_operator.profile import Profile
    from game_operator.protocol.webhook import read_call

    if record.player_id is None and record.operation in ("withdraw", "deposit", "rollback"):
        with suppress(MalformedCallError):
            call: Any = read_call(record.operation, record.body, Profile())[0]  # Any: one of three, which have these.
            return {"tx_id": call.tx_id, "bet_id": call.bet_id, "player_id": call.player_id}
    return {}


def bet_document(bet: "BetRecord") -> dict[str, Any]:
    """Return a bet, for programs."""
    digest = bet.withdraw_digest
    return bet._asdict() | {"state": bet.state.value, "withdraw_digest": digest.hex() if digest else None}


def anomaly_document(record: "AnomalyRecord") -> dict[str, Any]:
    """Return an anomaly, for programs."""
    return record._asdict() | {"body": record.body.decode(errors="backslashreplace")}


def show_books(report: "BooksReport") -> None:
    """Say what a check of the books found."""
    balances, house = amount_from_cents(report.balances_cents), amount_from_cents(report.house_cents)
    answer(report._asdict() | {"sound": report.sound, "balances": balances, "house": house})
    states = ", ".join(f"{number} {state}" for state, number in report.bets.items())
    show_details(
        [
            ("accounts", f"{report.accounts}, holding {balances}"),
            ("provider's side", house),
            ("bets", f"{sum(report.bets.values())}{f': {states}' if states else ''}"),
            ("calls", report.calls),
            ("postings", report.postings),
            *([("read since", f"{when(report.checkpoint_millis)} UTC")] if report.checkpoint_millis else []),
        ]
    )
    for note in report.notes:
        say(f"· {note.detail}", style="dim")
    _show_findings(report.findings)


def _show_findings(findings: Sequence["Finding"]) -> None:
    for finding in findings:
        say(f"✗ {finding.kind}: {finding.detail}", style="red")
    if findings:
        say(
            f"Findings: {len(findings)}. docs/how-to/running.md says what to do, "
            "docs/reference/ledger.md what each means.",
            style="red",
        )
    else:
        say("✓ The books are sound.", style="green")


def show_maintenance(report: "MaintainReport") -> None:
    """Say in one line what a run of ``maintain`` did, and what is wrong in the books."""
    read = sum(report.read.values())
    took = f"{report.seconds:.1f} s"
    state = f"Done in {took}" if report.finished else f"Out of time after {took}, and the next run goes on"
    sentence = (
        f"{state}: {counted(read, 'row')} read, {counted(report.sealed, 'posting')} sealed, "
        f"{counted(report.read_again, 'slice')} read again, {counted(len(report.dropped), 'day')} dropped, "
        f"days before {report.days_closed} closed; "
    )
    books = "the books are sound." if report.sound else "the books are not sound."
    dropped = [each._asdict() for each in report.dropped]
    kept = [each._asdict() for each in report.kept]
    answer(report._asdict() | {"dropped": dropped, "kept": kept, "sound": report.sound}, sentence + books)
    for text in (
        *report.partitions,
        *(f"dropped {each.day}, postings: {each.postings}" + f" {each.file}".rstrip() for each in report.dropped),
        *(f"{each.day} stays: {each.reason}" for each in report.kept),
    ):
        say(f"· {text}", style="dim")
    if not report.sound:
        _show_findings(report.findings)
