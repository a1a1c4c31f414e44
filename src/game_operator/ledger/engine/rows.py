"""Rows of the tables to records and back; the columns in the order of the records' fields."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from game_operator.codes import BetState
from game_operator.ledger.api import BetRecord, CallRecord
from game_operator.ledger.rules.book import Anomaly, Changes

__all__ = [
    "BET_COLUMNS",
    "CALL_COLUMNS",
    "CALL_ROW",
    "anomaly_rows",
    "bet_of",
    "bet_rows",
    "call_rows",
    "changed_bet_rows",
]

BET_COLUMNS = ", ".join(BetRecord._fields)
CALL_COLUMNS = ", ".join(CallRecord._fields)
#: The columns of ``call_rows``.
CALL_ROW = f"source, {CALL_COLUMNS}, body"

_STATES = dict(BetState.__members__)


def bet_of(row: Sequence[Any]) -> BetRecord:
    """Return the bet in a row of BET_COLUMNS."""
    fields = list(row)
    fields[8] = _STATES[fields[8]]
    if fields[14] is not None:
        fields[14] = bytes(fields[14])  # Some drivers give a memoryview.
    return BetRecord._make(fields)


def bet_rows(bets: Iterable[BetRecord], source: str) -> list[tuple[Any, ...]]:
    """Return *bets* as rows to insert."""
    return [(*bet[:8], bet.state.value, *bet[9:15], source) for bet in bets]


def changed_bet_rows(bets: Iterable[BetRecord], source: str) -> list[tuple[Any, ...]]:
    """Return what of *bets* can change: (state, won, settled at, deposit's tx_id, round, source, bet_id, state)."""
    return [
        (
            bet.state.value,
            bet.won_cents,
            bet.settled_at_millis,
            bet.deposit_tx_id,
            bet.round_id,
            source,
            bet.bet_id,
            bet.state.value,
        )
        for bet in bets
    ]


def call_rows(changes: Changes, source: str) -> list[tuple[Any, ...]]:
    """Return the calls as rows to insert: source, the record, and the body of a claim."""
    claims = changes.claims
    if not claims:
        return [(source, *call, None) for call in changes.calls]
    return [(source, *call, claims.get(call.tx_id) if call.operation == "deposit" else None) for call in changes.calls]


def anomaly_rows(anomalies: Iterable[Anomaly], source: str) -> list[tuple[Any, ...]]:
    """Return *anomalies* as rows to insert."""
    return [
        (
            source,
            each.kind,
            each.code,
            each.operation,
            each.tx_id,
            each.bet_id,
            each.player_id,
            each.body,
            sha256(each.body).digest(),
            each.at_millis,
            each.at_millis,
        )
        for each in anomalies
    ]
