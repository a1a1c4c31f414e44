"""Group F, hostile input: bodies that no service should send, signed all the same (spec §4.1, assumed)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from game_operator.certify.engine.stage import Stage
from game_operator.certify.engine.steps import Found
from game_operator.certify.report.verdicts import Weight
from game_operator.certify.scenarios.bodies import LACKS, deep, lacking, of_amount, of_bytes, twice, with_raw
from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import LONGEST_ID, BalanceCall, DepositCall, FreeBet, WebhookCall
from game_operator.protocol.exact_json import encode_json
from game_operator.protocol.http import Manner
from game_operator.provider.delivery import Carried
from game_operator.provider.requests import BetCalls, Request

#: What may become of a genuine body, and cannot be meant.
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
#: Not whole numbers of cents.
_NO_AMOUNTS: Final = ("5.5", "true", "NaN", "Infinity", "1e400", "[]", "[500]", "{}")
#: What is one, in a way that the service does not write. With a point, both an error and the cents before it are right.
_UNUSUAL_AMOUNTS: Final = {'"50"': 50, "5e1": 50, "5.0": 5}
_HUGE_AMOUNTS: Final = {"2^31": 2**31, "2^53 + 1": 2**53 + 1, "10^30": 10**30}

_MANY_LEVELS: Final = 1_000
#: What an odd request should be answered with: accepted, refused, or either.
_EXPECTED: Final = {
    True: "SUCCESS",
    False: "a refusal, such as HTTP 405",
    None: "SUCCESS or a refusal, of any status below 500",
}
#: Pairs of words that a database may take for the same.
_ALIKE: Final = {
    "a composed and a decomposed letter": ("caf\u00e9", "cafe\u0301"),
    "a letter with an accent and one without": ("et\u00e9", "ete"),
    "a capital and a small letter": ("Bet", "bet"),
    "one emoji and another": ("\U0001f3b0", "\U0001f3b2"),
    "the last of 256 characters": ("a", "b"),
}
#: What means something to a database, a page, a log or a format; accepting it does no harm.
_SHARP: Final = {
    "an apostrophe": "it's",
    "SQL": "x' AND '1'='2",
    "SQL and quotes": 'x"; SELECT 1; --',
    "HTML": "<b onclick=alert(1)>&amp;</b>",
    "a line break": "x\n2026-01-01 INFO paid 100.00",
    "backslashes and formats": "x\\'\\n%s%d{0}${1}",
}
#: What no database keeps, as JSON text.
_UNSTORABLE: Final = {"U+0000": "\\u0000", "half a character": "\\ud800"}
_FROM_RIGHT_TO_LEFT: Final = "\u200f\u05d4\u05d9\u05de\u05d5\u05e8 \u0627\u0644\u0631\u0647\u0627\u0646"


def f01(at: Stage) -> None:
    """Nothing, null, arrays, half a body and bytes that are not UTF-8 are refused; what some parsers take should be."""
    for what, changed in _UNREADABLE.items():
        genuine = at.request(at.bet().withdraw(), f"a body that is {what}")
        at.refuses(replace(genuine, body=changed(genuine.body)), "", Code.INVALID_REQUEST)
    for what, changed in _UNUSUAL.items():
        genuine = at.request(at.bet().withdraw(), f"a body that is {what}")
        _better_refused(at, replace(genuine, body=changed(genuine.body)), moves=-at.unit_cents)


def f02(at: Stage) -> None:
    """Fields are missing, null, empty and blank: nothing moves wrongly, and the honest deposit is still paid."""
    bet = at.placed()
    for call, canonical, how in _calls_and_what_they_lack(at, bet):
        at.refuses(lacking(at, call, canonical, how), "", Code.INVALID_REQUEST)
    at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be")
    for canonical, how in (("bet_id", "blank"), ("tx_id", "null"), ("tx_id", "empty"), ("tx_id", "blank")):
        if at.writer.name(canonical, "withdraw"):
            _better_refused(at, lacking(at, at.bet().withdraw(), canonical, how), moves=-at.unit_cents)
    ends = [(BetCalls.rollback, "bet_id"), (BetCalls.rollback, "player_id"), (_bare, "player_id")]
    for (end, canonical), how in product(ends, ("missing", "null")):
        bet = at.bet()
        _end_better_refused(at, bet, lacking(at, end(bet), canonical, how), bet.wager_cents)


def _calls_and_what_they_lack(at: Stage, bet: BetCalls) -> Iterator[tuple[WebhookCall, str, str]]:
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


def f03(at: Stage) -> None:
    """Fractions, truth, NaN, numbers beyond bounds and containers are refused; text and exponents should be."""
    _amounts_refused(at, _NO_AMOUNTS)
    for raw, cents in _UNUSUAL_AMOUNTS.items():
        by = _refused_or_meant if "." in raw else _better_refused
        by(at, of_amount(at, at.bet().withdraw(), raw), moves=-cents)
        another = at.bet()
        _end_better_refused(at, another, of_amount(at, _bare(another), raw), cents, by=by)


def f04(at: Stage) -> None:
    """Amounts below 0 are refused; a withdraw of 0 is refused, or a bet, as the profile says."""
    _amounts_refused(at, ("-1", str(-at.unit_cents)))
    nothing = at.bet(cents=0)
    if at.profile.allow_zero_withdraw:
        at.placed(nothing, title="a withdraw of 0")
        at.accepts(nothing.rollback(), "its rollback")
    else:
        at.refuses(nothing.withdraw(), "a withdraw of 0", Code.INVALID_REQUEST, success_is_advice=True)


def _amounts_refused(at: Stage, amounts: Sequence[str]) -> None:
    """Hold that withdraws and deposits of these amounts, as JSON, are refused; the honest deposit is still paid."""
    bet = at.placed()
    for raw in amounts:
        for call in (at.bet().withdraw(), _bare(bet)):
            at.refuses(of_amount(at, call, raw), "", Code.INVALID_REQUEST)
    at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be")


def f05(at: Stage) -> None:
    """Wagers of 2^31 cents and more are refused, for want of money or of sense."""
    for told, cents in _HUGE_AMOUNTS.items():
        if cents <= at.player.due_cents:
            continue
        heard = at.ask(with_raw(at, at.bet().withdraw(), "amount_cents", str(cents), f"a withdraw of {told} cents"))
        if heard.succeeded:
            at.check_balances(at.player, after=heard)
        if heard.code not in (Code.INVALID_REQUEST, Code.LIMIT_EXCEEDED):
            at.check_refused(heard, Code.INSUFFICIENT_BALANCE)
        at.check_balance(heard, at.player)


def f06(at: Stage) -> None:
    """A balance check of two players and a withdraw of two amounts should be refused."""
    check = twice(at, BalanceCall(player_id=at.player.id), "player_id", at.player.id, at.other.id)
    withdraw = twice(at, at.bet().withdraw(), "amount_cents", at.unit_cents, 1)
    for request in (check, withdraw):
        heard = at.ask(request)
        if heard.succeeded:
            at.advise("accepted, and parsers differ in which of the two counts", heard)
        else:
            at.check_code(heard, Code.INVALID_REQUEST)
    at.player.due_cents = at.balance_of(at.player)


def f07(at: Stage) -> None:
    """Ids that look alike are different bets, odd and long ones come back as they are; too long ones should not."""
    for what, (one, another) in _ALIKE.items():
        start = at.fresh("bet") + "-"
        if what.startswith("the last"):
            start = start.ljust(LONGEST_ID - 1, "x")
        first, second = at.bet(bet_id=start + one), at.bet(bet_id=start + another)
        _placed(at, first, f"a withdraw whose id differs in {what} from the next one's")
        at.accepts(second.withdraw(), "the next withdraw, of another bet")
        for bet, which in ((second, "second"), (first, "first")):
            at.accepts(bet.deposit(bet.wager_cents), f"the deposit of the {which}")
    _round_trip(at, at.bet(bet_id=f"{at.fresh()}-{_FROM_RIGHT_TO_LEFT}"), "whose id runs from right to left")
    _round_trip(at, at.bet(bet_id=f"{at.fresh()}-".ljust(100, "x")), "whose id has 100 characters")
    for length in (LONGEST_ID + 1, 10_000):
        bet_id, title = f"{at.fresh('bet')}-".ljust(length, "x"), f"a withdraw whose id has {length:,} characters"
        request = with_raw(at, at.bet().withdraw(), "bet_id", encode_json(bet_id).decode(), title)
        _better_refused(at, request, moves=-at.unit_cents)


def f08(at: Stage) -> None:
    """Quotes, SQL, HTML and line breaks in an id are characters like any other; what no database keeps should not."""
    for what, word in _SHARP.items():
        _round_trip(at, at.bet(bet_id=f"{at.fresh('bet')}-{word}"), f"with {what} in its id", Weight.MONEY_LOST)
    for what, text in _UNSTORABLE.items():
        bet = at.bet()
        request = with_raw(at, bet.withdraw(), "bet_id", f'"{bet.bet_id}-{text}"', f"a withdraw with {what} in its id")
        _better_refused(at, request, moves=-bet.wager_cents)


def _round_trip(at: Stage, bet: BetCalls, told: str, weight: Weight = Weight.CONTRACT_BROKEN) -> None:
    """Hold that the wallet finds a bet again by its id."""
    first = _placed(at, bet, f"a withdraw {told}", weight)
    at.again(bet.withdraw(), first, f"the same withdraw {told} again")
    at.accepts(bet.deposit(bet.wager_cents), f"a deposit {told}")


def _placed(at: Stage, bet: BetCalls, title: str, weight: Weight = Weight.CONTRACT_BROKEN) -> Carried:
    """Place *bet*. If it is refused for its letters, no money is lost, but a game cannot be played."""
    heard = at.ask(bet.withdraw(), title)
    if not heard.succeeded:
        raise Found(f"refused with {heard.code} instead of SUCCESS", heard, weight=weight)
    at.check_moved(heard, at.player, -bet.wager_cents)
    return heard


def f09(at: Stage) -> None:
    """The longest body that the profile has is accepted, one byte more is not; a thousand levels take no time."""
    most = at.profile.max_body_bytes
    longest = at.send(of_bytes(at, most))
    if not longest.succeeded:
        at.advise(f"{_said(longest)}, and SUCCESS is assumed", longest)
    longer = at.send(of_bytes(at, most + 1))
    nested = at.ask(deep(at, _MANY_LEVELS))
    for heard in (longer, nested):
        if heard.succeeded:
            at.advise("accepted; the wallet seems to have no size limit", heard)
    if nested.elapsed_ms > 1_000:
        at.advise(f"took {nested.elapsed_ms:.0f} ms", nested)


def f10(at: Stage) -> None:
    """Other methods, types and manners are answered in some way; a caller that falls silent does no harm to others."""
    check = at.balance_request("a balance check")
    odd: list[tuple[Request, bool | None]] = [
        *((replace(check, title=f"a balance check by {method}", method=method), False) for method in ("GET", "PUT")),
        *(
            (replace(check, title=f"a balance check with {': '.join(header)}", headers=(header,)), None)
            for header in (("Content-Type", "text/plain"), ("Content-Encoding", "gzip"))
        ),
        (replace(check, title="a balance check in chunks", manner=Manner.CHUNKED), True),
        (replace(check, title="a balance check in small pieces", manner=Manner.SLOW), True),
    ]
    for request, accepted in odd:
        heard = at.send(request)
        is_odd = accepted is not None and heard.succeeded is not accepted
        if is_odd or not heard.status or heard.status >= 500:
            at.advise(f"{_said(heard)}; expected was {_EXPECTED[accepted]}", heard)
    check = replace(check, title="a balance check meanwhile")
    half = replace(check, title="a balance check that breaks off half way", manner=Manner.HALF)
    silent, other = at.together([half, check])
    for heard, accepted in ((silent, False), (other, True)):
        if heard.succeeded is not accepted:
            at.advise(_said(heard), heard)


def _said(heard: Carried) -> str:
    told = heard.problem if heard.reply is None else heard.code or "SUCCESS"
    return f"HTTP {heard.status}, {told}" if heard.status else told


def f11(at: Stage) -> None:
    """A rollback whose amount is text and a deposit whose wager is an object are processed; the amount is paid."""
    cancelled, settled = at.bet(), at.bet()
    odd: list[tuple[BetCalls, WebhookCall, str, str]] = [
        (cancelled, cancelled.rollback(), "amount_cents", f'"{cancelled.wager_cents}"'),
        (settled, settled.deposit(settled.wager_cents), "wager_cents", f'{{"cents":{settled.wager_cents}}}'),
    ]
    for bet, call, canonical, raw in odd:
        if name := at.writer.name(canonical, call.operation):
            at.placed(bet)
            title = f"a {call.operation} whose {name} is {raw}"
            at.accepts(with_raw(at, call, canonical, raw, title), moves=bet.wager_cents)
    if at.writer.name("won_cents", "deposit") not in ("", at.writer.name("amount_cents", "deposit")):
        bet = at.placed()
        deposit = replace(bet.deposit(bet.wager_cents), won_cents=2 * bet.wager_cents)
        at.accepts(deposit, "a deposit that says it won more than its amount")
    if "FREE_BET_CLAIM" in at.writer.claim_types and at.writer.name("free_bets", "deposit"):
        cents = at.unit_cents
        free = FreeBet(id=at.fresh("free"), round_id=at.fresh("round"), wager_cents=cents, won_cents=2 * cents)
        claim = at.claim(cents, "FREE_BET_CLAIM", free_bets=(free,))
        at.accepts(claim, "a claim of free bets that won more than its amount")


def _better_refused(at: Stage, request: Request, *, moves: int) -> Carried:
    """Hold that *request* moves money as it says or not at all; that it should be refused is advice."""
    heard = _refused_or_meant(at, request, moves=moves)
    if heard.succeeded:
        at.advise(f"accepted; no money moved wrongly, and {Code.INVALID_REQUEST} is assumed", heard)
    else:
        at.check_code(heard, Code.INVALID_REQUEST)
    return heard


def _refused_or_meant(at: Stage, request: Request, *, moves: int) -> Carried:
    """Hold that *request* moves money as it says or not at all."""
    heard = at.ask(request)
    if heard.succeeded:
        at.player.due_cents += moves
    at.check_balance(heard, at.player)
    return heard


def _end_better_refused(
    at: Stage, bet: BetCalls, end: Request, cents: int, *, by: Callable[..., Carried] = _better_refused
) -> None:
    """Place *bet*, hold (*by* what) that *end* should be refused, which pays *cents* if it is not, and end the bet."""
    at.placed(bet)
    heard = by(at, end, moves=cents)
    if not heard.succeeded:
        at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be")


def _bare(bet: BetCalls) -> DepositCall:
    """Return the deposit that pays the wager, and says its amount once."""
    return replace(bet.deposit(bet.wager_cents), wager_cents=None, won_cents=None)
