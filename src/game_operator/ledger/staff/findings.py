"""
Findings: what a person should look into. Each is kept for good, resolved or not, and outlives the run that saw it.

A finding that is seen again is counted. One that was resolved and comes back is another one.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from game_operator.errors import ConfigurationError, FindingError, shown
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.staff.anomalies import OF_SOURCE
from game_operator.ledger.steps import Execute, Steps
from game_operator.models.webhooks import problem_of_id

_LONGEST = 1_000

#: What late calls leave; ``at_stake_cents`` is all that the account should have got by the call.
LATE_KINDS: Final = ("late_deposit", "late_rollback")


class Finding(NamedTuple):
    """
    A finding as it is kept: a NewFinding with its history.

    Attributes:
        id: Its number.
        source: The source of the ledger that its subject belongs to.
        run_id: The run that saw it last, or None for what a call has left.
        first_at_millis, last_at_millis, seen: When it was seen first and last, and how often.
        resolved_at_millis, resolved_by, resolution: When it was resolved, by whom and why; None while it is open.
        paid_cents: What was paid for it, or None.
    """

    id: int
    kind: str
    source: str
    subject: str
    tx_id: str
    player_id: str | None
    account: str | None
    detail: str
    at_stake_cents: int
    owed_cents: int | None
    evidence: bytes | None
    run_id: int | None
    first_at_millis: int
    last_at_millis: int
    seen: int
    resolved_at_millis: int | None
    resolved_by: str | None
    resolution: str | None
    paid_cents: int | None


_COLUMNS = ", ".join(Finding._fields)


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(__package__, "findings.sql", prefix=prefix, finding_columns=_COLUMNS)


def _record(row: Sequence[Any]) -> Finding:
    found = Finding._make(row)
    return found if found.evidence is None else found._replace(evidence=bytes(found.evidence))


def finding(finding_id: int, dialect: SqlDialect) -> Steps[Finding]:
    """Return a finding; raise FindingError if there is none."""
    # Beyond 63 bits the drivers raise their own errors.
    fits = 0 < finding_id < 1 << 63
    rows = (yield Execute(_sql(dialect.prefix)["finding"], (finding_id,))) if fits else ()
    if not rows:
        raise FindingError(
            f"There is no finding {finding_id}.", remedy="List them with `game-operator reconcile findings`."
        )
    return _record(rows[0])


def page_of_findings(
    dialect: SqlDialect, *, after: int, most: int, resolved: bool, source: str, subject: str | None
) -> Steps[list[Finding]]:
    """Return at most *most* findings of a source by id, those after one; the open ones, or with *resolved* all."""
    # Of all findings, a page follows the ids, and no index that begins with the source.
    conditions = [OF_SOURCE if resolved and subject is None else "source = ?"]
    conditions += [] if resolved else ["resolved_at_millis IS NULL"]
    conditions += [] if subject is None else ["subject = ?"]
    sql = f"{_sql(dialect.prefix)['page_of_findings']} AND {' AND '.join(conditions)} ORDER BY id LIMIT ?"
    parameters = (after, source, *(() if subject is None else (subject,)), most)
    return list(map(_record, (yield Execute(sql, parameters))))


def check_person(actor: object, reason: object) -> None:
    """Raise ConfigurationError unless both are texts that say something."""
    for name, value in (("actor", actor), ("reason", reason)):
        if not isinstance(value, str) or problem_of_id(value, _LONGEST):
            raise ConfigurationError(
                f"{name} is {shown(value)}.",
                setting=name,
                remedy="Name who decides and why, in up to 1,000 characters that fit into UTF-8, without U+0000.",
            )


def resolve_finding(
    finding_id: int, actor: str, reason: str, dialect: SqlDialect, *, paid_cents: int | None = None
) -> Steps[Finding]:
    """Resolve an open finding and return it; raise FindingError if it is resolved, or if there is none."""
    now_millis = yield from dialect.now_millis()
    parameters = (now_millis, actor, reason, paid_cents, finding_id)
    done = yield Execute(_sql(dialect.prefix)["resolve_finding"], parameters)
    found = yield from finding(finding_id, dialect)
    if not done:
        raise FindingError(
            f"The finding {finding_id} was resolved by {found.resolved_by} already. Nothing was changed."
        )
    return found
