"""Rows of the tables to records and back, the columns in the order of the records' fields; and SQL that is shared."""

import json
from collections.abc import Iterable, Sequence, Set
from hashlib import sha256
from typing import Any

from game_operator.codes import BetState
from game_operator.ledger.api import BetRecord, CallRecord
from game_operator.ledger.engine.script import Execute, Kind
from game_operator.ledger.rules.book import Anomaly, Changes

#: PostgreSQL's clock in Unix milliseconds, one for all machines.
CLOCK = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)"

#: PostgreSQL: wait for the disk at this transaction's commit, even if the session prefers otherwise; lower nothing.
DURABLE = (
    "(SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN "
    "('off', 'local'))"
)

#: SQLite: any number of keys as one JSON text.
IN_LIST = "IN (SELECT value FROM json_each(?))"

#: PostgreSQL: any number of keys as one JSON text: one parameter of one type for every driver, and quicker to read than
#: an array each.
KEYS = "ARRAY(SELECT jsonb_array_elements_text(CAST(CAST(? AS text) AS jsonb)))"

#: PostgreSQL: rows as one JSON text, an array of arrays.
JSON_ROWS = "json_array_elements(CAST(CAST(? AS text) AS json)) AS item"


class LookUp:
    """A look-up of rows by any number of keys; *select* ends before the condition of the key."""

    def __init__(self, kind: Kind, select: str) -> None:
        self._one = f"{select}= ?" if kind == "sqlite" else ""
        self._many = select + (IN_LIST if kind == "sqlite" else f"= ANY({KEYS})")

    def of(self, keys: Set[Any], *before: Any) -> Execute:
        """Return the statement for *keys*, after the parameters *before*; in SQLite a lone key has a quicker one."""
        if self._one and len(keys) == 1:
            return Execute(self._one, (*before, *keys))
        return Execute(self._many, (*before, json.dumps(sorted(keys))))


def json_columns(kinds: str) -> str:
    """Return the columns of JSON_ROWS from the first on, each of the kind that ``json_column`` names."""
    return ", ".join(json_column(index, kind) for index, kind in enumerate(kinds))


def json_column(index: int, kind: str) -> str:
    """Return a column of JSON_ROWS: t a text, b a bigint, x bytes in hexadecimal."""
    text = f"(item ->> {index})"
    return {"t": text, "b": f"CAST({text} AS bigint)", "x": f"decode({text}, 'hex')"}[kind]


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
