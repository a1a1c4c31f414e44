"""What is read from the tables, in SQL that all our databases understand."""

from collections.abc import Generator
from hashlib import sha256
from typing import Any, Protocol

from game_operator.codes import BetState
from game_operator.errors import AccountNotFoundError, shown
from game_operator.ledger.api import BetRecord, Outcome
from game_operator.ledger.engine.rows import BET_COLUMNS, bet_of
from game_operator.ledger.engine.script import Execute, Step
from game_operator.ledger.rules.book import body_of
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall
from game_operator.money import Cents

__all__ = ["OF_SOURCE", "Queries", "balance_of"]

#: A source as a listing in order of time asks for it. SQLite prefers a unique index that begins with the source, and
#: then sorts the whole table for every page; a CAST keeps that index out. To PostgreSQL it is the column itself.
OF_SOURCE = "CAST(source AS text) = ?"

_LAST_MILLIS = 2**62


class _Accounts(Protocol):
    @property
    def unknown(self) -> str: ...

    def balance(self, key: str) -> Generator[Step, Any, int | None]: ...


def balance_of(account: str, accounts: _Accounts) -> Generator[Step, Any, Cents]:
    """Return a balance in cents; raise AccountNotFoundError if there is none."""
    cents = yield from accounts.balance(account)
    if cents is None:
        raise AccountNotFoundError(f"There is no account {shown(account)}.", remedy=accounts.unknown)
    return Cents(cents)


def _is_told(call: MovingCall, outcome: Outcome, bet: BetRecord) -> bool:
    """Return whether *bet* is as *outcome* says that *call* left it."""
    if isinstance(call, RollbackCall):
        return bet.state not in (BetState.OPEN, BetState.SPENT, BetState.CLOSED)
    if isinstance(call, DepositCall):
        return bet.state is BetState.CLOSED and bet.deposit_tx_id == call.tx_id
    has_debited = bet.state not in (BetState.DECLINED, BetState.TOMBSTONE)
    if outcome.refused:  # A declined bet is stored, for good.
        return not has_debited or bet.state is BetState.ROLLED_BACK
    return has_debited and bet.withdraw_tx_id == call.tx_id


class Queries:
    """Scripts that read the tables with a prefix."""

    def __init__(self, prefix: str) -> None:
        self._bet = f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE source = ? AND bet_id = ?"  # noqa: S608 - a checked prefix
        self._deposit = f"SELECT at_millis FROM {prefix}calls WHERE source = ? AND operation = 'deposit' AND tx_id = ?"  # noqa: S608
        same = "source = ? AND kind = ? AND operation = ? AND digest = ?"
        self._anomaly = f"SELECT last_at_millis FROM {prefix}anomalies WHERE {same}"  # noqa: S608
        self._bets = (
            f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE {OF_SOURCE} AND opened_at_millis >= ? "  # noqa: S608
            "AND opened_at_millis < ? AND (opened_at_millis > ? OR bet_id > ?) "
            "ORDER BY opened_at_millis, bet_id LIMIT ?"
        )

    def bet(self, bet_id: str, source: str) -> Generator[Step, Any, BetRecord | None]:
        """Return a bet, or None."""
        rows = yield Execute(self._bet, (source, bet_id))
        return bet_of(rows[0]) if rows else None

    def stored_at(self, call: MovingCall, outcome: Outcome, source: str) -> Generator[Step, Any, int | None]:
        """Return the time of what *call* has stored, by its *outcome*; None if that is not committed."""
        if outcome.anomaly and not outcome.applied:
            return (yield from self.anomaly_at(call.operation, outcome.anomaly, body_of(call), source))
        if isinstance(call, DepositCall) and call.is_claim:
            rows = yield Execute(self._deposit, (source, call.tx_id))
            return rows[0][0] if rows else None
        assert call.bet_id is not None
        bet = yield from self.bet(call.bet_id, source)
        if bet is None or not _is_told(call, outcome, bet):
            return None
        return bet.opened_at_millis if call.operation == "withdraw" else bet.settled_at_millis or bet.opened_at_millis

    def anomaly_at(self, operation: str, kind: str, body: bytes, source: str) -> Generator[Step, Any, int | None]:
        """Return when the anomaly of *body* came last; None if it is not committed."""
        rows = yield Execute(self._anomaly, (source, kind, operation, sha256(body).digest()))
        return rows[0][0] if rows else None

    def bets(
        self, since_millis: int | None, until_millis: int | None, source: str, after: BetRecord | None, most: int
    ) -> Generator[Step, Any, list[BetRecord]]:
        """Return at most *most* bets by time and id, those that follow *after*."""
        since = since_millis or 0
        until = _LAST_MILLIS if until_millis is None else until_millis
        millis, bet_id = (after.opened_at_millis, after.bet_id) if after else (-1, "")
        # A first bound that the index can use.
        rows = yield Execute(self._bets, (source, max(since, millis), until, millis, bet_id, most))
        return list(map(bet_of, rows))
