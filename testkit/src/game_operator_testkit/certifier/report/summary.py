"""What every form of a report says: how it ended, what to change, why, and what was not tried."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from game_operator.codes import OPERATORS_RULES, WebhookErrorCode
from game_operator.text import money
from game_operator_testkit.certifier.report.report import Cause, Moved, Report
from game_operator_testkit.certifier.report.shown import cut, message, shown_notes
from game_operator_testkit.certifier.report.verdicts import (
    BALANCE_PATH,
    GROUPS,
    Exchange,
    KnownCause,
    Outcome,
    Verdict,
    Weight,
)
from game_operator_testkit.provider.latency import MARKS_MS, above, percentile

#: Ids that are named in a sentence, and calls that are named where no single one is wrong.
_IDS: Final = 12
_STEPS: Final = 8
_PERCENTS: Final = (50, 95, 99)
_KNOWN: Final = frozenset(code.value for code in WebhookErrorCode)
#: Refusals of a bet that say something of its player.


@dataclass(frozen=True, slots=True)
class Group:
    """A group of scenarios: letter and name, verdicts (failures first), and how many have which outcome, or advice."""

    letter: str
    name: str
    verdicts: Sequence[Verdict]
    counts: Counter[str]


@dataclass(frozen=True)
class Summary:
    """The summary of *report*; terminal, HTML, JSON, JUnit and pytest render it."""

    report: Report

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many scenarios ended in which way."""
        return {
            "passed": sum(verdict.outcome is Outcome.PASSED for verdict in self.report.verdicts),
            "failed": len(self.report.failures),
            "advice": len(self.report.advice),
            "not tried": len(self.report.skipped),
        }

    @cached_property
    def undone(self) -> list[Verdict]:
        """What was not tried because what was supplied for it did not work."""
        return [verdict for verdict in self.report.skipped if verdict.is_undone]

    @cached_property
    def stopped(self) -> list[Verdict]:
        """What was not tried, or not to its end, because somebody stopped the run."""
        return [verdict for verdict in self.report.verdicts if verdict.is_stopped]

    @cached_property
    def is_fine(self) -> bool:
        """Whether something was tried, nothing failed, all that was supplied worked, and the run was not stopped."""
        return self.report.passed and self.is_complete

    @cached_property
    def is_complete(self) -> bool:
        """Whether something was tried, all that was supplied worked, and the run was not stopped."""
        return self.report.tried and not self.undone and not self.report.was_stopped

    @cached_property
    def state(self) -> str:
        """``Passed``, ``Failed``, ``Stopped`` or ``Not finished``."""
        if not self.report.passed:
            return "Failed"
        return "Passed" if self.is_fine else "Stopped" if self.report.was_stopped else "Not finished"

    @cached_property
    def causes(self) -> list[Cause]:
        """The causes that make the wallet fail, the most urgent first."""
        return [cause for cause in self.report.causes if cause.verdict.failed]

    @cached_property
    def headline(self) -> str:
        """How it ended, in one sentence."""
        report, skipped = self.report, len(self.report.skipped)
        if not report.tried:
            return "Stopped before anything was tried to its end." if report.was_stopped else "Nothing was tried."
        if not report.passed:
            return f"Failed: {self._what_failed()}."
        if report.was_stopped:
            return f"Stopped: nothing is wrong so far, and {_scenarios(skipped, 'was', 'were')} not tried."
        if self.undone:
            undone = _scenarios(len(self.undone))
            return f"Not finished: what was supplied did not work, and {undone} could not be tried."
        rest = f"; {_scenarios(skipped, 'was', 'were')} not tried" if skipped else ""
        return f"Passed: no money was lost or doubled, and the contract was kept{rest}."

    @cached_property
    def line(self) -> str:
        """How it ended and the numbers, in one line, which keeps its form from version to version."""
        return f"{self.state.upper()}: {', '.join(f'{count} {what}' for what, count in self.counts.items())}"

    @cached_property
    def urgency(self) -> str:
        """How many mistakes there are, what they cost and where to begin, in two sentences; "" if there are none."""
        if all(_is_out_of_time(cause.verdict) for cause in self.causes):
            return ""
        costs = Counter(cause.verdict.cost for cause in self.causes)
        counted = "1 mistake" if len(self.causes) == 1 else f"{len(self.causes)} mistakes"
        said = ", ".join(f"{count} {cost}" for cost, count in costs.items())
        follows = "" if len(self.causes) == 1 else ": the others may follow from it"
        return f"{counted}: {said}. Fix the first one first, and run this again{follows}."

    @cached_property
    def heading(self) -> str:
        """What stands above the causes."""
        return "What to fix, in this order" if self.urgency else "Why not all was judged"

    @cached_property
    def remarks(self) -> list[str]:
        """What else belongs beside the headline: what was supplied and did not work, and what a stop left."""
        remarks = []
        for reason in dict.fromkeys(verdict.reason for verdict in self.undone):
            undone = ids_in_words(verdict for verdict in self.undone if verdict.reason == reason)
            remarks.append(f"What was supplied did not work, so {undone} could not be tried: {cut(reason)}")
        if self.stopped:
            were = "was" if len(self.stopped) == 1 else "were"
            remarks.append(f"The run was stopped, so {ids_in_words(self.stopped)} {were} not tried to the end.")
        return remarks

    @cached_property
    def left(self) -> str:
        """What the run leaves in the wallet's tables, and how to find it, in two sentences."""
        return f"All ids of this run begin with {self.report.run_id}. Some scenarios leave bets open on purpose."

    @cached_property
    def load(self) -> str:
        """How long answers took in the load phase, in one sentence; "" without one."""
        ordered = sorted(self.report.load_ms)
        if not ordered:
            return ""
        percentiles = ", ".join(f"p{percent} {percentile(ordered, percent):.0f} ms" for percent in _PERCENTS)
        counted = [(above(ordered, mark), mark) for mark in MARKS_MS]
        late = " and ".join(f"{count} over {mark} ms" for count, mark in counted if count)
        return f"Load: {len(ordered):,} calls: {percentiles}; {late or f'none over {MARKS_MS[0]} ms'}."

    def meaning(self, cause: Cause) -> str:
        """Return what *cause* means, and first what is known of the money unless the cause's weight says it."""
        if cause.verdict.is_unjudged:
            moved = self.report.moving_calls > 0
            known = "This run cannot say whether the money is right" if moved else "No call that moves money was sent"
            known = "No bet was accepted, so no money was tried" if self._code_of_bets() else known
            return f"{known}. {cause.means}"
        if cause.verdict.weight.is_money:
            return cause.means
        is_about_money = self.report.unjudged or self.report.money_at_risk
        return cause.means if is_about_money else f"No money was lost or doubled in this run. {cause.means}"

    @cached_property
    def groups(self) -> list[Group]:
        """The groups of scenarios, by their letters."""
        groups = []
        for letter in sorted({verdict.group for verdict in self.report.verdicts}):
            verdicts = sorted((each for each in self.report.verdicts if each.group == letter), key=_heaviest)
            counts = Counter("advice" if each.is_advice else each.outcome.value for each in verdicts)
            groups.append(Group(letter, GROUPS.get(letter, "").capitalize(), verdicts, counts))
        return groups

    @cached_property
    def _causes(self) -> Mapping[str, Cause]:
        return {each: cause for cause in self.report.causes for each in cause.ids}

    def cause_of(self, verdict: Verdict) -> Cause:
        """Return the cause by which *verdict* failed."""
        return self._causes.get(verdict.id) or Cause(verdict)

    def failure(self, verdict: Verdict) -> str:
        """Return why *verdict* failed, after the id of its cause: of the scenario that shows the mistake best."""
        return f"{self.cause_of(verdict).verdict.id}: {verdict.reason}"

    def explanation(self, verdict: Verdict) -> list[str]:
        """Return what else is wrong in *verdict*, what its cause means, how it is fixed, and what that rests on."""
        cause = self.cause_of(verdict)
        return [
            *(f"Also: {cut(note.reason)}" for note in shown_notes(verdict)[1:]),
            f"What it means: {cut(self.meaning(cause))}",
            f"How to fix it: {cut(cause.fix)}",
            f"It rests on: {', '.join(verdict.rests_on)}{' (assumed)' if verdict.is_assumed else ''}",
        ]

    def _code_of_bets(self) -> str:
        """Return the code by which each bet was refused, if that is the first cause; "" if it is not."""
        first = self.causes[0].verdict
        is_first = bool(first.notes) and first.notes[0].cause in (KnownCause.UNREADABLE, KnownCause.NO_BET)
        if not is_first or first.decisive is None or first.decisive.reply is None:
            return ""
        return first.decisive.reply.code or ""

    def _what_failed(self) -> str:
        weights = {cause.verdict.weight for cause in self.causes if not cause.verdict.is_unjudged}
        money = {Weight.MONEY_LOST: "loses money", Weight.MONEY_DOUBLED: "doubles money"}
        if told := [what for weight, what in money.items() if weight in weights]:
            return f"this wallet {', and '.join(told)}"
        in_time = [each for each in self.report.failures if not _is_out_of_time(each)]
        if not in_time:
            failed = _scenarios(len(self.report.failures))
            return f"the run's own time limit (deadline) was used up before {failed} could be judged"
        if unjudged := sum(each.is_unjudged for each in in_time):
            if code := self._code_of_bets():
                refused = f"the wallet refused every bet with {code}"
                return f"{refused}, so {_scenarios(unjudged)} could not be judged{_first_look(code)}"
            moved = self.report.moving_calls > 0
            known = "nobody knows what became of the money" if moved else "no call that moves money was sent"
            return f"{_scenarios(unjudged)} could not be judged, and {known}"
        return "this wallet breaks the contract with the service"


def _first_look(code: str) -> str:
    """Return where to look first if each bet is refused with *code*; "" where the code itself says it."""
    if code in OPERATORS_RULES:
        return "; look at the two players first"
    is_known = code in _KNOWN and code != WebhookErrorCode.INVALID_REQUEST
    return "" if is_known else "; look at --instance and --game first"


def _is_out_of_time(verdict: Verdict) -> bool:
    """Return whether the run's own time limit is why *verdict* failed."""
    return bool(verdict.notes) and verdict.notes[0].cause == KnownCause.OUT_OF_TIME


def balance_in_words(moved: Moved) -> str:
    """Return what the run left of a player's balance, and what to do if that is not what there was."""
    before, after = ("unknown" if cents is None else money(cents) for cents in (moved.before_cents, moved.after_cents))
    if moved.difference_cents == 0:
        return f"{moved.player_id} has {after}, as before."
    text = f"{moved.player_id} had {before} and has {after}"
    if moved.difference_cents is None:
        return f"{text}. Look into the account before the next run: the run's ids show what was moved."
    return f"{text}: the wallet did not let the run put it back. Set it right before the next run."


def deciding_exchange(verdict: Verdict) -> Exchange | None:
    """Return the exchange that decided; or the last call before the balance that was found wrong; or None."""
    calls = (each for each in reversed(verdict.exchanges) if each.path != BALANCE_PATH)
    return verdict.decisive or next(calls, None)


def shown_calls(verdict: Verdict, *, with_headers: bool = True) -> list[str]:
    """Return the exchange that decided, as it travelled; or, where no single one is wrong, the last calls by title."""
    exchange = verdict.decisive
    if exchange is None:
        last = verdict.exchanges[-_STEPS:]
        left_out = len(verdict.exchanges) - len(last)
        after = f", after {left_out} more calls" if left_out else ""
        return ["\n".join([f"What was sent{after}:", *(f"    {each.title}: {cut(each.told)}" for each in last)])]
    sent, came = (exchange.request_headers, exchange.answer_headers) if with_headers else ((), ())
    parts = [
        f"The exchange that decided: {cut(exchange.title)}: {cut(exchange.told)}",
        message(f"> {exchange.method} {exchange.path}", sent, exchange.request_body),
    ]
    return [*parts, message(f"< {exchange.status}", came, exchange.answer_body)] if exchange.status else parts


def ids_in_words(verdicts: Iterable[Verdict]) -> str:
    """Return ids, of many the first ones and how many more there are."""
    every = [verdict.id for verdict in verdicts]
    more = f" and {len(every) - _IDS} more" if len(every) > _IDS else ""
    return f"{', '.join(every[:_IDS])}{more}"


def _heaviest(verdict: Verdict) -> tuple[int, str]:
    if verdict.outcome is Outcome.FAILED:
        return verdict.weight.rank, verdict.id
    return (4 if verdict.outcome is Outcome.SKIPPED else 5), verdict.id


def _scenarios(number: int, one: str = "", many: str = "") -> str:
    return (f"1 scenario {one}" if number == 1 else f"{number} scenarios {many}").rstrip()
