"""What to change first: failures put together by the mistake behind them, what costs most at the top."""

from collections.abc import Iterable, Mapping, Sequence

from game_operator.certify.mistakes import mistake_of
from game_operator.certify.report import Cause
from game_operator.certify.scenario import ALL, Scenario
from game_operator.certify.verdicts import Outcome, Verdict

__all__ = ["causes_of"]


def causes_of(verdicts: Iterable[Verdict], scenarios: Mapping[str, Scenario]) -> tuple[Cause, ...]:
    """
    Return the causes of all failed *verdicts*, advice too.

    Verdicts whose heaviest note has the same cause are one mistake; and a scenario that shows a mistake best stands for
    those that it says it explains.
    """
    left = sorted((each for each in verdicts if each.outcome is Outcome.FAILED), key=_by_weight)
    explaining = sorted(left, key=lambda verdict: -len(_explained(verdict, left, scenarios)))
    causes: list[Cause] = []
    taken: set[str] = set()
    for verdict in explaining:
        if verdict.id in taken:
            continue
        others = tuple(each for each in _explained(verdict, left, scenarios) if each.id not in taken)
        taken |= {verdict.id, *(each.id for each in others)}
        causes.append(Cause(verdict, others, mistake_of(_slug(verdict))))
    return tuple(sorted(causes, key=lambda cause: (cause.verdict.weight.rank, -len(cause.others), cause.verdict.id)))


def _explained(verdict: Verdict, failed: Sequence[Verdict], scenarios: Mapping[str, Scenario]) -> tuple[Verdict, ...]:
    """Return the other failures behind which the same mistake is, none of them heavier."""
    slug = _slug(verdict)
    named = scenarios[verdict.id].explains if not slug and verdict.id in scenarios else ()
    same = (each for each in failed if _slug(each) == slug and (slug or each.id in named or ALL in named))
    return tuple(each for each in same if each is not verdict and each.weight.rank >= verdict.weight.rank)


def _slug(verdict: Verdict) -> str:
    return verdict.notes[0].cause if verdict.notes else ""


def _by_weight(verdict: Verdict) -> tuple[int, str]:
    return verdict.weight.rank, verdict.id
