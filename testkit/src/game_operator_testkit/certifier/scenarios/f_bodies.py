"""Group F, hostile input: signed bodies that no service should send, and odd HTTP (spec §4.1, assumed)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import (
    LONGEST_ID,
    MAX_AMOUNT_CENTS,
    BalanceCall,
    DepositCall,
    MovingCall,
    WebhookCall,
)
from game_operator.protocol.exact_json import encode_json
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.calls import moved_by
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.certifier.scenarios.bodies import (
    LACKS,
    Better,
    check_length,
    deep,
    end_tolerated,
    free_bets,
    lacking,
    of_bytes,
    tolerated,
    with_raw,
)
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import BetCalls, Manner, Request

#: What may become of a genuine body, and cannot be meant.
_UNREADABLE: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "nothing at all": lambda _: b"",
    "null": lambda _: b"null",
    "an empty array": lambda _: b"[]",
    "an array of a withdraw": lambda body: b"[%b]" % body,
    "half a withdraw": lambda body: body[: len(body) // 2],
    "a withdraw without its last brace": lambda body: body[:-1],
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
_UNUSUAL_AMOUNTS: Final = {'"50"': 50, "5e1": 50}
_WITH_POINT, _POINT_CENTS = "5.0", 5
_HUGE_AMOUNTS: Final = {"2^31": 2**31, "2^53 + 1": 2**53 + 1, "10^30": 10**30}
#: Values, as JSON, of fields on which nothing depends.
_ODD_FIELDS: Final = (
    ("rollback", "amount_cents", '"500"'),
    ("deposit", "wager_cents", '{"cents":500}'),
    ("rollback", "round_id", "null"),
    ("rollback", "round_id", '""'),
    ("rollback", "round_id", f'"{"r" * (LONGEST_ID + 1)}"'),
)
#: And of such that a wallet may look at before it takes a withdraw.
_ODD_NAMES: Final = (("game", "{}"), ("game", "7"), ("instance_id", "7"))
#: What may be absent (docs/decisions/0010). By its round a rollback differs from its withdraw.
_NOT_NEEDED: Final = (("withdraw", "game"), ("deposit", "game"), ("rollback", "game"), ("deposit", "round_id"))
_MANY_LEVELS: Final = 1_000
#: What an odd request should be answered with: accepted, refused, or either.
_EXPECTED: Final = {
    True: "SUCCESS",
    False: "a refusal, such as HTTP 405",
    None: "SUCCESS or a refusal, of any status below 500",
}
_WITH_CHARSET: Final = (("Content-Type", "application/json; charset=utf-8"),)
#: How a balance check is sent, whether it is accepted, and what it means if it is not. Any: fields of a request.
_ODD: Final[Sequence[tuple[str, Mapping[str, Any], bool | None, str]]] = (
    ("by GET", {"method": "GET"}, False, ""),
    ("by PUT", {"method": "PUT"}, False, ""),
    ("with text/plain", {"headers": (("Content-Type", "text/plain"),)}, None, ""),
    ("with Content-Encoding: gzip", {"headers": (("Content-Encoding", "gzip"),)}, None, ""),
    ("with a charset", {"headers": _WITH_CHARSET}, True, KnownCause.CHARSET),
    ("in chunks", {"manner": Manner.CHUNKED}, True, KnownCause.CHUNKS),
    ("in small pieces", {"manner": Manner.SLOW}, True, KnownCause.PIECES),
)
_EMOJI: Final = "\U0001f3b0"
_MANY_EMOJI: Final = 120
_WHOLE: Final = "one that is sent in one piece is accepted"


def f01(at: Stage) -> None:
    """Nothing, null, arrays, half a body and bytes that are not UTF-8 are refused; what some parsers take should be."""
    genuine = [(at.request(at.bet().withdraw(), f"a body that is {what}"), by) for what, by in _UNREADABLE.items()]
    at.refuses_all([replace(each, body=by(each.body)) for each, by in genuine], Code.INVALID_REQUEST)
    invalid = at.request(at.bet().withdraw(), "a body that is a withdraw whose last id has a byte that is no UTF-8")
    invalid = replace(invalid, body=invalid.body[:-2] + b"\xff" + invalid.body[-2:])
    at.refuses(invalid, "", Code.INVALID_REQUEST, cause=KnownCause.NO_UTF8)
    for what, changed in _UNUSUAL.items():
        request = at.request(at.bet().withdraw(), f"a body that is {what}")
        tolerated(at, replace(request, body=changed(request.body)), moves=-at.unit_cents, better="refused")


def f02(at: Stage) -> None:
    """Fields are missing, null, empty and blank: nothing moves wrongly, and the honest deposit is still paid."""
    bet = at.placed()
    lacks = _calls_and_what_they_lack(at, bet)
    at.refuses_all([lacking(at, call, canonical, how) for call, canonical, how in lacks], Code.INVALID_REQUEST)
    at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be")
    for canonical, how in (("bet_id", "blank"), ("tx_id", "null"), ("tx_id", "empty"), ("tx_id", "blank")):
        if at.writer.name(canonical, "withdraw"):
            tolerated(at, lacking(at, at.bet().withdraw(), canonical, how), moves=-at.unit_cents, better="refused")
    ends = [(BetCalls.rollback, "bet_id"), (BetCalls.rollback, "player_id"), (_bare, "player_id")]
    for (end, canonical), how in product(ends, ("missing", "null")):
        bet = at.bet()
        end_tolerated(at, bet, lacking(at, end(bet), canonical, how), bet.wager_cents)
    # An amount that is null, although another field says one.
    bet = at.bet()
    end_tolerated(at, bet, lacking(at, bet.deposit(bet.wager_cents), "amount_cents", "null"), bet.wager_cents)


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
    # Where a point makes units of cents, a fraction moves money too, and says less of it.
    told = f", which is {_WITH_POINT} in currency units: a number with a point is not taken for cents"
    at.suspects = dict.fromkeys((-99 * _POINT_CENTS, 99 * _POINT_CENTS), (KnownCause.POINT, told))
    _unusual_amount(at, _WITH_POINT, _POINT_CENTS, better="accepted")
    at.suspects = {}
    _amounts_refused(at, _NO_AMOUNTS)
    for raw, cents in _UNUSUAL_AMOUNTS.items():
        _unusual_amount(at, raw, cents, better="refused")


def _unusual_amount(at: Stage, raw: str, cents: int, *, better: Better) -> None:
    """Hold that a withdraw and a deposit of *raw*, as JSON, move so many cents, or nothing."""
    tolerated(at, with_raw(at, at.bet().withdraw(), "amount_cents", raw), moves=-cents, better=better)
    bet = at.bet()
    end_tolerated(at, bet, with_raw(at, _bare(bet), "amount_cents", raw), cents, better=better)


def f04(at: Stage) -> None:
    """Amounts below 0 are refused; a withdraw of 0 is refused, or a bet, as the profile says."""
    _amounts_refused(at, ("-1", str(-at.unit_cents)))
    nothing = at.bet(wager_cents=0)
    if at.profile.allow_zero_withdraw:
        at.placed(nothing, title="a withdraw of 0")
        at.accepts(nothing.rollback(), "its rollback")
    else:
        at.refuses(nothing.withdraw(), "a withdraw of 0", Code.INVALID_REQUEST, success_is_advice=True)


def _amounts_refused(at: Stage, amounts: Sequence[str]) -> None:
    """Hold that withdraws and deposits of these amounts, as JSON, are refused; the honest deposit is still paid."""
    bet = at.placed()
    calls = [(call, raw) for raw in amounts for call in (at.bet().withdraw(), _bare(bet))]
    at.refuses_all([with_raw(at, call, "amount_cents", raw) for call, raw in calls], Code.INVALID_REQUEST)
    at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be")


def f05(at: Stage) -> None:
    """Wagers of 2^31 cents and more are refused, for want of money or of sense."""
    for told, cents in _HUGE_AMOUNTS.items():
        if cents <= at.player.due_cents:
            continue
        heard = at.ask(with_raw(at, at.bet().withdraw(), "amount_cents", str(cents), f"a withdraw of {told} cents"))
        if heard.succeeded:
            at.check_balances(at.player, after=heard)
        if heard.code == Code.SYSTEM_ERROR and (told := _too_large(at, cents)):
            at.note(f"refused with {heard.code}, as are all {told}", Weight.ADVICE, KnownCause.TOO_LARGE, heard)
        elif heard.code not in (Code.INVALID_REQUEST, Code.LIMIT_EXCEEDED):
            is_unread = heard.code == Code.SYSTEM_ERROR and cents > MAX_AMOUNT_CENTS
            at.check_refused(heard, Code.INVALID_REQUEST if is_unread else Code.INSUFFICIENT_BALANCE)
        at.check_balance(heard, at.player)


def _too_large(at: Stage, cents: int) -> str:
    """Return from which amount on withdraws fail, if one of *cents* does, and lower ones beyond the balance do not."""
    fits_cents = 0
    for power in range(len(str(at.player.due_cents)), len(str(MAX_AMOUNT_CENTS))):
        bet = at.bet(wager_cents=10**power)
        request = at.request(bet.withdraw(), f"a withdraw of {units(10**power)}, to see from which amount on they fail")
        if at.send(request, due=Code.SYSTEM_ERROR).code == Code.SYSTEM_ERROR:
            from_cents = min(bet.wager_cents, cents)
            return f"from {from_cents / 100:,.2f} on; one of {fits_cents / 100:,.2f} is not" if fits_cents else ""
        fits_cents = bet.wager_cents
    return ""


def f06(at: Stage) -> None:
    """A balance check of two players and a withdraw of two amounts should be refused."""
    calls: list[tuple[WebhookCall, str, str | int, str | int]] = [
        (BalanceCall(player_id=at.player.id), "player_id", at.player.id, at.other.id),
        (at.bet().withdraw(), "amount_cents", at.unit_cents, 1),
    ]
    for call, canonical, *values in calls:
        name = at.writer.name(canonical, call.operation)
        one, another, last_step = (encode_json(each).decode() for each in (*values, name.rpartition(".")[2]))
        title = f"a {call.operation} with two values of {name}"
        heard = at.ask(with_raw(at, call, canonical, f"{one},{last_step}:{another}", title))
        if heard.succeeded:
            at.advise("accepted, and parsers differ in which of the two counts", heard)
        else:
            at.check_code(heard, Code.INVALID_REQUEST)
    at.player.due_cents = at.opening_cents_of(at.player)


def f11(at: Stage) -> None:
    """A rollback whose amount is text and a deposit whose wager is an object are processed; the amount is paid."""
    _odd_fields(at)
    if not at.observed.is_slow:
        _absent_fields(at)
        _without_action(at)
        _name_in_another_case(at)
    if at.writer.name("won_cents", "deposit") not in ("", at.writer.name("amount_cents", "deposit")):
        _amounts_beside_others(at)
    if "FREE_BET_CLAIM" in at.writer.claim_types and at.writer.name("free_bets", "deposit"):
        _free_bets_that_won_more(at)


def _odd_fields(at: Stage) -> None:
    """Hold that a field on which nothing depends may have any value."""
    for operation, canonical, raw in _ODD_FIELDS:
        if at.writer.name(canonical, operation):
            bet = at.placed()
            call = bet.rollback() if operation == "rollback" else bet.deposit(bet.wager_cents)
            at.accepts(with_raw(at, call, canonical, raw), moves=bet.wager_cents)
    if at.writer.name("round_id", "rollback"):
        bet = at.placed()
        numbered = with_raw(at, bet.rollback(), "round_id", "7")
        if not tolerated(at, numbered, moves=bet.wager_cents, better="either").succeeded:
            at.accepts(bet.rollback(), "its rollback")
    for canonical, raw in _ODD_NAMES[: at.observed.times(len(_ODD_NAMES), 1)]:
        if at.writer.name(canonical, "withdraw"):
            bet = at.bet()
            named = with_raw(at, bet.withdraw(), canonical, raw)
            if tolerated(at, named, moves=-bet.wager_cents, better="either").succeeded:
                at.accepts(bet.rollback(), "its rollback")
            # What goes wrong after the answer shows in the next call.
            at.check_balances(at.player)


def _absent_fields(at: Stage) -> None:
    """Calls should be accepted without a field that is not needed, unless the wallet takes known values alone."""
    for operation, canonical in _NOT_NEEDED:
        if not (name := at.writer.name(canonical, operation)):
            continue
        bet = at.bet() if operation == "withdraw" else at.placed()
        calls: list[MovingCall] = [bet.withdraw(), bet.deposit(bet.wager_cents), bet.rollback()]
        (call,) = (each for each in calls if each.operation == operation)
        # Any: a field of the call.
        values: tuple[Any, ...] = (None, at.fresh(canonical))
        absent, other = (replace(call, **{canonical: value}) for value in values)
        without, another = f"a {operation} without its {name}", f"a {operation} of another {name}"
        heard = tolerated(at, at.request(absent, without), moves=moved_by(call), better="either")
        if heard.succeeded:
            continue
        if tolerated(at, at.request(other, another), moves=moved_by(call), better="either").succeeded:
            at.advise(f"refused with {heard.code}, and SUCCESS is assumed", heard)
        else:
            at.accepts(call, f"the {operation} as it must be")


def _without_action(at: Stage) -> None:
    """Hold that a deposit is paid that has no action, and what only deposits have: its bet's win."""
    holder, _, rest = at.writer.name("action", "deposit").partition(".")
    others = at.profile.names_of("amount_cents", "withdraw")
    marks = [each for each in at.profile.names_of("amount_cents", "deposit") if "." not in each and each not in others]
    if not rest or not marks:
        return
    bet = at.placed()
    request = at.request(_bare(bet), f"a deposit that has {marks[0]} and no {holder}")
    body = at.writer.body(_bare(bet)) | {marks[0]: bet.wager_cents}
    del body[holder]
    at.accepts(replace(request, body=encode_json(body)), moves=bet.wager_cents)


def _name_in_another_case(at: Stage) -> None:
    """Hold that a member whose name differs in its case alone is another one, if it is accepted at all."""
    bet, name = at.bet(), at.writer.name("amount_cents", "withdraw").rpartition(".")[2]
    odd = name.swapcase()
    raw = f'{bet.wager_cents},"{odd}":{bet.wager_cents + 1}'
    heard = at.ask(with_raw(at, bet.withdraw(), "amount_cents", raw, f"a withdraw with {name} and another {odd}"))
    if heard.succeeded:
        at.suspects = {-1: (KnownCause.ANY_CASE, f", which is {odd} in place of {name}")}
        at.check_moved(heard, at.player, -bet.wager_cents)
        at.suspects = {}


def _amounts_beside_others(at: Stage) -> None:
    bet, told = at.placed(), ", which is action.won in place of the amount"
    deposit = replace(bet.deposit(bet.wager_cents), won_cents=2 * bet.wager_cents)
    at.suspects = {bet.wager_cents: (KnownCause.OTHER_FIELD, told)}
    at.accepts(deposit, "a deposit that says it won more than its amount")
    for jackpot in at.jackpots():
        at.suspects = {-jackpot.amount_cents: (KnownCause.OTHER_FIELD, told)}
        at.accepts(replace(jackpot, won_cents=0), "a jackpot that says it won nothing beside its amount")


def _free_bets_that_won_more(at: Stage) -> None:
    cents = at.unit_cents
    claim = at.claim(cents, "FREE_BET_CLAIM", free_bets=free_bets(at, 1, 2 * cents))
    more = ", which is what the free bets won in place of the amount"
    both = ", which is what the free bets won, on top of the amount"
    at.suspects = {cents: (KnownCause.OTHER_FIELD, more), 2 * cents: (KnownCause.OTHER_FIELD, both)}
    at.accepts(claim, "a claim of free bets that won more than its amount")


def _bare(bet: BetCalls) -> DepositCall:
    """Return the deposit that pays the wager, and says its amount once."""
    return replace(bet.deposit(bet.wager_cents), wager_cents=None, won_cents=None)


def f09(at: Stage) -> None:
    """The longest body that the profile has is accepted, one byte more is not; a thousand levels take no time."""
    most = at.profile.max_body_bytes
    longest = at.send(of_bytes(at, most))
    if not longest.succeeded:
        at.advise(f"{_said(longest)}, and SUCCESS is assumed", longest)
    longer = at.send(of_bytes(at, most + 1))
    nested = at.ask(deep(at, _MANY_LEVELS))
    for heard, due in ((longer, Code.SYSTEM_ERROR), (nested, Code.INVALID_REQUEST)):
        if heard.succeeded:
            at.advise("accepted; the wallet seems to have no size limit", heard)
        elif heard.status >= 400:
            at.advise(f"{_said(heard)}; {due} with HTTP 200 is assumed", heard)
    if nested.elapsed_ms > 1_000:
        at.advise(f"took {nested.elapsed_ms:.0f} ms", nested)


def f10(at: Stage) -> None:
    """Other methods, types and manners are answered in some way; a caller that falls silent does no harm to others."""
    check = at.balance_request("a balance check")
    for how, changes, accepted, cause in _ODD:
        request = replace(check, title=f"a balance check {how}", **changes)
        heard = at.send(request)
        told = f"{_said(heard)}; expected was {_EXPECTED[accepted]}"
        if cause == KnownCause.PIECES and not heard.succeeded:
            raise Found(told, heard, weight=Weight.MONEY_LOST, cause=cause)
        if accepted is not None and heard.succeeded is not accepted:
            at.note(told, Weight.ADVICE, cause, heard)
        elif not heard.status or heard.status >= 500:
            at.advise(told, heard)
        if request.method != "POST":
            _leaves_nothing(at, replace(request, title=f"{request.title}, and after it by POST, on its connection"))
    # Of two lengths, in case the pieces of one end between two characters.
    for more in ("", "-"):
        for manner in (Manner.WHOLE, Manner.SLOW):
            _placed_and_refunded(at, f"{at.fresh('bet')}-{more}{_EMOJI * _MANY_EMOJI}", manner)
    check = replace(check, title="a balance check meanwhile")
    half = replace(check, title="a balance check that breaks off half way", manner=Manner.HALF)
    silent, other = at.together([half, check])
    for heard, accepted in ((silent, False), (other, True)):
        if heard.succeeded is not accepted:
            at.advise(_said(heard), heard)


def _leaves_nothing(at: Stage, request: Request) -> None:
    """Hold that a call by another method leaves nothing on its connection that spoils the next one."""
    heard = at.send(replace(request, manner=Manner.FOLLOWED))
    if heard.answer is not None and heard.answer.reused and not heard.succeeded:
        told = f"{_said(heard)}; on a new connection it is accepted"
        raise Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.LEFT_OVER)


def _placed_and_refunded(at: Stage, bet_id: str, manner: Manner) -> None:
    """Hold that a bet is placed and refunded: one in pieces, which end within a character, like the one before."""
    bet = at.bet(bet_id=bet_id)
    in_pieces = manner is Manner.SLOW
    how = "comes in pieces, which end within a character" if in_pieces else f"has {len(bet_id)} characters in its id"
    heard = at.ask(replace(at.request(bet.withdraw(), f"a withdraw that {how}"), manner=manner))
    if in_pieces and not heard.succeeded:
        raise Found(f"refused with {heard.code} instead of SUCCESS; {_WHOLE}", heard, weight=Weight.CONTRACT_BROKEN)
    if not heard.succeeded:
        check_length(at, heard)
    at.check_moved(heard, at.player, -bet.wager_cents)
    heard = at.ask(bet.rollback(), f"the rollback of a bet whose withdraw {how}")
    if heard.code == Code.BET_NOT_FOUND:
        told = f"refused with {heard.code} instead of SUCCESS"
        raise Found(f"{told}; {_WHOLE}" if in_pieces else told, heard, cause="" if in_pieces else KnownCause.NARROW)
    at.check_moved(heard, at.player, bet.wager_cents)


def _said(heard: Carried) -> str:
    told = heard.problem if heard.reply is None else heard.code or "SUCCESS"
    return f"HTTP {heard.status}, {told}" if heard.status else told
