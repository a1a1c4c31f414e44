"""
A case file: what the ledger and the provider know of one bet, with a hash of it.

The contents are plain JSON values. Everything else follows from them: the digest, the JSON, the page.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from game_operator._version import __version__
from game_operator.backoffice.case import contents as parts
from game_operator.backoffice.case.provider import asked
from game_operator.backoffice.case.redaction import Redaction
from game_operator.backoffice.case.rows import rows_of_bet
from game_operator.errors import GameOperatorError, shown
from game_operator.ledger import SqlLedger
from game_operator.ledger.office import Office
from game_operator.models.webhooks import LONGEST_ID, problem_of_id

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class CaseFile:
    """
    All that is known of one bet.

    Attributes:
        contents: Dictionaries, lists, texts, whole numbers, booleans and None. docs/how-to/case-file.md lists the
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
        from game_operator.backoffice.case.as_html import html

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
        "ledger": parts.of_ledger(rows, _balance(ledger, rows.bet and rows.bet.account)),
        "reconciliations": [parts.record(each) for each in rows.looks],
        "findings": [parts.record(each) for each in rows.findings],
        "anomalies": [parts.of_anomaly(each) for each in rows.anomalies],
        "provider": provider,
        "comparison": comparison,
    }
    raw["summary"] = parts.summary(raw)
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
