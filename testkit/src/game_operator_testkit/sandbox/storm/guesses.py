"""
What the numbers of one difference may come from.

The gap of a wrong balance is matched with the amounts of the player's bets and claims: each of them could have gone
wrong in a few ways, and each way makes another gap. A sum is named only where few sums were tried, because among many
sums one fits any gap by chance.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations, islice, takewhile
from math import comb
from typing import Final

from game_operator.codes import BetState
from game_operator.ledger.api import BetRecord
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall, WithdrawCall
from game_operator.money import amount_from_cents
from game_operator_testkit.provider.delivery import Sent
from game_operator_testkit.provider.diagnosis import MoneyMistake
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtBet, DealtClaim, ServiceState

#: How much speaks for a guess: no amount fits.
VAGUE: Final = 0
#: Nothing unusual happened; something that wallets often get wrong; an answer shows it.
_PLAIN, _UNUSUAL, _SHOWN = 1, 2, 3
#: A repeated call may have moved money this many times too often.
_MOST_TIMES: Final = 5
#: So many cents of a gap are needed for each sum that is tried: then one sum in twenty gaps fits by chance.
_CENTS_PER_SUM: Final = 20
#: A gap of a few cents, and one of a few percent of what was moved, may come from rounding.
FEW_CENTS: Final = 3
_ROUNDED_PERCENT: Final = 2
_OPERATIONS: Final = ("withdraw", "deposit", "rollback")
_NO_AMOUNT: Final = "no amount of a bet"
#: More bets and claims than these are counted, and not named.
MOST_NAMED: Final = 3
_OF_EXTRA: Final = {
    Fault.FORGED: MoneyMistake.FORGED,
    Fault.RESERIALISED: MoneyMistake.RESERIALISED,
    Fault.OLD_KEY: MoneyMistake.OLD_KEY,
    Fault.OTHER_CONTENT: MoneyMistake.OTHER_CONTENT,
}
#: What a problem of a bet says, in the words of dealing/accepted_mistakes.py and dealer.py, and which mistake that is.
_OF_PROBLEM: Final = (
    *((f"with the fault {fault} was accepted", mistake) for fault, mistake in _OF_EXTRA.items()),
    ("was accepted after its rollback", MoneyMistake.LATE_WITHDRAW),
    ("its rollback was answered ", MoneyMistake.LATE_WITHDRAW),
    ("its rollback was refused", MoneyMistake.NOT_REFUNDED),
    ("deposit was accepted before its withdraw", MoneyMistake.EARLY_DEPOSIT),
    ("deposit was accepted, and its withdraw refused", MoneyMistake.PAID_AFTER_REFUND),
    (" deposit was refused with", MoneyMistake.PAYMENT_REFUSED),
    ("sent again, was answered", MoneyMistake.ANSWERED_OTHERWISE),
    ("below zero", MoneyMistake.FUNDS),
    ("INSUFFICIENT_BALANCE, and the balance", MoneyMistake.FUNDS),
)


@dataclass(frozen=True, slots=True)
class Guess:
    """
    One way in which a bet or claim, or several, may have gone wrong.

    Attributes:
        mistake: Which.
        cents: The gap it makes in the balance: less than 0 if it is too little.
        matched: What went wrong.
        words: What the gap equals, and why.
        level: How much speaks for it.
        operation: The operation of the calls that show it; "" for all.
        is_open: Whether it names several calls, of which one may have done it.
    """

    mistake: MoneyMistake
    cents: int
    matched: tuple[Dealt, ...]
    words: str
    level: int = _PLAIN
    operation: str = ""
    is_open: bool = False


def of_problem(each: Dealt, problem: str) -> tuple[Guess, ...]:
    """Return which mistake an answer shows that no correct wallet gives."""
    found = next((mistake for words, mistake in _OF_PROBLEM if words in problem), None)
    if found is None:
        return ()
    operation = next((name for name in ("withdraw", "rollback", "deposit") if f"{name} " in f"{problem} "), "")
    paired = {MoneyMistake.LATE_WITHDRAW, MoneyMistake.EARLY_DEPOSIT, MoneyMistake.PAID_AFTER_REFUND}
    return (Guess(found, 0, (each,), f"{problem}.", _SHOWN, "" if found in paired else operation),)


def of_state(bet: DealtBet, record: BetRecord | None) -> tuple[Guess, ...]:
    """Return which mistake the state of a bet in the wallet's ledger shows."""
    kept = None if record is None else record.state
    has = "does not have it" if kept is None else f"has it {kept}"
    mistake = _of_states(bet, kept)
    operation = {ServiceState.CLOSED: "deposit", ServiceState.ROLLED_BACK: ""}.get(bet.state, "withdraw")
    words = f"The service has bet {bet.key} {bet.state}, and the wallet's ledger {has}."
    return (Guess(mistake, 0, (bet,), words, _SHOWN, operation),)


def _of_states(bet: DealtBet, kept: BetState | None) -> MoneyMistake:
    match bet.state, kept:
        case (ServiceState.CLOSED, BetState.CLOSED):
            extras = (sent.post.extra for sent in bet.history)
            return MoneyMistake.OTHER_CONTENT if Fault.OTHER_CONTENT in extras else MoneyMistake.NOT_BOOKED
        case (ServiceState.CLOSED, BetState.ROLLED_BACK | BetState.TOMBSTONE):
            return MoneyMistake.REFUNDED_AFTER_SETTLEMENT
        case (ServiceState.CLOSED, BetState.OPEN) if not bet.won_cents:
            return MoneyMistake.LOSS_LEFT_OPEN
        case (ServiceState.CLOSED, _) if bet.hurried:
            return MoneyMistake.EARLY_DEPOSIT
        case (ServiceState.ROLLED_BACK, BetState.CLOSED):
            return MoneyMistake.PAID_AFTER_REFUND
        case (ServiceState.ROLLED_BACK, _):
            return MoneyMistake.LATE_WITHDRAW if bet.cancelled_unseen else MoneyMistake.NOT_REFUNDED
        case (ServiceState.REFUSED, _):
            return MoneyMistake.REFUSED_AND_DEBITED
        case _:
            return MoneyMistake.NOT_BOOKED


@dataclass(frozen=True, slots=True)
class Seen:
    """
    Which balances the wallet reported of a player, as far as they bear on a gap.

    Attributes:
        suspects: The bets and claims that may have made the first wrong balance.
        wrong_cents: The first wrong balance; None if none was reported.
        now_cents: The balance at the end; None if it is unknown.
    """

    suspects: Sequence[Dealt] = ()
    wrong_cents: int | None = None
    now_cents: int | None = None


def of_gap(gap_cents: int, dealt: Sequence[Dealt], seen: Seen | None = None) -> tuple[Guess, ...]:
    """
    Return the guesses that explain *gap_cents*, all with as much to speak for them; none if nothing fits.

    Args:
        gap_cents: The balance less what is due, in cents.
        dealt: All that was dealt to the player.
        seen: The balances that the wallet reported.
    """
    seen = seen or Seen()
    suspects, idle = seen.suspects, _idle_repeats(dealt, seen.now_cents)
    guesses = [guess for each in dealt for guess in _guesses(each, idle) if guess.cents]
    single = [guess for guess in guesses if guess.cents == gap_cents]
    unusual = [guess for guess in guesses if guess.level > _PLAIN]
    for fitting in (
        [guess for guess in single if guess.level > _PLAIN],
        _all_alike(gap_cents, unusual),
        _sums(gap_cents, unusual),
        single,
        _all_alike(gap_cents, guesses),
    ):
        if fitting:
            return tuple(_in_a_crowd(_best(fitting, suspects), suspects))
    vague = _only_repeats(gap_cents, seen, idle) or _many(gap_cents, unusual) or _crowd(gap_cents, suspects)
    return (*vague, *_rounding(gap_cents, dealt, suspects))


def _idle_repeats(dealt: Iterable[Dealt], now_cents: int | None) -> frozenset[int]:
    """
    Return the serials of the last repeats that moved nothing: the balance was *now_cents* before them already.

    At the end of a storm calls that were over are sent once more, and nothing else is.
    """
    posts = sorted(((sent, each) for each in dealt for sent in each.history), key=lambda pair: -pair[0].post.serial)
    last = list(takewhile(lambda pair: _is_repeat(*pair), posts))
    before = next((sent for sent, _ in posts[len(last) :] if _balance(sent) is not None), None)
    if before is not None and now_cents is not None and _balance(before) == now_cents:
        return frozenset(sent.post.serial for sent, _ in last)
    shown = [sent.post.serial for sent, _ in last if now_cents is not None and _balance(sent) == now_cents]
    return frozenset(sent.post.serial for sent, _ in last if shown and sent.post.serial > min(shown))


def _is_repeat(sent: Sent, each: Dealt) -> bool:
    """Return whether a call was answered definitely before it was *sent*."""
    return sent.post.is_genuine and any(
        earlier.call == sent.call
        and earlier.post.is_genuine
        and earlier.post.serial < sent.post.serial
        and earlier.answer.settles(earlier.call)
        for earlier in each.history
    )


def _balance(sent: Sent) -> int | None:
    return None if sent.answer.reply is None else sent.answer.reply.balance_cents


def of_answer(gap_cents: int, dealt: Sequence[Dealt], suspects: Sequence[Dealt]) -> tuple[Guess, ...]:
    """Return the guess that explains a wrong balance in an answer of a player whose account is right at the end."""
    matched = tuple(suspects[:MOST_NAMED] or dealt[:1])
    words = "the error of an answer; the account is right at the end"
    return (Guess(MoneyMistake.WRONG_BALANCE_SHOWN, gap_cents, matched, words, _SHOWN),) if matched else ()


def _best(fitting: Sequence[Guess], suspects: Sequence[Dealt]) -> tuple[Guess, ...]:
    level = max(guess.level for guess in fitting)
    best = [guess for guess in fitting if guess.level == level]
    may_be = set(suspects)
    suspected = [guess for guess in best if not may_be.isdisjoint(guess.matched)]
    return tuple(suspected or best)


def _in_a_crowd(fitting: Iterable[Guess], suspects: Sequence[Dealt]) -> Iterator[Guess]:
    """Yield *fitting*; what left no trace beside many calls at once may have been overwritten by one of them."""
    for guess in fitting:
        is_lost = guess.mistake is MoneyMistake.NOT_BOOKED and len(suspects) > MOST_NAMED
        yield replace(guess, mistake=MoneyMistake.LOST_UPDATE) if is_lost else guess


def _many(gap_cents: int, unusual: Iterable[Guess]) -> tuple[Guess, ...]:
    """Return the mistake that could have been made so often that it makes the gap: the sums of all were not tried."""
    most: defaultdict[MoneyMistake, dict[tuple[Dealt, ...], int]] = defaultdict(dict)
    for guess in unusual:
        if guess.cents * gap_cents > 0:
            before = most[guess.mistake].get(guess.matched, 0)
            most[guess.mistake][guess.matched] = max(before, guess.cents, key=abs)
    found = []
    for mistake, by_bet in most.items():
        smallest = sum(sorted(map(abs, by_bet.values()))[:2])
        if len(by_bet) > MOST_NAMED and smallest <= abs(gap_cents) <= abs(sum(by_bet.values())):
            words = f"{_NO_AMOUNT}, but perhaps that of more: of {len(by_bet)} bets and claims it may be a part"
            matched = tuple(each for some in by_bet for each in some)
            found.append(Guess(mistake, gap_cents, matched, words, VAGUE, is_open=True))
    return tuple(found)


def _crowd(gap_cents: int, suspects: Sequence[Dealt]) -> tuple[Guess, ...]:
    if len(suspects) <= MOST_NAMED:
        return ()
    words = f"{_NO_AMOUNT}. {len(suspects)} bets and claims ran together when it went wrong"
    return (Guess(MoneyMistake.LOST_UPDATE, gap_cents, tuple(suspects), words, VAGUE),)


def _rounding(gap_cents: int, dealt: Sequence[Dealt], suspects: Sequence[Dealt]) -> tuple[Guess, ...]:
    """Return that amounts are converted wrongly, if the gap is small beside what was moved."""
    moved_cents = sum(_moved_cents(each) for each in dealt)
    matched = tuple(suspects or dealt)
    if not matched or abs(gap_cents) > max(FEW_CENTS, moved_cents * _ROUNDED_PERCENT // 100):
        return ()
    first = f"one of {len(matched)} bets and claims"
    if len(matched) <= MOST_NAMED:
        first = " or ".join(each.subject for each in matched)
    words = f"{_NO_AMOUNT}. The balance was first wrong after {first}"
    return (Guess(MoneyMistake.ROUNDING, gap_cents, matched, words, VAGUE, is_open=len(matched) > 1),)


def _moved_cents(each: Dealt) -> int:
    if isinstance(each, DealtClaim):
        return each.planned.won_cents if each.state is ServiceState.PAID else 0
    jackpot_cents = each.planned.jackpot_cents if each.jackpot_paid else 0
    return each.accepted * each.planned.wager_cents + each.paid * each.planned.won_cents + jackpot_cents


def _all_alike(gap_cents: int, guesses: Iterable[Guess]) -> list[Guess]:
    """Return the mistakes that make the gap if they were made each time that they could be, more than once."""
    alike: defaultdict[tuple[MoneyMistake, str], dict[tuple[Dealt, ...], Guess]] = defaultdict(dict)
    for guess in guesses:
        # Of one bet: once too often.
        if guess.cents * gap_cents > 0:
            alike[guess.mistake, guess.operation].setdefault(guess.matched, guess)
    return [
        _sum_of(list(found.values()), f"all {len(found)}: ")
        for found in alike.values()
        if len(found) > 1 and sum(guess.cents for guess in found.values()) == gap_cents
    ]


def _sums(gap_cents: int, guesses: Iterable[Guess]) -> list[Guess]:
    """
    Return what makes the gap two at a time, or else three at a time: one mistake, of bets that are not the same.

    Nothing is returned where so many sums are tried that one would fit a gap of this size by chance.
    """
    by_mistake: defaultdict[MoneyMistake, list[Guess]] = defaultdict(list)
    for guess in guesses:
        if 0 < guess.cents * gap_cents < gap_cents**2:
            by_mistake[guess.mistake].append(guess)
    tried = 0
    for size in (2, 3):
        tried += sum(comb(len(alike), size) for alike in by_mistake.values())
        if tried * _CENTS_PER_SUM > abs(gap_cents):
            break
        found = [
            _sum_of(some)
            for alike in by_mistake.values()
            for some in combinations(alike, size)
            if sum(guess.cents for guess in some) == gap_cents and len({guess.matched for guess in some}) == size
        ]
        if found:
            return found
    return []


def _sum_of(some: Sequence[Guess], first: str = "") -> Guess:
    named = "; ".join(guess.words for guess in islice(some, MOST_NAMED))
    more = f"; and {len(some) - MOST_NAMED} more" if len(some) > MOST_NAMED else ""
    mistake, _ = Counter(guess.mistake for guess in some).most_common(1)[0]
    matched = tuple(dict.fromkeys(each for guess in some for each in guess.matched))
    operations = {guess.operation for guess in some}
    operation = operations.pop() if len(operations) == 1 else ""
    cents, level = sum(guess.cents for guess in some), min(guess.level for guess in some)
    return Guess(mistake, cents, matched, f"the sum of {first}{named}{more}", level, operation)


def _only_repeats(gap_cents: int, seen: Seen, idle: Set[int]) -> tuple[Guess, ...]:
    """Return the suspects' calls that came again, if no amount fits: then something else moves with them."""
    if len(seen.suspects) > MOST_NAMED:
        return ()
    late = idle | _after_wrong(seen)
    again = [(each, name) for each in seen.suspects for name in _OPERATIONS if _reached(each, name, late) > 1]
    if not again:
        return ()
    named = " and ".join(f"the {name} of {each.subject}" for each, name in again)
    words = f"{_NO_AMOUNT}. Of the bets at work when it went wrong, {named} came again"
    matched = tuple(dict.fromkeys(each for each, _ in again))
    operation = again[0][1] if len(again) == 1 else ""
    mistake, is_open = MoneyMistake.MOVED_BY_A_REPEAT, len(again) > 1
    return (Guess(mistake, gap_cents, matched, words, VAGUE, operation, is_open),)


def _after_wrong(seen: Seen) -> frozenset[int]:
    """Return the serials of the suspects' posts that were sent after the first wrong balance was reported."""
    sent = [one for each in seen.suspects for one in each.history]
    wrong = [one.post.serial for one in sent if seen.wrong_cents is not None and _balance(one) == seen.wrong_cents]
    return frozenset(one.post.serial for one in sent if wrong and one.post.serial > max(wrong))


def _guesses(each: Dealt, idle: Set[int]) -> Iterator[Guess]:
    """Yield in which ways a bet or claim may have gone wrong, and the gap that each makes; not by *idle* repeats."""
    if isinstance(each, DealtClaim):
        yield from _of_payment(each, each.planned.won_cents, "claim", idle, paid=each.state is ServiceState.PAID)
    else:
        yield from _of_withdraw(each, idle)
        if each.state is ServiceState.CLOSED:
            yield from _of_payment(each, each.planned.won_cents, "win", idle, paid=each.paid)
            if each.planned.jackpot_cents:
                yield from _of_payment(each, each.planned.jackpot_cents, "jackpot", idle, paid=each.jackpot_paid)
        if each.state is ServiceState.ROLLED_BACK:
            yield from _of_rollback(each, idle)
    yield from _of_extras(each)


def _of_withdraw(bet: DealtBet, idle: Set[int]) -> Iterator[Guess]:
    wager, name, sent = bet.planned.wager_cents, f"the wager of {bet.subject}", _reached(bet, "withdraw", idle)
    if bet.state is ServiceState.REFUSED:
        words = f"{name}, which was refused" + (f" and sent {sent} times" if sent > 1 else "")
        level = _UNUSUAL if sent > 1 else _PLAIN
        yield Guess(MoneyMistake.REFUSED_AND_DEBITED, -wager, (bet,), words, level, "withdraw")
        return
    if bet.state is ServiceState.ROLLED_BACK and bet.cancelled_unseen:
        rolled_back = next((str(answer) for call, answer in bet.definite() if isinstance(call, RollbackCall)), "")
        withdrawn = next((str(answer) for call, answer in bet.definite() if isinstance(call, WithdrawCall)), "")
        words = f"{name}, whose rollback came before its withdraw and was answered {rolled_back or 'nothing'}"
        words += f"; the withdraw then {withdrawn}" if withdrawn else ""
        level = _SHOWN if bet.accepted else _UNUSUAL
        yield Guess(MoneyMistake.LATE_WITHDRAW, -wager, (bet,), words, level)
    if sent > 1:
        words = f"{name}, whose withdraw was sent {sent} times"
        yield from _times(MoneyMistake.DEBITED_AGAIN, -wager, bet, words, sent, "withdraw")
    if bet.accepted and bet.state is not ServiceState.ROLLED_BACK:
        words = f"the wager of {bet.subject}, as if its withdraw had taken nothing"
        yield Guess(MoneyMistake.NOT_BOOKED, wager, (bet,), words, _PLAIN, "withdraw")


def _of_payment(each: Dealt, cents: int, what: str, idle: Set[int], *, paid: bool) -> Iterator[Guess]:
    sent = _reached(each, "deposit", idle, is_claim=what != "win")
    name = f"the amount of {each.subject}" if what == "claim" else f"the {what} of {each.subject}"
    hurried = isinstance(each, DealtBet) and each.hurried and what == "win"
    if hurried:
        # Paid when it came too early, and again later; or not at all.
        for gap in (cents, -cents):
            words = f"{name}, whose deposit came before its withdraw"
            yield Guess(MoneyMistake.EARLY_DEPOSIT, gap, (each,), words, _UNUSUAL, "deposit")
    elif sent > 1:
        words = f"{name}, whose deposit was sent {sent} times"
        yield from _times(MoneyMistake.CREDITED_AGAIN, cents, each, words, sent, "deposit")
    if paid and not hurried:
        words = f"{name}, as if its deposit had paid nothing"
        yield Guess(MoneyMistake.NOT_BOOKED, -cents, (each,), words, _PLAIN, "deposit")


def _of_rollback(bet: DealtBet, idle: Set[int]) -> Iterator[Guess]:
    wager, sent = bet.planned.wager_cents, _reached(bet, "rollback", idle)
    name = f"the wager of {bet.subject}"
    if not bet.accepted:
        words = f"{name}, which was never taken, and whose rollback was sent {_times_in_words(sent)}"
        yield from _times(MoneyMistake.REFUNDED_UNSEEN, wager, bet, words, sent + 1, "rollback")
        return
    if sent > 1:
        words = f"{name}, whose rollback was sent {sent} times"
        yield from _times(MoneyMistake.CREDITED_AGAIN, wager, bet, words, sent, "rollback")
    else:
        words = f"{name}, as if its rollback had given it back twice"
        yield Guess(MoneyMistake.CREDITED_AGAIN, wager, (bet,), words, _PLAIN, "rollback")
    words = f"{name}, as if its rollback had given nothing back"
    yield Guess(MoneyMistake.NOT_REFUNDED, -wager, (bet,), words, _PLAIN, "rollback")


def _of_extras(each: Dealt) -> Iterator[Guess]:
    for sent in each.history:
        extra, call = sent.post.extra, sent.call
        mistake = None if extra is None else _OF_EXTRA.get(extra)
        if mistake is None:
            continue
        amount = call.amount_cents or 0
        cents = -amount if isinstance(call, WithdrawCall) else amount
        level = _SHOWN if sent.answer.succeeded else _PLAIN
        words = f"the {amount_from_cents(amount)} of a {call.operation} of {each.subject} with the fault {extra}"
        yield Guess(mistake, cents, (each,), words, level, call.operation)
        # A cent is many a gap, so it counts only if the wallet accepted it.
        if extra is Fault.OTHER_CONTENT and sent.answer.succeeded and (real := _real_amount(each, call)):
            gap = (amount - real) * (-1 if isinstance(call, WithdrawCall) else 1)
            words = f"the difference to another {call.operation} of {each.subject}, of {amount_from_cents(amount)}"
            yield Guess(mistake, gap, (each,), words, level, call.operation)


def _real_amount(each: Dealt, changed: MovingCall) -> int | None:
    same = (sent.call for sent in each.history if sent.post.is_genuine)
    return next(
        (call.amount_cents for call in same if (call.operation, call.tx_id) == (changed.operation, changed.tx_id)), None
    )


def _times(mistake: MoneyMistake, cents: int, each: Dealt, words: str, sent: int, operation: str) -> Iterator[Guess]:
    for times in range(1, min(sent, _MOST_TIMES + 1)):
        told = words if times == 1 else f"{times} times {words}"
        yield Guess(mistake, times * cents, (each,), told, _UNUSUAL, operation)


def _reached(each: Dealt, operation: str, idle: Set[int], *, is_claim: bool | None = None) -> int:
    """Return how often a call may have reached the wallet, without *idle* posts."""
    return sum(
        sent.call.operation == operation
        and sent.post.is_genuine
        and sent.post.manner is not Fault.REQUEST_LOST
        and sent.post.serial not in idle
        and (is_claim is None or (isinstance(sent.call, DepositCall) and sent.call.is_claim) is is_claim)
        for sent in each.history
    )


def _times_in_words(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
