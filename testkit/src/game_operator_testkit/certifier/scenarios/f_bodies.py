"""Group F, hostile input: bodies that no service should send, signed all the same (spec §4.1, assumed)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import LONGEST_ID, BalanceCall, DepositCall, WebhookCall
from game_operator_testkit.certifier.engine.calls import moved_by
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.report.verdicts import KnownCause
from game_operator_testkit.certifier.scenarios.bodies import (
    LACKS,
    free_bets,
    lacking,
    null_before,
    of_amount,
    twice,
    with_raw,
)
from game_operator_testkit.certifier.scenarios.tolerated import (
    better_meant,
    better_refused,
    end_better_refused,
    refused_or_meant,
)
from game_operator_testkit.provider.requests import BetCalls

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
_UNUSUAL_AMOUNTS: Final = {'"50"': 50, "5e1": 50, "5.0": 5}
_HUGE_AMOUNTS: Final = {"2^31": 2**31, "2^53 + 1": 2**53 + 1, "10^30": 10**30}
#: What nobody needs to read, as JSON that is no text.
_ODD_NAMES: Final = (("game", "7"), ("game", "{}"), ("instance_id", "7"))
#: What may be absent (docs/decisions/0010).
_NOT_NEEDED: Final = ("game", "round_id")
#: But by its round a rollback differs from its withdraw.
_IS_NEEDED: Final = ("rollback", "round_id")


def f01(at: Stage) -> None:
    """Nothing, null, arrays, half a body and bytes that are not UTF-8 are refused; what some parsers take should be."""
    genuine = [(at.request(at.bet().withdraw(), f"a body that is {what}"), by) for what, by in _UNREADABLE.items()]
    at.refuses_all([replace(each, body=by(each.body)) for each, by in genuine], Code.INVALID_REQUEST)
    invalid = at.request(at.bet().withdraw(), "a body that is a withdraw whose last id has a byte that is no UTF-8")
    invalid = replace(invalid, body=invalid.body[:-2] + b"\xff" + invalid.body[-2:])
    at.refuses(invalid, "", Code.INVALID_REQUEST, cause=KnownCause.NO_UTF8)
    for what, changed in _UNUSUAL.items():
        request = at.request(at.bet().withdraw(), f"a body that is {what}")
        better_refused(at, replace(request, body=changed(request.body)), moves=-at.unit_cents)


def f02(at: Stage) -> None:
    """Fields are missing, null, empty and blank: nothing moves wrongly, and the honest deposit is still paid."""
    bet = at.placed()
    lacks = _calls_and_what_they_lack(at, bet)
    at.refuses_all([lacking(at, call, canonical, how) for call, canonical, how in lacks], Code.INVALID_REQUEST)
    at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be")
    for canonical, how in (("bet_id", "blank"), ("tx_id", "null"), ("tx_id", "empty"), ("tx_id", "blank")):
        if at.writer.name(canonical, "withdraw"):
            better_refused(at, lacking(at, at.bet().withdraw(), canonical, how), moves=-at.unit_cents)
    ends = [(BetCalls.rollback, "bet_id"), (BetCalls.rollback, "player_id"), (_bare, "player_id")]
    for (end, canonical), how in product(ends, ("missing", "null")):
        bet = at.bet()
        end_better_refused(at, bet, lacking(at, end(bet), canonical, how), bet.wager_cents)
    if not at.observed.is_slow:
        _null_is_present(at)


def _null_is_present(at: Stage) -> None:
    """An amount that is null should be refused, although another field says one."""
    if request := null_before(at, at.bet().withdraw(), "amount_cents"):
        better_refused(at, request, moves=-at.unit_cents)
    bet = at.bet()
    end_better_refused(at, bet, lacking(at, bet.deposit(bet.wager_cents), "amount_cents", "null"), bet.wager_cents)


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
        by = better_meant if "." in raw else better_refused
        by(at, of_amount(at, at.bet().withdraw(), raw), moves=-cents)
        another = at.bet()
        end_better_refused(at, another, of_amount(at, _bare(another), raw), cents, by=by)


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


def f11(at: Stage) -> None:
    """A rollback whose amount is text and a deposit whose wager is an object are processed; the amount is paid."""
    _odd_fields_that_do_not_count(at)
    _odd_rounds(at)
    _odd_names(at)
    if not at.observed.is_slow:
        _absent_fields(at)
    if at.writer.name("won_cents", "deposit") not in ("", at.writer.name("amount_cents", "deposit")):
        _amounts_beside_others(at)
    if "FREE_BET_CLAIM" in at.writer.claim_types and at.writer.name("free_bets", "deposit"):
        _free_bets_that_won_more(at)


def _odd_fields_that_do_not_count(at: Stage) -> None:
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


def _odd_rounds(at: Stage) -> None:
    for raw in ("null", '""', f'"{"r" * (LONGEST_ID + 1)}"'):
        if not at.writer.name("round_id", "rollback"):
            break
        bet = at.placed()
        told = raw if len(raw) < LONGEST_ID else f"{LONGEST_ID + 1} characters long"
        request = with_raw(at, bet.rollback(), "round_id", raw, f"a rollback whose round_id is {told}")
        at.accepts(request, moves=bet.wager_cents)
    bet = at.placed()
    numbered = with_raw(at, bet.rollback(), "round_id", "7", "a rollback whose round_id is 7")
    if not refused_or_meant(at, numbered, moves=bet.wager_cents).succeeded:
        at.accepts(bet.rollback(), "its rollback")


def _odd_names(at: Stage) -> None:
    for canonical, raw in _ODD_NAMES[: at.observed.times(len(_ODD_NAMES), 1)]:
        if name := at.writer.name(canonical, "withdraw"):
            bet = at.bet()
            request = with_raw(at, bet.withdraw(), canonical, raw, f"a withdraw whose {name} is {raw}")
            if refused_or_meant(at, request, moves=-bet.wager_cents).succeeded:
                at.accepts(bet.rollback(), "its rollback")
            # What goes wrong after the answer shows in the next call.
            at.check_balances(at.player)


def _absent_fields(at: Stage) -> None:
    """Calls should be accepted without a field that is not needed, unless the wallet takes known values alone."""
    for canonical in _NOT_NEEDED:
        settled, cancelled = at.bet(), at.placed()
        for call in (settled.withdraw(), settled.deposit(settled.wager_cents), cancelled.rollback()):
            name, usual = at.writer.name(canonical, call.operation), f"the {call.operation} as it must be"
            if not name or not getattr(call, canonical, None) or (call.operation, canonical) == _IS_NEEDED:
                at.accepts(call, usual)
                continue
            # Any: a field of the call.
            values: tuple[Any, ...] = (None, at.fresh(canonical))
            absent, other = (replace(call, **{canonical: value}) for value in values)
            heard = refused_or_meant(
                at, at.request(absent, f"a {call.operation} without its {name}"), moves=moved_by(call)
            )
            if heard.succeeded:
                continue
            if refused_or_meant(
                at, at.request(other, f"a {call.operation} of another {name}"), moves=moved_by(call)
            ).succeeded:
                at.advise(f"refused with {heard.code}, and SUCCESS is assumed", heard)
            else:
                at.accepts(call, usual)


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
