"""
What the brakes of a repairing run count beside its own repairs: those of the same person in the last 20 hours.

The same command, begun again after its run has ended, lets nothing more through.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from game_operator.backoffice.journal.journal import Journal
from game_operator.backoffice.journal.records import Run
from game_operator.backoffice.reconcile.judge import Verdict

#: Less than a day, so that a command at the same hour of each day begins anew.
_COUNTED_MILLIS: Final = 20 * 3_600_000


class Tally(NamedTuple):
    """How many bets there are, and the money at stake in all."""

    bets: int
    total_cents: int


def settled_before(journal: Journal, run: Run, now_millis: int) -> list[tuple[int, int]]:
    """Return when, and for how many cents, the actor of *run* settled each bet lately, in earlier runs of the kind."""
    return journal.moved_before(run, now_millis - _COUNTED_MILLIS, (Verdict.SETTLED, Verdict.REFUNDED))


def tally_since(now_millis: int, settled: Iterable[tuple[int, int]]) -> Tally:
    """Return how much of what was *settled* counts now."""
    counted = [cents for at_millis, cents in settled if at_millis > now_millis - _COUNTED_MILLIS]
    return Tally(len(counted), sum(counted))
