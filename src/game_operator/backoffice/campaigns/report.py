"""How a campaign stands: counts and amounts for a glance, and for a report what it has cost so far and its findings."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from game_operator.backoffice.campaigns.answers import GrantState
from game_operator.backoffice.campaigns.grants import grant_in
from game_operator.backoffice.campaigns.run_states import PLANNED, at_work, claims_of, findings_of
from game_operator.backoffice.journal.journal import Journal
from game_operator.backoffice.journal.records import Item, Run
from game_operator.ledger.staff.findings import Finding

#: At most so many findings are in a report.
MOST_FINDINGS: Final = 1_000
_PAGE: Final = 500
#: A claim may come so long after the free bets have expired.
_GRACE_MILLIS: Final = 86_400_000


class Tally(NamedTuple):
    """How many grants, and their exposure in cents, which says nothing where currencies are mixed."""

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
        digest: The digest of its plan.
        service: The base address and the operator id that it grants at.
        total: How many grants it has.
        by_state: The states of its grants, those that have any, with how many and their exposure.
        exposure_cents: By currency, the exposure of the whole plan.
        rate_per_second: How many calls a second are made at most now, by all processes together.
        at_work: How many threads of all processes hold a part of it now.
        planned_at_millis, touched_at_millis, ended_at_millis: When it was planned, last did something, and ended.
    """

    name: str
    state: str
    why: str
    digest: str
    service: str
    total: int
    by_state: Mapping[GrantState, Tally]
    exposure_cents: Mapping[str, int]
    rate_per_second: float
    at_work: int
    planned_at_millis: int
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
    def in_doubt(self) -> int:
        """How many grants may have been made, and are asked for again."""
        return self.count(GrantState.SENDING, GrantState.UNANSWERED)

    @property
    def left(self) -> int:
        """How many grants are neither made nor refused."""
        return self.count(GrantState.PLANNED) + self.in_doubt


class Cost(NamedTuple):
    """
    What a campaign has cost so far, by estimate.

    A claim names no grant. So all claims of free bets count that came to a player from the first time that the grant
    was sent until a day after its free bets have expired; they may be those of another campaign.

    Attributes:
        claims: How many claims.
        won_cents: By currency, what was won with them; ``unknown`` where the ledger knows no currency.
    """

    claims: int = 0
    won_cents: Mapping[str, int] = {}


_NO_COST: Final = Cost()


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignReport(CampaignStatus):
    """
    A campaign's status, with what is read from all its grants.

    Attributes:
        granted_exposure_cents: By currency, the exposure of what was granted.
        cost: An estimate of what it has cost so far; it says what it rests on.
        findings: What a person should look into, at most 1,000.
        granted_per_second: How many grants were made in a second, from the first to the last, or None.
    """

    granted_exposure_cents: Mapping[str, int] = field(default_factory=dict)
    cost: Cost = _NO_COST
    findings: tuple[Finding, ...] = ()
    granted_per_second: float | None = None


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
        "digest": run.digest,
        "service": run.service,
        "total": options["grants"],
        "by_state": {GrantState(state or GrantState.PLANNED): Tally(*each) for state, each in counts.items()},
        "exposure_cents": options["exposure_cents"],
        "rate_per_second": 1_000_000 / max(1, run.interval_micros),
        "at_work": at_work(journal, run.id),
        "planned_at_millis": run.began_at_millis,
        "touched_at_millis": run.touched_at_millis,
        "ended_at_millis": run.ended_at_millis,
    }


def report_on(journal: Journal, run: Run) -> CampaignReport:
    """Return the report on a run; it reads all grants that were made, in pages."""
    currencies: Mapping[str, str] = run.options["currencies"]
    exposure, won = defaultdict[str, int](int), defaultdict[str, int](int)
    first, last, granted, claims = 2**62, 0, 0, 0
    for page in _by_player(journal.items(run.id, state=GrantState.GRANTED)):
        for item in (item for items in page.values() for item in items):
            granted += 1
            exposure[currencies[grant_in(item).instance_id]] += item.at_stake_cents
            first, last = min(first, item.values["sent_at_millis"]), max(last, item.at_millis or 0)
        for currency, cents in _claimed(journal, run.source, page):
            claims += 1
            won[currency] += cents
    return CampaignReport(
        **_status(journal, run),
        granted_exposure_cents=dict(sorted(exposure.items())),
        cost=Cost(claims, dict(sorted(won.items()))),
        findings=tuple(findings_of(journal, run.id, MOST_FINDINGS)),
        granted_per_second=granted * 1_000 / (last - first) if last > first else None,
    )


def _by_player(items: Iterator[Item]) -> Iterator[dict[str, list[Item]]]:
    """Yield the items of some players at a time; by their keys, those of a player follow one another."""
    page: dict[str, list[Item]] = {}
    for item in items:
        player_id = grant_in(item).player_id
        if len(page) == _PAGE and player_id not in page:
            yield page
            page = {}
        page.setdefault(player_id, []).append(item)
    if page:
        yield page


def _claimed(journal: Journal, source: str, page: Mapping[str, list[Item]]) -> Iterator[tuple[str, int]]:
    """Yield currency and amount of each claim that came to the players while their grants could be played."""
    spans = {
        player: [(item.values["sent_at_millis"], _end_of(item)) for item in items] for player, items in page.items()
    }
    since_millis = min(begin for each in spans.values() for begin, _ in each)
    for claim in claims_of(journal, source, list(spans), since_millis):
        if any(begin <= claim.at_millis <= end for begin, end in spans[claim.player_id]):
            yield claim.currency or "unknown", claim.amount_cents


def _end_of(item: Item) -> int:
    return int(item.values["sent_at_millis"]) + grant_in(item).expire_duration_millis + _GRACE_MILLIS
