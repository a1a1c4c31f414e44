"""What is read from the tables: bets, balances, and what happened to one bet or account, in order."""

from collections.abc import Generator
from hashlib import sha256
from typing import Any, NamedTuple

from game_operator.codes import BetState
from game_operator.errors import AccountNotFoundError, shown
from game_operator.ledger.accounts.choice import is_marked
from game_operator.ledger.api import OPEN_FIRST, BetRecord, CallRecord, Outcome
from game_operator.ledger.engine.dialects import Balances
from game_operator.ledger.engine.script import Execute, Step
from game_operator.ledger.engine.tables import BET_COLUMNS, CALL_COLUMNS, bet_of
from game_operator.ledger.rules.book import body_of
from game_operator.ledger.staff.anomalies import OF_SOURCE, AnomalyRecord, record_of
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall
from game_operator.money import Cents

_LAST_MILLIS = 2**62


def balance_of(account: str, accounts: Balances) -> Generator[Step, Any, Cents]:
    """Return a balance in cents; raise AccountNotFoundError if there is none."""
    cents = yield from accounts.balance(account)
    if cents is None:
        raise AccountNotFoundError(f"There is no account {shown(account)}.", remedy=accounts.unknown)
    return Cents(cents)


def _is_left_by(call: MovingCall, outcome: Outcome, bet: BetRecord) -> bool:
    """Return whether *bet* is as *call* left it, by its *outcome*."""
    if isinstance(call, RollbackCall):
        return bet.state not in (BetState.OPEN, BetState.SPENT, BetState.CLOSED)
    if isinstance(call, DepositCall):
        return bet.state is BetState.CLOSED and bet.deposit_tx_id == call.tx_id
    has_debited = bet.state not in (BetState.DECLINED, BetState.TOMBSTONE)
    if outcome.refused:  # A declined bet is stored, for good.
        return not has_debited or bet.state is BetState.ROLLED_BACK
    return has_debited and bet.withdraw_tx_id == call.tx_id


class Movement(NamedTuple):
    """
    One posting, as its account sees it.

    Attributes:
        operation, tx_id, source: The call that moved it; ``carry`` for what ``prune`` has folded.
        bet_id: The bet that the call named, or None.
        account: The account.
        delta_cents: What came to the account, or went when negative.
        at_millis: When.
    """

    operation: str
    tx_id: str
    source: str
    bet_id: str | None
    account: str
    delta_cents: int
    at_millis: int


class BetHistory(NamedTuple):
    """
    All that is known of a bet, each part oldest first.

    Attributes:
        bet: The bet as it stands; None when only calls or anomalies name it.
        calls: The calls that were answered for good, claims that name the bet among them.
        movements: What was posted for those calls; the old ones of them are folded by ``prune``.
        anomalies: What was odd, resolved or not.
    """

    bet: BetRecord | None
    calls: tuple[CallRecord, ...]
    movements: tuple[Movement, ...]
    anomalies: tuple[AnomalyRecord, ...]

    @property
    def is_unknown(self) -> bool:
        """Whether nothing ever named the bet."""
        return self.bet is None and not self.calls and not self.anomalies


class AccountHistory(NamedTuple):
    """
    An account and its latest movements, oldest first.

    Attributes:
        account: Its key.
        balance_cents: What it holds; None when its balance is in the operator's own table.
        at_millis: When it last moved.
        movements: The latest, as many as were asked for.
        open_bets: Its bets that are OPEN, oldest first, as many as were asked for.
    """

    account: str
    balance_cents: int | None
    at_millis: int
    movements: tuple[Movement, ...]
    open_bets: tuple[BetRecord, ...]


def bet(prefix: str, bet_id: str, source: str) -> Generator[Step, Any, BetRecord | None]:
    """Return a bet, or None."""
    sql = f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE source = ? AND bet_id = ?"  # noqa: S608 - a checked prefix
    rows = yield Execute(sql, (source, bet_id))
    return bet_of(rows[0]) if rows else None


def stored_at(prefix: str, call: MovingCall, outcome: Outcome, source: str) -> Generator[Step, Any, int | None]:
    """Return the time of what *call* has stored, by its *outcome*; None if that is not committed."""
    if outcome.anomaly and not outcome.applied:
        return (yield from anomaly_at(prefix, call.operation, outcome.anomaly, body_of(call), source))
    if isinstance(call, DepositCall) and call.is_claim:
        sql = f"SELECT at_millis FROM {prefix}calls WHERE source = ? AND operation = 'deposit' AND tx_id = ?"  # noqa: S608
        rows = yield Execute(sql, (source, call.tx_id))
        return rows[0][0] if rows else None
    assert call.bet_id is not None
    found = yield from bet(prefix, call.bet_id, source)
    if found is None or not _is_left_by(call, outcome, found):
        return None
    return found.opened_at_millis if call.operation == "withdraw" else found.settled_at_millis or found.opened_at_millis


def anomaly_at(prefix: str, operation: str, kind: str, body: bytes, source: str) -> Generator[Step, Any, int | None]:
    """Return when the anomaly of *body* came last; None if it is not committed."""
    rows = yield Execute(
        f"SELECT last_at_millis FROM {prefix}anomalies WHERE source = ? AND kind = ? AND operation = ? AND digest = ?",  # noqa: S608
        (source, kind, operation, sha256(body).digest()),
    )
    return rows[0][0] if rows else None


def page_of_bets(
    prefix: str, since_millis: int | None, until_millis: int | None, source: str, after: BetRecord | None, most: int
) -> Generator[Step, Any, list[BetRecord]]:
    """Return at most *most* bets by time and id, those that follow *after*."""
    until = _LAST_MILLIS if until_millis is None else until_millis
    millis, bet_id = (after.opened_at_millis, after.bet_id) if after else (-1, "")
    rows = yield Execute(
        f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE {OF_SOURCE} AND opened_at_millis >= ? AND opened_at_millis < ? "  # noqa: S608
        "AND (opened_at_millis > ? OR bet_id > ?) ORDER BY opened_at_millis, bet_id LIMIT ?",
        # A first bound that the index can use.
        (source, max(since_millis or 0, millis), until, millis, bet_id, most),
    )
    return list(map(bet_of, rows))


def bets_before(
    prefix: str, before_millis: int, most: int, *, only_open: bool, source: str | None
) -> Generator[Step, Any, list[BetRecord]]:
    """Return at most *most* bets that were opened before a time, the oldest first; whole tables may be read."""
    conditions = ["opened_at_millis < ?"]
    parameters: list[object] = [before_millis]
    if only_open:
        conditions.append("state = 'OPEN'")
    if source is not None:
        conditions.append(OF_SOURCE)
        parameters.append(source)
    sql = f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE {' AND '.join(conditions)} "  # noqa: S608 - a checked prefix
    rows = yield Execute(f"{sql}ORDER BY opened_at_millis, bet_id LIMIT ?", (*parameters, most))
    return list(map(bet_of, rows))


def bet_history(prefix: str, bet_id: str, source: str) -> Generator[Step, Any, BetHistory]:
    """Return the history of a bet; one that is unknown has an empty history."""
    found = yield from bet(prefix, bet_id, source)
    of_bet = "WHERE source = ? AND bet_id = ? ORDER BY"
    # S608: our own texts and a checked prefix.
    calls = yield Execute(
        f"SELECT {CALL_COLUMNS} FROM {prefix}calls {of_bet} at_millis, operation DESC, tx_id",  # noqa: S608
        (source, bet_id),
    )
    movements = yield Execute(
        f"{_MOVEMENT} FROM {prefix}postings AS p JOIN {prefix}calls AS c ON {_OF_CALL} "
        "WHERE c.source = ? AND c.bet_id = ? ORDER BY p.id",
        (source, bet_id),
    )
    columns = ", ".join(AnomalyRecord._fields)
    anomalies = yield Execute(f"SELECT {columns} FROM {prefix}anomalies {of_bet} id", (source, bet_id))  # noqa: S608
    return BetHistory(
        found,
        tuple(CallRecord(*row) for row in calls),
        tuple(Movement(*row) for row in movements),
        tuple(map(record_of, anomalies)),
    )


def account_history(prefix: str, account: str, most: int) -> Generator[Step, Any, AccountHistory]:
    """Return the history of an account; raise AccountNotFoundError if there is none."""
    rows = yield Execute(
        f"SELECT balance_cents, at_millis FROM {prefix}accounts WHERE account = ? "  # noqa: S608
        f"UNION ALL SELECT NULL, at_millis FROM {prefix}clocks WHERE account = ?",
        (account, account),
    )
    if not rows:
        advice = OPEN_FIRST
        if (yield from is_marked(prefix)):
            advice = "Balances are in a table of the operator's own, and no call has moved that account yet."
        raise AccountNotFoundError(f"There is no account {shown(account)}.", remedy=advice)
    movements = yield Execute(
        f"{_MOVEMENT} FROM {prefix}postings AS p LEFT JOIN {prefix}calls AS c ON {_OF_CALL} "
        "WHERE p.to_account = ? OR p.from_account = ? ORDER BY p.id DESC LIMIT ?",
        (account, account, most),
    )
    bets = yield Execute(
        f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE account = ? AND state = 'OPEN' "  # noqa: S608
        "ORDER BY opened_at_millis, bet_id LIMIT ?",
        (account, most),
    )
    latest = tuple(Movement(*row) for row in reversed(movements))
    balance_cents, at_millis = rows[0]
    return AccountHistory(account, balance_cents, at_millis, latest, tuple(map(bet_of, bets)))


_MOVEMENT = """SELECT p.operation, p.tx_id, p.source, c.bet_id, COALESCE(p.to_account, p.from_account),
    CASE WHEN p.to_account IS NULL THEN -p.amount_cents ELSE p.amount_cents END, p.at_millis"""
_OF_CALL = "c.source = p.source AND c.operation = p.operation AND c.tx_id = p.tx_id"
