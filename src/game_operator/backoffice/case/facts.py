"""
What the ledger and the provider know of one bet: the rows of one snapshot, and what the provider answers now.

Indexes lead to all rows. Of the anomalies that name nobody, all are read: their bodies are looked through for the
bet's id.
"""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from game_operator.backoffice.case.redaction import Bytes, Foreign, Free
from game_operator.backoffice.reconcile.judge import Ours
from game_operator.backoffice.reconcile.population import ours_of
from game_operator.errors import ApiError
from game_operator.ledger import AnomalyRecord, BetRecord
from game_operator.ledger.api import CallRecord
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.staff import queries
from game_operator.ledger.staff.anomalies import OF_SOURCE, record_of
from game_operator.ledger.staff.findings import Finding
from game_operator.ledger.steps import Execute, Kind, Steps
from game_operator.protocol.http import service_name

if TYPE_CHECKING:
    from game_operator.backoffice.reconcile.evidence import Evidence
    from game_operator.client.sync import OperatorClient
#: The verdicts with which the two sides agree; an old bet that both have OPEN is an alarm, and no difference.
_AGREE: Final = frozenset({"agrees", "wait", "nears_the_end", "test_bet"})
#: A case file is of a bet of any age, whatever its game pays.
_ANY_WIN: Final = 1 << 62


class KeptLook(NamedTuple):
    """What a reconciliation found about the bet: the run, its verdict, and the bytes of the provider's answer."""

    run_id: int
    service: str
    actor: str | None
    reason: str | None
    verdict: str
    data: str
    at_stake_cents: int
    evidence: bytes | None
    digest: bytes | None
    at_millis: int | None


class KeptRows(NamedTuple):
    """
    All rows of a bet, each part oldest first.

    Attributes:
        ours: The bet, and what else a reconciliation would know of it.
        calls: The calls, each with the body that is kept of it: of a claim until it is dropped, else None.
        postings: What moved: number, operation, tx_id, account, cents that came to it, and time.
        anomalies: The anomalies, each with the SHA-256 of its body. One that names no bet only seems to be about it.
        findings, looks: What a person should look into, and what reconciliations found.
        dropped_before_millis: None if nothing was ever dropped.
    """

    ours: Ours
    calls: list[tuple[CallRecord, bytes | None]]
    postings: list[Sequence[Any]]  # Any: a row of any driver.
    anomalies: list[tuple[AnomalyRecord, bytes]]
    findings: list[Finding]
    looks: list[KeptLook]
    dropped_before_millis: int | None

    @property
    def bet(self) -> BetRecord | None:
        """The bet, or None."""
        return self.ours.bet

    @property
    def is_unknown(self) -> bool:
        """Whether nothing in the ledger names the bet."""
        return not (self.bet or self.calls or self.anomalies or self.findings or self.looks)


# As in KeptLook.
_LOOK_COLUMNS = (
    "r.id, r.service, r.actor, r.reason, i.state, i.data, i.at_stake_cents, i.evidence, i.digest, i.at_millis"
)


def rows_of_bet(bet_id: str, source: str, dialect: SqlDialect) -> Steps[KeptRows]:
    """Return all rows of a bet; of one that nobody knows, no rows."""
    sql = _sql(dialect.kind, dialect.prefix)
    ours = (yield from ours_of({bet_id}, source, dialect))[bet_id]
    findings = yield Execute(sql["findings"], (source, bet_id))
    calls = yield from queries.calls_of_bet(dialect.prefix, bet_id, source, ours.bet)
    calls.sort(key=lambda each: (each[0].at_millis, each[0].held, each[0].operation))
    postings = yield from queries.postings_of_calls(dialect.prefix, source, [call for call, _ in calls])
    looks = yield Execute(sql["looked_up"], (bet_id, source))
    dropped = yield Execute(sql["dropped"], ())
    return KeptRows(
        ours,
        calls,
        postings,
        (yield from _anomalies(sql, bet_id, source)),
        sorted(Finding._make(_plain(row)) for row in findings),
        sorted(KeptLook._make(_plain(row)) for row in looks),
        dropped[0][0],
    )


def _sql(kind: Kind, prefix: str) -> dict[str, str]:
    return sql_texts(
        __package__,
        "rows.sql",
        prefix=prefix,
        of_source=OF_SOURCE,
        anomaly_columns=", ".join(AnomalyRecord._fields),
        finding_columns=", ".join(Finding._fields),
        item_columns=_LOOK_COLUMNS,
        in_body="instr(body, ?)" if kind == "sqlite" else "position(CAST(? AS bytea) IN body)",
    )


def _plain(row: Sequence[Any]) -> list[Any]:
    # Some drivers give bytes as a memoryview.
    return [bytes(value) if isinstance(value, memoryview) else value for value in row]


def _anomalies(sql: dict[str, str], bet_id: str, source: str) -> Steps[list[tuple[AnomalyRecord, bytes]]]:
    # A text in a body, in a field of any name, that is the bet's id.
    spellings = [json.dumps(bet_id, ensure_ascii=ascii_only).encode() for ascii_only in (True, False)]
    rows = [
        *(yield Execute(sql["anomalies"], (bet_id, source))),
        *(yield Execute(sql["unreadable"], (source, *spellings))),
    ]
    return sorted((record_of(row[:-1]), row[-1]) for row in map(_plain, rows))


def asked(
    client: "OperatorClient | None", ours: "Ours", bet_id: str, clock_millis: Callable[[], int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask the provider for the bet; return its answer and the comparison, for the contents of a case file."""
    if client is None:
        nothing = {"was_asked": False, "service": None, "asked_at_millis": None, "answer": None, "body": None}
        return nothing | {"problem": "The provider was not asked."}, _compared(None, ours, 0)
    at_millis = clock_millis()
    evidence = _looked_up(client, bet_id)
    there = {
        "was_asked": True,
        "service": service_name(client.base_url, client.operator_id),
        "asked_at_millis": at_millis,
        "problem": Free(evidence.problem) if evidence.problem else "",
        "answer": None if evidence.bet is None else Foreign(evidence.bet.model_dump()),
        "body": Bytes(evidence.body) if evidence.body else None,
    }
    return there, _compared(evidence, ours, at_millis)


def _looked_up(client: "OperatorClient", bet_id: str) -> "Evidence":
    from game_operator.backoffice.reconcile.evidence import (  # They load the client.
        Evidence,
        TryLaterError,
        look_up_bet,
    )

    try:
        return look_up_bet(client, bet_id)
    except (TryLaterError, ApiError) as failed:
        cause = failed.__cause__ if isinstance(failed, TryLaterError) else failed
        body = cause.body if isinstance(cause, ApiError) else b""
        return Evidence(bet_id, None, body, f"{type(cause).__name__}: {cause}", answered=False)


def _compared(evidence: "Evidence | None", ours: "Ours", now_millis: int) -> dict[str, Any]:
    from game_operator.backoffice.reconcile.judge import Limits, judge
    from game_operator.models import BetNotFound

    if evidence is None or evidence.bet is None:
        text = "The two sides were not compared: the provider was not asked or did not answer."
        return {"agrees": None, "verdict": None, "text": text}
    judgement = judge(ours, evidence, Limits(now_millis, 0, _ANY_WIN))
    if judgement.verdict not in _AGREE:
        return {"agrees": False, "verdict": str(judgement.verdict), "text": Free(judgement.detail)}
    text = "The ledger and the provider agree about the bet."
    if ours.bet is None and isinstance(evidence.bet, BetNotFound):
        text = "Neither the ledger nor the provider has the bet."
    return {"agrees": True, "verdict": str(judgement.verdict), "text": text}
