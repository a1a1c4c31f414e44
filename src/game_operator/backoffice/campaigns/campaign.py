"""A campaign: planned once, run by any number of processes, stopped and resumed by anybody."""

import inspect
import secrets
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final

from game_operator.backoffice.campaigns.granting import (
    BEHIND_CANARY,
    CANARY_GRANTS,
    PLANNED,
    Granting,
    go_on,
    set_planned,
    stop,
)
from game_operator.backoffice.campaigns.grants import Grant, check_name
from game_operator.backoffice.campaigns.plan import (
    CampaignPlan,
    Draft,
    Terms,
    check_exposure,
    draw_up,
)
from game_operator.backoffice.campaigns.players import Players
from game_operator.backoffice.campaigns.report import (
    CampaignReport,
    CampaignStatus,
    GrantResult,
    report_on,
    result_of,
    status_of,
)
from game_operator.backoffice.journal import Journal
from game_operator.backoffice.journal_records import NewItem, Run
from game_operator.errors import ConfigurationError, RunError, shown
from game_operator.ledger.api import check_source_name
from game_operator.ledger.office import Office
from game_operator.ledger.sql import SqlLedger
from game_operator.protocol.http import service_name

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient

_KIND: Final = "campaign"
_DEFAULT_RATE: Final = 20.0
_FASTEST_RATE: Final = 10_000.0
_MOST_THREADS: Final = 64
_CHUNK_GRANTS: Final = 50
#: So many grants are added in a transaction.
_PAGE: Final = 5_000
_SILENCE_MILLIS: Final = 86_400_000
_MICROS: Final = 1_000_000
#: The cursor of a run to which no page was added: the first one is the canary.
_NO_PAGE: Final = "{}"
_UNCHANGED: Final = "A campaign's plan never changes. Choose another name, and leave out the players who have theirs."


class Campaign:
    """
    Free bets for many players, each of them once.

    The plan and what became of each grant are in the ledger's database. Any number of processes and machines may run
    one campaign at once; on SQLite, those of one machine. Each may be killed at any moment.

    Args:
        client: Asks the service; None for a campaign that is only looked at or stopped. Its deadline and retries are
            not used: each attempt is made once, for at most 30 s, and what became of it is written down before the
            next.
        ledger: An open SqlLedger.
        name: The campaign: 1 to 40 of A-Z, a-z, 0-9, ".", "_" and "-". Each reference id begins with it.
        instance_id: The game instance of players whose row names none.
        count: Free bets for each player whose row says nothing else, 1 to 50 (spec §8).
        wager_amount_cents: The wager of each, 1 to 1,000,000 cents of the instance's currency.
        expire_duration_millis: For how long they can be played, 1 to 2,592,000,000 milliseconds (30 days).
        source: The ledger's source that the players belong to; its findings have it.

    Raises:
        TypeError: *client* or *ledger* is async, or of another kind.
        CampaignRefusedError: The name is invalid.
    """

    def __init__(
        self,
        client: "OperatorClient | None",
        ledger: SqlLedger,
        name: str,
        *,
        instance_id: str | None = None,
        count: int | None = None,
        wager_amount_cents: int | None = None,
        expire_duration_millis: int | None = None,
        source: str = "",
    ) -> None:
        self._given_client = None if client is None else _checked_client(client)
        if not isinstance(ledger, SqlLedger):
            raise TypeError(f"ledger must be an open SqlLedger, not {type(ledger).__name__}")
        self.name: str = check_name(name)
        self._ledger, self._source = ledger, check_source_name(source)
        self._terms = _checked_terms(Terms(instance_id, count, wager_amount_cents, expire_duration_millis))
        self._service = "" if client is None else service_name(client.base_url, client.operator_id)
        self._journal = Journal(ledger)
        #: Asks the threads of this process to finish what is under way.
        self._stopping = Event()

    @property
    def _client(self) -> "OperatorClient":
        if self._given_client is None:
            raise ConfigurationError("To plan and to run a campaign, pass an OperatorClient.", setting="client")
        return self._given_client

    def plan(
        self,
        players: Players,
        *,
        max_exposure_cents: int | None = None,
        check_players: bool = True,
    ) -> CampaignPlan:
        """
        Check all *players*, freeze the plan and return it. Nothing is sent to any of them.

        The same players and terms, in any order, are the same plan: planning again changes nothing, and finishes a
        plan that was interrupted.

        Args:
            players: A Path to a CSV file in UTF-8 whose first line names its columns, or an iterable of player ids and
                mappings. ``player_id`` is needed; ``instance_id``, ``count``, ``wager_amount_cents`` and
                ``expire_duration_millis`` stand for the campaign's own. The first ten are
                the canary; the others follow by their ids.
            max_exposure_cents: Refuse a plan whose count times wager adds up to more.
            check_players: Whether to refuse players whose id is not an account of the ledger. Pass False if your
                wallet's ``account_of`` gives accounts other names.

        Raises:
            CampaignRefusedError: Some rows cannot be granted (``problems`` lists them), the instances have several
                currencies, or the exposure is too high.
            RunError: There is another plan under this name, or it is for another service.
            TypeError: *players* is not a Path or an iterable of rows.
            ConfigurationError: The players are in a table of yours, and the ledger was opened without ``accounts=``.
            LedgerError: The ledger's ``owns`` does not own one of the players.
            ApiError, TransportError: The games could not be fetched.
        """
        games = self._client.fetch_games()
        draft = draw_up(
            players,
            campaign=self.name,
            terms=self._terms,
            instances={instance.id: instance for game in games for instance in game.instances},
            known=partial(self._known_players, check_players=check_players),
        )
        check_exposure(draft.plan, max_exposure_cents)
        run, is_new = self._begun(draft)
        if run.state == "planning":
            self._fill(run, draft.grants)
        return replace(draft.plan, is_new=is_new)

    def _known_players(self, player_ids: Collection[str], *, check_players: bool) -> set[str] | None:
        """Return which players are known, if that is to be checked; raise LedgerError for one of another ledger."""
        Office(self._ledger).check_owned(sorted(player_ids))
        return Office(self._ledger).known_accounts(player_ids) if check_players else None

    def run(
        self,
        *,
        rate_per_second: float | None = None,
        confirm: bool = False,
        concurrency: int = 4,
    ) -> CampaignReport:
        """
        Make the grants, together with all other processes that run the campaign; return when it ends or pauses.

        The first ten grants are made one at a time, and any refusal of them pauses the campaign. Later refusals are
        results of those grants; HTTP 401 and 403 and an unknown instance always pause, and so do twenty failures in a
        row. What is unanswered is asked for again, under the same reference id.

        Args:
            rate_per_second: Calls a second at most, of all processes together; 20 if nobody has said otherwise.
            confirm: Needed after 24 hours in which nothing happened: make sure first that this database is not a
                restored copy, of which another one went on.
            concurrency: How many calls of this process may be under way at once.

        Raises:
            RunError: There is no plan, it is paused (``resume``), it needs ``confirm``, or it is for another service.
            LedgerError: The database cannot be used: run it again. Or the ledger's ``owns`` does not own one of the
                players, and nothing was sent.
        """
        return self._go(rate_per_second, confirm, concurrency, again=False)

    def resume(
        self,
        *,
        rate_per_second: float | None = None,
        confirm: bool = False,
        concurrency: int = 4,
    ) -> CampaignReport:
        """Go on with a campaign that is paused, as ``run`` does, and try again what was given up."""
        return self._go(rate_per_second, confirm, concurrency, again=True)

    def stop(self, reason: str = "stopped") -> CampaignStatus:
        """
        Pause the campaign in all processes and return its status; ``resume`` goes on.

        Each process finishes the calls that are under way.

        Args:
            reason: Why, for those who look at the status.

        Raises:
            RunError: There is no plan under this name, or it is not complete.
        """
        run = self._known()
        stop(self._journal, run.id, reason or "stopped")
        return self.status()

    def interrupt(self) -> None:
        """Let ``run`` finish what is under way in this process, and return. A signal handler may call it, early too."""
        self._stopping.set()

    def status(self) -> CampaignStatus:
        """Return where the campaign stands; raise RunError if there is none of this name."""
        return status_of(self._journal, self._found())

    def report(self) -> CampaignReport:
        """Return the status with the findings; raise RunError if there is no campaign of this name."""
        return report_on(self._journal, self._found())

    def results(self) -> Iterator[GrantResult]:
        """Yield what became of each grant, by player and instance; it reads a page at a time."""
        for item in self._journal.items(self._found().id):
            yield result_of(self.name, item)

    def _found(self) -> Run:
        run = self._journal.named(_KIND, self.name)
        if run is None:
            raise RunError(f"There is no campaign {self.name!r} in this database. Plan it first.")
        return run

    def _known(self) -> Run:
        """Return the campaign's run, whose plan is complete and for this service."""
        run = self._found()
        self._check_service(run)
        if run.state == "planning":
            raise RunError(
                f"The plan of the campaign {self.name!r} was interrupted, or is being made now. Nothing was sent. Plan "
                "it with the same players again."
            )
        return run

    def _check_service(self, run: Run) -> None:
        if self._service and run.service != self._service:
            raise RunError(
                f"The campaign {self.name!r} is for {run.service}, and this client asks {self._service}. Reference ids "
                "of one are unknown to the other, so players would be granted twice. Use the client of the plan."
            )

    def _begun(self, draft: Draft) -> tuple[Run, bool]:
        """Return the run of this plan, and whether it is new; another plan under this name is refused."""
        run, is_new = self._journal.named(_KIND, self.name), False
        if run is None:
            try:
                run, is_new = self._begin(draft), True
            except RunError:  # Another process has begun it meanwhile.
                run = self._found()
        self._check_service(run)
        if run.digest != draft.plan.digest:
            raise RunError(
                f"There is another plan under the name {self.name!r}, of {run.options['grants']} grants. {_UNCHANGED}"
            )
        if run.source != self._source:
            raise RunError(f"The plan under the name {self.name!r} has the source {shown(run.source)}. {_UNCHANGED}")
        return run, is_new

    def _begin(self, draft: Draft) -> Run:
        interval_micros = round(_MICROS / _DEFAULT_RATE)
        parameters = {
            "interval_micros": interval_micros,
            "grants": draft.plan.grants,
            "exposure_cents": draft.plan.exposure_cents,
            "currency": draft.plan.currency,
        }
        return self._journal.begin(
            _KIND,
            name=self.name,
            source=self._source,
            service=self._service,
            parameters=parameters,
            interval_micros=interval_micros,
            digest=draft.plan.digest,
            cursor=_NO_PAGE,
        )

    def _fill(self, run: Run, grants: list[Grant]) -> None:
        """Add all grants to *run*, of which some may be there: each is added once, by any number of processes."""
        run = self._add(run, grants[:CANARY_GRANTS], CANARY_GRANTS)
        # In the order of their keys a database stores them quickest.
        others = sorted(grants[CANARY_GRANTS:], key=lambda grant: grant.key)
        for start in range(0, len(others), _PAGE):
            run = self._add(run, others[start : start + _PAGE], _CHUNK_GRANTS)
        if set_planned(self._journal, run, len(grants)):
            return
        if self._journal.run(run.id).state == "planning":
            raise RunError(
                f"The plan of {self.name!r} does not have its {len(grants)} grants. Nothing was sent. Plan it again."
            )

    def _add(self, run: Run, page: list[Grant], chunk_grants: int) -> Run:
        """
        Add a page to *run* unless its plan is complete, also while another process adds the same grants.

        Whatever the order of the players is by now, only what was added first of all need not wait for the canary.
        """
        items = [NewItem(grant.key, {"terms": grant.terms}, grant.exposure_cents) for grant in page]
        while items and run.state == "planning":
            token, ready_at_millis = secrets.token_hex(8), 0 if run.cursor == _NO_PAGE else BEHIND_CANARY
            run = self._journal.add_page(
                run, items, cursor=token, chunk_size=chunk_grants, ready_at_millis=ready_at_millis
            )
            if run.cursor == token:
                break
        return run

    def _go(
        self,
        rate_per_second: float | None,
        confirm: bool,
        concurrency: int,
        *,
        again: bool,
    ) -> CampaignReport:
        client, interval_micros = self._client, _interval_micros(rate_per_second)
        if type(concurrency) is not int or not 1 <= concurrency <= _MOST_THREADS:
            raise ConfigurationError(
                f"concurrency is {shown(concurrency)}. Pass 1 to {_MOST_THREADS}.", setting="concurrency"
            )
        run = self._known()
        if run.state != "finished":
            self._check_may_go(run, confirm=confirm, again=again)
            Office(self._ledger).check_owned(each.player_id for each in self.results())
            if interval_micros is None:
                is_running = run.state == "running"
                interval_micros = run.interval_micros if is_running else run.options["interval_micros"]
            if go_on(self._journal, run, interval_micros, again=again):
                self._work(run, client, concurrency)
        return self.report()

    def _work(self, run: Run, client: "OperatorClient", threads: int) -> None:
        """Work with so many threads until the run ends or pauses; raise what one of them raised."""
        stopping = self._stopping

        def work() -> None:
            Granting(self._journal, run, client, stopping=stopping).work()

        pool, waits = ThreadPoolExecutor(threads, "campaign"), True
        try:
            done, _ = wait([pool.submit(work) for _ in range(threads)], return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            waits = not stopping.is_set()  # After ``interrupt`` it is the second Ctrl-C.
            raise
        finally:  # After an error, too, the others finish what is under way.
            stopping.set()
            pool.shutdown(waits)
            self._stopping = Event()
        for each in done:
            each.result()

    def _check_may_go(self, run: Run, *, confirm: bool, again: bool) -> None:
        if run.state == "paused" and run.why != PLANNED and not again:
            raise RunError(
                f"The campaign {self.name!r} is paused: {run.why.rstrip('.')}.",
                remedy="Resume it when that is settled: resume(), or `game-operator campaign resume`.",
            )
        silence_millis = abs(self._journal.now_millis() - run.touched_at_millis)
        if silence_millis > _SILENCE_MILLIS and not confirm:
            raise RunError(
                f"Nothing has happened in the campaign {self.name!r} for {silence_millis // 3_600_000} hours. If this "
                "database is a restored copy, the original may have gone on.",
                setting="confirm",
                remedy="Make sure that no other copy is in use, then pass confirm=True (--confirm).",
            )


def _checked_client(client: "OperatorClient") -> "OperatorClient":
    grant = getattr(client, "grant_free_bet", None)
    if grant is None:
        raise TypeError(f"client must be an OperatorClient, not {type(client).__name__}")
    if inspect.iscoroutinefunction(grant):
        raise TypeError("client is async: pass an OperatorClient. From asyncio, call run() in a thread")
    return client


def _checked_terms(terms: Terms) -> Terms:
    for name, value in terms._asdict().items():
        expected = str if name == "instance_id" else int
        if value is not None and (not isinstance(value, expected) or isinstance(value, bool)):
            raise TypeError(f"{name} must be {expected.__name__}, not {type(value).__name__} {shown(value)}")
    return terms


def _interval_micros(rate_per_second: float | None) -> int | None:
    if rate_per_second is None:
        return None
    if type(rate_per_second) in (int, float) and 0 < rate_per_second <= _FASTEST_RATE:  # NaN is neither.
        return max(1, round(_MICROS / rate_per_second))
    raise ConfigurationError(
        f"rate_per_second is {shown(rate_per_second)}. Pass calls a second, above 0 and at most 10,000.",
        setting="rate_per_second",
    )
