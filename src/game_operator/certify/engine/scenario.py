"""A scenario: what is tried, what it rests on, what a failure costs and how it is usually mended."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from game_operator.certify.report.verdicts import Weight
from game_operator.errors import ConfigurationError
from game_operator.provider.requests import Heard, Step

if TYPE_CHECKING:
    from game_operator.certify.engine.stage import Stage

__all__ = ["ALL", "GROUPS", "STAGES", "Found", "NotTried", "Play", "Scenario", "Stopped", "Undone"]
__all__ += ["scenario"]

#: A scenario under way: it yields steps, is given what was heard of each, and returns when all is well. Any: what a
#: part of a scenario returns is the part's own business.
Play: TypeAlias = Generator[Step, list[Heard], Any]

#: Among the scenarios that one explains: all of them. Nothing can be right where this one fails.
ALL: Final = "*"

GROUPS: Final = {
    "A": "flows",
    "B": "repeats",
    "C": "order and state",
    "D": "many at once",
    "E": "who calls",
    "F": "hostile input",
    "G": "money",
    "H": "time and failure",
}
#: In this order.
STAGES: Final = ("in turn", "at once", "hostile", "load")


class Found(Exception):  # noqa: N818 - it is a finding, not an error: nothing goes wrong in the certifier
    """Ends a scenario: something is wrong with the wallet."""

    def __init__(self, reason: str, weight: Weight | None = None, cause: str = "", place: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        #: None for the scenario's own.
        self.weight = weight
        self.cause = cause
        self.place = place


class NotTried(Exception):  # noqa: N818 - see above
    """Ends a scenario: it cannot be tried on this wallet, and this is why."""


class Undone(NotTried):
    """Ends a scenario: whoever certifies was to do something to the wallet, and could not."""


class Stopped(NotTried):
    """Ends a scenario: somebody stopped the run."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    What is tried.

    Attributes:
        id: Such as ``B01``.
        title: What happens, in a few words.
        weight: What a failure costs.
        rests_on: Sections such as ``spec §4.1``, and decision notes such as ``decision 0014`` for what is assumed.
        means: What a failure means, for whoever answers for the money: who loses it, and when.
        mend: How it is usually mended.
        play: Starts it.
        needs: What whoever certifies must supply, by the names of ``Supplies``.
        stage: When it is tried.
        explains: Scenarios that fail by the same mistake, where this one shows it best; or ``ALL``.
    """

    id: str
    title: str
    weight: Weight
    rests_on: tuple[str, ...]
    means: str
    mend: str
    play: "Callable[[Stage], Play]"
    needs: tuple[str, ...] = ()
    stage: str = "in turn"
    explains: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The letter of its group."""
        return self.id[0]


_SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(
    scenario_id: str,
    title: str,
    weight: Weight,
    *,
    rests_on: str,
    means: str,
    mend: str,
    needs: tuple[str, ...] = (),
    stage: str = "in turn",
    explains: tuple[str, ...] = (),
) -> "Callable[[Callable[[Stage], Play]], Scenario]":
    """
    Make the function below a scenario, and enter it into the catalogue.

    *rests_on* has sections and notes with commas between them, such as ``spec §4.1, decision 0014``.
    """

    def entered(play: "Callable[[Stage], Play]") -> Scenario:
        if scenario_id in _SCENARIOS or stage not in STAGES or scenario_id[0] not in GROUPS:
            raise ConfigurationError(f"There is a scenario {scenario_id} already, or no such group or stage.")
        made = Scenario(
            scenario_id, title, weight, tuple(rests_on.split(", ")), means, mend, play, needs, stage, explains
        )
        _SCENARIOS[scenario_id] = made
        return made

    return entered


def entered_scenarios() -> tuple[Scenario, ...]:
    """Return what was entered until now, in the order of the ids."""
    return tuple(_SCENARIOS[each] for each in sorted(_SCENARIOS))
