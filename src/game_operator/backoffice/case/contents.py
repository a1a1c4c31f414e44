"""The parts of a case file, made of the ledger's rows: what is kept, and in plain words what is not."""

from typing import Any, Final

from game_operator.backoffice.case.redaction import Bytes
from game_operator.backoffice.case.rows import KeptAnomaly, KeptCall, KeptRows
from game_operator.codes import BetState

_UNKNOWN: Final = "something that this version does not know"
_SETTLED_BY: Final = {
    None: "a call of the provider",
    "reconcile": "a repair of a reconciliation, on the provider's evidence",
    "refund": "a person, who refunded it",
}
#: What a reader may miss, beside every bet.
_NOT_KEPT: Final = (
    "The ledger does not keep signatures: the receiver verified each before the ledger got the call. Of bodies it "
    "keeps the SHA-256 of a withdraw's, and those of claims and anomalies until maintain drops them. It does not keep "
    "who resolved an anomaly. Balances stand beside calls as they were answered."
)


def of_ledger(rows: KeptRows, balance: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the ledger's own rows say."""
    total, postings = 0, []
    for each in rows.postings:
        total += each.delta_cents
        postings.append(each._asdict() | {"bet_total_cents": total})
    return {
        "bet": None if rows.bet is None else record(rows.bet),
        "calls": [_call(each, rows) for each in rows.calls],
        "postings": postings,
        "account": balance,
        "dropped_before_millis": rows.dropped_before_millis,
        "notes": _notes(rows),
    }


def record(row: Any) -> dict[str, Any]:  # Any: a named tuple of the ledger or the journal.
    """Return a row as it is shown: digests in hexadecimal, other bytes and what a run has noted as from outside."""
    fields: dict[str, Any] = row._asdict()
    for name, value in fields.items():
        if isinstance(value, bytes):
            fields[name] = value.hex() if name.endswith("digest") else Bytes(value)
        elif name == "data":
            fields[name] = Bytes(value.encode()) if value else None
    return fields


def _call(kept: KeptCall, rows: KeptRows) -> dict[str, Any]:
    call, digest = kept.call, None
    if call.operation == "withdraw" and not call.held and rows.bet is not None and rows.bet.withdraw_digest:
        digest = rows.bet.withdraw_digest.hex()
    body = {"sha256": digest, "kept": None if kept.body is None else Bytes(kept.body)}
    return call._asdict() | {"is_held": call.held, "body": body}


def _notes(rows: KeptRows) -> list[str]:
    notes, bet = [], rows.bet
    if bet is not None and bet.state in (BetState.CLOSED, BetState.ROLLED_BACK):
        notes.append(f"The bet was settled by {_SETTLED_BY.get(bet.settled_by, _UNKNOWN)}.")
    if bet is not None and bet.settled_by is not None:
        late = [("deposit", "BET"), ("rollback", bet.action)]
        if any((each.call.operation, each.call.action) in late for each in rows.calls):
            notes.append("The provider's own call came after the bet was settled here, and moved nothing.")
    if any(each.call.held for each in rows.calls):
        notes.append("A call that is held never came: a rollback keeps its identity from other bets.")
    if rows.dropped_before_millis:
        notes.append("Old postings were dropped: they are folded into one sum for each account.")
    return [*notes, _NOT_KEPT]


def of_anomaly(kept: KeptAnomaly) -> dict[str, Any]:
    """Return an anomaly of the bet; with ``is_unreadable`` it only seems to name it, in a body that cannot be read."""
    body = {"sha256": kept.digest.hex(), "kept": Bytes(kept.record.body) if kept.record.body else None}
    return kept.record._asdict() | {"body": body, "is_unreadable": kept.is_unreadable}


def summary(contents: dict[str, Any]) -> list[str]:
    """Return the case in a few sentences; they name no player."""
    bet, provider, comparison = contents["ledger"]["bet"], contents["provider"], contents["comparison"]
    sentences = []
    if not contents["is_known"]:
        sentences.append("Nobody knows this bet: no row of the ledger names it.")
    elif bet is None:
        sentences.append("The ledger does not have this bet.")
    else:
        sentences.append(f"The ledger has the bet as {bet['state'].value}.")
    answer = provider["answer"]
    if answer is not None:
        sentences.append(f"The provider answers {answer.value['status']}.")
    else:
        sentences.append("The provider gave no usable answer." if provider["was_asked"] else provider["problem"])
    if comparison["agrees"] is False:
        sentences.append(f"The two sides differ: {comparison['verdict'].replace('_', ' ')}.")
    elif comparison["agrees"] and contents["is_known"]:
        sentences.append(comparison["text"])
    waiting = [sum(each["resolved_at_millis"] is None for each in contents[name]) for name in ("anomalies", "findings")]
    if any(waiting):
        sentences.append(f"Open: {waiting[0]} anomalies, {waiting[1]} findings.")
    return sentences
