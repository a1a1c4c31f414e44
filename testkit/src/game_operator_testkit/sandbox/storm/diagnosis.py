"""
Which mistake each difference most likely comes from, and the few calls that show it.

All differences together tell chance and rounding apart from mistakes. Where several mistakes fit, that is said, and no
more is said than the numbers show.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from game_operator.models.webhooks import MovingCall
from game_operator.money import amount_from_cents
from game_operator_testkit.provider.delivery import Sent
from game_operator_testkit.provider.diagnosis import MistakeText, MoneyMistake, text_of
from game_operator_testkit.sandbox.dealing.dealt import Dealt
from game_operator_testkit.sandbox.storm.guesses import FEW_CENTS, MOST_NAMED, VAGUE, Guess

_MOST_NEIGHBOURS: Final = 5


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """
    The most likely reason of a difference.

    Attributes:
        mistake: Which.
        sentence: What the numbers show.
        bets: The bets and claims that it is matched with, in words; several if the numbers do not tell which.
        is_ambiguous: Whether something else fits as well.
        calls: The calls that matter, a line each: repeats are one, and the rest is counted.
    """

    mistake: MoneyMistake
    sentence: str
    bets: tuple[str, ...]
    is_ambiguous: bool
    calls: tuple[str, ...] = field(repr=False)

    @property
    def text(self) -> MistakeText:
        """The mistake in words: what it means, and how to fix it."""
        return text_of(self.mistake)


def without_chance(found: Sequence[tuple[Guess, ...]]) -> list[tuple[Guess, ...]]:
    """Return the guesses of each difference, where all differences together say whether amounts are rounded."""
    vague = [guesses for guesses in found if guesses and all(guess.level == VAGUE for guess in guesses)]
    rounded = [guess for guesses in vague for guess in guesses if guess.mistake is MoneyMistake.ROUNDING]
    fitting = sum(any(guess.cents and guess.level > VAGUE for guess in guesses) for guesses in found)
    is_rounded = _are_rounded(rounded, fitting) and not _are_repeats(vague)
    return [_narrowed(guesses, is_rounded=is_rounded) for guesses in found]


def _narrowed(guesses: tuple[Guess, ...], *, is_rounded: bool) -> tuple[Guess, ...]:
    rounding = tuple(guess for guess in guesses if guess.mistake is MoneyMistake.ROUNDING)
    others = tuple(guess for guess in guesses if guess not in rounding)
    # A movement that was lost among many is seldom of a few cents.
    is_tiny = any(abs(guess.cents) <= FEW_CENTS for guess in rounding)
    is_crowd = bool(others) and all(guess.mistake is MoneyMistake.LOST_UPDATE for guess in others)
    is_vague = all(guess.level == VAGUE for guess in others)
    return rounding if rounding and is_vague and (is_rounded or (is_tiny and is_crowd)) else others


def _are_rounded(rounded: Sequence[Guess], fitting: int) -> bool:
    """Return whether several players miss a few cents; or more, all in one direction, and *fitting* fewer do not."""
    if sum(abs(guess.cents) <= FEW_CENTS for guess in rounded) > 1:
        return True
    return len({guess.cents > 0 for guess in rounded}) == 1 < len(rounded) > fitting


def _are_repeats(vague: Sequence[Sequence[Guess]]) -> bool:
    """Return whether most balances went wrong where a call came again, and none where only first calls were sent."""
    again = [any(guess.mistake is MoneyMistake.MOVED_BY_A_REPEAT for guess in guesses) for guesses in vague]
    few = [
        any(guess.mistake is MoneyMistake.ROUNDING and len(guess.matched) <= MOST_NAMED for guess in guesses)
        for guesses in vague
    ]
    first = sum(is_few and not is_again for is_few, is_again in zip(few, again, strict=True))
    return not first and sum(again) * 2 >= len(vague)


def vote(found: Iterable[Sequence[Guess]]) -> Mapping[MoneyMistake, float]:
    """Return how much the guesses of all differences together speak for each mistake."""
    votes: defaultdict[MoneyMistake, float] = defaultdict(float)
    for guesses in found:
        mistakes = {guess.mistake for guess in guesses}
        for mistake in mistakes:
            votes[mistake] += 1 / len(mistakes)
    return votes


def diagnosed(
    guesses: Sequence[Guess], gap_cents: int, votes: Mapping[MoneyMistake, float], dealt: Sequence[Dealt]
) -> Diagnosis | None:
    """
    Return the most likely of *guesses*, all of which fit; None if there is none.

    Args:
        guesses: Of one difference.
        gap_cents: What is too much in a balance; 0 if the difference is not of a balance.
        votes: What the other differences say, where the numbers of this one do not tell.
        dealt: All that was dealt to the player, to show what ran beside.
    """
    if not guesses:
        return None
    ordered = sorted(guesses, key=lambda guess: -votes.get(guess.mistake, 0.0))
    likely = [guess for guess in ordered if guess.mistake is ordered[0].mistake]
    matched = tuple(dict.fromkeys(each for guess in likely for each in guess.matched))
    calls = tuple(key_calls(likely[0].matched, likely[0].operation, dealt))
    mistake = likely[0].mistake
    if mistake is MoneyMistake.LOSS_LEFT_OPEN and votes.get(MoneyMistake.NOT_BOOKED):
        # Deposits that pay something leave no trace either.
        mistake = MoneyMistake.NOT_BOOKED
    return Diagnosis(
        mistake=mistake,
        sentence=_sentence(ordered, gap_cents),
        bets=tuple(each.subject for each in matched),
        is_ambiguous=len(ordered) > 1 or ordered[0].is_open,
        calls=calls,
    )


def _sentence(ordered: Sequence[Guess], gap_cents: int) -> str:
    if not gap_cents:
        return ordered[0].words
    how_much = f"{amount_from_cents(abs(gap_cents))} too {'much' if gap_cents > 0 else 'little'}"
    if len(ordered) == 1:
        rest = " The numbers do not tell which." if ordered[0].is_open else ""
        return f"{how_much}: it equals {ordered[0].words}.{rest}"
    named = "; or ".join(guess.words for guess in ordered[:MOST_NAMED])
    more = f"; or {len(ordered) - MOST_NAMED} others" if len(ordered) > MOST_NAMED else ""
    return f"{how_much}: it equals {named}{more}. The numbers do not tell which."


def key_calls(matched: Sequence[Dealt], operation: str, dealt: Sequence[Dealt]) -> Iterator[str]:
    """Yield the calls of *matched*, repeats folded, and what ran beside those of *operation*; the rest is counted."""
    shown: list[Dealt] = list(matched[:MOST_NAMED])
    for each in shown:
        yield f"{each.subject} of {each.player_id}, {each.planned.in_words}"
        yield from _folded(each)
    windows = list(_windows(shown[0], operation)) if shown else []
    beside = [(each, calls) for each in dealt if each not in shown and (calls := _within(each, windows))]
    for each, calls in beside[:_MOST_NEIGHBOURS]:
        told = ", ".join(f"#{sent.post.serial} {sent.call.operation}: {sent.answer}" for sent in calls[:MOST_NAMED])
        yield f"  meanwhile {each.subject}, {each.planned.in_words}: {told}"
    rest = sum(bool(each.history) for each in dealt) - len(shown) - len(beside[:_MOST_NEIGHBOURS])
    if rest > 0:
        yield f"  {rest} more bets and claims of the player are not shown" if rest > 1 else "  1 more is not shown"


def _folded(each: Dealt) -> Iterator[str]:
    """Yield the calls of a bet or claim: what was sent and answered alike in succession is one line."""
    body = b""
    for _, some in groupby(
        _by_serial(each), key=lambda sent: (sent.call, sent.post.extra, sent.answer.code, _told(sent))
    ):
        alike = list(some)
        first, last = alike[0], alike[-1]
        fault = f", {first.post.faults}" if first.post.faults else ""
        times = f" × {len(alike)}" if len(alike) > 1 else ""
        until = f" to #{last.post.serial}" if len(alike) > 1 else ""
        yield f"  #{first.post.serial}{until} {first.call.operation}{times}{fault}: {last.answer}"
        if first.post.body != body:
            body = first.post.body
            yield f"      POST {first.post.path} {body.decode()}"


def _told(sent: Sent) -> str:
    """Return what an answer says, without its balance."""
    return "reply" if sent.answer.reply is not None else sent.answer.problem


def _by_serial(each: Dealt) -> list[Sent]:
    return sorted(each.history, key=lambda sent: sent.post.serial)


def _windows(each: Dealt, operation: str) -> Iterator[range]:
    """Yield, for each call of *operation*, the serials between its first delivery and the one that settled it."""
    by_call: defaultdict[MovingCall, list[Sent]] = defaultdict(list)
    for sent in _by_serial(each):
        if sent.post.is_genuine and operation in ("", sent.call.operation):
            by_call[sent.call].append(sent)
    for deliveries in by_call.values():
        settled = next((sent for sent in deliveries if sent.answer.settles(sent.call)), deliveries[-1])
        yield range(deliveries[0].post.serial + 1, settled.post.serial)


def _within(each: Dealt, windows: Sequence[range]) -> list[Sent]:
    """Return what was sent about *each* within *windows*."""
    return [sent for sent in _by_serial(each) if any(sent.post.serial in window for window in windows)]
