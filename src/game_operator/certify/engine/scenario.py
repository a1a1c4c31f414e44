"""A scenario: what is tried, what it rests on, what a failure costs and how to fix it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from game_operator.certify.engine.stage import Judging, Stage
from game_operator.certify.report.verdicts import Weight

#: In this order.
STAGES: Final = ("in turn", "at once", "hostile", "load")


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    What is tried.

    Attributes:
        id: Such as ``B01``.
        title: What happens, in a few words.
        weight: What a failure costs.
        rests_on: Sections such as ``spec §4.1``, and decision notes such as ``decision 0014`` for what is assumed.
        means: What a failure means: who loses money, and when.
        mend: How it is usually fixed.
        play: Starts it.
        needs: What the user must supply, by the names of ``Supplies``.
        stage: When it is tried.
        explains: Scenarios that fail by the same mistake, where this one shows it best; or ``*`` for all.
    """

    id: str
    title: str
    weight: Weight
    rests_on: tuple[str, ...]
    means: str
    mend: str
    play: Callable[[Stage], Judging]
    needs: tuple[str, ...] = ()
    stage: str = STAGES[0]
    explains: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The letter of its group."""
        return self.id[0]
