"""A certification as a whole: its verdicts, its figures, and what to change first."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from game_operator.codes import WebhookErrorCode
from game_operator_testkit.certifier.report.verdicts import (
    Exchange,
    KnownCause,
    Mistake,
    Outcome,
    Symptom,
    Verdict,
    mistake_of,
    replies_to,
)

#: The plainest bet: nothing can be right where it fails.
_PLAINEST: Final = "A02"
#: The group in which calls come at once.
_AT_ONCE: Final = "D"
#: What an answer that is missing at times looks like where it was not tried again.
_MISSING_ANSWERS: Final = (KnownCause.NO_ANSWER, KnownCause.CRASH, KnownCause.HUNG_UP)
#: Where no call is understood, or money moves late, nothing else is known of the wallet, whatever it seems to cost.
_STAND_FOR_ALL: Final = (KnownCause.UNREADABLE, KnownCause.NO_BET, KnownCause.FIELD_NAMES, KnownCause.LATE)
#: Codes by which calls are refused that have nothing else in common.
_OF_MANY: Final = (WebhookErrorCode.SYSTEM_ERROR, WebhookErrorCode.INVALID_REQUEST)
#: How long a title is that repeats a reason.
_LONGEST_TITLE: Final = 100
#: Among the scenarios that one explains: all of them.
ALL: Final = "*"
#: By a scenario's id, those that it explains.
Explains: TypeAlias = Mapping[str, Sequence[str]]
#: What keeps this many scenarios from being judged is fixed first.
_MANY: Final = 5


@dataclass(frozen=True, slots=True)
class Moved:
    """
    What the run left of a player's balance.

    Attributes:
        player_id: The player.
        before_cents: The balance before the run, in cents; None if it could not be read.
        after_cents: The balance after it, in cents; None if it could not be read.
    """

    player_id: str
    before_cents: int | None
    after_cents: int | None

    @property
    def difference_cents(self) -> int | None:
        """How much more there is than before."""
        if self.before_cents is None or self.after_cents is None:
            return None
        return self.after_cents - self.before_cents


@dataclass(frozen=True, slots=True)
class Cause:
    """
    One mistake, wherever it shows.

    Attributes:
        verdict: The scenario that shows it best.
        others: The other failed scenarios that it explains.
        mistake: It in words, if it shows alike in many scenarios; None if the scenario has the words.
    """

    verdict: Verdict
    others: tuple[Verdict, ...] = ()
    mistake: Mistake | None = None

    @property
    def title(self) -> str:
        """What goes wrong, in a few words: a mistake that is known, or what was seen of which call."""
        if self.mistake:
            return self.mistake.title
        if symptom := _symptom(self.verdict):
            return str(symptom)
        reason = self.verdict.reason
        return reason if len(reason) <= _LONGEST_TITLE else f"{reason[:_LONGEST_TITLE]}…"

    @property
    def means(self) -> str:
        """What it means: who loses money, if anybody does."""
        return self.mistake.means if self.mistake else self.verdict.means

    @property
    def fix(self) -> str:
        """How it is usually fixed."""
        return self.mistake.fix if self.mistake else self.verdict.fix

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all scenarios that it made fail, the best first."""
        return self.verdict.id, *(other.id for other in self.others)


@dataclass(frozen=True, slots=True)
class Report:
    """
    What a certification found.

    Attributes:
        url: The wallet's address; "" for one in this process.
        verdicts: Of all scenarios, in the order of their ids; skipped ones too.
        causes: What is wrong, what costs most first; a mistake that shows in several scenarios is one cause.
        load_ms: How long each answer of the load phase took.
        moved: What the run left of the players' balances.
        began_millis: When it began, in Unix milliseconds.
        seconds: How long it took.
        calls: How many requests were sent.
        moving_calls: How many of them were not balance checks.
        run_id: What all ids of this run begin with.
        version: Of this package.
        profile: What was assumed of the wallet, by setting, where it is not the usual.
    """

    url: str
    verdicts: tuple[Verdict, ...]
    causes: tuple[Cause, ...]
    moved: tuple[Moved, ...]
    began_millis: int
    seconds: float
    calls: int
    moving_calls: int
    run_id: str
    version: str
    load_ms: tuple[float, ...] = field(default=(), repr=False)
    profile: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether no verdict failed, advice apart."""
        return not any(verdict.failed for verdict in self.verdicts)

    @property
    def tried(self) -> bool:
        """Whether anything was tried at all: a run that skipped everything has passed, and says nothing."""
        return any(verdict.outcome is not Outcome.SKIPPED for verdict in self.verdicts)

    @property
    def was_stopped(self) -> bool:
        """Whether somebody stopped it before its end."""
        return any(verdict.is_stopped for verdict in self.verdicts)

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The verdicts that make the wallet fail."""
        return tuple(verdict for verdict in self.verdicts if verdict.failed)

    @property
    def advice(self) -> tuple[Verdict, ...]:
        """What could be better."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_advice)

    @property
    def skipped(self) -> tuple[Verdict, ...]:
        """What was not tried."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome is Outcome.SKIPPED)

    @property
    def unjudged(self) -> tuple[Verdict, ...]:
        """The failures that hide what became of the money: fix first what hides it."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_unjudged)

    @property
    def money_at_risk(self) -> tuple[Cause, ...]:
        """The causes by which money is lost or doubled."""
        return tuple(each for each in self.causes if each.verdict.weight.is_money and not each.verdict.is_unjudged)

    def verdict(self, scenario_id: str) -> Verdict:
        """
        Return the verdict of the scenario *scenario_id*, such as ``B01``.

        Raises:
            KeyError: No scenario has this id.
        """
        return {verdict.id: verdict for verdict in self.verdicts}[scenario_id]


def causes_of(verdicts: Iterable[Verdict], explains: Explains) -> tuple[Cause, ...]:
    """
    Return the causes of all failed *verdicts*, advice too.

    Failures are one mistake if the heaviest notes of their verdicts have the same cause, or the same symptom. A
    scenario also stands for those that it *explains*, by their ids: for it shows best what they show in other ways.
    """
    left = sorted((each for each in verdicts if each.outcome is Outcome.FAILED), key=_by_weight)

    slugs = {_slug(each, left) for each in left}

    def shows_most(verdict: Verdict) -> tuple[bool, bool, bool, int, int]:
        slug = _slug(verdict, left)
        follows = any(slug in _brought_by(other, verdict) for other in slugs) or any(
            _is_advised(verdict, by) for by in left
        )
        named = _named(verdict, slug, explains)
        by_name = len(left) if ALL in named else sum(each.id in named for each in left)
        # Where the process ended is more than that nothing answers since. A scenario that was not begun shows nothing.
        return (
            slug != KnownCause.GONE,
            follows,
            not verdict.exchanges,
            -by_name,
            -len(_explained(verdict, left, explains)),
        )

    causes: list[Cause] = []
    taken: set[str] = set()
    for verdict in sorted(left, key=shows_most):
        if verdict.id in taken:
            continue
        others = tuple(each for each in _explained(verdict, left, explains) if each.id not in taken)
        taken |= {verdict.id, *(each.id for each in others)}
        causes.append(Cause(verdict, others, mistake_of(_slug(verdict, left))))
    return tuple(sorted(causes, key=_urgency))


def _explained(verdict: Verdict, failed: Sequence[Verdict], explains: Explains) -> tuple[Verdict, ...]:
    """Return the other failures that the same mistake explains; one that costs more has another mistake."""
    slug = _slug(verdict, failed)
    named = _named(verdict, slug, explains)

    def is_same(other: Verdict) -> bool:
        if _is_advised(other, verdict):
            return True
        if own := _slug(other, failed):
            # Only the answer is wrong there, so each call counts as another mistake.
            is_alike = slug != KnownCause.ONLY_SAID or _symptom(other) == _symptom(verdict)
            return (own == slug and is_alike) or own in _brought_by(slug, other)
        if ALL in named and slug == KnownCause.LATE:
            return _is_of_amounts(other)
        if ALL in named or other.id in named:
            return True
        return not slug and _symptom(verdict) is not None and _symptom(other) == _symptom(verdict)

    def costs_more(other: Verdict) -> bool:
        return other.weight.rank < verdict.weight.rank and slug not in _STAND_FOR_ALL

    return tuple(each for each in failed if each is not verdict and not costs_more(each) and is_same(each))


def _is_of_amounts(verdict: Verdict) -> bool:
    """Return whether *verdict* may come of a balance that is behind: an amount is wrong, or funds seem to be."""
    symptom = _symptom(verdict)
    return symptom is None or symptom.kind.is_of_money or symptom.code == WebhookErrorCode.INSUFFICIENT_BALANCE


def _symptom(verdict: Verdict) -> Symptom | None:
    return verdict.notes[0].symptom if verdict.notes and not verdict.is_advice else None


def _is_advised(verdict: Verdict, by: Verdict) -> bool:
    """Return whether *verdict* is advice on refusals alone, like that which another failed *by*: its path and code."""
    refused = _refusal(by.decisive) if by.failed else None
    symptom = _symptom(by)
    if not verdict.is_advice or refused is None or symptom is None or symptom.kind.is_of_money:
        return False
    shown = [verdict.exchanges[note.exchange] for note in verdict.notes if note.exchange is not None]
    return len(shown) == len(verdict.notes) and all(_refusal(each) == refused for each in shown)


def _refusal(exchange: Exchange | None) -> tuple[str, str] | None:
    """Return the path and the code of a refusal; None if it is not one, or has a code that many mistakes share."""
    code = None if exchange is None or exchange.reply is None else exchange.reply.code
    return None if exchange is None or code is None or code in _OF_MANY else (exchange.path, code)


def _brought_by(slug: str, shown_by: Verdict) -> tuple[str, ...]:
    """Return the mistakes that follow from another where *shown_by* shows them: in a race, answers are wrong too."""
    mistake = mistake_of(slug)
    if mistake is None:
        return ()
    return (*mistake.brings, *mistake.brings_at_once) if shown_by.group == _AT_ONCE else mistake.brings


def _named(verdict: Verdict, slug: str, explains: Explains) -> tuple[str, ...]:
    """Return the scenarios that this one explains, where they have no mistake of their own."""
    own, mistake = tuple(explains.get(verdict.id, ())), mistake_of(slug)
    if mistake and mistake.explains:
        return mistake.explains
    return own if not slug or ALL in own else ()


def _slug(verdict: Verdict, failed: Sequence[Verdict]) -> str:
    causes = {each.notes[0].cause for each in failed if each.notes}
    slug = _seen(verdict, causes)
    mistake = mistake_of(slug)
    if mistake is None:
        return slug
    if mistake.general_from > 1:
        alike = sum(_seen(each, causes) == slug for each in failed)
        return slug if alike >= mistake.general_from else mistake.otherwise
    if not mistake.only_in_the_plainest:
        return slug
    plainest = (each.notes[0].cause for each in failed if each.id == _PLAINEST and each.notes)
    return slug if slug in plainest else ""


def _seen(verdict: Verdict, causes: Collection[str]) -> str:
    """Return the mistake of a verdict by itself; if an answer is missing, one of *causes* that may be the reason."""
    slug = verdict.notes[0].cause if verdict.notes else ""
    if slug in _MISSING_ANSWERS and KnownCause.NOW_AND_THEN in causes:
        return KnownCause.NOW_AND_THEN
    if slug in _MISSING_ANSWERS and KnownCause.REPEAT_REFUSED in causes and verdict.decisive is not None:
        return KnownCause.REPEAT_REFUSED if replies_to(verdict.decisive, verdict.exchanges) else slug
    return slug


def _urgency(cause: Cause) -> tuple[bool, bool, int, bool, int, str]:
    """Return what to fix first: what hides all else, then what costs most, the plainest bet and what shows often."""
    is_plainest = cause.verdict.id == _PLAINEST
    hides = cause.verdict.is_unjudged and (is_plainest or len(cause.others) >= _MANY)
    # A wallet may be slow because of what else is wrong.
    is_out_of_time = any(note.cause == KnownCause.OUT_OF_TIME for note in cause.verdict.notes[:1])
    return is_out_of_time, not hides, cause.verdict.weight.rank, not is_plainest, -len(cause.others), cause.verdict.id


def _by_weight(verdict: Verdict) -> tuple[int, int, str]:
    if not verdict.is_unjudged:
        return verdict.weight.rank, 0, verdict.id
    # What is blind first may have blinded what follows.
    return verdict.weight.rank, verdict.decisive.at_millis if verdict.decisive else 2**63, verdict.id
