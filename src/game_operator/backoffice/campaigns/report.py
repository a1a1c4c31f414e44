"""
How a campaign stands: counts and amounts for a glance, and for a report what was granted and the findings.

What became of each grant is also yielded as lines of CSV.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from game_operator.backoffice.campaigns.answers import GrantState
from game_operator.backoffice.campaigns.granting import PLANNED, sql_of
from game_operator.backoffice.campaigns.grants import grant_in, reference_id_of
from game_operator.backoffice.exports import csv_lines
from game_operator.backoffice.journal import Journal
from game_operator.backoffice.journal_records import Item, Run
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.office import Office
from game_operator.ledger.staff.findings import Finding
from game_operator.ledger.steps import Execute, Rows, Steps

#: At most so many findings are in a report.
MOST_FINDINGS: Final = 1_000


class Tally(NamedTuple):
    """How many grants, and their exposure in cents."""

    grants: int = 0
    exposure_cents: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStatus:
    """
    Where a campaign stands.

    Attributes:
        name: The campaign.
        state: ``planning`` while it is being planned, ``planned`` until it is run, ``running``, ``paused`` (run
            ``resume``), or ``finished``.
        why: Why it is paused, or "".
        service: The base address and the operator id that it grants at.
        total: How many grants it has.
        by_state: The states of its grants, those that have any, with how many and their exposure.
        exposure_cents: The exposure of the whole plan.
        currency: The currency of all amounts.
        rate_per_second: How many calls a second are made at most now, by all processes together.
        at_work: How many threads of all processes hold a part of it now.
        touched_at_millis, ended_at_millis: When it last did something, and ended.
    """

    name: str
    state: str
    why: str
    service: str
    total: int
    by_state: Mapping[GrantState, Tally]
    exposure_cents: int
    currency: str
    rate_per_second: float
    at_work: int
    touched_at_millis: int
    ended_at_millis: int | None

    def count(self, *states: GrantState) -> int:
        """Return how many grants are in one of *states*."""
        return sum(self.by_state.get(state, Tally()).grants for state in states)

    @property
    def granted(self) -> int:
        """How many grants were made."""
        return self.count(GrantState.GRANTED)

    @property
    def left(self) -> int:
        """How many grants are neither made nor refused."""
        return self.total - self.count(GrantState.GRANTED, GrantState.REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignReport(CampaignStatus):
    """
    A campaign's status, with its findings.

    Attributes:
        findings: What a person should look into, at most 1,000.
    """

    findings: tuple[Finding, ...] = ()


def status_of(journal: Journal, run: Run) -> CampaignStatus:
    """Return where a run stands."""
    return CampaignStatus(**_status(journal, run))


def _status(journal: Journal, run: Run) -> dict[str, Any]:
    options, counts = run.options, journal.counts(run.id)
    is_planned = run.state == "paused" and run.why == PLANNED
    return {
        "name": run.name,
        "state": "planned" if is_planned else run.state,
        "why": "" if is_planned else run.why,
        "service": run.service,
        "total": options["grants"],
        "by_state": {GrantState(state or GrantState.PLANNED): Tally(*each) for state, each in counts.items()},
        "exposure_cents": options["exposure_cents"],
        "currency": options["currency"],
        "rate_per_second": 1_000_000 / max(1, run.interval_micros),
        "at_work": int(_rows(journal, "at_work", run.id, journal.now_millis())[0][0]),
        "touched_at_millis": run.touched_at_millis,
        "ended_at_millis": run.ended_at_millis,
    }


def _rows(journal: Journal, name: str, *parameters: object) -> Rows:
    """Return the rows of a statement of campaign.sql."""

    def script(dialect: SqlDialect) -> Steps[Rows]:
        return (yield Execute(sql_of(dialect)[name], parameters))  # type: ignore[no-any-return]  # Rows.

    return Office(journal.ledger).read(script)


def report_on(journal: Journal, run: Run) -> CampaignReport:
    """Return the report on a run."""
    findings = tuple(map(_finding, _rows(journal, "findings", run.id, MOST_FINDINGS)))
    return CampaignReport(**_status(journal, run), findings=findings)


def _finding(row: Any) -> Finding:  # A row of any driver.
    found = Finding._make(row)
    return found if found.evidence is None else found._replace(evidence=bytes(found.evidence))


class GrantResult(NamedTuple):
    """
    What became of one grant.

    Attributes:
        player_id, instance_id, count, wager_amount_cents, expire_duration_millis: The grant.
        reference_id: What it is called at the service.
        state: Where it stands.
        free_bet_id: The service's id of it; None also if the answer that had it was lost.
        error_code: Why it was refused, or None.
        message: What was last said of it, or None.
        attempts: How often it was asked for.
        at_millis: When that was, last.
    """

    player_id: str
    instance_id: str
    count: int  # type: ignore[assignment]  # The spec's name; tuple.count is of no use here.
    wager_amount_cents: int
    expire_duration_millis: int
    reference_id: str
    state: GrantState
    free_bet_id: str | None
    error_code: str | None
    message: str | None
    attempts: int
    at_millis: int | None


def result_of(campaign: str, item: Item) -> GrantResult:
    """Return what became of the grant of an item."""
    values = item.values
    grant = grant_in(item)
    return GrantResult(
        *grant,
        reference_id=reference_id_of(campaign, grant.player_id),
        state=GrantState(item.state or GrantState.PLANNED),
        free_bet_id=values.get("free_bet_id"),
        error_code=values.get("error_code"),
        message=values.get("message"),
        attempts=item.attempts,
        at_millis=item.at_millis,
    )


def results_csv(results: Iterable[GrantResult]) -> Iterator[str]:
    """Yield *results* as lines of CSV, the names of columns first."""
    return csv_lines(chain([GrantResult._fields], results))
