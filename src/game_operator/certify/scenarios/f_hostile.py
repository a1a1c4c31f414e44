"""Group F, hostile input: bodies that no service should send, signed all the same (spec §4.1, assumed)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import product
from typing import Final

from game_operator.certify.engine.stage import Stage
from game_operator.certify.engine.steps import Found
from game_operator.certify.report.verdicts import KnownCause, Weight
from game_operator.certify.scenarios.bodies import (
    LACKS,
    deep,
    lacking,
    null_before,
    of_amount,
    of_bytes,
    twice,
    with_raw,
)
from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import LONGEST_ID, BalanceCall, DepositCall, FreeBet, WebhookCall
from game_operator.protocol.exact_json import encode_json
from game_operator.protocol.http import Manner
from game_operator.protocol.webhook_reply import fold_code
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
}
#: How long an id is that a narrow column cuts or refuses: a UUID, and some usual widths.
_WIDTHS: Final = (36, 64, 100, 128, 255, LONGEST_ID)
#: How a wallet refuses the withdraw of a bet that it takes for another one.
_KNOWN_CODES: Final = frozenset({Code.DUPLICATE_TRANSACTION, Code.BET_ALREADY_CLOSED})
#: What means something to a database, a page, a log or a format; accepting it does no harm.
_SHARP: Final = {
    "an apostrophe": "it's",
    "SQL": "x' AND '1'='2",
    "SQL and quotes": 'x"; SELECT 1; --',
    "HTML": "<b onclick=alert(1)>&amp;</b>",
    "a line break": "x\n2026-01-01 INFO paid 100.00",
    "backslashes and formats": "x\\'\\n%s%d{0}${1}",
}
#: What nobody needs to read, as JSON that is no text.
_ODD_NAMES: Final = (("game", "7"), ("game", "{}"), ("instance_id", "7"))
_WITH_CHARSET: Final = ("Content-Type", "application/json; charset=utf-8")
#: Pairs of ids that become one where somebody cleans or decodes them.
_CLEANED: Final = {
    "an HTML tag": ("r<b>7", "r7"),
    "an HTML entity": ("r&amp;7", "r&7"),
    "an apostrophe": ("r'7", "r7"),
    "a backslash": ("r\\7", "r7"),
    "a letter written as %41": ("r%41", "rA"),
    "a plus for a space": ("r+7", "r 7"),
}
#: Names that mean something to a language. They are rolled back, so that a later run knows them again. Those that an
#: object inherits and those that it does not take turns, so that both are among the first few.
_NAMES: Final = ("constructor", "null", "__proto__", "undefined", "toString", "true", "hasOwnProperty", "NaN")
_FEWEST_NAMES: Final = 3
#: What no database keeps, as JSON text.
_UNSTORABLE: Final = {"U+0000": "\\u0000", "half a character": "\\ud800"}
_EMOJI: Final = "\U0001f3b0"
_MANY_EMOJI: Final = 120
_FROM_RIGHT_TO_LEFT: Final = "\u200f\u05d4\u05d9\u05de\u05d5\u05e8 \u0627\u0644\u0631\u0647\u0627\u0646"


def f01(at: Stage) -> None:
    """Nothing, null, arrays, half a body and bytes that are not UTF-8 are refused; what some parsers take should be."""
    genuine = [(at.request(at.bet().withdraw(), f"a body that is {what}"), by) for what, by in _UNREADABLE.items()]
    at.refuses_all([replace(each, body=by(each.body)) for each, by in genuine], Code.INVALID_REQUEST)
    for what, changed in _UNUSUAL.items():
        request = at.request(at.bet().withdraw(), f"a body that is {what}")
        _better_refused(at, replace(request, body=changed(request.body)), moves=-at.unit_cents)


def f02(at: Stage) -> None:
    """Fields are missing, null, empty and blank: nothing moves wrongly, and the honest deposit is still paid."""
    bet = at.placed()
    lacks = _calls_and_what_they_lack(at, bet)
    at.refuses_all([lacking(at, call, canonical, how) for call, canonical, how in lacks], Code.INVALID_REQUEST)
    at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be")
    for canonical, how in (("bet_id", "blank"), ("tx_id", "null"), ("tx_id", "empty"), ("tx_id", "blank")):
        if at.writer.name(canonical, "withdraw"):
            _better_refused(at, lacking(at, at.bet().withdraw(), canonical, how), moves=-at.unit_cents)
    ends = [(BetCalls.rollback, "bet_id"), (BetCalls.rollback, "player_id"), (_bare, "player_id")]
    for (end, canonical), how in product(ends, ("missing", "null")):
        bet = at.bet()
        _end_better_refused(at, bet, lacking(at, end(bet), canonical, how), bet.wager_cents)
    if not at.observed.is_slow:
        _null_is_present(at)


def _null_is_present(at: Stage) -> None:
    """An amount that is null should be refused, although another field says one."""
    if request := null_before(at, at.bet().withdraw(), "amount_cents"):
        _better_refused(at, request, moves=-at.unit_cents)
    bet = at.bet()
    _end_better_refused(at, bet, lacking(at, bet.deposit(bet.wager_cents), "amount_cents", "null"), bet.wager_cents)


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
    calls = [(call, raw) for raw in amounts for call in (at.bet().withdraw(), _bare(bet))]
    at.refuses_all([of_amount(at, call, raw) for call, raw in calls], Code.INVALID_REQUEST)
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
    at.player.due_cents = at.opening_cents_of(at.player)


def f07(at: Stage) -> None:
    """Ids that look alike are different bets, odd and long ones come back as they are; too long ones should not."""
    for what, (one, another) in _ALIKE.items():
        start = at.fresh("bet") + "-"
        title = f"a withdraw whose id differs in {what} from the next one's"
        _two_bets(at, start + one, start + another, title, Weight.CONTRACT_BROKEN)
    _round_trip(at, at.bet(bet_id=f"{at.fresh()}-{_FROM_RIGHT_TO_LEFT}"), "whose id runs from right to left")
    _check_width(at)
    for length in (LONGEST_ID + 1, 10_000):
        bet_id, title = f"{at.fresh('bet')}-".ljust(length, "x"), f"a withdraw whose id has {length:,} characters"
        request = with_raw(at, at.bet().withdraw(), "bet_id", encode_json(bet_id).decode(), title)
        _better_refused(at, request, moves=-at.unit_cents)


def _two_bets(at: Stage, one: str, another: str, title: str, weight: Weight | None = None) -> None:
    """Hold that bets with these ids are two bets: each is debited, and each is paid."""
    first, second = at.bet(bet_id=one), at.bet(bet_id=another)
    _placed(at, first, title, weight)
    at.accepts(second.withdraw(), "the next withdraw, of another bet")
    for bet, which in ((second, "second"), (first, "first")):
        at.accepts(bet.deposit(bet.wager_cents), f"the deposit of the {which}")


def _check_width(at: Stage) -> None:
    """Hold that ids of up to 256 characters are kept whole."""
    start, fits = f"{at.fresh('bet')}-", 0
    for width in (_WIDTHS[2], LONGEST_ID):
        bet = at.bet(bet_id=start.ljust(width - 1, "x") + "a")
        heard = at.send(at.request(bet.withdraw(), f"a withdraw whose id has {width} characters"))
        at.check_unlimited(heard, asked=True)
        if not heard.succeeded:
            raise _taken_for_another(heard) if fits and heard.code in _KNOWN_CODES else _too_narrow(at, heard, width)
        at.check_moved(heard, at.player, -bet.wager_cents)
        for call in (bet.withdraw(), bet.deposit(bet.wager_cents)):
            again = at.send(at.request(call, f"a {call.operation} whose id has {width} characters, after its withdraw"))
            if not again.succeeded:
                raise _too_narrow(at, again, width)
            at.check_moved(again, at.player, 0 if call.operation == "withdraw" else bet.wager_cents)
        fits = width
        cut = f", as if ids were cut before their end, at {fits} characters or fewer"
        at.suspects = {at.unit_cents: (KnownCause.NARROW, cut)}
    other = at.bet(bet_id=start.ljust(LONGEST_ID - 1, "x") + "b")
    heard = at.ask(other.withdraw(), f"a withdraw whose id differs in the last of {LONGEST_ID} characters")
    if not heard.succeeded:
        raise _taken_for_another(heard)
    at.check_moved(heard, at.player, -other.wager_cents)
    at.suspects = {}
    at.accepts(other.deposit(other.wager_cents), "its deposit")


def _taken_for_another(heard: Carried) -> Found:
    told = f"refused with {heard.code}, as if it were the bet before, whose id begins alike: ids seem to be cut"
    return Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.NARROW)


def _too_narrow(at: Stage, heard: Carried, width: int) -> Found:
    """Return what is wrong where an id of *width* characters does not fit, with the longest one that does."""
    fits = 0
    for shorter in (each for each in _WIDTHS if each < width):
        bet = at.bet(bet_id=f"{at.fresh('b')}-".ljust(shorter, "x"), tx_id=at.fresh("tx"))
        if len(bet.bet_id) == shorter and at.send(at.request(bet.withdraw(), f"one of {shorter} characters")).succeeded:
            at.send(at.request(bet.rollback(), "its rollback"))
            fits = shorter
    short_tx = at.bet(bet_id=f"{at.fresh('b')}-".ljust(width, "x"), tx_id=at.fresh("tx"))
    what = "the bet's id"
    if at.send(at.request(short_tx.withdraw(), f"one of {width} characters, with a short tx_id")).succeeded:
        at.send(at.request(short_tx.rollback(), "its rollback"))
        what = f"the tx_id of {len(heard.request.body and at.bet(bet_id='x' * width).withdraw().tx_id)} characters"
    answer = heard.code or (f"HTTP {heard.status}" if heard.status else heard.problem)
    longest = f"; one of {fits} characters is accepted" if fits else ""
    told = f"answered {answer}, because of {what}{longest}"
    weight = Weight.CONTRACT_BROKEN if heard.request.path == "/withdraw" else Weight.MONEY_LOST
    return Found(told, heard, weight=weight, cause=KnownCause.NARROW)


def f08(at: Stage) -> None:
    """Quotes, SQL, HTML and line breaks in an id are characters like any other; what no database keeps should not."""
    for what, word in _SHARP.items():
        _round_trip(at, at.bet(bet_id=f"{at.fresh('bet')}-{word}"), f"with {what} in its id", Weight.MONEY_LOST)
    for what, (one, another) in _CLEANED.items():
        start = at.fresh("bet") + "-"
        _two_bets(at, start + one, start + another, f"a withdraw whose id differs in {what} from the next one's")
    for what, text in _UNSTORABLE.items():
        bet = at.bet()
        request = with_raw(at, bet.withdraw(), "bet_id", f'"{bet.bet_id}-{text}"', f"a withdraw with {what} in its id")
        _better_refused(at, request, moves=-bet.wager_cents)


def _round_trip(at: Stage, bet: BetCalls, told: str, weight: Weight = Weight.CONTRACT_BROKEN) -> None:
    """Hold that the wallet finds a bet again by its id."""
    first = _placed(at, bet, f"a withdraw {told}", weight)
    at.again(bet.withdraw(), first, f"the same withdraw {told} again")
    at.accepts(bet.deposit(bet.wager_cents), f"a deposit {told}")


def _placed(at: Stage, bet: BetCalls, title: str, weight: Weight | None = Weight.CONTRACT_BROKEN) -> Carried:
    """Place *bet*. If it is refused for its letters, no money is lost, but a game cannot be played."""
    heard = at.ask(bet.withdraw(), title)
    at.check_unlimited(heard, asked=True)
    if not heard.succeeded:
        told, cause = f"refused with {heard.code} instead of SUCCESS", at.cause_of_refusal(heard)
        raise Found(told, heard, weight=weight, cause=cause)
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
        elif heard.status >= 400:
            at.advise(f"{_said(heard)}; INVALID_REQUEST with HTTP 200 is assumed", heard)
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
        (replace(check, title=f"a balance check with {': '.join(_WITH_CHARSET)}", headers=(_WITH_CHARSET,)), True),
        (replace(check, title="a balance check in chunks", manner=Manner.CHUNKED), True),
        (replace(check, title="a balance check in small pieces", manner=Manner.SLOW), True),
    ]
    for request, accepted in odd:
        heard = at.send(request)
        is_odd = accepted is not None and heard.succeeded is not accepted
        if is_odd or not heard.status or heard.status >= 500:
            at.advise(f"{_said(heard)}; expected was {_EXPECTED[accepted]}", heard)
    check = replace(check, title="a balance check meanwhile")
    _split_characters(at)
    half = replace(check, title="a balance check that breaks off half way", manner=Manner.HALF)
    silent, other = at.together([half, check])
    for heard, accepted in ((silent, False), (other, True)):
        if heard.succeeded is not accepted:
            at.advise(_said(heard), heard)


def _split_characters(at: Stage) -> None:
    """Hold that a body whose packets end within a character is read like any other."""
    # Of two lengths, in case the pieces of one end between two characters.
    for more in ("", "-"):
        bet = at.bet(bet_id=f"{at.fresh('bet')}-{more}{_EMOJI * _MANY_EMOJI}")
        request = at.request(bet.withdraw(), "a withdraw that comes in pieces, which end within a character")
        heard = at.ask(replace(request, manner=Manner.SLOW))
        if not heard.succeeded:
            raise _refused_in_pieces(at, bet, heard)
        at.check_moved(heard, at.player, -bet.wager_cents)
        at.accepts(bet.rollback(), "its rollback")


def _refused_in_pieces(at: Stage, bet: BetCalls, heard: Carried) -> Found:
    """Return what is wrong: the pieces, or the length of the body or of the id, however it comes."""
    told, cause = f"refused with {heard.code} instead of SUCCESS", at.cause_of_refusal(heard)
    length = len(heard.request.body)
    if not at.send(of_bytes(at, length)).succeeded:
        told, cause = f"{told}; so is any body of its {length:,} bytes", KnownCause.SHORT_BODIES
    elif not at.send(at.request(bet.withdraw(), "the same withdraw in one piece")).succeeded:
        plain = at.bet(bet_id=at.fresh("bet").ljust(len(bet.bet_id), "x"))
        if not at.send(at.request(plain.withdraw(), "a withdraw whose id is as long")).succeeded:
            cause = KnownCause.NARROW
        told = f"{told}; so is the same in one piece, with its id of {len(bet.bet_id)} characters"
    return Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=cause)


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
    for raw in ("null", '""', f'"{"r" * (LONGEST_ID + 1)}"'):
        if not at.writer.name("round_id", "rollback"):
            break
        bet = at.placed()
        told = raw if len(raw) < LONGEST_ID else f"{LONGEST_ID + 1} characters long"
        request = with_raw(at, bet.rollback(), "round_id", raw, f"a rollback whose round_id is {told}")
        at.accepts(request, moves=bet.wager_cents)
    bet = at.placed()
    numbered = with_raw(at, bet.rollback(), "round_id", "7", "a rollback whose round_id is 7")
    if not _refused_or_meant(at, numbered, moves=bet.wager_cents).succeeded:
        at.accepts(bet.rollback(), "its rollback")
    for canonical, raw in _ODD_NAMES[: at.observed.times(len(_ODD_NAMES), 1)]:
        if name := at.writer.name(canonical, "withdraw"):
            bet = at.bet()
            if _refused_or_meant(
                at,
                with_raw(at, bet.withdraw(), canonical, raw, f"a withdraw whose {name} is {raw}"),
                moves=-bet.wager_cents,
            ).succeeded:
                at.accepts(bet.rollback(), "its rollback")
            # What goes wrong after the answer shows in the next call.
            at.check_balances(at.player)
    if at.writer.name("won_cents", "deposit") not in ("", at.writer.name("amount_cents", "deposit")):
        bet = at.placed()
        deposit = replace(bet.deposit(bet.wager_cents), won_cents=2 * bet.wager_cents)
        at.suspects = {bet.wager_cents: (KnownCause.OTHER_FIELD, ", which is action.won in place of the amount")}
        at.accepts(deposit, "a deposit that says it won more than its amount")
        for jackpot in at.jackpots():
            at.suspects = {
                -jackpot.amount_cents: (KnownCause.OTHER_FIELD, ", which is action.won in place of the amount")
            }
            at.accepts(replace(jackpot, won_cents=0), "a jackpot that says it won nothing beside its amount")
    if "FREE_BET_CLAIM" in at.writer.claim_types and at.writer.name("free_bets", "deposit"):
        cents = at.unit_cents
        free = FreeBet(id=at.fresh("free"), round_id=at.fresh("round"), wager_cents=cents, won_cents=2 * cents)
        claim = at.claim(cents, "FREE_BET_CLAIM", free_bets=(free,))
        more = ", which is what the free bets won in place of the amount"
        both = ", which is what the free bets won, on top of the amount"
        at.suspects = {cents: (KnownCause.OTHER_FIELD, more), 2 * cents: (KnownCause.OTHER_FIELD, both)}
        at.accepts(claim, "a claim of free bets that won more than its amount")


def f12(at: Stage) -> None:
    """Each of two ids that are equal as numbers is a bet, with its own wager, and its end is its own."""
    number = int.from_bytes(sha256(at.prefix.encode()).digest()[:4]) % 900_000_000 + 100_000_000
    begins: list[tuple[WebhookCall, str]] = []
    ends: list[tuple[WebhookCall, str]] = []
    for what, (one, another) in _equal_numbers(number).items():
        first, second = (at.bet(bet_id=each, tx_id=each) for each in (one, another))
        same = f"the bet {another}, which is the same as a number as {one} ({what})"
        begins += [(first.withdraw(), f"a withdraw of the bet {one}"), (second.withdraw(), f"a withdraw of {same}")]
        ends += [(first.deposit(2 * first.wager_cents), f"the deposit of the bet {one}")]
        ends += [(second.rollback(), f"the rollback of {same}")]
    at.accepts_all(begins)
    at.accepts_all(ends)


def _equal_numbers(number: int) -> Mapping[str, tuple[str, str]]:
    """Return pairs of ids that are different texts, and equal once they are numbers; no other run has them."""
    # Above 2^53 two odd neighbours are one float.
    large = 2**53 + 2 * number
    return {
        "a leading zero": (f"{number}", f"0{number}"),
        "an exponent": (f"{number}000", f"{number}e3"),
        "a point": (f"1{number}", f"1{number}.0"),
        "beyond 2^53": (f"{large}", f"{large + 1}"),
        "beyond 64 bits": (f"{number}{'0' * 20}1", f"{number}{'0' * 20}2"),
        "both are 0": (f"0e{number}", f"0e{number + 1}"),
        "both are infinite": (f"{number}e999", f"{number + 1}e999"),
        "hexadecimal": (f"{number + 7}", f"0x{number + 7:x}"),
    }


def f13(at: Stage) -> None:
    """A bet may be named like a member that every object has, or like no value at all."""
    is_new = False
    for name in _NAMES[: at.observed.times(len(_NAMES), _FEWEST_NAMES)]:
        bet = at.bet(bet_id=name, cents=1, tx_id=at.fresh("tx"))
        first = at.ask(bet.withdraw(), f"a withdraw of the bet {name!r}")
        if first.code == fold_code(Code.BET_ROLLED_BACK, at.profile):
            # An earlier run has placed it and rolled it back, and with it all names before.
            if is_new:
                raise Found(f"refused with {first.code}, and no run has placed it", first)
            continue
        is_new = True
        at.check_unlimited(first, asked=True)
        at.check_moved(first, at.player, -1)
        at.again(bet.withdraw(), first, f"the same withdraw of the bet {name!r} again")
        at.accepts(bet.rollback(), f"the rollback of the bet {name!r}")


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
    if heard.code == Code.SYSTEM_ERROR:
        at.check_code(heard, Code.INVALID_REQUEST)
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
