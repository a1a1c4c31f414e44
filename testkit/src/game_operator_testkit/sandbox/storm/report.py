"""What came of a storm: figures and differences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator_testkit.provider.faults import Fault, FaultPlan
from game_operator_testkit.provider.latency import percentile
from game_operator_testkit.sandbox.dealing.fault_draws import least_of_each
from game_operator_testkit.sandbox.storm.audit import Difference
from game_operator_testkit.sandbox.storm.trace import TraceHead

#: The percentiles of the latency that reports show.
PERCENTILES: Final = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}
_REMEDIES: Final[Mapping[str, str]] = {
    WebhookErrorCode.INSUFFICIENT_BALANCE: "Give the players money: some hundred units each.",
    WebhookErrorCode.PLAYER_NOT_FOUND: "Open the players' accounts in the wallet that is stormed.",
    WebhookErrorCode.PLAYER_BLOCKED: "Choose players who may bet.",
    WebhookErrorCode.LIMIT_EXCEEDED: "Raise the limits of the players, or play with more of them.",
    WebhookErrorCode.INVALID_REQUEST: "If the wallet accepts only its own instances, pass one as --instance.",
}


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
        faults: How often each fault occurred.
        states: How many bets and claims ended where, for the service.
        accepted: How many bets the wallet accepted, as far as is known.
        refusals: With which codes bets were refused, and how often.
        differences: What service and wallet do not agree on.
        broken_off: Why it ended before the audit of the books, with what the answers show; "" if it did not.
        in_doubt: How many calls had no definite answer then.
        trace: The lines of the trace, if service and wallet do not agree.
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
    trace: tuple[str, ...] = field(default=(), repr=False)
    broken_off: str = ""
    in_doubt: int = 0

    @property
    def least_of_each(self) -> int:
        """How often each fault that was asked for must occur in a storm of so many bets."""
        return least_of_each(self.bets)

    @property
    def too_seldom(self) -> Mapping[Fault, int]:
        """The faults that were asked for and occurred too seldom to count as tried, and how often they occurred."""
        asked = FaultPlan.parse(self.head.faults)
        needed = dict.fromkeys(asked.nth, 1) | {
            fault: self.least_of_each for fault, rate in asked.rates.items() if rate
        }
        return {
            fault: self.faults.get(fault, 0) for fault, least in needed.items() if self.faults.get(fault, 0) < least
        }

    @property
    def agrees(self) -> bool:
        """Whether all agrees, and not every bet was refused."""
        return not (self.differences or self.all_refused)

    @property
    def passed(self) -> bool:
        """Whether all agrees, and each fault that was asked for occurred often enough."""
        return self.agrees and not self.too_seldom

    @property
    def all_refused(self) -> bool:
        """Whether the wallet accepted nothing and refused something: then nothing was tried."""
        return bool(self.refusals) and not self.accepted

    @property
    def headline(self) -> str:
        """What came of it, in one sentence."""
        bets = counted(self.bets, "bet")
        if self.broken_off:
            found = counted(len(self.differences), "difference")
            return f"The storm broke off. The answers until then show {found} in {bets}."
        if self.all_refused:
            return f"The wallet refused every bet, so nothing was tried: {counts(self.refusals)}."
        if self.differences:
            return f"Service and wallet differ: {counted(len(self.differences), 'difference')} in {bets}."
        if self.too_seldom:
            return f"Service and wallet agree on all {bets}, but not every fault was tried enough."
        return f"Service and wallet agree on all {bets} and {counted(self.claims, 'claim')}."

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else there is to say of it, a sentence or two each."""
        bets = counted(self.bets, "bet")
        # A storm makes no invalid call, so that one refusal of this kind is enough.
        shown = self.refusals if self.all_refused else self.refusals.keys() & {WebhookErrorCode.INVALID_REQUEST}
        found = [_REMEDIES[code] for code in shown if code in _REMEDIES]
        if self.broken_off:
            found.append(self.broken_off)
            found.append(
                f"{counted(self.in_doubt, 'call')} had no definite answer. What became of them is in doubt. The last "
                "balances and the bets in the ledger were not compared."
            )
        elif self.too_seldom and not self.all_refused:
            found.append(
                f"Not tried enough: {counts(self.too_seldom)}. {bets} need {counted(self.least_of_each, 'occurrence')} "
                "of each fault. Play more --bets, or pass a lower @N."
            )
        if self.differences:
            found.append(
                "`game-operator certify` finds the cause: it tries each case by itself, and says what to change."
            )
        return tuple(found)

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """Names and values, in words."""
        seconds = max(self.seconds, 1e-9)
        percentiles = (f"{name} {self.percentile_ms(percent):.1f}" for name, percent in PERCENTILES.items())
        return (
            ("seed", str(self.head.seed)),
            ("bets", f"{self.bets}, and {counted(self.claims, 'claim')} of free bets"),
            ("ended", counts(self.states)),
            ("refused", counts(self.refusals) or "none"),
            ("calls", f"{self.posts} in {self.seconds:.1f} s, repeats and extras included"),
            ("throughput", f"{self.bets / seconds:.0f} bets/s, {self.posts / seconds:.0f} calls/s"),
            ("latency in ms", ", ".join(percentiles)),
            ("faults", f"{counts(self.faults)}; {self.least_of_each} of each needed" if self.faults else "none"),
            ("repeats", self.head.retries),
        )

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that *percent* of the answers did not exceed, in ms; 0 if there are none."""
        return percentile(sorted(self.latencies_ms), percent)


def counted(number: int, what: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def counts(found: Mapping[str, int] | Mapping[Fault, int]) -> str:
    """Return how many there are of each, sorted by name."""
    return ", ".join(f"{name} {count}" for name, count in sorted(found.items()))
