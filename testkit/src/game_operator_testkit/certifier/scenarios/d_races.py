"""Group D, many at once: calls that cross on their way into the wallet (spec §3, §6)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, Literal, TypeAlias, TypeVar

from game_operator.codes import OPERATORS_RULES
from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import WebhookCall
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.calls import moved_by
from game_operator_testkit.certifier.engine.diagnosis import WITHDRAW
from game_operator_testkit.certifier.engine.stage import Stage, time_of
from game_operator_testkit.certifier.engine.steps import Found, NotTried
from game_operator_testkit.certifier.report.verdicts import BALANCE_PATH, KnownCause, Symptom, SymptomKind, Weight
from game_operator_testkit.certifier.scenarios.bodies import batch
from game_operator_testkit.certifier.scenarios.processes import check_ends_anywhere
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.latency import MARKS_MS, percentile
from game_operator_testkit.provider.requests import BetCalls, Request

T = TypeVar("T")
#: Which of the wallet's processes.
Place: TypeAlias = Literal["wallet", "second"]

_MANY: Final = 64
_FITTING: Final = 33
_BETS_FOR_ALL: Final = 8
_ROUNDS: Final = 40
_FEWEST_ROUNDS: Final = 2
_MOST_AT_ONCE: Final = 200
_IDENTICAL: Final = 20
#: So many times one rollback is sent at once, and on so many bets: a refund that is not locked is seldom given twice.
_REFUNDED_BY: Final = 10
_REFUNDS: Final = 5
_PAIRS: Final = 10
_RIVALS: Final = 6
_PAIRS_AT_ONCE: Final = 20
#: With a slow wallet.
_FEWEST_PAIRS: Final = 3
_FEWEST_LOAD_STEPS: Final = 6
_FEWEST_STEPS: Final = 2
_FEWEST_IDENTICAL: Final = 6
#: How often; in process, where calls are at once for certain, fewer times show as much.
_STEPS: Final = 10
_STEPS_IN_PROCESS: Final = 3
_LOAD_STEPS: Final = 45
_LOAD_STEPS_IN_PROCESS: Final = 12
_AIM_MS, _LIMIT_MS = MARKS_MS
_WITHDRAWS: Final = 12
#: What a race between the check of a withdraw and its debit looks like.
_OVERTAKEN: Final = (KnownCause.OVERDRAWN, KnownCause.LOST_UPDATE)
#: Answers to a withdraw that say nothing of others.
_OF_THE_CALL: Final = (None, Code.INSUFFICIENT_BALANCE, Code.INVALID_REQUEST)
#: Answers to a rollback that say something of its bet, or of no call's content.
_OF_A_BET: Final = frozenset(Code) - OPERATORS_RULES - {Code.INSUFFICIENT_BALANCE}
_READS: Final = 4
#: A time that is taken before the lock seldom shows.
_ORDERED_ROUNDS: Final = 5
#: And so many rounds are played if two balances have one timestamp.
_MOST_ORDERED_ROUNDS: Final = 40
#: A clock may tick as slowly as that: Windows has some.
_TICK_MILLIS: Final = 20


def d01(at: Stage) -> None:
    """As many withdraws as the balance pays for are accepted, each has its own balance; all are refunded at once."""
    wager_cents = max(1, at.player.due_cents // _FITTING)
    if at.observed.is_limited:
        wager_cents = min(wager_cents, at.unit_cents)
    fitting = at.player.due_cents // wager_cents
    many = fitting + _MANY - _FITTING
    if many > _MOST_AT_ONCE:
        raise NotTried(f"within the wallet's limit it takes {fitting} withdraws to wager the whole balance")
    before_cents, bets = at.player.due_cents, [at.bet(wager_cents=wager_cents) for _ in range(many)]
    heard = _placed_at_once(at, bets)
    at.check_balances(at.player)
    taken = [each for each in heard if each.succeeded]
    _check_each_its_own(at, taken, before_cents, wager_cents)
    placed = [bet for bet, each in zip(bets, heard, strict=True) if each.succeeded]
    at.refunded(placed)
    _refunded_once(at, placed)


def d10(at: Stage) -> None:
    """Each time one of them is accepted, and the others are refused."""
    for _ in range(at.observed.times(_ROUNDS, _FEWEST_ROUNDS)):
        bets = [at.bet(wager_cents=at.player.due_cents) for _ in range(_BETS_FOR_ALL)]
        heard = _placed_at_once(at, bets)
        at.refunded([bet for bet, each in zip(bets, heard, strict=True) if each.succeeded])


def _placed_at_once(at: Stage, bets: Sequence[BetCalls]) -> list[Carried]:
    """Place equal *bets*, all at once, and hold that as many are accepted as the balance pays for."""
    before_cents, wager_cents = at.player.due_cents, bets[0].wager_cents
    heard = at.answered([at.request(bet.withdraw(), f"one of {len(bets)} withdraws at once") for bet in bets])
    taken = sum(each.succeeded for each in heard)
    at.player.due_cents -= wager_cents * taken
    for each in heard:
        at.check_unlimited(each, asked=True)
    is_refused_alone = not taken and WITHDRAW not in at.observed.accepted
    if is_refused_alone or all(each.code == Code.INVALID_REQUEST for each in heard):
        at.check_success(heard[0])  # A call that is not understood takes no part in a race.
    if taken != before_cents // wager_cents:
        found = _wrongly_accepted(at, bets, heard, before_cents)
        at.observed.overtaken = at.observed.overtaken or found.cause in _OVERTAKEN
        raise found
    for each in heard:
        if not each.succeeded:
            at.check_code(each, Code.INSUFFICIENT_BALANCE)
    return heard


def _wrongly_accepted(at: Stage, bets: Sequence[BetCalls], heard: Sequence[Carried], before_cents: int) -> Found:
    """Return what is wrong where more or fewer withdraws at once were accepted than were paid."""
    wager_cents, taken = bets[0].wager_cents, sum(each.succeeded for each in heard)
    left_cents, fitting = at.balance_of(at.player), before_cents // wager_cents
    told = f"{taken} of {len(heard)} withdraws at once were accepted, and the balance paid for {fitting}"
    busy = next((each for each in heard if each.code not in _OF_THE_CALL), None)
    if taken < fitting and busy is not None and left_cents == at.player.due_cents:
        cause = at.cause_in_itself(busy) or at.cause_among_others(busy) or KnownCause.BUSY
        return Found(f"{told}; others were refused with {busy.code}", cause=cause, place=busy.place)
    told = f"{told}: {units(left_cents)} is left of {units(before_cents)}"
    if not taken and wager_cents == before_cents and all(each.code == Code.INSUFFICIENT_BALANCE for each in heard):
        at.check_balances(at.player)  # Or the last refund was not what was taken.
        return Found(told, cause=KnownCause.NOT_ALL)
    if left_cents == at.player.due_cents:
        if taken > fitting:
            return Found(told, cause=KnownCause.OVERDRAWN)
        refused = " and ".join(sorted({each.code or "" for each in heard if not each.succeeded}))
        is_no_funds = left_cents >= wager_cents and refused == Code.INSUFFICIENT_BALANCE
        return Found(f"{told}; others were refused with {refused}", cause=KnownCause.NO_FUNDS if is_no_funds else "")
    # Each bet gives back what it is said to have paid. If that is what was taken, the answers were other bets'.
    for bet in bets:
        at.send(at.request(bet.rollback(), "a rollback, to see what the bet had paid"))
    taken_cents, back_cents = before_cents - left_cents, at.balance_of(at.player) - left_cents
    told = f"{told}. Rollbacks of all these bets gave back {units(back_cents)}, "
    if back_cents == taken_cents:
        return Found(f"{told}exactly what was taken: answers belong to other bets", cause=KnownCause.SAME_REPLY)
    told = f"{told}and {units(taken_cents)} was taken"
    if taken_cents > wager_cents * taken:
        # Where one debit overwrites another, too much is left.
        told += f". The accepted wagers are {units(wager_cents * taken)}: too much was debited"
        return Found(told, cause=KnownCause.DEBITED_MORE)
    return Found(told, cause=KnownCause.LOST_UPDATE)


def _check_each_its_own(at: Stage, taken: Sequence[Carried], before_cents: int, wager_cents: int) -> None:
    """Hold that each of equal withdraws returned the balance that it left, so that no two returned the same."""
    left = set(range(before_cents - wager_cents * len(taken), before_cents, wager_cents))
    bodies = Counter(each.body for each in taken)
    for each in taken:
        if each.balance_cents not in left:
            told = f"returned a balance of {units(each.balance_cents or 0)}, which is not its own"
            cause, twins = KnownCause.WRONG_BALANCE, bodies[each.body]
            if twins > 1:
                told, cause = f"{told}: {twins} of them got the same answer, byte for byte", KnownCause.SAME_REPLY
            at.note(told, Weight.CONTRACT_BROKEN, cause, each)
            return
        left.remove(each.balance_cents)


def d02(at: Stage) -> None:
    """One debit, one credit, and forty times SUCCESS; and of rollbacks and jackpots one refund and one credit."""
    _bet_of_identical(at, ("wallet",))
    for _ in range(at.observed.times(_REFUNDS, 1)):
        bet = at.placed()
        so_far = "; the same withdraw and the same deposit, sent so, moved once"
        at.suspects = {each * bet.wager_cents: (KnownCause.REFUNDED_TWICE, so_far) for each in range(1, _REFUNDED_BY)}
        _identical(at, bet.rollback(), "one of ten identical rollbacks at once", times=_REFUNDED_BY)
        at.check_balances(at.player)
    for jackpot in at.jackpots():
        at.suspects = {}
        _identical(at, jackpot, "one of ten identical jackpots at once", times=10)
    at.check_balances(at.player)


def d03(at: Stage) -> None:
    """Debited and refunded, or never debited: whichever comes first, the balance is as before."""
    for number in range(at.observed.times(_PAIRS, _FEWEST_PAIRS)):
        bet = at.bet()
        withdraw, rollback = _crossing(at, number, bet.withdraw(), bet.rollback())
        _check_net_zero(at, withdraw, rollback)
        if withdraw.body == rollback.body:
            both = "; both calls got the same answer, byte for byte"
            at.suspects = {-bet.wager_cents: (KnownCause.SAME_REPLY, both)}
        at.check_balances(at.player, after=rollback)
        at.suspects = {}


def d04(at: Stage) -> None:
    """Exactly one of them is accepted, and the balance agrees."""
    for number in range(at.observed.times(_PAIRS, _FEWEST_PAIRS)):
        bet = at.placed()
        won_cents = bet.wager_cents * 3
        deposit, rollback = _crossing(at, number, bet.deposit(won_cents), bet.rollback())
        if deposit.succeeded is rollback.succeeded:
            raise _both_or_neither(at, deposit, rollback, won_cents, bet.wager_cents)
        winner, loser = (deposit, rollback) if deposit.succeeded else (rollback, deposit)
        at.player.due_cents += won_cents if deposit.succeeded else bet.wager_cents
        at.check_balances(at.player, after=winner)
        at.check_code(loser, Code.BET_ALREADY_CLOSED if deposit.succeeded else Code.BET_ROLLED_BACK)


def _both_or_neither(at: Stage, deposit: Carried, rollback: Carried, won_cents: int, wager_cents: int) -> Found:
    """Return what is wrong where a deposit and a rollback of one bet have ended alike."""
    moved_cents = at.balance_of(at.player) - at.player.due_cents
    moved = f"and the balance moved by {units(abs(moved_cents))}"
    # One of them was carried out, and the other's answer went to both; refusals without a time are all alike.
    is_one_reply = deposit.body == rollback.body and time_of(deposit) and moved_cents in (won_cents, wager_cents)
    cause = KnownCause.SAME_REPLY if is_one_reply else ""
    # Where debits are overwritten, both may have been paid, and one of the two movements lost.
    if deposit.succeeded and not cause and not at.observed.overtaken:
        # One of the two was paid, and the other only said to be.
        due = {wager_cents: (deposit, Code.BET_ROLLED_BACK), won_cents: (rollback, Code.BET_ALREADY_CLOSED)}
        if moved_cents in due:
            at.player.due_cents += moved_cents
            at.accepted_wrongly(due[moved_cents][0], at.player, due[moved_cents][1])
    if deposit.succeeded:
        told = f"a deposit of {units(won_cents)} and a rollback of {units(wager_cents)} of one bet were both accepted"
        return Found(f"{told}, {moved}", cause=cause, place=rollback.place)
    told = f"of a deposit and a rollback at once neither was accepted: {deposit.code} and {rollback.code}, {moved}"
    return Found(told, weight=Weight.MONEY_LOST, cause=cause, place=deposit.place)


def d05(at: Stage) -> None:
    """Each withdraw is followed by its loss or win while others are placed; at the end both balances are exact."""
    is_on_wire = "wire" in at.supplied
    steps = at.observed.times(_LOAD_STEPS if is_on_wire else _LOAD_STEPS_IN_PROCESS, _FEWEST_LOAD_STEPS)
    placed: list[BetCalls] = []
    for number in range(steps + 1):
        due, won = placed, 2 * (number % 2)
        placed = [at.bet(player) for player in (at.player, at.other) * 2] if number < steps else []
        calls: list[WebhookCall] = [bet.withdraw() for bet in placed]
        calls += (bet.deposit(bet.wager_cents * won) for bet in due)
        heard = at.answered([at.request(call, f"a {call.operation} under load") for call in calls])
        _check_own_balances(at, calls, heard)
        for call, each in zip(calls, heard, strict=True):
            at.check_success(each)
            at.playing[call.player_id].due_cents += moved_by(call)
            at.observed.load_ms.append(each.elapsed_ms)
    if not is_on_wire:
        return
    slow, usual = (percentile(sorted(at.observed.load_ms), percent) for percent in (99, 50))
    if slow > _LIMIT_MS:
        at.advise(f"under load 99 of 100 calls are answered within {slow:.0f} ms, and the mark is {_LIMIT_MS} ms")
    if usual > _AIM_MS:
        at.advise(f"under load half of the calls take more than {usual:.0f} ms, and the aim is {_AIM_MS} ms")


def _check_own_balances(at: Stage, calls: Sequence[WebhookCall], heard: Sequence[Carried]) -> None:
    """Hold that each balance is one that its player may have had while these calls were under way."""
    for player in (at.player, at.other):
        moves = [moved_by(call) for call in calls if call.player_id == player.id]
        least = player.due_cents + sum(cents for cents in moves if cents < 0)
        most = player.due_cents + sum(cents for cents in moves if cents > 0)
        for call, each in zip(calls, heard, strict=True):
            told = each.balance_cents
            if call.player_id == player.id and told is not None and not least <= told <= most:
                reason = f"returned a balance of {units(told)}; {player.id} had {units(least)} to {units(most)}"
                at.note(reason, Weight.CONTRACT_BROKEN, KnownCause.WRONG_BALANCE, each)
                return


def d06(at: Stage) -> None:
    """One debit and one credit, and one end of each bet, whichever of the processes is asked."""
    if "second_url" in at.supplied:
        _bet_of_identical(at, ("wallet", "second"))
    check_ends_anywhere(at)


def d07(at: Stage) -> None:
    """Of withdraws at once, a later timestamp never has a higher balance; in turn, times never go backwards."""
    places: tuple[Place, ...] = ("wallet", "second") if "second_url" in at.supplied else ("wallet",)
    _check_order_at_once(at, places)
    # Withdraws and balance checks in turn, each at another process if there are two.
    last: Carried | None = None
    bets = [at.bet() for _ in range(3)]
    for number, bet in enumerate(bets):
        if number and "wire" in at.supplied and not at.observed.is_slow:
            at.pause(2 * _TICK_MILLIS / 1_000)
        withdraw = at.request(bet.withdraw(), "a withdraw in turn"), -bet.wager_cents
        for request, moves in (withdraw, (at.balance_request("a player-balance in turn"), 0)):
            heard = at.accepts(replace(request, at=places[number % len(places)]), moves=moves)
            if last is not None and _cents(heard) != _cents(last):
                _check_time_after(at, last, heard)
            last = heard
    at.refunded(bets)


def _check_time_after(at: Stage, last: Carried, heard: Carried) -> None:
    """Note a timestamp that is earlier than the last one, or the same although a clock has ticked in between."""
    if time_of(heard) < time_of(last):
        _note_backwards(at, last, heard)
    apart = heard.began_millis - last.began_millis - last.elapsed_ms
    is_coarse = time_of(heard) % 1_000 == 0
    if time_of(heard) == time_of(last) and apart >= _TICK_MILLIS and not is_coarse:
        told = f"it has the timestamp of the answer {apart:.0f} ms before it, whose balance was {units(_cents(last))}"
        at.note(told, Weight.CONTRACT_BROKEN, "", heard)


def _check_order_at_once(at: Stage, places: Sequence[Place]) -> None:
    """Play rounds of withdraws at once; more of them if two balances have one timestamp, until the order is wrong."""
    shared: Carried | None = None
    for number in range(_ORDERED_ROUNDS if at.observed.is_slow else _MOST_ORDERED_ROUNDS):
        is_enough = number >= at.observed.times(_ORDERED_ROUNDS, 1) and shared is None
        if is_enough or any(note.weight is not Weight.ADVICE for note in at.notes):
            return
        heard = _ordered_at_once(at, places)
        shared = shared or _with_the_time_of_another(heard)
    if shared is not None:
        at.advise("two balances of one player have the same timestamp; which of them is newer?", shared)


def _ordered_at_once(at: Stage, places: Sequence[Place]) -> list[Carried]:
    """Return the answers to withdraws and balance checks at once, whose order was looked at."""
    bets = [at.bet() for _ in range(_WITHDRAWS)]
    asked = [
        *(at.request(bet.withdraw(), f"one of {_WITHDRAWS} withdraws at once") for bet in bets),
        *[at.balance_request("a balance check among withdraws")] * _READS,
    ]
    # Reads among the withdraws, and each process with some of both.
    mixed = [asked[number * 5 % len(asked)] for number in range(len(asked))]
    heard = at.answered([replace(each, at=places[n % len(places)]) for n, each in enumerate(mixed)])
    for each in heard:
        at.check_success(each)
    _check_falling(at, heard)
    at.player.due_cents -= sum(bet.wager_cents for bet in bets)
    at.check_balances(at.player)
    at.refunded(bets)
    return heard


def _check_falling(at: Stage, heard: Sequence[Carried]) -> None:
    """Hold that, of withdraws and reads, what has the later time has no higher balance."""
    lowest: Carried | None = None
    backwards: list[tuple[Carried, Carried]] = []
    for each in sorted(heard, key=lambda each: (time_of(each), -_cents(each))):
        if lowest is not None and _cents(each) > _cents(lowest):
            backwards.append((each, lowest))
        else:
            lowest = each
    if backwards:
        # One that no other clock excuses, if there is any.
        _note_backwards(at, *min(backwards, key=lambda pair: _is_other_clock(*pair)))


def _with_the_time_of_another(heard: Sequence[Carried]) -> Carried | None:
    """Return a withdraw whose timestamp is that of another one with another balance, or None."""
    moved = sorted((each for each in heard if each.request.path == WITHDRAW), key=time_of)
    alike = (
        later
        for earlier, later in pairwise(moved)
        if time_of(earlier) == time_of(later) and _cents(earlier) != _cents(later)
    )
    return next(alike, None)


def _note_backwards(at: Stage, stale: Carried, newer: Carried) -> None:
    later = time_of(stale) - time_of(newer)
    told = f"the balance {units(_cents(stale))} is older than {units(_cents(newer))}"
    weight = Weight.ADVICE if _is_other_clock(stale, newer) else Weight.CONTRACT_BROKEN
    at.note(f"{told}, and its timestamp is {later} ms later", weight, "", stale)


def _is_other_clock(stale: Carried, newer: Carried) -> bool:
    """Whether another process has read; a read leaves no trace for one whose clock is behind (docs/decisions/0014)."""
    return stale.request.path == BALANCE_PATH and stale.request.at != newer.request.at


def _cents(heard: Carried) -> int:
    return heard.balance_cents or 0


def d08(at: Stage) -> None:
    """Never a debit beside a tombstone, in two hundred tries."""
    for _ in range(at.observed.times(_STEPS if "wire" in at.supplied else _STEPS_IN_PROCESS, _FEWEST_STEPS)):
        bets = [at.bet() for _ in range(_PAIRS_AT_ONCE)]
        requests: list[Request] = []
        for number, bet in enumerate(bets):
            withdraw = at.request(bet.withdraw(), "a withdraw against its rollback")
            rollback = at.request(bet.rollback(), "the rollback of a withdraw under way")
            requests += _turned(number, [withdraw, rollback])
        heard = at.answered(requests)
        pairs = [_turned(number, heard[2 * number : 2 * number + 2]) for number in range(_PAIRS_AT_ONCE)]
        for pair in pairs:
            _check_net_zero(at, *pair)
        _refunded_once(at, bets, late=sum(not placed.succeeded for placed, _ in pairs))
    at.check_balances(at.player)


def _refunded_once(at: Stage, bets: Sequence[BetCalls], *, late: int = 0) -> None:
    """Hold that rollbacks of equal *bets*, *late* of them before their withdraws, give nothing back again at once."""
    if at.observed.is_slow or at.observed.hides_money:
        return
    at.check_balances(at.player)
    heard = at.answered([at.request(bet.rollback(), "one of many rollbacks, sent again") for bet in bets])
    twice, rest = divmod(at.balance_of(at.player) - at.player.due_cents, bets[0].wager_cents)
    if rest or not 0 < twice <= len(bets):
        at.check_balances(at.player)
        return
    told = f"{twice} of {len(bets)} gave their wagers back once more"
    if 2 * twice > len(bets) or twice in (late, len(bets) - late):
        raise Found(told, heard[0], weight=Weight.MONEY_DOUBLED, symptom=Symptom("/rollback", SymptomKind.TOO_MUCH))
    raise Found(f"{told}; the others were known", heard[0], weight=Weight.MONEY_DOUBLED, cause=KnownCause.NOT_KEPT)


def d09(at: Stage) -> None:
    """One debit for each bet, both calls answered SUCCESS; and one credit for a deposit that a batch has twice."""
    bets = [at.bet() for _ in range(at.observed.times(_IDENTICAL, _FEWEST_IDENTICAL))]
    for bet in bets:
        _identical(at, bet.withdraw(), "one of two identical withdraws at once", times=2)
    at.suspects = {}
    if at.profile.deposit_batch:
        bet = bets.pop()
        deposit = bet.deposit(bet.wager_cents)
        heard = at.send(batch(at, (deposit, deposit), "a batch that has a deposit twice"))
        if heard.status != 200:
            raise Found(heard.problem or f"answered with HTTP {heard.status}", heard, weight=Weight.CONTRACT_BROKEN)
        at.player.due_cents += bet.wager_cents
        at.check_balances(at.player, after=heard)
    _rivals(at, bets.pop())
    for _ in range(at.observed.times(_RIVALS, 1)):
        _rivals(at)
    at.refunded(bets)


def _rivals(at: Stage, placed: BetCalls | None = None) -> None:
    """Two withdraws of a bet at once under two tx_ids, then two deposits: each moves its money once."""
    bet = placed or at.bet()
    if placed is None:
        calls: tuple[WebhookCall, ...] = (bet.withdraw(), bet.withdraw(tx_id=at.fresh("withdraw")))
        _one_of(at, calls, "a withdraw, at once with one of another tx_id")
    calls = (bet.deposit(bet.wager_cents), bet.deposit(bet.wager_cents, tx_id=at.fresh("deposit")))
    _one_of(at, calls, "a deposit, at once with one of another tx_id")


def _one_of(at: Stage, calls: Sequence[WebhookCall], title: str) -> None:
    heard = at.answered([at.request(call, title) for call in calls])
    accepted = [each for each in heard if each.succeeded]
    if not accepted:
        raise Found(f"refused with {heard[0].code}, and so was the other", heard[0])
    at.player.due_cents += moved_by(calls[0])
    at.check_balances(at.player, after=accepted[-1])
    if len(accepted) > 1:
        at.advise("both returned SUCCESS, and one moved its money", accepted[-1])


def _bet_of_identical(at: Stage, places: Sequence[Place]) -> None:
    bet = at.bet()
    for call in (bet.withdraw(), bet.deposit(bet.wager_cents * 2)):
        title = f"one of {_IDENTICAL} identical {call.operation}s at once"
        _identical(at, call, title, times=_IDENTICAL, places=places)
        at.check_balances(at.player)


def _identical(at: Stage, call: WebhookCall, title: str, *, times: int, places: Sequence[Place] = ("wallet",)) -> None:
    """Send *call* so many times at once, and hold that it moves its money once, and that each answer says so."""
    request = at.request(call, title)
    # Where a repeat alone moves money, too, it needs no race.
    if at.observed.overtaken and at.kind_of(request) in at.observed.repeated:
        as_well = "; of other withdraws at once some were debited without money, or overwritten, as well"
        at.suspects = {more * moved_by(call): (KnownCause.NOT_ENCLOSED, as_well) for more in range(1, times)}
    heard = at.answered([replace(request, at=places[number % len(places)]) for number in range(times)])
    if any(each.succeeded for each in heard):
        at.player.due_cents += moved_by(call)
    elif at.balance_of(at.player) - at.player.due_cents in (0, moved_by(call)):
        # It may have been carried out once, as far as its caller knows.
        at.check_success(heard[0], Weight.MONEY_LOST)
    odd = next((each for each in heard if not each.succeeded or each.balance_cents != at.player.due_cents), None)
    if odd is None:
        return
    at.check_balances(at.player, after=odd)
    for each in heard:
        if not each.succeeded:
            at.check_repeat(each, is_booked=True)
    at.check_balance(odd, at.player)


def _crossing(at: Stage, number: int, *calls: WebhookCall) -> list[Carried]:
    """Send two calls at once, every other time the second first."""
    requests = [at.request(each, f"a {each.operation}, both at once") for each in calls]
    return _turned(number, at.answered(_turned(number, requests)))


def _turned(number: int, pair: list[T]) -> list[T]:
    return pair[::-1] if number % 2 else pair


def _check_net_zero(at: Stage, withdraw: Carried, rollback: Carried) -> None:
    """Hold that a withdraw and its rollback agree on which was first; what moved is seen by the balance."""
    if withdraw.succeeded:
        if not rollback.succeeded:
            told = f"refused with {rollback.code}, and the withdraw was accepted at the same time"
            # Such a code says nothing of the bet: it is refused for what else is under way.
            cause = KnownCause.BUSY if rollback.code not in _OF_A_BET else at.cause_in_itself(rollback)
            cause = cause or at.cause_among_others(rollback)
            if rollback.code == Code.BET_NOT_FOUND:
                at.check_not_only_said(withdraw, at.player, Code.BET_ROLLED_BACK)
                cause = cause or at.cause_of_refusal(rollback)
            raise Found(f"{told}: the wager stays taken", rollback, cause=cause)
        return
    at.check_code(withdraw, Code.BET_ROLLED_BACK)
    if not rollback.succeeded:
        at.check_code(rollback, Code.BET_NOT_FOUND)
    elif at.profile.unknown_rollback != "success":
        told = f"returned SUCCESS without moving money; {Code.BET_NOT_FOUND} is assumed, and no harm is done"
        at.note(told, Weight.ADVICE, KnownCause.UNKNOWN_ROLLBACK, rollback)
