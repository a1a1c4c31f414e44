"""Group H, time and failure: slow answers, outages, odd clocks, and connections that break (spec §3, §4.1)."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import BalanceCall, MovingCall, WebhookCall
from game_operator_testkit.certifier.engine.calls import moved_by
from game_operator_testkit.certifier.engine.stage import Stage, time_of
from game_operator_testkit.certifier.engine.steps import Found, NotTried
from game_operator_testkit.certifier.report.verdicts import Weight
from game_operator_testkit.certifier.scenarios.e_callers import named
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.latency import MARKS_MS
from game_operator_testkit.provider.requests import Manner

_AIM_MS, _LIMIT_MS = MARKS_MS
_MOST_SKEW_MILLIS: Final = 5_000
#: Local times differ from UTC by a multiple of a quarter of an hour.
_ZONES_MILLIS: Final = 900_000
#: After so long a timestamp is another one, and nearer to now.
_STANDS_STILL_MILLIS: Final = 100
_BROKEN_BETS: Final = 8
#: Every so many calls are sent whole, and their answers read.
_WHOLE: Final = 3


def h01(at: Stage) -> None:
    """Calls in turn are answered within 500 ms, and better within 100 ms."""
    bet, check = at.bet(), BalanceCall(player_id=at.player.id)
    calls = (check, bet.withdraw(), check, bet.deposit(bet.wager_cents), check)
    usual = median(at.accepts(call, f"a {call.operation}, one at a time").elapsed_ms for call in calls)
    if usual > _LIMIT_MS:
        at.advise(f"an answer takes {usual:.0f} ms, one call at a time; a service gives up after about {_LIMIT_MS} ms")
    elif usual > _AIM_MS:
        at.advise(f"an answer takes {usual:.0f} ms, one call at a time; {_AIM_MS} ms is a better aim")


def h02(at: Stage) -> None:
    """While it fails nothing is promised and nothing moves; afterwards the same calls are carried out."""
    paid, refunded, late = at.bet(), at.bet(), at.bet()
    at.placed(paid, refunded, title="a withdraw before the outage")
    calls: list[WebhookCall] = [late.withdraw(), paid.deposit(paid.wager_cents * 2), refunded.rollback()]
    requests = [at.request(call, f"a {call.operation} during an outage") for call in calls]
    heard = at.during("fail", "recover", requests)
    at.insisted(at.balance_request("a balance check after the outage"))
    _check_outage(at, heard)
    for call in calls:
        settled = at.insisted(at.request(call, f"the {call.operation} after the outage"))
        at.check_moved(settled, at.player, moved_by(call))


def _check_outage(at: Stage, heard: Sequence[Carried]) -> None:
    """Hold that the answers of a failing wallet promised nothing, and that nothing moved."""
    balance_cents = at.balance_of(at.player)
    for each in heard:
        if each.succeeded and balance_cents != at.player.due_cents:
            raise NotTried("the wallet went on working after fail()")
        if each.succeeded:
            raise Found("returned SUCCESS, and nothing moved", each)
    at.check_balances(at.player, after=heard[-1])
    for each in heard:
        if not at.is_unanswered(each):
            told = f"refused with {each.code}, which the service takes for final"
            raise Found(f"{told}; SYSTEM_ERROR tells the service to send it again", each)
    for each in heard:
        if each.reply is None or each.status != 200:
            told = f"answered with HTTP {each.status}" if each.status else each.problem
            at.advise(f"{told}; expected SYSTEM_ERROR with HTTP 200 (spec §4.1)", each)
            return


def h04(at: Stage) -> None:
    """Over several answers, the timestamps agree with the certifier's clock."""
    bet, check = at.bet(), BalanceCall(player_id=at.player.id)
    calls = (check, bet.withdraw(), bet.deposit(bet.wager_cents), check)
    heard = [at.accepts(call, f"a {call.operation}") for call in calls]
    # Each answer was written at some moment in between.
    skew_millis = median(time_of(each) - each.began_millis - each.elapsed_ms / 2 for each in heard)
    if abs(skew_millis) > _MOST_SKEW_MILLIS:
        ahead = "ahead of" if skew_millis > 0 else "behind"
        told = f"the wallet's clock is {abs(skew_millis) / 1000:.0f} s {ahead} the certifier's"
        zone_millis = round(skew_millis / _ZONES_MILLIS) * _ZONES_MILLIS
        if zone_millis and abs(skew_millis - zone_millis) <= _MOST_SKEW_MILLIS:
            told += ", as if local time were taken for UTC"
            raise Found(told, heard[-1], weight=Weight.CONTRACT_BROKEN)
        at.advise(told, heard[-1])
    at.pause(_STANDS_STILL_MILLIS / 1_000)
    later = at.accepts(check, "a player-balance a moment later")
    is_coarse = time_of(later) % 1_000 == 0
    if time_of(later) == time_of(heard[-1]) < later.began_millis - _STANDS_STILL_MILLIS / 2 and not is_coarse:
        told = f"{_STANDS_STILL_MILLIS} ms after another, it has the same timestamp, which is not that of now"
        at.advise(told, later)


def h05(at: Stage) -> None:
    """Calls whose answers are not read, several at once, and each again: one movement each."""
    bets = [at.bet() for _ in range(_BROKEN_BETS)]
    half = _BROKEN_BETS // 2
    _broken_off(at, [bet.withdraw() for bet in bets])
    ends: list[WebhookCall] = [bet.deposit(bet.wager_cents * 2) for bet in bets[:half]]
    _broken_off(at, [*ends, *(bet.rollback() for bet in bets[half:])])


def _broken_off(at: Stage, calls: Sequence[WebhookCall]) -> None:
    """Send all at once, two of three without waiting for the answer; then each again until there is one."""
    requests = [at.request(call, f"a {call.operation}") for call in calls]
    cut = [
        replace(each, title=f"{each.title} whose connection breaks", manner=Manner.CUT) if number % _WHOLE else each
        for number, each in enumerate(requests)
    ]
    first = at.together(cut)
    heard = [at.insisted(request) for request in requests]
    for before, again in zip(first[::_WHOLE], heard[::_WHOLE], strict=True):
        if before.code == again.code:
            at.check_success(again)  # What was refused at first, too, was not carried out.
    for again in heard:
        at.check_repeat(again)
    at.player.due_cents += sum(map(moved_by, calls))
    at.check_balances(at.player)


def h06_begin(at: Stage) -> None:
    """A call of each kind, before all other calls of the run."""
    closed, cancelled, waiting, unseen, buried = (at.bet() for _ in range(5))
    calls: list[MovingCall] = [
        *(at.claim(at.unit_cents, action) for action in at.writer.claim_types),
        *(bet.withdraw() for bet in (closed, cancelled, waiting)),
        closed.deposit(2 * closed.wager_cents),
        cancelled.rollback(),
    ]
    at.earlier = [(call, at.accepts(call, f"{named(call)} at the beginning of the run")) for call in calls]
    beyond = at.bet(wager_cents=at.player.due_cents + 1).withdraw()
    refused = at.refuses(beyond, "a withdraw of more than there is, at the beginning", Code.INSUFFICIENT_BALANCE)
    early = at.ask(unseen.rollback(), "a rollback without its withdraw, at the beginning")
    at.check_balance(early, at.player)
    at.check_balance(at.ask(buried.rollback(), "another rollback without its withdraw, at the beginning"), at.player)
    at.earlier += [(beyond, refused), (unseen.rollback(), early)]
    # A balance that is behind shows here, before the next scenario begins with it.
    at.check_balances()


def h06(at: Stage) -> None:
    """The first calls of the run are known at its end: nothing moves again, and what was open is paid."""
    _, cancelled, waiting, unseen, buried, *_ = at.bets
    # First, so that there is money for what was refused.
    lacking_cents = max(0, at.bets[-1].wager_cents - at.player.due_cents)
    won = waiting.deposit(2 * waiting.wager_cents + lacking_cents)
    at.accepts(won, "the deposit of a bet of the beginning of the run")
    for call, first in at.earlier:
        title = f"{named(call)} of the beginning of the run, sent again at its end"
        if call == cancelled.withdraw():
            at.stays_cancelled(cancelled.withdraw(), first, title)
        else:
            at.again(call, first, title)
    # Only one of the two rollbacks was sent again: that would have cancelled a forgotten bet anew.
    late = "the withdraw of a bet that was cancelled at the beginning of the run, before it came"
    for bet in (buried, unseen):
        at.refuses(bet.withdraw(), late, Code.BET_ROLLED_BACK)


def h07(at: Stage) -> None:
    """Calls that are answered SYSTEM_ERROR, and otherwise when they are sent again, are counted."""
    failed, sent = at.observed.failed_at_first, at.observed.sent
    if failed:
        at.advise(f"{failed} of {sent} calls returned SYSTEM_ERROR, and another answer when they were sent again")
