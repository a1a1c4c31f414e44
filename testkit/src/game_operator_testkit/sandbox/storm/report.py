"""What came of a storm: figures, differences, and what lasting faults left open."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator_testkit.provider.faults import Fault, FaultPlan
from game_operator_testkit.provider.latency import percentile
from game_operator_testkit.sandbox.storm.audit import Difference
from game_operator_testkit.sandbox.storm.diagnosis import Diagnosis
from game_operator_testkit.sandbox.storm.trace import TraceHead

#: A few refusals prove nothing.
_FEWEST_INVALID: Final = 3
#: A wallet of this package refuses the instances of other operators; a storm plays made-up ones.
_INVALID: Final = (
    "A wallet that is set to instances= (--instances) refuses all others, and a storm plays made-up instances: "
    "leave that setting out of the wallet under test."
)
_REMEDIES: Final[Mapping[str, str]] = {
    WebhookErrorCode.INSUFFICIENT_BALANCE: "Give the players money: some hundred units each.",
    WebhookErrorCode.PLAYER_NOT_FOUND: "Open the players' accounts in the wallet that is stormed.",
    WebhookErrorCode.PLAYER_BLOCKED: "Choose players who may bet.",
    WebhookErrorCode.LIMIT_EXCEEDED: "Raise the limits of the players, or play with more of them.",
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
        differences: What service and wallet do not agree on, and the service is not to blame.
        expected: The same where the service itself gave a call up.
        lasting: The same where a lasting fault occurred, until somebody reconciles wallet and service.
        none_kept: Whether the ledger has none of these players' bets, though the wallet accepted some.
        not_200: How many answers to genuine calls had another HTTP status than 200 (spec §4.1).
        broken_off: Why it ended before the plan did; "" if it did not.
        trace: The lines of the trace, if it has not passed.
        was_stopped: Whether somebody stopped it before all bets were dealt; those that were dealt are audited.
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
    none_kept: bool = False
    broken_off: str = ""
    trace: tuple[str, ...] = field(default=(), repr=False)
    lasting: tuple[Difference, ...] = ()
    was_stopped: bool = False

    @property
    def left_open(self) -> tuple[Difference, ...]:
        """The bets that are over for the service and OPEN at the wallet, which was not sent how they ended."""
        return tuple(one for one in self.lasting if one.fault is not Fault.OTHER_WON)

    @property
    def owed_cents(self) -> int:
        """What the bets that were left open still have to pay to their players."""
        return sum(one.owed_cents for one in self.left_open)

    @property
    def other_won(self) -> tuple[Difference, ...]:
        """The bets of which the service reports another win than their deposit paid."""
        return tuple(one for one in self.lasting if one.fault is Fault.OTHER_WON)

    @property
    def fix_first(self) -> Difference | None:
        """
        The difference that shows best what to change first; None if no reason is known of any.

        It is of the mistake by which money is at risk and that explains most differences.
        """
        known = [(each, each.diagnosis) for each in self.differences if each.diagnosis is not None]
        counts = Counter(diagnosis.mistake for _, diagnosis in known)

        def urgency(each: tuple[Difference, Diagnosis]) -> tuple[bool, int, bool, int, int]:
            _, diagnosis = each
            # Of one mistake, what is certain, has few suspects and is short.
            return (
                not diagnosis.text.risk, -counts[diagnosis.mistake],
                diagnosis.is_ambiguous, len(diagnosis.bets), len(diagnosis.calls),
            )  # fmt: skip

        return min(known, key=urgency)[0] if known else None

    def alike(self, diagnosis: Diagnosis) -> int:
        """Return how many differences have the same reason as *diagnosis*."""
        known = (each.diagnosis for each in self.differences if each.diagnosis is not None)
        return sum(each.mistake is diagnosis.mistake for each in known)

    @property
    def never_struck(self) -> tuple[Fault, ...]:
        """The faults that never occurred although they were asked for."""
        asked = FaultPlan.parse(self.head.faults)
        by_rate = (fault for fault, rate in asked.rates.items() if rate)
        return tuple(fault for fault in dict.fromkeys((*by_rate, *asked.nth)) if not self.faults.get(fault))

    @property
    def all_asked(self) -> bool:
        """Whether all faults were asked for, and none by its name."""
        return FaultPlan.parse(self.head.faults) == FaultPlan.parse("all")

    @property
    def mostly_invalid(self) -> bool:
        """Whether nearly all refusals are INVALID_REQUEST: the wallet then has other settings than the storm."""
        invalid = self.refusals.get(WebhookErrorCode.INVALID_REQUEST, 0)
        return invalid >= _FEWEST_INVALID and invalid * 10 >= sum(self.refusals.values()) * 9

    @property
    def passed(self) -> bool:
        """Whether all agrees but expected differences, each answer was HTTP 200, and not every bet was refused."""
        return not (self.differences or self.not_200 or self.all_refused)

    @property
    def all_refused(self) -> bool:
        """Whether the wallet accepted nothing and refused something: then nothing was tried."""
        return bool(self.refusals) and not self.accepted

    @property
    def refusal_advice(self) -> str:
        """What to do about the refusals, if every bet was refused or nearly all are INVALID_REQUEST; "" if nothing."""
        remedies = [_REMEDIES[code] for code in self.refusals if code in _REMEDIES] if self.all_refused else []
        return " ".join([*remedies, _INVALID] if self.mostly_invalid else remedies)

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that *percent* of the answers did not exceed, in ms; 0 if there are none."""
        return percentile(sorted(self.latencies_ms), percent)
