"""A storm that was begun on a page: its settings, how far it is, and its report."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from game_operator.errors import GameOperatorError
from game_operator_testkit.control_room.jobs import Job
from game_operator_testkit.control_room.runs.runs_page import own_ledger
from game_operator_testkit.provider.faults import FaultPlan
from game_operator_testkit.provider.permission import check_moves_money
from game_operator_testkit.sandbox.dealing.deliveries import retry_preset
from game_operator_testkit.sandbox.storm.players import Books, OpenLedgerBooks, PlayersBooks
from game_operator_testkit.sandbox.storm.report import StormReport
from game_operator_testkit.sandbox.storm.storm import Storm, openings
from game_operator_testkit.sandbox.storm.trace import TraceHead

if TYPE_CHECKING:
    from game_operator.wallet import JoinedWallet, Wallet
    from game_operator_testkit.sandbox.server import Sandbox

#: Seconds for one call, and for which a wallet is waited for that gives no definite answer any more.
_TIMEOUT: Final = 5.0
_PATIENCE: Final = 10.0
#: A trace that is longer is not kept: it would push all other runs out.
_MOST_TRACE: Final = 32 * 1024 * 1024
_SEEDS: Final = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class StormSettings:
    """
    What the form asks for.

    Attributes:
        bets: How many bets are played, free bets apart.
        fresh: How many new players are opened in the ledger at hand; 0 if *players* play.
        players: Who plays, with the money that they have.
        faults: What goes wrong.
        retries: The name of a preset.
        seed: What decides rounds, outcomes and faults; a new one if None.
        concurrency: How many calls are under way at once.
        moves_money: Whether a wallet on another machine may be stormed.
    """

    bets: int
    fresh: int
    players: Sequence[str]
    faults: FaultPlan
    retries: str
    seed: int | None
    concurrency: int
    moves_money: bool = False


@dataclass(eq=False)
class StormRun:
    """
    A run, from its first moment on.

    Attributes:
        number: Counts up from 1.
        settings: What was asked for.
        url: The wallet.
        head: How the plan is made.
        began_millis: When it began, in Unix milliseconds.
        dealt, posts: How many bets were dealt, and calls posted, so far.
        report: What came of it; None before its end, and if it could not begin.
        trace: What was sent and answered, a line each, if the storm did not pass and that is not too long.
        played: The storm with all its bets, as long as they can be recorded; None before its end, and later.
        is_recorded: Whether the sandbox answers for its bets.
    """

    number: int
    settings: StormSettings
    url: str
    head: TraceHead
    began_millis: int
    dealt: int = 0
    posts: int = 0
    report: StormReport | None = None
    trace: str = ""
    played: Storm | None = field(default=None, repr=False)
    is_recorded: bool = False
    job: Job = field(init=False, repr=False)

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        if self.report is None:
            return len(self.trace)
        found = (*self.report.differences, *self.report.expected, *self.report.lasting)
        histories = sum(len(line) for difference in found for line in difference.history)
        return len(self.trace) + histories + 8 * len(self.report.latencies_ms)

    @property
    def headline(self) -> str:
        """How it ended, or what it does, in one sentence."""
        if self.report is None:
            ended = "It did not come to its end." if self.posts else "It could not begin."
            return "At work." if self.job.is_running else ended
        return _headline(self.report)

    @property
    def tone(self) -> str:
        """How the headline is coloured."""
        if self.report is None:
            return "" if self.job.is_running else "bad"
        if not self.report.passed or self.report.broken_off:
            return "bad"
        return "warn" if self.report.was_stopped else "good"


def begun(number: int, settings: StormSettings, sandbox: "Sandbox") -> StormRun:
    """Return the run with *number*, before its first call."""
    seed = secrets.randbelow(_SEEDS) if settings.seed is None else settings.seed
    now_millis = time.time_ns() // 1_000_000
    head = TraceHead(
        game_operator_storm=1,
        seed=seed,
        start_millis=now_millis,
        bets=settings.bets,
        currency="EUR",
        faults=str(settings.faults),
        retries=retry_preset(settings.retries).name,
        batches=sandbox.service.profile.deposit_batch,
        opening=openings(settings.fresh, seed, now_millis) if settings.fresh else dict.fromkeys(settings.players, 0),
    )
    return StormRun(number, settings, sandbox.wallet_url or "", head, now_millis)


def play(run: StormRun, job: Job, sandbox: "Sandbox", wallet: "Wallet | JoinedWallet | None") -> str:
    """Storm the sandbox's wallet; its board of balances believes what the players have afterwards."""
    settings, service = run.settings, sandbox.service
    check_moves_money(run.url, "a storm", moves_money=settings.moves_money)
    played = Storm(
        run.url,
        service.keys,
        _books(run, sandbox, wallet),
        run.head,
        concurrency=settings.concurrency,
        profile=service.profile,
        timeout=_TIMEOUT,
        patience=_PATIENCE,
    )
    job.on_interrupt(played.stop)

    def progress(dealt: int, posts: int, _seconds: float) -> None:
        run.dealt, run.posts = dealt, posts

    try:
        report = played.run(progress)
    except GameOperatorError:
        run.trace = _trace(played.trace())
        raise
    finally:
        for player_id in run.head.opening:
            service.balances.accept(player_id)
    run.trace = _trace(report.trace)
    run.played = None if report.broken_off else played
    run.head, run.report = report.head, replace(report, trace=())
    return run.headline


def record(run: StormRun, sandbox: "Sandbox") -> None:
    """Let *sandbox* answer for the bets of a run that has ended, if they are still at hand."""
    played, run.played = run.played, None
    if played is not None:
        played.record_in(sandbox)
        run.is_recorded = True


def _trace(lines: Sequence[str]) -> str:
    text = "".join(f"{line}\n" for line in lines)
    return text if len(text) <= _MOST_TRACE else ""


def _books(run: StormRun, sandbox: "Sandbox", wallet: "Wallet | JoinedWallet | None") -> Books:
    ledger, service = own_ledger(wallet), sandbox.service
    if run.settings.fresh and ledger is not None and wallet is not None:
        return OpenLedgerBooks(ledger, source=wallet.terms.source)
    return PlayersBooks(run.url, service.keys.current, profile=service.profile, timeout=_TIMEOUT, listed_in="the field")


def _headline(report: StormReport) -> str:
    bets = _counted(report.bets, "bet")
    if report.all_refused:
        return "The wallet refused every bet, so nothing was tried."
    if report.broken_off:
        return "It broke off before all bets were played and audited, and service and wallet differ."
    if report.differences:
        return f"Service and wallet differ: {_counted(len(report.differences), 'difference')} in {bets}."
    if report.not_200:
        return f"{_counted(report.not_200, 'answer')} had another HTTP status than 200."
    apart = ", except where the storm itself gave a call up" if report.expected or report.lasting else ""
    ended = "Stopped early: service" if report.was_stopped else "Service"
    return f"{ended} and wallet agree on all {bets}{apart}."


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
