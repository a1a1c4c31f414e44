"""A scenario: what it tries and what a failure costs, and the verdict of one that was played."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import NotTried, Stopped, Undone
from game_operator_testkit.certifier.report.report import ALL
from game_operator_testkit.certifier.report.verdicts import Exchange, Note, Outcome, Verdict, Weight, mistake_of

#: In this order.
STAGES: Final = ("in turn", "at once", "hostile", "load", "at the end")
#: Where answers are timed, and may be late.
LOAD: Final = STAGES[3]


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
        fix: How it is usually fixed.
        play: Plays it.
        needs: What the user must supply, by the names of ``Supplies``.
        stage: When it is tried.
        explains: Scenarios that fail by the same mistake, where this one shows it best; or ``*`` for all.
        begin: Plays what comes before all other scenarios, if it has such a part.
    """

    id: str
    title: str
    weight: Weight
    rests_on: tuple[str, ...]
    means: str
    fix: str
    play: Callable[[Stage], object]
    needs: tuple[str, ...] = ()
    stage: str = STAGES[0]
    explains: tuple[str, ...] = ()
    begin: Callable[[Stage], object] | None = None

    @property
    def group(self) -> str:
        """The letter of its group."""
        return self.id[0]


def verdict_of(
    scenario: Scenario, notes: Sequence[Note], kept: Mapping[int, Exchange], cut: NotTried | None
) -> Verdict:
    """Return the verdict of a scenario that found *notes*, and ended early if *cut* says why."""
    verdict = Verdict(
        id=scenario.id,
        title=scenario.title,
        weight=scenario.weight,
        outcome=Outcome.PASSED,
        exchanges=tuple(kept.values()),
        rests_on=scenario.rests_on,
        means=scenario.means,
        fix=scenario.fix,
        is_stopped=isinstance(cut, Stopped),
    )
    # A scenario that was broken off may fail, but advice on half of it is not a verdict.
    is_half = isinstance(cut, Stopped | Undone) and all(note.weight is Weight.ADVICE for note in notes)
    if cut and (is_half or not notes):
        return replace(verdict, outcome=Outcome.SKIPPED, reason=str(cut), is_undone=isinstance(cut, Undone))
    if not notes:
        return verdict
    indices = {place: index for index, place in enumerate(kept)}
    placed = [replace(note, exchange=None if note.exchange is None else indices.get(note.exchange)) for note in notes]
    folded = _folded(sorted(placed, key=lambda note: note.weight.rank))
    reason, weight = folded[0].reason, folded[0].weight
    verdict = replace(verdict, outcome=Outcome.FAILED, reason=reason, weight=weight, notes=folded)
    mistake = mistake_of(folded[0].cause)
    is_own = mistake is not None and mistake.only_in_the_plainest and ALL not in scenario.explains
    if mistake is None or is_own or mistake.general_from > 1:
        return verdict
    return replace(verdict, means=mistake.means, fix=mistake.fix)


def _folded(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return *notes*, one for each cause and weight: a hundred calls at once can all go wrong alike."""
    alike: dict[tuple[str, Weight], list[Note]] = {}
    for note in notes:
        alike.setdefault((note.cause or note.reason, note.weight), []).append(note)
    return tuple(
        replace(first, reason=f"{first.reason} (and {len(more)} more like it)") if more else first
        for first, *more in alike.values()
    )
