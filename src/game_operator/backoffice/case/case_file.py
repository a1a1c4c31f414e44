"""
A case file: what the ledger and the provider know of one bet, with a hash of it.

The contents are plain JSON values, with what is not kept in plain words. Everything else follows from them: the
digest, the JSON, the page.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from game_operator._version import __version__
from game_operator.backoffice.case.as_html import html
from game_operator.backoffice.case.facts import KeptRows, asked, rows_of_bet
from game_operator.backoffice.case.redaction import Bytes, Redaction
from game_operator.codes import BetState
from game_operator.errors import GameOperatorError, shown
from game_operator.ledger import AnomalyRecord, SqlLedger
from game_operator.ledger.api import CallRecord
from game_operator.ledger.office import Office
from game_operator.models.webhooks import LONGEST_ID, problem_of_id

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient

FORMAT: Final = 1
_POSTING: Final = ("id", "operation", "tx_id", "account", "delta_cents", "at_millis", "bet_total_cents")
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


@dataclass(frozen=True, slots=True)
class CaseFile:
    """
    All that is known of one bet.

    Attributes:
        contents: Dictionaries, lists, texts, whole numbers, booleans and None. docs/how-to/case-files.md lists the
            fields. Amounts are whole cents, times Unix milliseconds.
    """

    contents: dict[str, Any]

    @property
    def is_known(self) -> bool:
        """Whether the ledger or the provider knows the bet."""
        return bool(self.contents["is_known"])

    @property
    def digest(self) -> str:
        """The SHA-256 of the contents as canonical JSON, in hexadecimal."""
        return sha256(canonical(self.contents)).hexdigest()

    def to_json(self) -> str:
        """Return the case file as one line of JSON in ASCII: ``contents``, ``digest`` and ``format``."""
        return canonical({"format": FORMAT, "digest": self.digest, "contents": self.contents}).decode()

    def to_html(self) -> str:
        """
        Return the case file as one page that needs nothing else, to be written in UTF-8.

        Raises:
            ConfigurationError: The package jinja2 is not installed.
        """
        return html(self.to_json())


def canonical(value: object) -> bytes:
    r"""
    Return *value* as canonical JSON: members sorted by name, no blanks, ASCII with ``\uXXXX`` for all else.

    Any program can write it: in Python it is ``json.dumps(value, sort_keys=True, separators=(",", ":"))``.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def case_file(
    ledger: SqlLedger,
    bet_id: str,
    *,
    source: str = "",
    client: "OperatorClient | None" = None,
    redact: bool = False,
    clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> CaseFile:
    """
    Return all that is known of a bet; a bet that nobody knows has a case file that says so.

    The ledger is read from one snapshot, on a connection beside the ledger's own. Nothing is changed anywhere.

    Args:
        ledger: The ledger; balances in your own table are read through it, too.
        bet_id: The bet.
        source: The source that the bet belongs to in the ledger.
        client: Asks the provider for the bet; None leaves that out. What it raises for an answer that does not come
            is noted in the case file.
        redact: Whether people are hidden: known fields stay, player ids become pseudonyms, random for each case file,
            and everything else is left out, bodies too.
        clock_millis: The clock, in Unix milliseconds.

    Raises:
        LedgerUnavailableError: The ledger's database cannot be reached or read.
        TypeError: *ledger* is not an SqlLedger, or *bet_id* is not a text.
        ValueError: No bet can have that id.
    """
    _check(ledger, bet_id)
    made_at_millis = clock_millis()
    rows = Office(ledger).survey(lambda dialect: rows_of_bet(bet_id, source, dialect), "listing")
    provider, comparison = asked(client, rows.ours, bet_id, clock_millis)
    raw: dict[str, Any] = {
        "bet_id": bet_id,
        "source": source,
        "made_at_millis": made_at_millis,
        "made_by": f"game-operator {__version__}",
        "is_redacted": redact,
        "is_known": not rows.is_unknown or _is_there(provider),
        "ledger": _of_ledger(rows, _balance(ledger, rows.bet and rows.bet.account)),
        "reconciliations": [_record(each) for each in rows.looks],
        "findings": [_record(each) for each in rows.findings],
        "anomalies": [_of_anomaly(*each) for each in rows.anomalies],
        "provider": provider,
        "comparison": comparison,
    }
    raw["summary"] = _summary(raw)
    return CaseFile(Redaction(raw, keep=bet_id, hides=redact).plain(raw))


def _is_there(provider: dict[str, Any]) -> bool:
    answer = provider["answer"]
    return answer is not None and answer.value["status"] != "NOT_FOUND"


def _check(ledger: object, bet_id: object) -> None:
    if not isinstance(ledger, SqlLedger):
        raise TypeError(f"ledger must be an SqlLedger, not {type(ledger).__name__}: a case file reads its tables")
    if not isinstance(bet_id, str):
        raise TypeError(f"bet_id must be a str, not {type(bet_id).__name__} {shown(bet_id)}")
    if problem := problem_of_id(bet_id, LONGEST_ID):
        raise ValueError(f"bet_id {problem}, it is {shown(bet_id)}")


def _balance(ledger: SqlLedger, account: str | None) -> dict[str, Any] | None:
    """Return what the account of the bet holds now, or why that cannot be read; None without a bet."""
    if account is None:
        return None
    try:
        return {"account": account, "balance_cents": int(ledger.balance(account)), "error": None}
    except GameOperatorError as failed:
        return {"account": account, "balance_cents": None, "error": str(failed)}


def _of_ledger(rows: KeptRows, balance: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the ledger's own rows say."""
    totals = accumulate(delta_cents for *_, delta_cents, _ in rows.postings)
    postings = [
        dict(zip(_POSTING, (*row, total), strict=True)) for row, total in zip(rows.postings, totals, strict=True)
    ]
    return {
        "bet": None if rows.bet is None else _record(rows.bet),
        "calls": [_call(call, body, rows) for call, body in rows.calls],
        "postings": postings,
        "account": balance,
        "dropped_before_millis": rows.dropped_before_millis,
        "notes": _notes(rows),
    }


def _record(row: Any) -> dict[str, Any]:  # Any: a named tuple of the ledger or the journal.
    """Return a row as it is shown: digests in hexadecimal, other bytes and what a run has noted as from outside."""
    fields: dict[str, Any] = row._asdict()
    for name, value in fields.items():
        if isinstance(value, bytes):
            fields[name] = value.hex() if name.endswith("digest") else Bytes(value)
        elif name == "data":
            fields[name] = Bytes(value.encode()) if value else None
    return fields


def _call(call: CallRecord, body: bytes | None, rows: KeptRows) -> dict[str, Any]:
    digest = None
    if call.operation == "withdraw" and not call.held and rows.bet is not None and rows.bet.withdraw_digest:
        digest = rows.bet.withdraw_digest.hex()
    kept = {"sha256": digest, "kept": None if body is None else Bytes(body)}
    return call._asdict() | {"is_held": call.held, "body": kept}


def _notes(rows: KeptRows) -> list[str]:
    notes, bet = [], rows.bet
    if bet is not None and bet.state in (BetState.CLOSED, BetState.ROLLED_BACK):
        notes.append(f"The bet was settled by {_SETTLED_BY.get(bet.settled_by, _UNKNOWN)}.")
    if bet is not None and bet.settled_by is not None:
        late = [("deposit", "BET"), ("rollback", bet.action)]
        if any((call.operation, call.action) in late for call, _ in rows.calls):
            notes.append("The provider's own call came after the bet was settled here, and moved nothing.")
    if any(call.held for call, _ in rows.calls):
        notes.append("A call that is held never came: a rollback keeps its identity from other bets.")
    if rows.dropped_before_millis:
        notes.append("Old postings were dropped: they are folded into one sum for each account.")
    return [*notes, _NOT_KEPT]


def _of_anomaly(found: AnomalyRecord, digest: bytes) -> dict[str, Any]:
    """Return an anomaly of the bet; with ``is_unreadable`` it only seems to name it, in a body that cannot be read."""
    body = {"sha256": digest.hex(), "kept": Bytes(found.body) if found.body else None}
    return found._asdict() | {"body": body, "is_unreadable": found.bet_id is None}


def _summary(contents: dict[str, Any]) -> list[str]:
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
