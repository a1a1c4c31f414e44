"""
What a reconciliation has found: verdicts with the money at stake, findings, repairs and what is left.

It is a value, JSON, and one page of HTML that needs nothing else.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from game_operator import text as words
from game_operator.backoffice.exports import page
from game_operator.backoffice.journal import Journal
from game_operator.backoffice.journal_records import Item, Run
from game_operator.backoffice.reconcile.batch import Tally, settled_before, tally_since
from game_operator.backoffice.reconcile.by_hand import findings_of
from game_operator.backoffice.reconcile.judge import Verdict
from game_operator.errors import RunError
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.staff.findings import Finding

KIND: Final = "reconcile"
#: What no reconciliation can see, in a sentence for every report.
UNSEEN: Final = (
    "Lost claims are not in this report: free bets and jackpots have no bet at the provider, so a claim that never "
    "came cannot be looked up. Compare them with the provider's own records."
)
_TEMPLATE: Final = Path(__file__).parent / "templates" / "report.html"
_MOST: Final = 500
_MOST_FINDINGS: Final = 1_000


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """
    The report of a run, as it stands.

    Attributes:
        run: The run: its state, its options, who began it.
        verdicts: Each verdict with its tally; "" for bets that were not judged yet.
        findings: The open findings that the run has seen, at most 1,000.
        other_findings: How many other findings of the source are open: of late calls and earlier runs.
        repaired: The bets that were settled or refunded.
        open: The bets that could be settled and were not: in a dry run, or by the brakes.
        settled_before: What the same actor has settled of the service and source in earlier runs of the 20 hours before
            the end; the brakes count it too.
        now_millis: When the report was made.
    """

    run: Run
    verdicts: Mapping[str, Tally]
    findings: tuple[Finding, ...]
    other_findings: int
    repaired: Tally
    open: Tally
    settled_before: Tally
    now_millis: int
    _journal: Journal = field(repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether all bets of the run were judged."""
        return self.run.state == "finished"

    @property
    def is_fine(self) -> bool:
        """Whether nothing waits for a person: no open finding, and no bet that could be settled and was not."""
        return not (self.findings or self.other_findings or self.open.bets)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each bet: bet_id, verdict, at_stake_cents, at_millis, and what else is known of it."""
        for item in self._journal.items(self.run.id):
            yield _row(item)

    def items(self, *verdicts: Verdict, most: int) -> list[Item]:
        """Return at most *most* bets of the run with these verdicts, evidence included."""
        found = (each for verdict in verdicts for each in self._journal.items(self.run.id, state=str(verdict)))
        return list(islice(found, most))

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the report as JSON with *indent* spaces a level, without the rows; amounts are whole cents."""
        return json.dumps(self.document(), indent=indent)

    def to_html(self) -> str:
        """
        Return the report as one page that needs nothing else, to be written in UTF-8; amounts are currency units.

        Raises:
            ConfigurationError: Jinja2 is not installed.
        """
        options = self.run.options
        return page(
            _TEMPLATE,
            *(at, counted, named),
            report=self,
            run=self.run,
            is_repairing=bool(options.get("repair")),
            parameters=list(_parameters(options)),
            advices=advices(),
            repaired=self.items(Verdict.SETTLED, Verdict.REFUNDED, most=_MOST),
            left=self.items(Verdict.SETTLE, Verdict.REFUND, most=_MOST),
            most=_MOST,
            unseen=UNSEEN,
        )

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
            "settled_before": self.settled_before._asdict(),
            "findings": list(map(finding_document, self.findings)),
            "other_findings": self.other_findings,
            "unseen": UNSEEN,
        }


def report_of(journal: Journal, run: Run) -> ReconcileReport:
    """Return the report of *run*; raise RunError if it is not a reconciliation."""
    if run.kind != KIND:
        raise RunError(f"Run {run.id} is a {run.kind}, not a reconciliation.")
    counts = {state: Tally(*tally) for state, tally in journal.counts(run.id).items()}
    findings, others = list[Finding](), 0
    for each in findings_of(journal.ledger, source=run.source):
        if each.run_id != run.id:
            others += 1
        elif len(findings) < _MOST_FINDINGS:
            findings.append(each)
    repaired = _sum(counts, Verdict.SETTLED, Verdict.REFUNDED)
    left, now = _sum(counts, Verdict.SETTLE, Verdict.REFUND), journal.now_millis()
    is_repairing = bool(run.options.get("repair"))
    ended = run.ended_at_millis or now
    before = tally_since(ended, settled_before(journal, run, ended)) if is_repairing else Tally(0, 0)
    return ReconcileReport(
        run=run,
        verdicts=counts,
        findings=tuple(findings),
        other_findings=others,
        repaired=repaired,
        open=left,
        settled_before=before,
        now_millis=now,
        _journal=journal,
    )


def latest_run(ledger: SqlLedger, source: str = "") -> Run | None:
    """Return the latest reconciliation of a source, of any service; None if there was none."""
    return next(runs_of(ledger, source), None)


def runs_of(ledger: SqlLedger, source: str = "") -> Iterator[Run]:
    """Yield the reconciliations of a source, the latest first."""
    journal, before = Journal(ledger), 1 << 62
    while page := journal.runs(KIND, before=before):
        yield from (run for run in page if run.source == source)
        before = page[-1].id


def stop_run(ledger: SqlLedger, run_id: int | None = None, *, source: str = "") -> Run:
    """
    Stop a run that is under way for good, and return it: the only one of *source*, or the one with a number.

    Raises:
        RunError: No such run is under way, or several are and no number is given.
    """
    journal = Journal(ledger)
    under_way = [run for run in islice(runs_of(ledger, source), 100) if run.is_under_way and run_id in (None, run.id)]
    if not under_way:
        which = "No reconciliation" if run_id is None else f"No reconciliation with the number {run_id}"
        raise RunError(f"{which} is under way.")
    if len(under_way) > 1:
        named = ", ".join(f"{run.id} ({run.service})" for run in under_way)
        raise RunError(f"{len(under_way)} runs are under way: {named}.", remedy="Name the one to stop.")
    journal.set_state(under_way[0].id, "stopped", "by hand")
    return journal.run(under_way[0].id)


def report_in(ledger: SqlLedger, run_id: int | None = None, *, source: str = "") -> ReconcileReport:
    """
    Return the report of a run without a client: the latest of *source*, or the one with a number.

    Raises:
        RunError: There is none, or it is not a reconciliation.
    """
    journal = Journal(ledger)
    run = latest_run(ledger, source) if run_id is None else journal.run(run_id)
    if run is None:
        raise RunError("There was no reconciliation yet.", remedy="Begin one with `game-operator reconcile run`.")
    return report_of(journal, run)


def finding_document(found: Finding) -> dict[str, Any]:
    """Return a finding for programs, without the bytes of its evidence; amounts are whole cents."""
    fields = found._asdict()
    del fields["evidence"]
    return {"bet_id": fields.pop("subject"), "run": fields.pop("run_id"), **fields}


def _sum(counts: Mapping[str, Tally], *verdicts: Verdict) -> Tally:
    found = [counts[verdict] for verdict in verdicts if verdict in counts]
    return Tally(sum(each.bets for each in found), sum(each.total_cents for each in found))


def _row(item: Item) -> dict[str, Any]:
    values = {name: value for name, value in item.values.items() if name != "again"}
    row = {"bet_id": item.key, "verdict": item.state, "at_stake_cents": item.at_stake_cents}
    return {**row, "at_millis": item.at_millis, **values}


class Advice(NamedTuple):
    """What a verdict means, and what to do about it."""

    means: str
    todo: str


@cache
def advices() -> Mapping[str, Advice]:
    """Return the advice for each verdict and each other kind of finding, by its name."""
    texts = tomllib.loads(Path(__file__).with_name("advice.toml").read_text(encoding="utf-8"))
    return {name: Advice(**text) for name, text in texts.items()}


# Any: what a run was begun with, as JSON.
def _parameters(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a run was begun with, in words."""
    yield "Least age of a bet", str(timedelta(milliseconds=options["min_age_millis"]))
    yield "Between two looks, at least", str(timedelta(milliseconds=options["second_look_millis"]))
    yield "Sample of all other bets", f"{100 * options['sample']:g} %"
    yield "Calls a second, at most", f"{1_000_000 / options['interval_micros']:g}"
    if options.get("repair"):
        yield "Bets to settle, at most", str(options["max_bets"])
        yield "Currency units to credit, at most", words.money(options["max_total_cents"])


def at(millis: int | None) -> str:
    """Return a time in UTC."""
    return "–" if millis is None else words.when(millis)


def counted(number: int, noun: str) -> str:
    """Return a number of things."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def named(verdict: str) -> str:
    """Return a verdict in words."""
    return verdict.replace("_", " ") or "not judged yet"
