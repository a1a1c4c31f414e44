"""What came of a storm: figures, differences, and what lasting faults left open."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.provider.faults import Fault, FaultPlan
from game_operator.provider.latency import percentile
from game_operator.sandbox.storm.audit import Difference
from game_operator.sandbox.storm.trace import TraceHead

#: A few refusals prove nothing.
_FEWEST_INVALID: Final = 3


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
        accepted: How many bets the wallet accepted, as far as is known.
        refusals: With which codes bets were refused, and how often.
        differences: What service and wallet do not agree on, and the service is not to blame.
        expected: The same where the service itself gave a call up.
        lasting: The same where a lasting fault struck, until somebody reconciles wallet and service.
        none_kept: Whether the ledger has none of these players' bets, though the wallet accepted some.
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
    none_kept: bool = False
    broken_off: str = ""
    trace: tuple[str, ...] = field(default=(), repr=False)
    lasting: tuple[Difference, ...] = ()

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
    def never_struck(self) -> tuple[Fault, ...]:
        """The faults that never struck although they were asked for by name, and not with all others."""
        asked = FaultPlan.parse(self.head.faults)
        if asked == FaultPlan.parse("all"):
            return ()
        by_rate = (fault for fault, rate in asked.rates.items() if rate)
        return tuple(fault for fault in dict.fromkeys((*by_rate, *asked.nth)) if not self.faults.get(fault))

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

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that *percent* of the answers did not exceed, in ms; 0 if there are none."""
        return percentile(sorted(self.latencies_ms), percent)
