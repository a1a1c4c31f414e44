"""Group D, many at once: what timestamps say about balances. A SUCCESS has both (spec §2.1)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from game_operator.certify.engine.concurrent_calls import Place, answered, refunded
from game_operator.certify.engine.scenario import Play, scenario
from game_operator.certify.engine.stage import Judging, Stage, units
from game_operator.certify.report.verdicts import Weight
from game_operator.models.webhooks import BalanceCall
from game_operator.provider.requests import Heard

_WITHDRAWS: Final = 12
_READS: Final = 4


@scenario(
    "D07",
    "timestamps put a player's balances in order",
    Weight.CONTRACT_BROKEN,
    rests_on="spec §2.1, decision 0012",
    means="The service shows the balance of the latest timestamp. If that is an older balance, the player sees money "
    "that is gone, or misses money that was won.",
    mend="Take the timestamp while the account's row is locked, store it with the balance, and never tell one before "
    "the last: max(clock, last + 1) for a movement, max(clock, last) for a read.",
    stage="at once",
)
def d07(at: Stage) -> Play:
    """Of withdraws at once, a later timestamp never has a higher balance; in turn, times never go backwards."""
    places: tuple[Place, ...] = ("wallet", "second") if "second_url" in at.supplied else ("wallet",)
    yield from _ordered_at_once(at, places)
    yield from _ordered_in_turn(at, places)


def _ordered_at_once(at: Stage, places: Sequence[Place]) -> Judging:
    bets = [at.bet() for _ in range(_WITHDRAWS)]
    asked = [
        *(at.request(bet.withdraw(), f"one of {_WITHDRAWS} withdraws at once") for bet in bets),
        *[at.request(BalanceCall(player_id=at.player.id), "a balance check among withdraws")] * _READS,
    ]
    # Reads among the withdraws, and each process with some of both.
    mixed = [asked[number * 5 % len(asked)] for number in range(len(asked))]
    heard = yield from answered(at, [replace(each, at=places[n % len(places)]) for n, each in enumerate(mixed)])
    for each in heard:
        at.check_success(each)
    _check_falling(at, heard)
    at.player.due_cents -= sum(bet.wager_cents for bet in bets)
    yield from at.holds(at.player)
    yield from refunded(at, bets)


def _check_falling(at: Stage, heard: Sequence[Heard]) -> None:
    """Hold that, of withdraws and reads, what has the later time has no higher balance."""
    lowest: Heard | None = None
    for each in sorted(heard, key=lambda each: (_time(each), -_cents(each))):
        if lowest is not None and _cents(each) > _cents(lowest):
            _note_backwards(at, each, lowest)
            return
        lowest = each
    moved = sorted((each for each in heard if each.request.path == "/withdraw"), key=_time)
    for earlier, later in pairwise(moved):
        if _time(earlier) == _time(later) and _cents(earlier) != _cents(later):
            at.advise("two balances of one player have the same timestamp; which of them is newer?", later)
            return


def _ordered_in_turn(at: Stage, places: Sequence[Place]) -> Judging:
    """Withdraws and balance checks in turn, each at another process if there are two."""
    last: Heard | None = None
    bets = [at.bet() for _ in range(3)]
    for number, bet in enumerate(bets):
        for call in (bet.withdraw(), BalanceCall(player_id=at.player.id)):
            request = replace(at.request(call, f"a {call.operation} in turn"), at=places[number % len(places)])
            heard = yield from at.accepts(request, moves=0 if isinstance(call, BalanceCall) else -bet.wager_cents)
            if last is not None and _cents(heard) != _cents(last) and _time(heard) < _time(last):
                _note_backwards(at, last, heard)
            last = heard
    yield from refunded(at, bets)


def _note_backwards(at: Stage, stale: Heard, newer: Heard) -> None:
    later = _time(stale) - _time(newer)
    told = f"{stale.request.title}: the balance {units(_cents(stale))} is older than {units(_cents(newer))}"
    # A read leaves no trace, so a process whose clock is behind cannot know of it (docs/decisions/0014).
    is_other_clock = stale.request.path == "/player-balance" and stale.request.at != newer.request.at
    weight = Weight.ADVICE if is_other_clock else Weight.CONTRACT_BROKEN
    at.note(f"{told}, and its timestamp is {later} ms later", weight, "", stale)


def _time(heard: Heard) -> int:
    return 0 if heard.reply is None else heard.reply.timestamp or 0


def _cents(heard: Heard) -> int:
    return heard.balance_cents or 0
