"""Group F, hostile input: bodies that no service should send, signed all the same (spec §4.1, assumed)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Final

from game_operator.certify.engine.scenario import Found, Play, scenario
from game_operator.certify.engine.stage import Asking, Judging, Stage
from game_operator.certify.report.verdicts import Weight
from game_operator.certify.scenarios.leniency import better_refused, refused_or_meant
from game_operator.certify.scenarios.malformed import (
    LACKS,
    deep,
    lacking,
    of_amount,
    of_bytes,
    twice,
    with_value,
)
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import BalanceCall, DepositCall, FreeBet, WebhookCall
from game_operator.protocol.canonical import Json
from game_operator.provider.bets import Bet
from game_operator.provider.requests import Heard, Manner, Request

_INVALID: Final = WebhookErrorCode.INVALID_REQUEST
_POOR: Final = WebhookErrorCode.INSUFFICIENT_BALANCE

#: What may become of a genuine body, and nobody can have meant.
_UNREADABLE: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "nothing at all": lambda _: b"",
    "null": lambda _: b"null",
    "an empty array": lambda _: b"[]",
    "an array of a withdraw": lambda body: b"[%b]" % body,
    "half a withdraw": lambda body: body[: len(body) // 2],
    "a withdraw without its last brace": lambda body: body[:-1],
    "a withdraw with a byte that is no UTF-8": lambda body: body.replace(b'":"', b'":"\xff', 1),
}
#: What some parsers take, and others do not.
_UNUSUAL: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "a byte order mark and a withdraw": lambda body: b"\xef\xbb\xbf" + body,
    "a withdraw in UTF-16": lambda body: body.decode().encode("utf-16"),
    "a withdraw, twice": lambda body: body + body,
}
#: What is no whole number of cents.
_NO_AMOUNTS: Final = ("5.5", "true", "NaN", "Infinity", "1e400", "[]", "[500]", "{}")
#: What is one, in a way that the service does not write.
_UNUSUAL_AMOUNTS: Final = {'"50"': 50, "5e1": 50}
#: What is one and has a point, so that both an error and the cents before the point are right.
_POINTED: Final = ("5.0", 5)
_HUGE_AMOUNTS: Final = {"2^31": 2**31, "2^53 + 1": 2**53 + 1, "10^30": 10**30}

_MANY_LEVELS: Final = 1_000
_SLOW_MS: Final = 1_000
_FAILED: Final = 500
#: What an odd request should be answered with: accepted, refused, or either.
_EXPECTED: Final = {
    True: "SUCCESS",
    False: "a refusal, such as HTTP 405",
    None: "SUCCESS or a refusal, of any status below 500",
}


@scenario(
    "F01",
    "bodies that cannot be read",
    Weight.MONEY_LOST,
    rests_on="spec §4.1, decision 0010",
    means="Money moves by a body that nobody can have meant, or the wallet falls over it while bets wait.",
    mend="Parse the body within the block that answers INVALID_REQUEST, as strict JSON in UTF-8 whose root is an "
    "object; HTTP 400 of a framework breaks spec §4.1.",
    stage="hostile",
)
def f01(at: Stage) -> Play:
    """Nothing, null, arrays, half a body and what is no UTF-8 are refused; what some parsers take should be."""
    for what, spoil in _UNREADABLE.items():
        genuine = at.request(at.bet().withdraw(), f"a body that is {what}")
        yield from at.refuses(replace(genuine, body=spoil(genuine.body)), "", _INVALID)
    for what, spoil in _UNUSUAL.items():
        bet = at.bet()
        genuine = at.request(bet.withdraw(), f"a body that is {what}")
        yield from better_refused(at, replace(genuine, body=spoil(genuine.body)), moves=-bet.wager_cents)


@scenario(
    "F02",
    "bodies in which a field is missing",
    Weight.MONEY_LOST,
    rests_on="spec §4.1, decision 0010",
    means="A bet without an id cannot be settled or cancelled, and a missing amount that counts as 0 pays no win.",
    mend="Demand player_id, bet_id and amount: strings that are not blank, and a number. Null is not there, and what "
    "is absent is neither 0 nor the empty string.",
    stage="hostile",
)
def f02(at: Stage) -> Play:
    """Fields are missing, null, empty and blank: nothing moves wrongly, and the honest deposit is still paid."""
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    for call, canonical, how in _calls_and_what_they_lack(at, bet):
        yield from at.refuses(lacking(at, call, canonical, how), "", _INVALID)
    yield from at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be", moves=bet.wager_cents)
    for canonical, how in (("bet_id", "blank"), ("tx_id", "null"), ("tx_id", "empty"), ("tx_id", "blank")):
        if at.writer.name(canonical, "withdraw"):
            bet = at.bet()
            yield from better_refused(at, lacking(at, bet.withdraw(), canonical, how), moves=-bet.wager_cents)
    ends = [(Bet.rollback, "bet_id"), (Bet.rollback, "player_id"), (_bare, "player_id")]
    for (end, canonical), how in product(ends, ("missing", "null")):
        bet = at.bet()
        yield from _end_better_refused(at, bet, lacking(at, end(bet), canonical, how), bet.wager_cents)


@scenario(
    "F03",
    "amounts that are no whole number of cents",
    Weight.MONEY_LOST,
    rests_on="spec §4.1, decision 0010",
    means="Another amount is debited or paid than the service has in its books: true is 1 in some languages, 5.5 "
    "becomes 5 or 6, and no balance is below NaN.",
    mend="Accept a JSON number that is whole, from 0 up to a limit, and nothing else; ask for its type before its "
    "value.",
    stage="hostile",
)
def f03(at: Stage) -> Play:
    """Fractions, truth, NaN, numbers beyond bounds and containers are refused; text and exponents should be."""
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    for raw in _NO_AMOUNTS:
        yield from at.refuses(of_amount(at, at.bet().withdraw(), raw), "", _INVALID)
        yield from at.refuses(of_amount(at, _bare(bet), raw), "", _INVALID)
    yield from at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be", moves=bet.wager_cents)
    for raw, cents in _UNUSUAL_AMOUNTS.items():
        yield from better_refused(at, of_amount(at, at.bet().withdraw(), raw), moves=-cents)
        another = at.bet()
        yield from _end_better_refused(at, another, of_amount(at, _bare(another), raw), cents)
    raw, cents = _POINTED
    yield from refused_or_meant(at, of_amount(at, at.bet().withdraw(), raw), moves=-cents)
    pointed = at.bet()
    yield from _end_better_refused(at, pointed, of_amount(at, _bare(pointed), raw), cents, by=refused_or_meant)


@scenario(
    "F04",
    "amounts below nothing, and a withdraw of nothing",
    Weight.MONEY_DOUBLED,
    rests_on="spec §4.1, decision 0010",
    means="A withdraw of -5.00 pays the player 5.00, and a deposit of -5.00 takes it.",
    mend="Refuse amounts below 0 before anything is computed; CHECK (cents >= 0) on the table of movements helps.",
    stage="hostile",
)
def f04(at: Stage) -> Play:
    """Amounts below 0 are refused; a withdraw of 0 is refused, or a bet, as the profile says."""
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    for cents in (-1, -at.unit_cents):
        yield from at.refuses(of_amount(at, at.bet().withdraw(), str(cents)), "", _INVALID)
        yield from at.refuses(of_amount(at, _bare(bet), str(cents)), "", _INVALID)
    yield from at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be", moves=bet.wager_cents)
    nothing = at.bet(cents=0)
    if at.profile.allow_zero_withdraw:
        yield from at.accepts(nothing.withdraw(), "a withdraw of 0")
        yield from at.accepts(nothing.rollback(), "its rollback")
    else:
        yield from at.refuses(nothing.withdraw(), "a withdraw of 0", _INVALID, success_is_sound=True)


@scenario(
    "F05",
    "amounts that do not fit a number",
    Weight.MONEY_DOUBLED,
    rests_on="spec §4.1, decision 0010, decision 0013",
    means="A wager that leaves 32 or 64 bits becomes another one; where that is below 0, the player is paid for it.",
    mend="Keep cents in 64 bits (BIGINT), and refuse amounts beyond a limit before anything is computed.",
    stage="hostile",
)
def f05(at: Stage) -> Play:
    """Wagers of 2^31 cents and more are refused, for want of money or of sense."""
    for told, cents in _HUGE_AMOUNTS.items():
        if cents > at.player.due_cents:
            request = of_amount(at, at.bet().withdraw(), str(cents))
            yield from _cannot_be_paid(at, replace(request, title=f"a withdraw of {told} cents"))


@scenario(
    "F06",
    "bodies that say a thing twice",
    Weight.ADVICE,
    rests_on="decision 0010",
    means="Of a member that stands twice some parsers take the first and some the last: what was checked before the "
    "wallet need not be what the wallet reads.",
    mend="Refuse such bodies, if the JSON parser can tell (in Python by object_pairs_hook).",
    stage="hostile",
)
def f06(at: Stage) -> Play:
    """A balance check of two players and a withdraw of two amounts should be refused."""
    check = twice(at, BalanceCall(player_id=at.player.id), "player_id", at.player.id, at.other.id)
    withdraw = twice(at, at.bet().withdraw(), "amount_cents", at.unit_cents, 1)
    for request in (check, withdraw):
        heard = yield from at.hear(request)
        if heard.succeeded:
            at.advise(f"{request.title}: accepted, and parsers differ in which of the two counts", heard)
        else:
            at.check_code(heard, _INVALID)
    at.player.due_cents = yield from at.balance_of(at.player)


@scenario(
    "F09",
    "long bodies and deep ones",
    Weight.ADVICE,
    rests_on="decision 0010",
    means="A body without bounds keeps the wallet busy, and one that is refused too early costs a bet.",
    mend="Accept bodies of 64 KiB and refuse longer ones by their length; bound the levels of the JSON parser.",
    stage="hostile",
)
def f09(at: Stage) -> Play:
    """The longest body that the profile has is accepted, one byte more is not; a thousand levels take no time."""
    most = at.profile.max_body_bytes
    longest = yield from at.send(of_bytes(at, most))
    if not longest.succeeded:
        at.advise(f"{longest.request.title}: {_said(longest)}, and SUCCESS is assumed", longest)
    longer = yield from at.send(of_bytes(at, most + 1))
    nested = yield from at.hear(deep(at, _MANY_LEVELS))
    for heard in (longer, nested):
        if heard.succeeded:
            at.advise(f"{heard.request.title}: accepted; is there any bound?", heard)
    if nested.elapsed_ms > _SLOW_MS:
        at.advise(f"{nested.request.title}: took {nested.elapsed_ms:.0f} ms", nested)


@scenario(
    "F10",
    "requests as no service sends them",
    Weight.ADVICE,
    rests_on="spec §4.1",
    means="A caller that is slow, or none of ours at all, holds a worker, and bets wait.",
    mend="Give each request a time within which its body must be there. Carry out POST alone; any refusal of another "
    "method is right, such as HTTP 405, but not one of 500 or more, which looks like a failure.",
    needs=("wire",),
    stage="hostile",
)
def f10(at: Stage) -> Play:
    """Other methods, types and manners are answered in some way; a caller that falls silent harms nobody else."""
    for request, accepted in _odd_requests(at):
        heard = yield from at.send(request)
        is_odd = accepted is not None and heard.succeeded is not accepted
        if is_odd or not heard.status or heard.status >= _FAILED:
            at.advise(f"{request.title}: {_said(heard)}; expected was {_EXPECTED[accepted]}", heard)
    check = at.request(BalanceCall(player_id=at.player.id), "a balance check meanwhile")
    half = replace(check, title="a balance check that breaks off half way", manner=Manner.HALF)
    silent, other = yield from at.together([half, check])
    for heard, accepted in ((silent, False), (other, True)):
        if heard.succeeded is not accepted:
            at.advise(f"{heard.request.title}: {_said(heard)}", heard)


@scenario(
    "F11",
    "odd values where nothing depends on them",
    Weight.MONEY_LOST,
    rests_on="spec §2.4, decision 0010",
    means="A win or a refund is refused for good, because of a field that nobody needs.",
    mend="Read only what the call needs; a rollback refunds the wager that was taken, whatever it says.",
    stage="hostile",
)
def f11(at: Stage) -> Play:
    """A rollback whose amount is text and a deposit whose wager is an object are processed; the amount is paid."""
    cancelled, settled = at.bet(), at.bet()
    odd: list[tuple[Bet, WebhookCall, str, Json]] = [
        (cancelled, cancelled.rollback(), "amount_cents", str(cancelled.wager_cents)),
        (settled, settled.deposit(settled.wager_cents), "wager_cents", {"cents": settled.wager_cents}),
    ]
    for bet, call, canonical, value in odd:
        if name := at.writer.name(canonical, call.operation):
            yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
            yield from at.accepts(with_value(at, call, name, value), moves=bet.wager_cents)
    if at.writer.name("won_cents", "deposit") not in ("", at.writer.name("amount_cents", "deposit")):
        yield from _pays_the_amount(at, at.bet())
    if "FREE_BET_CLAIM" in at.claim_types and at.writer.name("free_bets", "deposit"):
        cents = at.unit_cents
        bets = (FreeBet(id=at.fresh("free"), round_id=at.fresh("round"), wager_cents=cents, won_cents=2 * cents),)
        claim = replace(at.claim(cents, "FREE_BET_CLAIM"), free_bets=bets)
        yield from at.accepts(claim, "a claim of free bets that won more than its amount", moves=cents)


def _pays_the_amount(at: Stage, bet: Bet) -> Judging:
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    deposit = replace(bet.deposit(bet.wager_cents), won_cents=2 * bet.wager_cents)
    yield from at.accepts(deposit, "a deposit that says it won more than its amount", moves=bet.wager_cents)


def _end_better_refused(
    at: Stage, bet: Bet, end: Request, cents: int, *, by: Callable[..., Asking] = better_refused
) -> Judging:
    """Place *bet*, hold (*by* what) that *end* should be refused, which pays *cents* if it is not, and end the bet."""
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    heard = yield from by(at, end, moves=cents)
    if not heard.succeeded:
        yield from at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be", moves=bet.wager_cents)


def _cannot_be_paid(at: Stage, request: Request) -> Judging:
    """Hold that *request* is refused for its amount: for want of money, or because no bet is that high."""
    heard = yield from at.hear(request)
    if heard.succeeded:
        yield from at.holds(at.player, after=heard)
        raise Found(f"{request.title}: answered SUCCESS, and {_POOR} was due", place=heard.place)
    if heard.code not in (_INVALID, WebhookErrorCode.LIMIT_EXCEEDED):
        at.check_code(heard, _POOR)
    yield from at.check_told(heard, at.player)


def _calls_and_what_they_lack(at: Stage, bet: Bet) -> Iterator[tuple[WebhookCall, str, str]]:
    """Yield calls with a field each that they cannot be without, and how it is not there."""
    for how in LACKS:
        yield at.bet().withdraw(), "player_id", how
        yield at.bet().withdraw(), "amount_cents", how
        yield _bare(bet), "amount_cents", how
        yield _bare(bet), "bet_id", how
        yield BalanceCall(player_id=at.player.id), "player_id", how
        # A blank id may be an id to some.
        if how != "blank":
            yield at.bet().withdraw(), "bet_id", how


def _bare(bet: Bet) -> DepositCall:
    """Return the deposit that pays the wager, and says its amount once."""
    return replace(bet.deposit(bet.wager_cents), wager_cents=None, won_cents=None)


def _odd_requests(at: Stage) -> Iterator[tuple[Request, bool | None]]:
    """Yield requests, and whether they should be accepted; None where it may be either."""
    check = at.request(BalanceCall(player_id=at.player.id), "a balance check")
    for method in ("GET", "PUT"):
        yield replace(check, title=f"a balance check by {method}", method=method), False
    for header in (("Content-Type", "text/plain"), ("Content-Encoding", "gzip")):
        yield replace(check, title=f"a balance check with {': '.join(header)}", headers=(header,)), None
    yield replace(check, title="a balance check in chunks", manner=Manner.CHUNKED), True
    yield replace(check, title="a balance check in small pieces", manner=Manner.SLOW), True


def _said(heard: Heard) -> str:
    if heard.reply is None:
        return heard.problem if not heard.status else f"HTTP {heard.status}, {heard.problem}"
    return f"HTTP {heard.status}, {heard.code or 'SUCCESS'}"
