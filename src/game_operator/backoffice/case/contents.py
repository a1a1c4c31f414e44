"""The parts of a case file, made of the ledger's rows: what is kept, and in plain words what is not."""

from collections.abc import Sequence
from typing import Any, Final

from game_operator.backoffice.case.redaction import Bytes
from game_operator.backoffice.case.rows import KeptAnomaly, KeptCall, KeptLook, KeptPosting, KeptRows
from game_operator.codes import BetState
from game_operator.ledger.staff.findings import Finding

#: No ledger stores them: a receiver verifies a signature, and what it lets through was genuine then.
_NO_SIGNATURE: Final = (
    "The ledger does not keep signatures. The receiver verified the signature before the ledger got the call. To have "
    "it verified here, add the exchange from your own logs."
)
_NO_BODY: Final = "The ledger keeps neither the body of this call nor its SHA-256."
_DROPPED: Final = "The body was dropped by maintain."
_UNKNOWN: Final = "something that this version does not know"
_SETTLED_BY: Final = {
    None: "a call of the provider",
    "reconcile": "a repair of a reconciliation, on the provider's evidence",
    "refund": "a person, who refunded it",
}


def of_ledger(rows: KeptRows, balance: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the ledger's own rows say."""
    bet = None
    if rows.bet is not None:
        digest = rows.bet.withdraw_digest
        bet = rows.bet._asdict() | {"state": rows.bet.state.value, "withdraw_digest": digest and digest.hex()}
    return {
        "bet": bet,
        "calls": [_call(each, rows) for each in rows.calls],
        "postings": _postings(rows.postings),
        "account": balance,
        "dropped_before_millis": rows.dropped_before_millis,
        "notes": _notes(rows),
    }


def _call(kept: KeptCall, rows: KeptRows) -> dict[str, Any]:
    call = kept.call
    body = {"sha256": None, "kept": None if kept.body is None else Bytes(kept.body), "note": _about_body(kept, rows)}
    if call.operation == "withdraw" and not call.held and rows.bet is not None and rows.bet.withdraw_digest:
        body["sha256"] = rows.bet.withdraw_digest.hex()
    is_ours = call.operation not in ("withdraw", "deposit", "rollback")
    signature = "No call of the provider: it has no signature." if is_ours or call.held else _NO_SIGNATURE
    return call._asdict() | {
        "is_held": call.held,
        "body": body,
        "signature": {"verdict": "not kept", "note": signature},
    }


def _about_body(kept: KeptCall, rows: KeptRows) -> str:
    call = kept.call
    if call.held:
        return "No such call came: the rollback keeps its identity from other bets."
    if call.operation not in ("withdraw", "deposit", "rollback"):
        return "This was not a call of the provider, so there is no body."
    if kept.body is not None:
        return "The body of a claim is kept until maintain drops it."
    if call.operation == "withdraw":
        if rows.bet is not None and rows.bet.withdraw_digest is not None:
            return f"The withdraw's body is not kept; its SHA-256 is {rows.bet.withdraw_digest.hex()}."
        return "The withdraw's body is not kept. No SHA-256 is kept of a declined withdraw, or of one without a body."
    if call.operation == "deposit" and call.action != "BET":
        return _DROPPED
    return _NO_BODY


def _postings(postings: Sequence[KeptPosting]) -> list[dict[str, Any]]:
    found, total = [], 0
    for each in postings:
        total += each.delta_cents
        found.append(each._asdict() | {"bet_total_cents": total})
    return found


def _notes(rows: KeptRows) -> list[str]:
    notes = []
    if rows.bet is not None and rows.bet.state in (BetState.CLOSED, BetState.ROLLED_BACK):
        notes.append(f"The bet was settled by {_SETTLED_BY.get(rows.bet.settled_by, _UNKNOWN)}.")
    moved = {(each.call.operation, each.call.tx_id) for each in rows.calls if _has_moved(each, rows)}
    if moved - {(each.operation, each.tx_id) for each in rows.postings}:
        why = "maintain has folded them into a sum by account" if rows.dropped_before_millis else "they are missing"
        notes.append(f"There are calls without their postings: {why}. `game-operator ledger verify` checks the books.")
    if _came_after_repair(rows):
        notes.append("The provider's own call came after the bet was settled here, and moved nothing.")
    if rows.bet is not None and not rows.calls:
        notes.append("The bet has no calls in the ledger, which is not sound. Run `game-operator ledger verify`.")
    notes.append("Balances stand beside calls as they were answered.")
    return notes


def _has_moved(kept: KeptCall, rows: KeptRows) -> bool:
    """Return whether a call has moved money, as far as the rows of call and bet say."""
    call, bet = kept.call, rows.bet
    if call.code is not None or call.held:
        return False
    if call.operation == "rollback":  # Its row has no amount: the wager goes back.
        return bet is not None and bet.state is BetState.ROLLED_BACK and not bet.settled_by and bet.wager_cents > 0
    if call.operation == "deposit" and call.action == "BET" and bet is not None and bet.settled_by:
        return False
    return call.amount_cents != 0


def _came_after_repair(rows: KeptRows) -> bool:
    if rows.bet is None or rows.bet.settled_by is None:
        return False
    late = [("deposit", "BET"), ("rollback", rows.bet.action)]
    return any((each.call.operation, each.call.action) in late for each in rows.calls)


def of_anomalies(anomalies: Sequence[KeptAnomaly]) -> list[dict[str, Any]]:
    """Return the anomalies of the bet, resolved or not."""
    return [_anomaly(each) for each in anomalies]


def _anomaly(kept: KeptAnomaly) -> dict[str, Any]:
    record = kept.record
    note = "The ledger does not keep who resolved an anomaly, only when."
    if record.resolved_at_millis is None:
        note = "Nobody has resolved it."
    is_dropped = not record.body
    body = {
        "sha256": kept.digest.hex(),
        "kept": None if is_dropped else Bytes(record.body),
        "note": _DROPPED if is_dropped else "The body is kept with the anomaly.",
    }
    if kept.is_unreadable:
        note += " The call could not be read; its body holds the bet's id."
    fields = record._asdict() | {"body": body, "is_unreadable": kept.is_unreadable, "resolved_by": None, "note": note}
    return fields | {"signature": {"verdict": "not kept", "note": _NO_SIGNATURE}}


def of_findings(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the findings about the bet, with who resolved them and why."""
    return [each._asdict() | {"evidence": None if each.evidence is None else Bytes(each.evidence)} for each in findings]


def of_looks(looks: Sequence[KeptLook]) -> list[dict[str, Any]]:
    """Return what reconciliations found, with the bytes of the provider's answers."""
    found = []
    for each in looks:
        evidence = None if each.evidence is None else Bytes(each.evidence)
        fields = each._asdict() | {"evidence": evidence, "digest": each.digest and each.digest.hex()}
        found.append(fields | {"data": Bytes(each.data.encode()) if each.data else None})
    return found


def summary(contents: dict[str, Any]) -> list[str]:
    """Return the case in a few sentences; they name no player."""
    ledger, provider = contents["ledger"], contents["provider"]
    bet = ledger["bet"]
    sentences = []
    if not contents["is_known"]:
        sentences.append("Nobody knows this bet: no row of the ledger and none of the given exchanges names it.")
    elif bet is None:
        sentences.append("The ledger does not have this bet.")
    else:
        sentences.append(f"The ledger has the bet as {bet['state']}.")
    answer = provider["bet"]["answer"]
    if answer is not None:
        sentences.append(f"The provider answers {answer['document'].value['status']}.")
    else:
        sentences.append("The provider gave no usable answer." if provider["was_asked"] else provider["bet"]["problem"])
    if answer is not None and contents["is_known"]:
        sentences.append(contents["comparison"]["text"])
    open_anomalies = sum(each["resolved_at_millis"] is None for each in contents["anomalies"])
    open_findings = sum(each["resolved_at_millis"] is None for each in contents["findings"])
    if open_anomalies or open_findings:
        sentences.append(f"Open: {open_anomalies} of {len(contents['anomalies'])} anomalies, ")
        sentences[-1] += f"{open_findings} of {len(contents['findings'])} findings."
    if bad := [each for each in contents["exchanges"] if each["verdict"] in ("forged", "key unknown", "refused")]:
        sentences.append(f"Exchanges whose signature does not verify: {len(bad)}.")
    return sentences
