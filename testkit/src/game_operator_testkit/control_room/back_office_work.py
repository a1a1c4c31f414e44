"""
The work of the page "Back office": runs in a thread, one at a time, and what the ledger keeps of them.

A run calls the Operator API of this same server, so nothing of it may be done on the server's event loop.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from game_operator.backoffice.campaigns import Campaign, CampaignStatus, Counted, GrantResult
from game_operator.backoffice.campaigns.report import status_of
from game_operator.backoffice.campaigns.results import result_of
from game_operator.backoffice.journal.journal import Journal
from game_operator.backoffice.reconcile.by_hand import findings_of
from game_operator.backoffice.reconcile.reconciler import Reconciler
from game_operator.backoffice.reconcile.report import ReconcileReport, latest_run, report_of
from game_operator.errors import GameOperatorError
from game_operator.ledger import SqlLedger
from game_operator.ledger.staff.findings import Finding
from game_operator.wallet import JoinedWallet, Wallet
from game_operator_testkit.control_room.jobs import Job, JobSlot

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient
    from game_operator_testkit.sandbox.server import Sandbox

#: Who repairs, as the ledger keeps it.
ACTOR: Final = "control room"
#: Bets of the sandbox are seconds old, and a person waits for the second look.
_SECOND_LOOK: Final = timedelta(seconds=1)
_LOOKUPS_PER_SECOND: Final = 200.0
#: Slow enough to be interrupted by hand.
_GRANTS_PER_SECOND: Final = 1.0
#: How many findings and grants are shown.
SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class Seen:
    """
    What the page shows.

    Attributes:
        report: The latest reconciliation, or None.
        findings: The oldest open findings.
        campaign: The latest campaign, or None.
        grants: What became of its first grants.
        at_service: How many grants the service has for each reference id.
        now_millis: The ledger's time.
        problem: Why the ledger could not be read, or "".
    """

    report: ReconcileReport | None = None
    findings: Sequence[Finding] = ()
    campaign: CampaignStatus | None = None
    grants: Sequence[GrantResult] = ()
    at_service: "Counter[str] | None" = None
    now_millis: int = 0
    problem: str = ""


class BackOffice:
    """
    Reconciles a wallet with the sandbox, and runs campaigns at it.

    Raises:
        TypeError: The wallet is not a Wallet or JoinedWallet over a SqlLedger.
    """

    def __init__(self, sandbox: "Sandbox", wallet: Wallet | JoinedWallet) -> None:
        self._sandbox, self._wallet, self._ledger = sandbox, wallet, _ledger_of(wallet)
        self._slot = JobSlot("back office")

    @property
    def job(self) -> Job | None:
        """What is at work, or was last; None if nothing was."""
        return self._slot.job

    def look_up(self) -> Job | None:
        """Begin a dry run; return None if something is at work already."""

        def work(job: Job) -> str:
            with self._sandbox.client() as client:
                reconciler = self._reconciler(client, job)
                return _said_of(reconciler.run())

        return self._slot.begin("a dry run", work)

    def repair(self, *, max_bets: int, max_total_cents: int, reason: str) -> Job | None:
        """Begin a run that repairs; return None if something is at work already."""

        def work(job: Job) -> str:
            with self._sandbox.client() as client:
                reconciler = self._reconciler(client, job)
                report = reconciler.run(
                    repair=True, max_bets=max_bets, max_total_cents=max_total_cents, actor=ACTOR, reason=reason
                )
                return _said_of(report)

        return self._slot.begin("a run that repairs", work)

    def plan(
        self, name: str, players: Sequence[str], *, count: int, wager_cents: int, max_exposure_cents: int
    ) -> Job | None:
        """Begin to plan a campaign; return None if something is at work already."""

        def work(_: Job) -> str:
            with self._sandbox.client() as client:
                campaign = Campaign(
                    client,
                    self._ledger,
                    name,
                    instance_id=self._sandbox.instance_id,
                    count=count,
                    wager_amount_cents=wager_cents,
                    expire_duration_millis=86_400_000,
                    source=self._wallet.terms.source,
                )
                plan = campaign.plan(players, max_exposure_cents=max_exposure_cents, check_players=False)
                return f"The campaign {name} is planned, with {plan.grants} grants. Nothing is sent yet."

        return self._slot.begin(f"the plan of {name}", work)

    def grant(self, name: str) -> Job | None:
        """Run or resume a campaign; return None if something is at work already."""

        def work(job: Job) -> str:
            with self._sandbox.client() as client:
                campaign = Campaign(client, self._ledger, name, source=self._wallet.terms.source)

                def progress(_: Counted) -> None:
                    # An interruption before the first grant found nobody at work.
                    if job.is_interrupted:
                        campaign.interrupt()

                job.on_interrupt(campaign.interrupt)
                report = campaign.resume(rate_per_second=_GRANTS_PER_SECOND, concurrency=1, progress=progress)
                ending = "Interrupted" if report.left else "Done"
                return f"{ending}: {report.granted} of {report.total} are granted."

        return self._slot.begin(f"the campaign {name}", work)

    def stop_run(self) -> Job | None:
        """Stop the reconciliation that is under way for good."""

        def work(job: Job) -> str:
            with self._sandbox.client() as client:
                stopped = self._reconciler(client, job).stop()
                return "There was no run to stop." if stopped is None else f"Run {stopped.id} is stopped."

        return self._slot.begin("stopping a run", work)

    def interrupt(self) -> None:
        """Let what is at work finish what is under way, and end."""
        self._slot.interrupt()

    def seen(self) -> Seen:
        """Return what the page shows; it reads the database."""
        try:
            return self._seen()
        except GameOperatorError as failed:
            return Seen(problem=str(failed))

    def _seen(self) -> Seen:
        journal, source = Journal(self._ledger), self._wallet.terms.source
        run = latest_run(self._ledger, source)
        campaigns = journal.runs("campaign", most=1)
        campaign = status_of(journal, campaigns[0]) if campaigns else None
        items = islice(journal.items(campaigns[0].id), SHOWN) if campaigns else ()
        return Seen(
            report=None if run is None else report_of(journal, run),
            findings=tuple(islice(findings_of(self._ledger, source=source), SHOWN)),
            campaign=campaign,
            grants=tuple(result_of(campaigns[0].name, item) for item in items),
            at_service=Counter(grant.request.reference_id for grant in self._sandbox.world.grants()),
            now_millis=journal.now_millis(),
        )

    def _reconciler(self, client: "OperatorClient", job: Job) -> Reconciler:
        reconciler = Reconciler(
            client,
            self._wallet,
            min_age=timedelta(0),
            second_look=_SECOND_LOOK,
            sample=1.0,
            rate_per_second=_LOOKUPS_PER_SECOND,
        )
        job.on_interrupt(reconciler.leave)
        return reconciler


def _said_of(report: ReconcileReport) -> str:
    if not report.is_whole:
        return f"Run {report.run.id} is not over: {report.run.why or 'it was interrupted'}."
    moved = f" Bets repaired: {report.repaired.bets}." if report.run.options.get("repair") else ""
    return f"Run {report.run.id} is finished.{moved}"


def _ledger_of(wallet: object) -> SqlLedger:
    ledger = getattr(wallet, "ledger", None)
    if isinstance(wallet, Wallet | JoinedWallet) and isinstance(ledger, SqlLedger):
        return ledger
    what = type(wallet).__name__ if ledger is None else f"{type(wallet).__name__} over a {type(ledger).__name__}"
    raise TypeError(f"wallet must be a Wallet or JoinedWallet over a SqlLedger, not {what}")
