"""What a reconciliation has found: verdicts with the money at stake, findings, repairs and what is left."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from game_operator.backoffice.journal.journal import Journal
from game_operator.backoffice.journal.records import Item, Run
from game_operator.backoffice.reconcile.judge import Verdict
from game_operator.ledger.sql import read_with
from game_operator.ledger.staff.findings import Finding, page_of_findings


class Tally(NamedTuple):
    """How many bets have a verdict, and the money at stake in cents."""

    bets: int
    cents: int


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """
    The report of a run, as it stands.

    Attributes:
        run: The run: its state, its options, who began it.
        verdicts: Each verdict with its tally; "" for bets that were not judged yet.
        findings: The open findings that the run has seen, at most 1,000.
        repaired: The bets that were settled or refunded.
        open: The bets that could be settled and were not: in a dry run, or by the brakes.
        now_millis: When the report was made.
    """

    run: Run
    verdicts: Mapping[str, Tally]
    findings: tuple[Finding, ...]
    repaired: Tally
    open: Tally
    now_millis: int
    _journal: Journal = field(repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether all bets of the run were judged."""
        return self.run.state == "finished"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each bet of the run: bet_id, verdict, cents, at_millis, and what else is known of it."""
        for item in self._journal.items(self.run.id):
            yield _row(item)

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the report as JSON, without the rows."""
        return json.dumps(self.document(), indent=indent)

    def document(self) -> dict[str, Any]:
        """Return what ``to_json`` writes."""
        run = self.run
        return {
            "run": run.id,
            "state": run.state,
            "why": run.why,
            "service": run.service,
            "source": run.source,
            "actor": run.actor,
            "reason": run.reason,
            "options": run.options,
            "began_at_millis": run.began_at_millis,
            "ended_at_millis": run.ended_at_millis,
            "verdicts": {name or "waiting": tally._asdict() for name, tally in self.verdicts.items()},
            "repaired": self.repaired._asdict(),
            "open": self.open._asdict(),
            "findings": [_finding(each, self.now_millis) for each in self.findings],
        }


def report_of(journal: Journal, run: Run) -> ReconcileReport:
    """Return the report of *run*."""
    counts = {state: Tally(*tally) for state, tally in journal.counts(run.id).items()}
    script = partial(page_of_findings, after=0, most=1_000, resolved=False, source=run.source, subject=None)
    findings = tuple(each for each in read_with(journal.ledger, script) if each.run_id == run.id)
    repaired = _sum(counts, Verdict.SETTLED, Verdict.REFUNDED)
    left = _sum(counts, Verdict.SETTLE, Verdict.REFUND)
    return ReconcileReport(run, counts, findings, repaired, left, journal.now_millis(), journal)


def _sum(counts: Mapping[str, Tally], *verdicts: Verdict) -> Tally:
    found = [counts[verdict] for verdict in verdicts if verdict in counts]
    return Tally(sum(each.bets for each in found), sum(each.cents for each in found))


def _row(item: Item) -> dict[str, Any]:
    values = {name: value for name, value in item.values.items() if name != "again"}
    return {"bet_id": item.key, "verdict": item.state, "cents": item.cents, "at_millis": item.at_millis, **values}


def _finding(found: Finding, now_millis: int) -> dict[str, Any]:
    return {
        "id": found.id,
        "kind": found.kind,
        "bet_id": found.subject,
        "player_id": found.player_id,
        "detail": found.detail,
        "cents": found.cents,
        "owed_cents": found.owed_cents,
        "first_at_millis": found.first_at_millis,
        "last_at_millis": found.last_at_millis,
        "age_millis": found.age_millis(now_millis),
        "seen": found.seen,
    }
