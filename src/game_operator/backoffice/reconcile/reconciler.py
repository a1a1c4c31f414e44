"""The reconciler as its users see it: begin a run or join one, share it among workers, and report what it found."""

import inspect
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from secrets import randbits
from typing import TYPE_CHECKING, Any, Final

from game_operator.backoffice.journal import LEASE_MILLIS, Journal
from game_operator.backoffice.journal_records import Run
from game_operator.backoffice.reconcile import by_hand
from game_operator.backoffice.reconcile.population import first_cursor, page
from game_operator.backoffice.reconcile.report import KIND, ReconcileReport, report_of
from game_operator.backoffice.reconcile.worker import Worker
from game_operator.client.sync import OperatorClient
from game_operator.errors import ConfigurationError, RunError, shown
from game_operator.ledger.api import Outcome
from game_operator.ledger.office import Office
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.staff.findings import Finding, check_person
from game_operator.protocol.http import service_name
from game_operator.wallet import JoinedWallet, Wallet

if TYPE_CHECKING:
    from game_operator.telemetry import Telemetry
else:
    Telemetry = object  # Who reads hints at run time does not load it.


#: Far above all money, and far below what a database can add up.
_MOST_BRAKE: Final = 1 << 60
_MOST_RATE: Final = 10_000.0
_NAP_SECONDS: Final = 0.2


class Reconciler:
    """
    Compares the bets of a ledger with the provider's, settles what was lost, and reports the rest.

    Nothing is settled unless ``run(repair=True)`` asks for it. A run survives its process: any process goes on with it.

    Args:
        client: An OperatorClient; it stays yours to close.
        wallet: A Wallet or JoinedWallet over a SqlLedger; a repair runs its ``after``, or its ``transaction`` and
            ``after``.
        min_age: An OPEN bet that is younger is left to its own calls.
        second_look: How far apart the two looks are that a repair needs, at least.
        sample: The share of settled, refused and cancelled bets that is looked up too, 0 to 1.
        rate_per_second: How many calls a second all processes of a run make together.
        clock_millis: The time in Unix milliseconds; by default the database's clock.
        lease: For how long a process keeps its part of a run without a sign of life.
        telemetry: A ``game_operator.telemetry.Telemetry``, for spans of runs and a metric of findings (extra ``otel``).

    Raises:
        TypeError: The client or the wallet is of another kind: both are for threads.
        ConfigurationError: A number is out of its range.
    """

    def __init__(
        self,
        client: OperatorClient,
        wallet: Wallet | JoinedWallet,
        *,
        min_age: timedelta = timedelta(hours=2),
        second_look: timedelta = timedelta(seconds=60),
        sample: float = 0.001,
        rate_per_second: float = 20.0,
        clock_millis: Callable[[], int] | None = None,
        lease: timedelta = timedelta(milliseconds=LEASE_MILLIS),
        telemetry: "Telemetry | None" = None,
    ) -> None:
        _check_parts(client, wallet)
        self._client, self._wallet = client, wallet
        self._options = {
            "min_age_millis": _millis("min_age", min_age, least=0),
            "second_look_millis": _millis("second_look", second_look, least=0),
            "sample": _number("sample", sample, 0.0, 1.0),
            "interval_micros": round(1_000_000 / _number("rate_per_second", rate_per_second, 0.01, _MOST_RATE)),
            "has_own_code": isinstance(wallet, JoinedWallet) or wallet.terms.after is not None,
        }
        self._ledger: SqlLedger = wallet.ledger  # type: ignore[assignment]  # Checked above.
        lease_millis = _millis("lease", lease, least=100)
        self._journal = Journal(self._ledger, clock_millis=clock_millis, lease_millis=lease_millis)
        self._telemetry = telemetry
        self._worker = Worker(client, wallet, self._journal, telemetry=telemetry)
        self._service = service_name(client.base_url, client.operator_id)
        self._source = wallet.terms.source

    # --- running

    def run(
        self,
        *,
        repair: bool = False,
        max_bets: int | None = None,
        max_total_cents: int | None = None,
        actor: str | None = None,
        reason: str | None = None,
        executor: Executor | None = None,
    ) -> ReconcileReport:
        """
        Look up all bets of a new run, or of one that is under way with the same arguments; return the report.

        With *repair* it looks twice, and waits in between. It then settles OPEN bets that the provider has CLOSED or
        ROLLED_BACK, each in a separate transaction, through the rules of the ledger.

        Args:
            repair: Whether bets are settled. Then all of the next four are needed.
            max_bets: At most so many are settled, counted over all processes, and with what the same actor has settled
                for this service and source in the last 20 hours.
            max_total_cents: At most so much is credited, counted in the same way.
            actor: Who asks for it.
            reason: Why.
            executor: Shares the look-ups among its threads or processes; everything else is done here. A process of it
                makes a client by ``OperatorClient.from_env``, because a client does not travel.

        Raises:
            RunError: A run with other arguments is under way.
            ConfigurationError: The brakes, the actor or the reason are missing.
            ApiError: The service refuses the operator by 401 or 403; the run is paused.
            LedgerUnavailableError: The database cannot be used; the run can go on later.
        """
        options = dict(self._options, repair=repair)
        if repair:
            options |= _brakes(max_bets, max_total_cents, actor, reason)
        elif (max_bets, max_total_cents) != (None, None):
            raise ConfigurationError("max_bets and max_total_cents are for repair=True: a dry run settles nothing.")
        self._worker.look_ups.is_leaving.clear()
        self._worker.look_ups.executor = executor
        with self._span():
            run = self._joined(options) or self._begun(options, actor, reason)
            self._finish(run)
        return self.report(run.id)

    def _finish(self, run: Run) -> None:
        if self._planned(run):
            self._journal.set_state(run.id, "running")
        while self._journal.run(run.id).state == "running" and not self._worker.look_ups.is_leaving.is_set():
            self._worker.work(run.id)
            waiting = self._journal.waiting(run.id)
            if waiting is None:
                self._journal.set_state(run.id, "finished")
            elif not self._worker.look_ups.is_leaving.is_set():
                ready_millis = waiting[0] - self._journal.now_millis()
                time.sleep(min(max(ready_millis / 1_000, 0.01), _NAP_SECONDS))

    def _span(self) -> AbstractContextManager[None]:
        """Return the span of a run, if there is telemetry."""
        return nullcontext() if self._telemetry is None else self._telemetry.run("reconcile")

    def run_some(self, seconds: float = 60.0) -> ReconcileReport:
        """
        Work for at most about *seconds* on the run that is under way, or begin a dry one; return the report so far.

        It is for cron and job queues. It never begins a run that repairs; one that a person has begun goes on.

        Raises:
            RunError: A run that repairs is under way, and its wallet runs statements that this one does not have, or
                the other way round.
            ApiError: The service refuses the operator by 401 or 403; the run is paused.
            LedgerUnavailableError: The database cannot be used; the run can go on later.
        """
        self._worker.look_ups.is_leaving.clear()
        self._worker.look_ups.executor = None
        until = time.monotonic() + _number("seconds", seconds, 0.0, 86_400.0)
        known = self._journal.under_way(KIND, self._source, self._service)
        run = known or self._begun(dict(self._options, repair=False), None, None)
        self._check_wallet(run)
        if run.state == "paused":
            self._journal.set_state(run.id, "running")
        with self._span():
            if self._planned(run, until):
                self._worker.work(run.id, until=until)
                if self._journal.run(run.id).state == "running" and self._journal.waiting(run.id) is None:
                    self._journal.set_state(run.id, "finished")
        return self.report(run.id)

    def _check_wallet(self, run: Run) -> None:
        """Raise RunError if a run repairs with the operator's statements and this wallet has none, or vice versa."""
        if run.options.get("repair") and run.options["has_own_code"] != self._options["has_own_code"]:
            raise RunError(
                f"Run {run.id} repairs with another kind of wallet: with `after` or `transaction`, or without.",
                remedy="Go on with it where it was begun: your own rows would be missing, or would not be.",
            )

    def stop(self) -> Run | None:
        """Stop the run that is under way for good, and return it; None if there is none."""
        run = self._journal.under_way(KIND, self._source, self._service)
        if run is not None:
            self._journal.set_state(run.id, "stopped", "by hand")
        return run and self._journal.run(run.id)

    def leave(self) -> None:
        """
        Let the threads of this process end after the calls under way; other processes go on.

        It may be called from any thread or signal handler. ``run`` then returns the report so far, and the run can go
        on later: with the same arguments, or by ``run_some``.
        """
        self._worker.look_ups.is_leaving.set()

    def status(self) -> Run | None:
        """Return the run that is under way, else the latest; None if there was none."""
        under_way = self._journal.under_way(KIND, self._source, self._service)
        mine = (run for run in self._journal.runs(KIND) if (run.source, run.service) == (self._source, self._service))
        return under_way or next(mine, None)

    def report(self, run_id: int | None = None) -> ReconcileReport:
        """Return the report of the run *run_id*, by default of the latest; raise RunError if there is none."""
        if run_id is None:
            latest = self.status()
            if latest is None:
                raise RunError("There was no reconciliation yet.", remedy="Begin one with run().")
            run_id = latest.id
        return report_of(self._journal, self._journal.run(run_id))

    def _joined(self, options: dict[str, Any]) -> Run | None:
        """Return the run that is under way if it was begun with these options."""
        run = self._journal.under_way(KIND, self._source, self._service)
        if run is None or run.options == options:
            return run
        waiting = self._journal.waiting(run.id)
        left = waiting[1] if waiting else 0
        kind = "repairs" if run.options.get("repair") else "is dry"
        raise RunError(
            f"Run {run.id} is under way with other arguments: it {kind}. Parts left: {left}.",
            remedy="Go on with it by run_some() or with its own arguments, or stop() it.",
        )

    def _begun(self, options: dict[str, Any], actor: str | None, reason: str | None) -> Run:
        try:
            return self._journal.begin(
                KIND,
                source=self._source,
                service=self._service,
                parameters=options,
                interval_micros=int(options["interval_micros"]),
                seed=randbits(31),
                actor=actor,
                reason=reason,
                cursor=first_cursor(),
            )
        except RunError:
            run = self._journal.under_way(KIND, self._source, self._service)
            if run is None or run.options != options:  # Another process has begun another one meanwhile.
                raise
            return run

    def _planned(self, run: Run, until: float | None = None) -> bool:
        """Add the bets of a run page by page, until all are there or it is time; return whether all are."""
        run = self._journal.run(run.id)
        while run.state == "planning":
            if self._worker.look_ups.is_leaving.is_set() or (until is not None and time.monotonic() >= until):
                return False
            found = Office(self._ledger).read(partial(page, run))
            run = self._journal.add_page(run, found.items, cursor=found.cursor, ready=not found.cursor)
        return True

    # --- by hand

    def findings(self, *, resolved: bool = False, bet_id: str | None = None) -> Iterator[Finding]:
        """Yield the findings of this source, the oldest first: the open ones, or with *resolved* all."""
        return by_hand.findings_of(self._ledger, source=self._source, resolved=resolved, bet_id=bet_id)

    def resolve(
        self, finding_id: int, *, actor: str, reason: str, pay: bool = False, counting_claims: Collection[str] = ()
    ) -> Finding:
        """
        Mark a finding as looked after; return it.

        Args:
            finding_id: The finding.
            actor: Who decides.
            reason: Why.
            pay: Whether what is owed is posted first, once, with the wallet's ``after``. What is owed is
                worked out at this moment; below zero it is taken back.
            counting_claims: With *pay* the ``tx_id`` of each claim that names the bet: what it paid counts as paid for
                the bet, and the rest is posted. Where nothing is left, the finding is resolved alone.

        Raises:
            FindingError: There is no such finding, it is of another source or resolved, or nothing can be paid for it;
                or a claim names its bet and is not counted, or does not name it and is.
            ConfigurationError: The actor or the reason is missing, or claims are counted without *pay*.
        """
        if pay:
            return by_hand.pay(self._wallet, finding_id, actor=actor, reason=reason, counting_claims=counting_claims)
        if counting_claims:
            raise ConfigurationError("counting_claims is for pay=True: without it nothing is posted.")
        return by_hand.resolve(self._ledger, finding_id, source=self._source, actor=actor, reason=reason)

    def refund(self, bet_id: str, *, actor: str, reason: str) -> Outcome:
        """
        Refund a bet that the provider does not know, as a person decides, and return what became of it.

        It asks the provider twice first, as far apart as the two looks of a run; the look of an earlier run counts, so
        that nobody waits.

        Args:
            bet_id: The bet, which must be OPEN, and not younger than ``min_age``.
            actor: Who decides.
            reason: Why.

        Raises:
            RepairRefusedError: The provider knows the bet, or it is not OPEN, or it is young, or a claim names it.
            TransportError, ApiError: The provider does not say that it does not know the bet.
            ConfigurationError: The actor or the reason is missing.
        """
        return by_hand.refund(
            self._client,
            self._wallet,
            bet_id,
            actor=actor,
            reason=reason,
            journal=self._journal,
            min_age_millis=int(self._options["min_age_millis"]),
            second_look_millis=int(self._options["second_look_millis"]),
        )


def _check_parts(client: object, wallet: object) -> None:
    if not isinstance(client, OperatorClient):
        raise TypeError(
            f"client must be an OperatorClient, not {type(client).__name__}: a reconciliation is for threads"
        )
    if not isinstance(wallet, Wallet | JoinedWallet):
        raise TypeError(f"wallet must be a Wallet or a JoinedWallet, not {type(wallet).__name__}")
    ledger: object = wallet.ledger
    if not isinstance(ledger, SqlLedger):
        raise TypeError(f"the wallet's ledger must be a SqlLedger, not {type(ledger).__name__}: it keeps the journal")
    if inspect.iscoroutinefunction(getattr(ledger.accounts, "lock", None)):
        raise TypeError("the ledger's accounts are awaited, and nothing awaits here: pass Accounts with plain methods")


def _brakes(max_bets: int | None, max_total_cents: int | None, actor: str | None, reason: str | None) -> dict[str, Any]:
    check_person(actor, reason)
    for name, value in (("max_bets", max_bets), ("max_total_cents", max_total_cents)):
        if type(value) is not int or not 0 <= value < _MOST_BRAKE:
            raise ConfigurationError(
                f"{name} is {shown(value)}, and repairing needs it.",
                setting=name,
                remedy="Pass how many bets, and how many cents, may be settled at most.",
            )
    return {"max_bets": max_bets, "max_total_cents": max_total_cents, "actor": actor, "reason": reason}


def _millis(name: str, value: object, *, least: int) -> int:
    if not isinstance(value, timedelta):
        raise TypeError(f"{name} must be a timedelta, not {type(value).__name__} {shown(value)}")
    millis = round(value / timedelta(milliseconds=1))
    if not least <= millis <= 90 * 86_400_000:
        raise ConfigurationError(
            f"{name} is {value}.", setting=name, remedy="Pass at most 90 days, and not less than 0."
        )
    return millis


def _number(name: str, value: object, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, not {type(value).__name__} {shown(value)}")
    if not least <= value <= most:
        raise ConfigurationError(
            f"{name} is {value}.", setting=name, remedy=f"Pass a number from {least:g} to {most:g}."
        )
    return float(value)
