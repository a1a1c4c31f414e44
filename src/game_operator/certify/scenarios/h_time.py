"""Group H, time and failure: slow answers, outages, odd clocks, and connections that break (spec §3, §4.1)."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from game_operator.certify.engine.concurrent_calls import insisted, is_unanswered
from game_operator.certify.engine.scenario import Found, NotTried, Play, scenario
from game_operator.certify.engine.stage import Judging, Stage
from game_operator.certify.report.verdicts import Weight
from game_operator.models.webhooks import BalanceCall, WebhookCall
from game_operator.provider.requests import Heard, Manner, Request, Step

_AIM_MS: Final = 100
_LIMIT_MS: Final = 500
_MOST_SKEW_MILLIS: Final = 5_000
_BROKEN_BETS: Final = 8


@scenario(
    "H01",
    "answers in time",
    Weight.ADVICE,
    rests_on="decision 0014",
    means="The service waits for an answer for half a second or so; what comes later is as good as lost: the call is "
    "sent again, or the bet given up, and the player waits.",
    mend="Keep one short transaction for each call, an index for each look-up, and nothing that goes over the network "
    "between the call and its answer.",
)
def h01(at: Stage) -> Play:
    """Calls in turn are answered within 500 ms, and better within 100 ms."""
    took_ms: list[float] = []
    bet = at.bet()
    for call, moves in (
        (BalanceCall(player_id=at.player.id), 0),
        (bet.withdraw(), -bet.wager_cents),
        (BalanceCall(player_id=at.player.id), 0),
        (bet.deposit(bet.wager_cents), bet.wager_cents),
        (BalanceCall(player_id=at.player.id), 0),
    ):
        heard = yield from at.accepts(call, f"a {call.operation}, one at a time", moves=moves)
        took_ms.append(heard.elapsed_ms)
    usual = median(took_ms)
    if usual > _LIMIT_MS:
        at.advise(f"an answer takes {usual:.0f} ms, one call at a time; a service gives up after about {_LIMIT_MS} ms")
    elif usual > _AIM_MS:
        at.advise(f"an answer takes {usual:.0f} ms, one call at a time; {_AIM_MS} ms is a better aim")


@scenario(
    "H02",
    "an outage, and the same calls after it",
    Weight.MONEY_LOST,
    rests_on="spec §4.1, decision 0013, decision 0014",
    means="What the wallet answers while its database is down is taken at its word: a win or a refund that is "
    "refused for good is never sent again, and one that is accepted is never paid.",
    mend="Answer SYSTEM_ERROR to whatever fails for reasons of your own, after the transaction is rolled back; "
    "remember nothing of it, and open new connections by yourself when the database is back.",
    needs=("fail", "recover"),
)
def h02(at: Stage) -> Play:
    """While it fails nothing is promised and nothing moves; afterwards the same calls are carried out."""
    paid, refunded = at.bet(), at.bet()
    for bet in (paid, refunded):
        yield from at.accepts(bet.withdraw(), "a withdraw before the outage", moves=-bet.wager_cents)
    late = at.bet()
    due: list[tuple[WebhookCall, int]] = [
        (late.withdraw(), -late.wager_cents),
        (paid.deposit(paid.wager_cents * 2), paid.wager_cents * 2),
        (refunded.rollback(), refunded.wager_cents),
    ]
    requests = [at.request(call, f"a {call.operation} during an outage") for call, _ in due]
    # Nothing is judged before the wallet is whole again.
    yield from at.act("fail")
    heard = yield from _each(at, requests)
    yield from at.act("recover")
    yield from insisted(at, at.request(BalanceCall(player_id=at.player.id), "a balance check after the outage"))
    yield from _check_outage(at, heard)
    for call, moves in due:
        settled = yield from insisted(at, at.request(call, f"the {call.operation} after the outage"))
        at.check_success(settled)
        at.player.due_cents += moves
        yield from at.check_told(settled, at.player)


@scenario(
    "H04",
    "the wallet's clock",
    Weight.ADVICE,
    rests_on="spec §2.1",
    means="Balances are shown in the order of their timestamps, and tokens expire by the clock: with one that is off, "
    "sessions end early or late, and entries of two systems cannot be put side by side.",
    mend="Let the machine keep its time by NTP, and answer with Unix time in milliseconds, in UTC.",
)
def h04(at: Stage) -> Play:
    """Over several answers, the timestamps agree with the certifier's clock."""
    bet = at.bet()
    off: list[float] = []
    heard = None
    for call, moves in (
        (BalanceCall(player_id=at.player.id), 0),
        (bet.withdraw(), -bet.wager_cents),
        (bet.deposit(bet.wager_cents), bet.wager_cents),
        (BalanceCall(player_id=at.player.id), 0),
    ):
        heard = yield from at.accepts(call, f"a {call.operation}", moves=moves)
        if heard.reply is not None and heard.reply.timestamp is not None:
            # The answer was written at some moment in between.
            off.append(heard.reply.timestamp - heard.at_millis - heard.elapsed_ms / 2)
    skew_millis = median(off) if off else 0.0
    if abs(skew_millis) > _MOST_SKEW_MILLIS:
        ahead = "ahead of" if skew_millis > 0 else "behind"
        at.advise(f"the wallet's clock is {abs(skew_millis) / 1000:.0f} s {ahead} the certifier's", heard)


@scenario(
    "H05",
    "connections that break before the answer, and the same calls again",
    Weight.MONEY_DOUBLED,
    rests_on="spec §3, decision 0014",
    means="Whenever the network loses an answer the service sends the call again: a wager is taken twice, or a win "
    "or a refund is paid twice, or not at all.",
    mend="Record the call under its unique key in the transaction that moves the money, before anything is answered; "
    "carry on with the transaction when the caller has hung up.",
)
def h05(at: Stage) -> Play:
    """Calls whose answer nobody reads, several at once, and each again: one movement each."""
    bets = [at.bet() for _ in range(_BROKEN_BETS)]
    won = [bet.wager_cents * 2 for bet in bets]
    half = _BROKEN_BETS // 2
    withdraws: list[WebhookCall] = [bet.withdraw() for bet in bets]
    yield from _broken_off(at, withdraws, -sum(bet.wager_cents for bet in bets))
    ends: list[WebhookCall] = [bet.deposit(cents) for bet, cents in zip(bets[:half], won, strict=False)]
    ends += (bet.rollback() for bet in bets[half:])
    yield from _broken_off(at, ends, sum(won[:half]) + sum(bet.wager_cents for bet in bets[half:]))


def _each(at: Stage, requests: Sequence[Request]) -> Generator[Step, list[Heard], list[Heard]]:
    heard: list[Heard] = []
    for request in requests:
        heard += yield from at.together((request,))
    return heard


def _check_outage(at: Stage, heard: Sequence[Heard]) -> Judging:
    """Hold that what was heard of a failing wallet promised nothing, and that nothing moved."""
    balance_cents = yield from at.balance_of(at.player)
    accepted = next((each for each in heard if each.succeeded), None)
    if accepted is not None:
        if balance_cents != at.player.due_cents:
            raise NotTried("the wallet went on working after fail()")
        raise Found(f"{accepted.request.title}: answered SUCCESS, and nothing moved", place=accepted.place)
    yield from at.holds(at.player, after=heard[-1])
    for each in heard:
        if not is_unanswered(each):
            told = f"{each.request.title}: refused with {each.code}, which the service takes for final"
            raise Found(f"{told}; SYSTEM_ERROR says that it must come again", place=each.place)
    other = next((each for each in heard if each.reply is None or each.status != 200), None)
    if other is not None:
        told = f"answered with HTTP {other.status}" if other.status else other.problem
        at.advise(f"{other.request.title}: {told}; SYSTEM_ERROR with HTTP 200 is due (spec §4.1)", other)


def _broken_off(at: Stage, calls: Sequence[WebhookCall], moves: int) -> Judging:
    """Send all at once, two of three without waiting for the answer; then each again until there is one."""
    requests = [at.request(call, f"a {call.operation}") for call in calls]
    cut = [
        replace(each, title=f"{each.title} whose connection breaks", manner=Manner.CUT) if number % 3 else each
        for number, each in enumerate(requests)
    ]
    yield from at.together(cut)
    for request in requests:
        heard = yield from insisted(at, request)
        if not heard.succeeded:
            told = f"{heard.request.title}: refused with {heard.code}, and SUCCESS was due"
            raise Found(told, Weight.MONEY_LOST, place=heard.place)
    at.player.due_cents += moves
    yield from at.holds(at.player)
