"""How the answers of ``game-operator ledger`` look: for people as tables, for programs as JSON."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from game_operator.cli.output import say, show_details, show_rows, write_document
from game_operator.errors import MalformedCallError, shown
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.ledger import (
        AccountHistory,
        AnomalyRecord,
        BetHistory,
        BetRecord,
        BooksReport,
        Movement,
    )
    from game_operator.ledger.api import CallRecord

__all__ = [
    "anomaly_document",
    "balance_document",
    "bet_document",
    "report_document",
    "show_account",
    "show_anomalies",
    "show_bet",
    "show_bets",
    "tell_balance",
    "tell_report",
    "when",
]


def tell_balance(player: str, cents: int, *, as_json: bool) -> None:
    """Say what an account holds."""
    if as_json:
        write_document(balance_document(player, cents))
    else:
        say(f"{player} holds {amount_from_cents(cents)}.")


def balance_document(player: str, cents: int) -> dict[str, object]:
    """Return what an account holds, for programs."""
    return {"player_id": player, "balance": amount_from_cents(cents), "balance_cents": cents}


def when(millis: int | None) -> str:
    """Return a time for people, in UTC; "" for none."""
    if millis is None:
        return ""
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _units(cents: int | None) -> object:
    return "–" if cents is None else amount_from_cents(cents)


def show_bet(bet_id: str, history: "BetHistory", *, as_json: bool) -> None:
    """Show all that is known of a bet."""
    if as_json:
        write_document(
            {
                "bet_id": bet_id,
                "bet": bet_document(history.bet) if history.bet else None,
                "calls": [call._asdict() for call in history.calls],
                "movements": [movement._asdict() for movement in history.movements],
                "anomalies": [anomaly_document(record) for record in history.anomalies],
            }
        )
        return
    if history.is_unknown:
        say(f"Nothing ever named the bet {shown(bet_id)}. Does its wallet name a --source? A player needs --player.")
        return
    if history.bet:
        show_details(_bet_facts(history.bet))
    else:
        say(f"The bet {shown(bet_id)} is not there; this names it:")
    _show_calls(history.calls)
    _show_movements(history.movements)
    if history.anomalies:
        show_anomalies(history.anomalies, every=True, bodies=False)


def _bet_facts(bet: "BetRecord") -> list[tuple[str, object]]:
    facts: dict[str, object] = {
        "bet": bet.bet_id,
        "state": bet.state.value,
        "player": bet.player_id,
        "account": bet.account,
        "wager": _units(bet.wager_cents),
        "won": None if bet.won_cents is None else _units(bet.won_cents),
        "opened at": when(bet.opened_at_millis),
        "settled at": when(bet.settled_at_millis) or None,
        "action": bet.action,
        "game": bet.game,
        "instance": bet.instance_id,
        "round": bet.round_id,
        "source": bet.source or None,
    }
    return [(name, value) for name, value in facts.items() if value is not None]


def show_bets(bets: "Iterable[BetRecord]") -> None:
    """Show a list of bets."""
    headings = ("Opened at (UTC)", "Bet", "State", "Player", "Account", "Wager", "Game", "Round", "Source")
    rows = (
        (
            when(bet.opened_at_millis),
            bet.bet_id,
            bet.state.value,
            bet.player_id,
            bet.account,
            _units(bet.wager_cents),
            bet.game or "–",
            bet.round_id or "–",
            bet.source or "–",
        )
        for bet in bets
    )
    show_rows("Bets; amounts in currency units", headings, rows, numbers={"Wager"})


def _show_calls(calls: "Iterable[CallRecord]") -> None:
    headings = ("At (UTC)", "Call", "Transaction", "Action", "Amount", "Answer", "Balance told")
    listed = [
        (
            when(call.at_millis),
            call.operation,
            call.tx_id,
            call.action or "(held by the rollback)",
            _units(call.amount_cents),
            call.code or "SUCCESS",
            _units(call.balance_cents),
        )
        for call in calls
    ]
    if listed:
        show_rows("Calls; amounts in currency units", headings, listed, numbers={"Amount", "Balance told"})


def _show_movements(movements: "Iterable[Movement]") -> None:
    headings = ("At (UTC)", "By", "Transaction", "Bet", "Account", "Moved")
    listed = [
        (
            when(each.at_millis),
            each.operation,
            each.tx_id,
            each.bet_id or "–",
            each.account,
            _units(each.delta_cents),
        )
        for each in movements
    ]
    if listed:
        show_rows("Movements; amounts in currency units", headings, listed, numbers={"Moved"})


def show_account(account: "AccountHistory", *, as_json: bool) -> None:
    """Show an account, its open bets and its latest movements."""
    if as_json:
        cents = account.balance_cents
        write_document(
            {
                "player_id": account.account,
                "balance": None if cents is None else amount_from_cents(cents),
                "balance_cents": cents,
                "at_millis": account.at_millis,
                "movements": [movement._asdict() for movement in account.movements],
                "open_bets": [bet_document(bet) for bet in account.open_bets],
            }
        )
        return
    held = "in your own table" if account.balance_cents is None else _units(account.balance_cents)
    bets = ", ".join(bet.bet_id for bet in account.open_bets) or "none"
    show_details(
        [
            ("account", account.account),
            ("balance", held),
            ("moved at", when(account.at_millis) if account.at_millis else "never, by a call"),
            ("open bets", bets),
        ]
    )
    _show_movements(account.movements)


def show_anomalies(records: "Iterable[AnomalyRecord]", *, every: bool, bodies: bool) -> None:
    """Show a list of anomalies, with what is told of resolved ones if *every*."""
    headings = ["ID", "Kind", "Answer", "Call", "Transaction", "Bet", "Player", "Seen", "Last at (UTC)", "Source"]
    headings += ["Resolved at (UTC)"] * every + ["Body"] * bodies
    rows = (_anomaly_row(record, every=every, bodies=bodies) for record in records)
    show_rows("Anomalies", headings, rows, numbers={"ID", "Seen"})


def _anomaly_row(record: "AnomalyRecord", *, every: bool, bodies: bool) -> tuple[object, ...]:
    tx_id, bet_id, player_id = _named(record)
    row: tuple[object, ...] = (
        record.id,
        record.kind,
        record.code or "SUCCESS",
        record.operation,
        tx_id or "–",
        bet_id or "–",
        player_id or "–",
        record.seen,
        when(record.last_at_millis),
        record.source or "–",
    )
    if every:
        row += (when(record.resolved_at_millis) or "–",)
    return (*row, _text(record.body)) if bodies else row


def _named(record: "AnomalyRecord") -> tuple[str | None, str | None, str | None]:
    """Return transaction, bet and player; of a call that was refused before it was one, as its body names them."""
    from game_operator.profile import Profile
    from game_operator.protocol.webhook import read_call

    if record.player_id is None and record.operation in ("withdraw", "deposit", "rollback"):
        with suppress(MalformedCallError):
            call: Any = read_call(record.operation, record.body, Profile())  # Any: one of three, with these attributes.
            return call.tx_id, call.bet_id, call.player_id
    return record.tx_id, record.bet_id, record.player_id


def _text(body: bytes) -> str:
    return body.decode(errors="backslashreplace")


def bet_document(bet: "BetRecord") -> dict[str, Any]:
    """Return a bet, for programs."""
    digest = bet.withdraw_digest
    return bet._asdict() | {"state": bet.state.value, "withdraw_digest": digest.hex() if digest else None}


def anomaly_document(record: "AnomalyRecord") -> dict[str, Any]:
    """Return an anomaly, for programs."""
    return record._asdict() | {"body": _text(record.body)}


def report_document(report: "BooksReport") -> dict[str, Any]:
    """Return what a check of the books found, for programs."""
    totals = report._asdict()
    del totals["findings"], totals["notes"]
    return {
        "sound": report.sound,
        "findings": [finding._asdict() for finding in report.findings],
        "notes": [note._asdict() for note in report.notes],
        **totals,
        "balances": amount_from_cents(report.balances_cents),
        "house": amount_from_cents(report.house_cents),
    }


def tell_report(report: "BooksReport") -> None:
    """Say what a check of the books found."""
    states = ", ".join(f"{number} {state}" for state, number in report.bets.items())
    show_details(
        [
            ("accounts", f"{report.accounts}, holding {amount_from_cents(report.balances_cents)}"),
            ("house", amount_from_cents(report.house_cents)),
            ("bets", f"{sum(report.bets.values())}{f': {states}' if states else ''}"),
            ("calls", report.calls),
            ("postings", report.postings),
        ]
    )
    for note in report.notes:
        say(f"· {note.detail}", style="dim")
    for finding in report.findings:
        say(f"✗ {finding.kind}: {finding.detail}", style="red")
    if report.sound:
        say("✓ The books are sound.", style="green")
    else:
        say(f"{len(report.findings)} findings. docs/ledger.md says what each means, and what to do.", style="red")
