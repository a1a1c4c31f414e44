"""
A storm: many bets of many players at once, with faults, and at the end an audit of every bet.

The plan, the faults and the audit are other modules'; this one lets them work together, and measures.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from game_operator.caller import WebhookCaller
from game_operator.codes import WebhookErrorCode
from game_operator.errors import ConfigurationError, TransportError, shown
from game_operator.models import GameInfo
from game_operator.models.webhooks import BalanceCall
from game_operator.money import amount_from_cents
from game_operator.profile import Profile
from game_operator.sandbox.audit import Difference, audit, audit_unfinished
from game_operator.sandbox.books import Books
from game_operator.sandbox.courier import Carried, Courier, HttpCourier
from game_operator.sandbox.dealer import Dealer
from game_operator.sandbox.dealt import DealtBet, ServiceState
from game_operator.sandbox.delivery import Answer
from game_operator.sandbox.doubt import given_up
from game_operator.sandbox.faults import Fault, FaultPlan
from game_operator.sandbox.patience import PatientCourier
from game_operator.sandbox.plan import Plan, run_id_of
from game_operator.sandbox.playing import play, replay
from game_operator.sandbox.retries import retry_preset
from game_operator.sandbox.seed import catalogue
from game_operator.sandbox.service_keys import ServiceKeys
from game_operator.sandbox.steps import Order
from game_operator.sandbox.trace import Trace, TraceHead, head_line, traced
from game_operator.sandbox.watch import Watch

__all__ = ["Storm", "StormProgress", "StormReport", "openings"]

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


@dataclass(frozen=True, slots=True)
class StormProgress:
    """How far a storm is."""

    bets: int
    posts: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StormReport:
    """
    What came of a storm.

    Attributes:
        head: How the plan was made.
        bets, claims: How many were dealt.
        posts: How many calls were posted, repeats and extras included.
        seconds: From the first call to the last answer.
        latencies_ms: Of each post that was answered without a fault on the wire.
        faults: How often each fault struck.
        states: How many bets and claims ended where, for the service.
        accepted: How many bets the wallet accepted, as far as was heard.
        refusals: With which codes bets were refused, and how often.
        differences: What service and wallet do not agree on, and the service is not to blame.
        expected: The same where the service itself gave a call up.
        not_200: How many answers to genuine calls had another HTTP status than 200 (spec §4.1).
        broken_off: Why it ended before the plan did; "" if it did not.
        trace: The lines of the trace, if it has not passed.
    """

    head: TraceHead
    bets: int
    claims: int
    posts: int
    seconds: float
    latencies_ms: tuple[float, ...] = field(repr=False)
    faults: Mapping[Fault, int]
    states: Mapping[str, int]
    accepted: int
    refusals: Mapping[str, int]
    differences: tuple[Difference, ...]
    expected: tuple[Difference, ...]
    not_200: int
    broken_off: str = ""
    trace: tuple[str, ...] = field(default=(), repr=False)

    @property
    def passed(self) -> bool:
        """Whether all agrees but expected differences, each answer was HTTP 200, and not every bet was refused."""
        return not (self.differences or self.not_200 or self.all_refused)

    @property
    def all_refused(self) -> bool:
        """Whether the wallet accepted nothing and refused something: then nothing was tried."""
        return bool(self.refusals) and not self.accepted

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that *percent* of the answers did not exceed, in ms; 0 if there are none."""
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0


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
        self._lines: list[tuple[Order, list[tuple[Answer, ...]]]] = []

    def run(self, on_progress: Callable[[StormProgress], object] | None = None) -> StormReport:
        """
        Play and audit; *on_progress* is called now and then.

        A wallet that goes away is audited as far as it came, and reported if anything is wrong already.

        Raises:
            TransportError: Nobody can reach the wallet, or it gives no definite answer any more, and nothing else is
                wrong.
            ConfigurationError: The plan cannot be made, the players cannot be had, or the wallet is none of theirs.
        """
        head = self._head
        plan = Plan(
            seed=head.seed,
            start_millis=head.start_millis,
            games=self._games,
            players=tuple(head.opening),
            bets=head.bets,
            currency=head.currency,
        )
        if self._courier is None:
            self._check_wallet()
        opening = self._books.open(head.opening)
        self._check_replay(opening)
        # For a replay: the balances that it begins with.
        self._head = replace(head, opening=dict(opening))
        if self._courier is None:
            self._check_players(opening)
        watch = Watch(opening)
        dealer = Dealer(
            plan,
            faults=FaultPlan.parse(head.faults),
            retries=retry_preset(head.retries),
            seed=head.seed,
            batches=head.batches,
            listener=watch,
            most_attempts=_MOST_ATTEMPTS,
        )
        began = time.perf_counter()
        try:
            asyncio.run(self._play(dealer, began, on_progress))
        except TransportError as gone:
            return self._broken_off(dealer, time.perf_counter() - began, watch, gone)
        seconds = time.perf_counter() - began
        if any(map(given_up, dealer.dealt)):
            time.sleep(_SETTLING_SECONDS)
        found = audit(dealer.dealt, opening, self._books.close(opening), watch.wrong)
        return self._report(dealer, seconds, found)

    def trace(self) -> tuple[str, ...]:
        """Return the lines of the trace of what was sent so far; none if nothing was."""
        return tuple(self._traced()) if self._lines else ()

    def _broken_off(self, dealer: Dealer, seconds: float, watch: Watch, gone: TransportError) -> StormReport:
        """Return the report of a storm whose wallet has gone, if something is wrong besides; else raise *gone*."""
        # A call that the service gave up leaves open what is due; those that end now were told of before.
        open_players = {each.player_id for each in dealer.dealt if given_up(each)}
        dealer.abandon()
        wrong = {player_id: told for player_id, told in watch.wrong.items() if player_id not in open_players}
        report = self._report(dealer, seconds, audit_unfinished(dealer.dealt, wrong))
        if report.passed or report.all_refused:
            raise gone
        return replace(report, broken_off=str(gone))

    def _check_wallet(self) -> None:
        """Ask for the balance of nobody, before anything is opened: a wallet that is not there is told at once."""
        player_id = f"storm-{run_id_of(self._head.seed, self._head.start_millis)}-nobody"
        with self._caller() as caller:
            told = caller.send(BalanceCall(player_id=player_id))
        if told.reply is None:
            raise ConfigurationError(
                f"{shown(self._url)} is no wallet: player-balance was answered with HTTP {told.status}, and no reply "
                f"({told.problem}). Pass the address that /withdraw and the others are below."
            )
        if told.code == WebhookErrorCode.INVALID_SIGNATURE:
            raise ConfigurationError(
                "The wallet takes our calls for forged. Give it the public half of the service's key, or pass the "
                "private half of the one it has."
            )

    def _check_replay(self, opening: Mapping[str, int]) -> None:
        """Raise ConfigurationError if a trace is sent to a wallet where its players have other balances."""
        for player_id, cents in opening.items() if self._trace is not None else ():
            due = self._trace.head.opening[player_id] if self._trace else cents
            if cents != due:
                raise ConfigurationError(
                    f"The wallet has {amount_from_cents(cents)} for the player {shown(player_id)}, and the trace "
                    f"begins with {amount_from_cents(due)}. Put the wallet back to where it was: these balances, and "
                    "none of the trace's bets."
                )

    def _check_players(self, opening: Mapping[str, int]) -> None:
        player_id, cents = next(iter(opening.items()))
        with self._caller() as caller:
            told = caller.send(BalanceCall(player_id=player_id)).reply
        if told is not None and told.code == WebhookErrorCode.SYSTEM_ERROR:
            raise ConfigurationError(
                f"The wallet answers SYSTEM_ERROR when it is asked for the balance of {shown(player_id)}. Look into "
                "its log; where codes are few, that is said of a wrong key too."
            )
        balance_cents = None if told is None or told.code is not None else told.balance_cents
        if balance_cents != cents:
            has = "no balance" if balance_cents is None else amount_from_cents(int(balance_cents))
            raise ConfigurationError(
                f"The wallet tells {has} of the player {shown(player_id)}, who has {amount_from_cents(cents)}. "
                "Pass the ledger that this wallet serves from."
            )

    def _caller(self) -> WebhookCaller:
        return WebhookCaller(
            self._url,
            self._keys.current,
            profile=self._profile,
            timeout=self._timeout,
            allow_insecure_http=self._insecure,
        )

    async def _play(self, dealer: Dealer, began: float, on_progress: Callable[[StormProgress], object] | None) -> None:
        def answered(order: Order, answers: list[tuple[Answer, ...]]) -> None:
            self._lines.append((order, answers))
            counted.update(posts=len(order.posts))
            if on_progress is not None:
                counted.update(type(each).__name__ for each in dealer.dealt[counted.total() - counted["posts"] :])
                on_progress(StormProgress(counted["DealtBet"], counted["posts"], time.perf_counter() - began))

        counted: Counter[str] = Counter()

        if self._courier is not None:
            await self._carry(dealer, self._courier, answered)
            return
        courier = HttpCourier(
            self._url,
            self._keys,
            profile=self._profile,
            witness=self._seen,
            timeout=self._timeout,
            patience=self._patience,
            allow_insecure_http=self._insecure,
        )
        try:
            await self._carry(dealer, PatientCourier(courier, self._patience), answered)
        finally:
            await courier.aclose()

    async def _carry(
        self, dealer: Dealer, courier: Courier, answered: Callable[[Order, list[tuple[Answer, ...]]], None]
    ) -> None:
        if self._trace is not None:
            await replay(dealer, courier, self._trace, on_answer=answered)
        else:
            await play(dealer, courier, concurrency=self._concurrency, on_answer=answered)

    def _report(self, dealer: Dealer, seconds: float, found: list[Difference]) -> StormReport:
        bets = [each for each in dealer.dealt if isinstance(each, DealtBet)]
        refusals = Counter(filter(None, map(_refusal, bets)))
        differences = tuple(difference for difference in found if not difference.expected)
        report = StormReport(
            head=self._head,
            bets=len(bets),
            claims=len(dealer.dealt) - len(bets),
            posts=sum(len(order.posts) for order, _ in self._lines),
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

    def _traced(self) -> Iterator[str]:
        yield head_line(self._head)
        # In the order of sending, which is that of causes too: whatever follows from an answer is sent after it.
        for order, answers in sorted(self._lines, key=lambda line: line[0].posts[0].serial):
            yield traced(order, answers)


def _refusal(bet: DealtBet) -> str | None:
    """Return the code that *bet* was refused with, or None if it was not."""
    if bet.state is not ServiceState.REFUSED:
        return None
    genuine = (sent for sent in bet.history if sent.post.extra in {None, Fault.DUPLICATE})
    codes = (
        sent.answer.code for sent in genuine if sent.call.operation == "withdraw" and sent.answer.settles(sent.call)
    )
    return next((code for code in codes if code is not None), None)


class _Seen:
    """What is measured of posts, as they are over."""

    def __init__(self) -> None:
        self.posts = 0
        self.not_200 = 0
        self.latencies_ms: list[float] = []

    def __call__(self, carried: Carried) -> None:
        self.posts += 1
        if carried.answer is None:
            return
        if carried.post.manner is None:
            self.latencies_ms.append(carried.elapsed_seconds * 1_000)
        if carried.answer.status != 200 and carried.post.extra in {None, Fault.DUPLICATE}:
            self.not_200 += 1
