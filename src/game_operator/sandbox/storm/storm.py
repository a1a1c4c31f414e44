"""
A storm: many bets of many players at once, with faults, and at the end an audit of every bet.

The plan, the faults and the audit are other modules'; this one lets them work together, and measures.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from game_operator.errors import GameOperatorError, LedgerError, TransportError
from game_operator.models import GameInfo
from game_operator.profile import Profile
from game_operator.provider.caller import WebhookCaller
from game_operator.provider.delivery import Carried, Post
from game_operator.provider.faults import FaultPlan
from game_operator.provider.http import Courier, HttpCarrier
from game_operator.provider.keys import ServiceKeys
from game_operator.sandbox.dealing.carrying import play
from game_operator.sandbox.dealing.dealer import Dealer
from game_operator.sandbox.dealing.dealt import DealtBet, Order, ServiceState
from game_operator.sandbox.dealing.plan import Plan, run_id_of
from game_operator.sandbox.dealing.timing import retry_preset
from game_operator.sandbox.service.seed import catalogue
from game_operator.sandbox.storm.audit import Difference, Watch, audit, audit_unfinished
from game_operator.sandbox.storm.bet_fate import given_up
from game_operator.sandbox.storm.players import Books, check_players, check_replay, check_wallet
from game_operator.sandbox.storm.report import StormProgress, StormReport
from game_operator.sandbox.storm.timeline import PatientCourier, Timeline
from game_operator.sandbox.storm.trace import Trace, TraceHead, replay

#: A storm's own players: most have this, in cents, and every tenth soon runs out of money.
_RICH_CENTS: Final = 100_000
_POOR_CENTS: Final = 500
_POOR_EVERY: Final = 10
#: How long a wallet is waited for that cannot be reached any more, or answers nothing of use: it may be restarting.
_PATIENCE_SECONDS: Final = 30.0
#: After as many deliveries a call that was never answered definitely is given up.
_MOST_ATTEMPTS: Final = 30
#: What was given up may still be under way at the wallet, and the audit reads the books more than once.
_SETTLING_SECONDS: Final = 0.25


def openings(players: int, seed: int, start_millis: int) -> dict[str, int]:
    """Return fresh players of a storm, and what each opens with in cents."""
    run_id = run_id_of(seed, start_millis)
    return {
        f"storm-{run_id}-{number}": _POOR_CENTS if number % _POOR_EVERY == _POOR_EVERY - 1 else _RICH_CENTS
        for number in range(players)
    }


class Storm:
    """
    Plays a plan against a wallet, and audits.

    Args:
        wallet_url: The wallet.
        keys: What webhooks are signed with.
        books: Where the players come from, and who tells what they have at the end.
        head: How the plan is made.
        concurrency: How many calls are under way at once.
        profile: What is assumed of the wallet.
        timeout: Seconds for one call.
        games: The catalogue; the sandbox's own if None.
        trace: A trace to send again in its order, one call at a time; *head* is its head then.
        courier: Who carries the calls, in place of HTTP.
        patience: Seconds for which a wallet is waited for that was there and cannot be reached any more, or answers
            nothing definite.
        allow_insecure_http: Whether plain http may go to another machine.
    """

    def __init__(
        self,
        wallet_url: str,
        keys: ServiceKeys,
        books: Books,
        head: TraceHead,
        *,
        concurrency: int = 16,
        profile: Profile | None = None,
        timeout: float = 10.0,
        games: Sequence[GameInfo] | None = None,
        trace: Trace | None = None,
        courier: Courier | None = None,
        patience: float = _PATIENCE_SECONDS,
        allow_insecure_http: bool = False,
    ) -> None:
        self._url, self._keys, self._books, self._head = wallet_url, keys, books, head
        self._concurrency, self._profile, self._timeout = concurrency, profile, timeout
        self._games = catalogue(head.seed) if games is None else games
        self._trace = trace
        self._courier = courier
        self._patience = patience
        self._insecure = allow_insecure_http
        self._seen = _Seen()
        #: What was sent and heard so far.
        self.timeline = Timeline()

    def run(self, on_progress: Callable[[StormProgress], object] | None = None) -> StormReport:
        """
        Play and audit; *on_progress* is called now and then.

        A wallet that goes away, or its ledger, is audited as far as it came, and reported if anything is wrong already.

        Raises:
            TransportError: Nobody can reach the wallet, or it gives no definite answer any more, and nothing else is
                wrong.
            LedgerError: The books cannot be read at the end, and nothing else is wrong.
            ConfigurationError: The plan cannot be made, the players cannot be had, or the wallet is none of theirs.
        """
        plan = self._plan()
        opening = self._opening()
        watch = Watch(opening)
        dealer = self._dealer(plan, watch)
        began = time.perf_counter()
        try:
            asyncio.run(self._play(dealer, on_progress))
            seconds = time.perf_counter() - began
            if any(map(given_up, dealer.dealt)):
                time.sleep(_SETTLING_SECONDS)
            closing = self._books.close(opening)
        except (TransportError, LedgerError) as gone:
            return self._broken_off(dealer, time.perf_counter() - began, watch, gone)
        report = self._report(dealer, seconds, audit(dealer.dealt, opening, closing, watch.wrong))
        return replace(report, none_kept=closing.bets == {} and bool(report.accepted))

    def _plan(self) -> Plan:
        head = self._head
        return Plan(
            seed=head.seed,
            start_millis=head.start_millis,
            games=self._games,
            players=tuple(head.opening),
            bets=head.bets,
            currency=head.currency,
        )

    def _opening(self) -> Mapping[str, int]:
        """Open the players' accounts, with the wallet asked before and after, and return what they hold."""
        if self._courier is None:
            nobody = f"storm-{run_id_of(self._head.seed, self._head.start_millis)}-nobody"
            with self._caller() as caller:
                check_wallet(caller, self._url, nobody)
        opening = self._books.open(self._head.opening)
        if self._trace is not None:
            check_replay(self._trace.head.opening, opening)
        # For a replay: the balances that it begins with.
        self._head = replace(self._head, opening=dict(opening))
        if self._courier is None:
            with self._caller() as caller:
                check_players(caller, opening)
        return opening

    def _dealer(self, plan: Plan, watch: Watch) -> Dealer:
        head = self._head
        return Dealer(
            plan,
            faults=FaultPlan.parse(head.faults),
            retries=retry_preset(head.retries),
            seed=head.seed,
            profile=self._profile,
            batches=head.batches,
            listener=watch,
            most_attempts=_MOST_ATTEMPTS,
        )

    def trace(self) -> tuple[str, ...]:
        """Return the lines of the trace of what was sent so far; none if nothing was."""
        return self.timeline.trace(self._head)

    def _broken_off(self, dealer: Dealer, seconds: float, watch: Watch, gone: GameOperatorError) -> StormReport:
        """Return the report of a storm whose wallet has gone, if something is wrong besides; else raise *gone*."""
        # A call that the service gave up leaves open what is due; those that end now were told of before.
        open_players = {each.player_id for each in dealer.dealt if given_up(each)}
        dealer.abandon()
        wrong = {player_id: told for player_id, told in watch.wrong.items() if player_id not in open_players}
        report = self._report(dealer, seconds, audit_unfinished(dealer.dealt, wrong))
        if report.passed or report.all_refused:
            raise gone
        return replace(report, broken_off=str(gone))

    def _caller(self) -> WebhookCaller:
        return WebhookCaller(
            self._url,
            self._keys.current,
            profile=self._profile,
            timeout=self._timeout,
            allow_insecure_http=self._insecure,
        )

    async def _play(self, dealer: Dealer, on_progress: Callable[[StormProgress], object] | None) -> None:
        meter = None if on_progress is None else _Meter(dealer, on_progress)
        if self._courier is not None:
            await self._carry(dealer, self.timeline.of(self._courier), meter)
            return
        courier = HttpCarrier(
            self._url,
            self._keys,
            profile=self._profile,
            on_post=self._seen,
            timeout=self._timeout,
            patience=self._patience,
            allow_insecure_http=self._insecure,
            pooled=True,
        )
        try:
            await self._carry(dealer, PatientCourier(self.timeline.of(courier), self._patience), meter)
        finally:
            await courier.aclose()

    async def _carry(self, dealer: Dealer, courier: Courier, meter: "_Meter | None") -> None:
        sent, answered = self.timeline.order, None if meter is None else meter.count
        if self._trace is not None:
            await replay(dealer, courier, self._trace, on_order=sent, on_answer=answered)
        else:
            await play(dealer, courier, concurrency=self._concurrency, on_order=sent, on_answer=answered)

    def _report(self, dealer: Dealer, seconds: float, found: list[Difference]) -> StormReport:
        bets = [each for each in dealer.dealt if isinstance(each, DealtBet)]
        refusals = Counter(filter(None, map(_refusal, bets)))
        differences = tuple(difference for difference in found if not difference.expected)
        report = StormReport(
            head=self._head,
            bets=len(bets),
            claims=len(dealer.dealt) - len(bets),
            posts=self.timeline.posts,
            seconds=seconds,
            latencies_ms=tuple(self._seen.latencies_ms),
            faults=dealer.struck,
            states=Counter(str(each.state) for each in dealer.dealt),
            accepted=sum(bet.accepted for bet in bets),
            refusals=refusals,
            differences=differences,
            expected=tuple(difference for difference in found if difference.expected),
            not_200=self._seen.not_200,
        )
        return report if report.passed else replace(report, trace=self.trace())


def _refusal(bet: DealtBet) -> str | None:
    """Return the code that *bet* was refused with, or None if it was not."""
    if bet.state is not ServiceState.REFUSED:
        return None
    genuine = (sent for sent in bet.history if sent.post.is_genuine)
    codes = (
        sent.answer.code for sent in genuine if sent.call.operation == "withdraw" and sent.answer.settles(sent.call)
    )
    return next((code for code in codes if code is not None), None)


class _Seen:
    """What is measured of posts, as they are over."""

    def __init__(self) -> None:
        self.not_200 = 0
        self.latencies_ms: list[float] = []

    def __call__(self, post: Post, carried: Carried) -> None:
        if carried.answer is None:
            return
        if post.manner is None:
            self.latencies_ms.append(carried.elapsed_seconds * 1_000)
        if carried.answer.status != 200 and post.is_genuine:
            self.not_200 += 1


class _Meter:
    """Tells how far a storm is, and looks at each bet once."""

    def __init__(self, dealer: Dealer, tell: Callable[[StormProgress], object]) -> None:
        self._dealer, self._tell = dealer, tell
        self._began = time.perf_counter()
        self._looked_at = self._bets = self._posts = 0

    def count(self, order: Order, _: object) -> None:
        """Note that *order* was answered."""
        fresh = self._dealer.dealt[self._looked_at :]
        self._looked_at += len(fresh)
        self._bets += sum(isinstance(each, DealtBet) for each in fresh)
        self._posts += len(order.posts)
        self._tell(StormProgress(self._bets, self._posts, time.perf_counter() - self._began))
