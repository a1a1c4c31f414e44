"""
The ledger's rows of one bet, from one snapshot.

Bet, calls, claims, findings and results of reconciliations are found by indexes. To find the postings and the resolved
anomalies, whole tables are read: at 10^6 bets this takes 0.3 s on SQLite. The table of calls is read as a whole only if
a rollback has settled the bet and does not have the withdraw's identity.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from game_operator.codes import BetState
from game_operator.ledger import AnomalyRecord, BetRecord
from game_operator.ledger.api import CallRecord
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.script import Execute, Kind, Script
from game_operator.ledger.engine.tables import CALL_COLUMNS, POSTING_ACCOUNT, POSTING_DELTA, sql_texts
from game_operator.ledger.staff import queries
from game_operator.ledger.staff.anomalies import record_of
from game_operator.ledger.staff.findings import Finding


class KeptCall(NamedTuple):
    """A call of the ledger, and the body that is kept of it: of a claim until it is pruned, else None."""

    call: CallRecord
    body: bytes | None


class KeptPosting(NamedTuple):
    """One movement; *delta_cents* came to the account, or went when negative."""

    id: int
    operation: str
    tx_id: str
    account: str
    delta_cents: int
    at_millis: int


class KeptAnomaly(NamedTuple):
    """An anomaly, the SHA-256 of its body, and whether it only seems to name the bet: its body could not be read."""

    record: AnomalyRecord
    digest: bytes
    is_unreadable: bool


class KeptLook(NamedTuple):
    """What a reconciliation found about the bet: the run, its verdict, and the bytes of the provider's answer."""

    run_id: int
    service: str
    actor: str | None
    reason: str | None
    verdict: str
    data: str
    cents: int
    evidence: bytes | None
    digest: bytes | None
    at_millis: int | None


class KeptRows(NamedTuple):
    """All rows of a bet, each part oldest first; *pruned_before_millis* is None if nothing was ever pruned."""

    bet: BetRecord | None
    calls: tuple[KeptCall, ...]
    postings: tuple[KeptPosting, ...]
    anomalies: tuple[KeptAnomaly, ...]
    findings: tuple[Finding, ...]
    looks: tuple[KeptLook, ...]
    pruned_before_millis: int | None

    @property
    def is_unknown(self) -> bool:
        """Whether nothing in the ledger names the bet."""
        return not (self.bet or self.calls or self.anomalies or self.findings or self.looks)


_LOOK_COLUMNS = (
    "r.id, r.service, r.actor, r.reason, i.state, i.data, i.cents, i.evidence, i.digest, i.at_millis"  # As in KeptLook.
)


def rows_of_bet(bet_id: str, source: str, dialect: SqlDialect) -> Script[KeptRows]:
    """Return all rows of a bet; of one that nobody knows, no rows."""
    sql = _sql(dialect.kind, dialect.prefix)
    bet = yield from queries.bet(dialect.prefix, bet_id, source)
    findings = yield Execute(sql["findings"], (source, bet_id))
    found = tuple(Finding._make(_plain(row)) for row in findings)
    calls = yield from _calls(sql, bet_id, source, bet, found)
    looks = yield Execute(sql["looked_up"], (bet_id, source))
    pruned = yield Execute(sql["pruned"], ())
    return KeptRows(
        bet,
        calls,
        (yield from _postings(sql, source, calls)),
        (yield from _anomalies(sql, bet_id, source)),
        found,
        tuple(KeptLook._make(_plain(row)) for row in looks),
        pruned[0][0] if pruned else None,
    )


def _sql(kind: Kind, prefix: str) -> dict[str, str]:
    return sql_texts(
        __package__,
        "rows.sql",
        prefix=prefix,
        call_columns=CALL_COLUMNS,
        anomaly_columns=", ".join(AnomalyRecord._fields),
        finding_columns=", ".join(Finding._fields),
        item_columns=_LOOK_COLUMNS,
        in_body="instr(body, ?)" if kind == "sqlite" else "position(CAST(? AS bytea) IN body)",
        account=POSTING_ACCOUNT.format(""),
        delta=POSTING_DELTA.format(""),
    )


def _plain(row: Sequence[Any]) -> list[Any]:
    # Some drivers give bytes as a memoryview.
    return [bytes(value) if isinstance(value, memoryview) else value for value in row]


def _calls(
    sql: dict[str, str], bet_id: str, source: str, bet: BetRecord | None, findings: Sequence[Finding]
) -> Script[tuple[KeptCall, ...]]:
    rows: list[Sequence[Any]] = []
    for operation, tx_id in sorted(_identities(bet_id, bet, findings)):
        rows += yield Execute(sql["call"], (source, operation, tx_id))
    rows += yield Execute(sql["claims"], (source, bet_id))
    kept = {(row[0], row[1]): KeptCall(CallRecord(*row[:-1]), row[-1]) for row in map(_plain, rows)}
    # A derived identity may be another bet's: a body can name any tx_id.
    kept = {identity: each for identity, each in kept.items() if each.call.bet_id == bet_id}
    if bet is not None and bet.state is BetState.ROLLED_BACK and not _has_refund(bet, kept.values()):
        rows = yield Execute(sql["all_calls"], (source, bet_id))
        kept |= {(row[0], row[1]): KeptCall(CallRecord(*row[:-1]), row[-1]) for row in map(_plain, rows)}
    return tuple(sorted(kept.values(), key=lambda each: (each.call.at_millis, each.call.held, each.call.operation)))


def _identities(bet_id: str, bet: BetRecord | None, findings: Sequence[Finding]) -> set[tuple[str, str]]:
    """Return under which identities calls of the bet may be stored."""
    action = bet.action.lower() if bet else "bet"
    withdraws = {f"withdraw:{action}:{bet_id}"} | {bet.withdraw_tx_id or "" if bet else ""}
    deposits = {f"deposit:bet:{bet_id}"} | {bet.deposit_tx_id or "" if bet else ""}
    found = {("withdraw", each) for each in withdraws} | {("rollback", each) for each in withdraws}
    found |= {("rollback", f"rollback:{action}:{bet_id}")} | {("deposit", each) for each in deposits}
    found |= {("reconcile", bet_id)} | {("pay", str(finding.id)) for finding in findings}
    return {(operation, tx_id) for operation, tx_id in found if tx_id}


def _has_refund(bet: BetRecord, kept: Any) -> bool:  # Any: the view of a dictionary.
    return bet.settled_by is not None or any(each.call.operation == "rollback" for each in kept)


def _postings(sql: dict[str, str], source: str, calls: Sequence[KeptCall]) -> Script[tuple[KeptPosting, ...]]:
    moved = [(each.call.operation, each.call.tx_id) for each in calls if each.call.code is None and not each.call.held]
    if not moved:
        return ()
    condition = " OR ".join(["(operation = ? AND tx_id = ?)"] * len(moved))
    parameters = [part for identity in moved for part in identity]
    rows = yield Execute(f"{sql['postings']}{condition}) ORDER BY id", (source, *parameters))
    return tuple(KeptPosting._make(row) for row in rows)


def _anomalies(sql: dict[str, str], bet_id: str, source: str) -> Script[tuple[KeptAnomaly, ...]]:
    # A text in a body, in a field of any name, that is the bet's id.
    spellings = [json.dumps(bet_id, ensure_ascii=ascii_only).encode() for ascii_only in (True, False)]
    rows = yield Execute(sql["anomalies"], (source, bet_id, *spellings))
    records = [(record_of(row[:-1]), row[-1]) for row in map(_plain, rows)]
    return tuple(KeptAnomaly(record, digest, record.bet_id is None) for record, digest in records)
