"""
A storm: many bets of many players at once, with faults, and at the end an audit of every bet.

The plan, the faults and the audit are in other modules. This one connects them, and measures.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final, TypeAlias

from game_operator.errors import GameOperatorError, LedgerError, TransportError
from game_operator.profile import Profile
from game_operator_testkit.provider.caller import WebhookCaller
from game_operator_testkit.provider.delivery import Answer, Post, answer_to
from game_operator_testkit.provider.faults import FaultPlan, FaultSwitches
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.dealing.balances import BalanceBoard, PlayerBalance
from game_operator_testkit.sandbox.dealing.carrying import Courier, play
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from game_operator_testkit.sandbox.dealing.dealt import DealtBet, ServiceState
from game_operator_testkit.sandbox.dealing.deliveries import retry_preset
from game_operator_testkit.sandbox.dealing.plan import Plan, run_id_of
from game_operator_testkit.sandbox.service.seed import catalogue
from game_operator_testkit.sandbox.storm.audit import Difference, audit, audit_answers
from game_operator_testkit.sandbox.storm.players import Books, check_players, check_wallet
from game_operator_testkit.sandbox.storm.report import StormReport
from game_operator_testkit.sandbox.storm.trace import Timeline, TraceHead

#: A storm's own players: most have this, in cents, and every tenth soon runs out of money.
_RICH_CENTS: Final = 100_000
_POOR_CENTS: Final = 500
_POOR_EVERY: Final = 10
#: How long a wallet is waited for that cannot be reached any more, or answers nothing of use: it may be restarting.
_PATIENCE_SECONDS: Final = 30.0
#: What was given up may still be under way at the wallet, and the audit reads the books more than once.
_SETTLING_SECONDS: Final = 0.25
#: So many of the earliest calls of each kind are sent once more at the end.
_MOST_AGAIN: Final = 50


#: Called with how far a storm is: bets dealt, calls posted, and seconds.
OnProgress: TypeAlias = Callable[[int, int, float], object]


def openings(players: int, seed: int, start_millis: int) -> dict[str, int]:
    """Return fresh players of a storm, and what each opens with in cents."""
    run_id = run_id_of(seed, start_millis)
    return {
        f"storm-{run_id}-{number}": _POOR_CENTS if number % _POOR_EVERY == _POOR_EVERY - 1 else _RICH_CENTS
        for number in range(players)
    }


@dataclass(eq=False)
class Storm:
    """
    Plays a plan against a wallet, and audits.

    Attributes:
        wallet_url: The wallet.
        keys: What webhooks are signed with.
        books: Where the players come from, and what they have at the end.
        head: How the plan is made.
        concurrency: How many calls are under way at once.
        profile: What is assumed of the wallet.
        timeout: Seconds for one call.
        courier: Carries the calls, in place of HTTP.
        patience: Seconds for which a wallet is waited for that was there and cannot be reached any more, or answers
            nothing definite.
        timeline: What was sent and what came back so far.
    """

    wallet_url: str
    keys: ServiceKeys = field(repr=False)
    books: Books
    head: TraceHead
    _: KW_ONLY
    concurrency: int = 16
    profile: Profile | None = None
    timeout: float = 10.0
    courier: Courier | None = None
    patience: float = _PATIENCE_SECONDS
    timeline: Timeline = field(init=False)
    _latencies_ms: list[float] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self.timeline = Timeline(self.patience)

    def run(self, on_progress: OnProgress | None = None) -> StormReport:
        """
        Play and audit; *on_progress* is called now and then.

        If the wallet goes away, or its books, the report has what the answers until then show to be wrong.

        Raises:
            TransportError: The wallet cannot be reached, or gives no definite answer any more, and no answer was wrong.
            LedgerError: The books cannot be read at the end, and no answer was wrong.
            ConfigurationError: The plan cannot be made, the players are missing, or the wallet does not know them.
        """
        balances = BalanceBoard()
        # Before a player is opened: a plan may be impossible.
        dealer = self._dealer(balances)
        opening = self._opening()
        for player_id, cents in opening.items():
            # It would believe any first balance.
            balances.reported(player_id, cents)
        began = time.perf_counter()
        try:
            asyncio.run(self._carry(dealer, on_progress))
            seconds = time.perf_counter() - began
            if any(each.lost for each in dealer.dealt):
                time.sleep(_SETTLING_SECONDS)
            closing = self.books.close(opening)
        except (TransportError, LedgerError) as gone:
            return self._broken_off(dealer, time.perf_counter() - began, balances, gone)
        return self._report(dealer, seconds, audit(dealer.dealt, opening, closing, _wrong(balances)))

    def _opening(self) -> Mapping[str, int]:
        """Open the players' accounts, with the wallet asked before and after, and return what they hold."""
        if self.courier is None:
            nobody = f"storm-{run_id_of(self.head.seed, self.head.start_millis)}-nobody"
            with self._caller() as caller:
                check_wallet(caller, self.wallet_url, nobody)
        opening = self.books.open(self.head.opening)
        self.head = replace(self.head, opening=dict(opening))
        if self.courier is None:
            with self._caller() as caller:
                check_players(caller, opening)
        return opening

    def _dealer(self, balances: BalanceBoard) -> Dealer:
        head = self.head
        plan = Plan(
            seed=head.seed,
            start_millis=head.start_millis,
            games=catalogue(head.seed, head.instance_id),
            players=tuple(head.opening),
            bets=head.bets,
            currency=head.currency,
        )
        return Dealer(
            plan,
            faults=FaultSwitches(FaultPlan.parse(head.faults)),
            retries=retry_preset(head.retries),
            seed=head.seed,
            profile=self.profile,
            balances=balances,
            each_fault_occurs=True,
        )

    def trace(self) -> tuple[str, ...]:
        """Return the lines of the trace of what was sent so far; none if nothing was."""
        return self.timeline.trace(self.head)

    def _broken_off(
        self, dealer: Dealer, seconds: float, balances: BalanceBoard, gone: GameOperatorError
    ) -> StormReport:
        """Return what the answers show to be wrong; raise *gone* if they show nothing."""
        found = audit_answers(dealer.dealt, _wrong(balances))
        if not found:
            raise gone
        return replace(self._report(dealer, seconds, found), broken_off=str(gone), in_doubt=dealer.in_doubt)

    def _caller(self) -> WebhookCaller:
        return WebhookCaller(self.wallet_url, self.keys.current, profile=self.profile, timeout=self.timeout)

    async def _play(self, dealer: Dealer, courier: Courier, on_progress: OnProgress | None) -> None:
        began = time.perf_counter()

        async def carry(post: Post) -> Answer:
            answer = await self.timeline.carry(courier, post)
            if on_progress is not None:
                on_progress(dealer.bets, self.timeline.posts, time.perf_counter() - began)
            return answer

        await play(dealer, carry, concurrency=self.concurrency)
        dealer.repeat_earliest(_MOST_AGAIN)
        await play(dealer, carry, concurrency=self.concurrency)

    async def _carry(self, dealer: Dealer, on_progress: OnProgress | None) -> None:
        if self.courier is not None:
            await self._play(dealer, self.courier, on_progress)
            return
        carrier = HttpCarrier(self.wallet_url, self.keys, profile=self.profile, timeout=self.timeout)

        async def measured(post: Post) -> Answer:
            carried = await carrier.carry_post(post)
            if carried.answer is not None and post.manner is None:
                self._latencies_ms.append(carried.elapsed_ms)
            return answer_to(post, carried)

        async with aclosing(carrier):
            await self._play(dealer, measured, on_progress)

    def _report(self, dealer: Dealer, seconds: float, found: list[Difference]) -> StormReport:
        bets = [each for each in dealer.dealt if isinstance(each, DealtBet)]
        refusals = Counter(filter(None, map(_refusal, bets)))
        report = StormReport(
            head=self.head,
            bets=len(bets),
            claims=len(dealer.dealt) - len(bets),
            posts=self.timeline.posts,
            seconds=seconds,
            latencies_ms=tuple(self._latencies_ms),
            faults=dealer.faults.struck,
            states=Counter(str(each.state) for each in dealer.dealt),
            accepted=sum(bet.accepted for bet in bets),
            refusals=refusals,
            differences=tuple(found),
        )
        return report if report.agrees else replace(report, trace=self.trace())


def _refusal(bet: DealtBet) -> str | None:
    """Return the code that *bet* was refused with, or None if it was not."""
    if bet.state is not ServiceState.REFUSED:
        return None
    answers = (answer for call, answer in bet.definite() if call.operation == "withdraw")
    return next((answer.code for answer in answers if answer.code), None)


def _wrong(balances: BalanceBoard) -> dict[str, PlayerBalance]:
    return {player.player_id: player for player in balances.players() if not player.agrees}
