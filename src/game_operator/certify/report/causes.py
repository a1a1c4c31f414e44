"""What to change first: failures put together by the mistake behind them, what costs most at the top."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from game_operator.certify.engine.scenario import ALL, Scenario
from game_operator.certify.report.mistakes import SHARED, is_seen_in_the_plainest, mistake_of, slug_of
from game_operator.certify.report.report import Cause
from game_operator.certify.report.verdicts import Outcome, Verdict

__all__ = ["causes_of"]

#: The plainest bet: nothing can be right where it fails.
_PLAINEST: Final = "A02"
#: And the one that is about players whose money is one another's.
_BY_TURNS: Final = "A08"
#: What keeps so many scenarios from being judged is mended first, whatever else is known by then.
_MANY: Final = 5
_NEVER: Final = 2**63


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
        causes.append(Cause(verdict, others, mistake_of(_slug(verdict, left))))
    return tuple(sorted(causes, key=_urgency))


def _explained(verdict: Verdict, failed: Sequence[Verdict], scenarios: Mapping[str, Scenario]) -> tuple[Verdict, ...]:
    """Return the other failures behind which the same mistake is, none of them heavier."""
    slug = _slug(verdict, failed)
    named = _named(verdict, slug, scenarios)
    same = (
        each
        for each in failed
        if (slug and _slug(each, failed) == slug)
        or (not _slug(each, failed) and (ALL in named or (slug in ("", SHARED) and each.id in named)))
    )
    return tuple(each for each in same if each is not verdict and each.weight.rank >= verdict.weight.rank)


def _named(verdict: Verdict, slug: str, scenarios: Mapping[str, Scenario]) -> tuple[str, ...]:
    """Return the scenarios that this one explains, where they have no mistake of their own."""
    scenario = scenarios.get(_BY_TURNS if slug == SHARED else verdict.id)
    if scenario is None:
        return ()
    return (scenario.id, *scenario.explains) if slug == SHARED else scenario.explains


def _slug(verdict: Verdict, failed: Sequence[Verdict]) -> str:
    slug = slug_of(verdict.notes[0].cause) if verdict.notes else ""
    if is_seen_in_the_plainest(slug) and not any(each.id == _PLAINEST and _begins_with(each, slug) for each in failed):
        return ""
    return slug


def _begins_with(verdict: Verdict, slug: str) -> bool:
    return bool(verdict.notes) and slug_of(verdict.notes[0].cause) == slug


def _urgency(cause: Cause) -> tuple[bool, int, bool, int, str]:
    """Return what to mend first: what hides all else, then what costs most, the plainest bet and what shows often."""
    hides = cause.verdict.is_unjudged and len(cause.others) >= _MANY
    is_plainest = cause.verdict.id == _PLAINEST
    return not hides, cause.verdict.weight.rank, not is_plainest, -len(cause.others), cause.verdict.id


def _by_weight(verdict: Verdict) -> tuple[int, int, str]:
    return verdict.weight.rank, _began(verdict) if verdict.is_unjudged else 0, verdict.id


def _began(verdict: Verdict) -> int:
    """Return when it began, in Unix milliseconds: what is blind first may have blinded what follows."""
    return verdict.exchanges[0].at_millis if verdict.exchanges else _NEVER
