"""What goes wrong by chance: of many equal tries a few fail, or the same call is answered otherwise the next time."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, WebhookCall, WithdrawCall
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.restoring import current_cents
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found, NotTried
from game_operator_testkit.certifier.report.verdicts import BALANCE_PATH, Exchange, KnownCause, replies_to

_TRIES: Final = 40
_FEWEST_TRIES: Final = 10
#: If by then one kind of call was never known again, it is no matter of chance.
_FEW: Final = 4
#: A refusal that may be one of some by chance.
_LOOKS_UNLUCKY: Final = frozenset(
    {
        "",
        KnownCause.MIXED_UP,
        KnownCause.NO_BALANCE,
        KnownCause.NO_BET,
        KnownCause.NO_FUNDS,
        KnownCause.TWIN_REFUSED,
        KnownCause.UNREADABLE,
    }
)
#: Of these, those by which a call that comes alone is refused.
_UNEXPLAINED: Final = frozenset({"", KnownCause.NO_BET, KnownCause.UNREADABLE})
#: A request as the service makes it: whose key signs it, how it travels and where to.
_AS_EVER: Final = ("service", "whole", "wallet")
#: What a pause, or a proxy that fails at times, looks like.
_LOOKS_SILENT: Final = frozenset({KnownCause.NO_ANSWER, KnownCause.CRASH})
#: What a lost record looks like.
_LOOKS_SO: Final = frozenset(
    {"", KnownCause.REPEAT_REFUSED, KnownCause.SETTLED_GONE, KnownCause.NO_TX_ID, KnownCause.TWIN_REFUSED}
)


def look_for_chance(
    at: Stage, found: Found, exchanges: Mapping[int, Exchange], *, under_load: bool, restore: Callable[[], object]
) -> str:
    """
    Let *found* say so if it happens by chance, as the call again, or others like it, show.

    Return the cause that it has if its scenario, which has these *exchanges*, passes when it is played again; "" if
    that says nothing. *restore* brings balances back before others are tried.
    """
    was_silent = False
    with suppress(Found, NotTried):
        was_silent = _look_again(at, found, exchanges, under_load=under_load)
    if not was_silent and found.cause not in _LOOKS_UNLUCKY | _LOOKS_SO:
        return ""
    restore()
    for causes, look in ((_LOOKS_UNLUCKY, _look_for_refusals), (_LOOKS_SO, _look_for_lost_records)):
        with suppress(Found, NotTried):
            if found.cause in causes:
                look(at, found, exchanges)
    if found.cause in _LOOKS_SO and not at.observed.hides_money and _is_repeat(found, exchanges):
        return KnownCause.NOT_KEPT
    if not found.cause or (was_silent and found.cause in _LOOKS_SILENT):
        return KnownCause.NOW_AND_THEN if was_silent else KnownCause.AT_TIMES
    return ""


def _look_for_lost_records(at: Stage, found: Found, exchanges: Mapping[int, Exchange]) -> None:
    """Let *found* say that a record is sometimes not kept, if its scenario's *exchanges* may come from that."""
    seen = at.observed
    sent = Counter(each.request_body for each in exchanges.values() if each.path != BALANCE_PATH)
    if all(times == 1 for times in sent.values()) or seen.is_slow or seen.hides_money:
        return
    if KnownCause.NOT_KEPT not in seen.at_times:
        if not seen.takes_a_try(KnownCause.NOT_KEPT) or not (told := _some_lost(at)):
            return
        seen.at_times.add(KnownCause.NOT_KEPT)
        found.reason += told
    found.cause = KnownCause.NOT_KEPT


def _look_for_refusals(at: Stage, found: Found, exchanges: Mapping[int, Exchange]) -> None:
    """Let *found* say that calls like its own are refused now and then, if of many fresh ones some are too."""
    decisive = _decisive(found, exchanges)
    call = None if decisive is None else at.call_of(decisive.request_body)
    code = None if decisive is None or decisive.reply is None else decisive.reply.code
    if call is None or code is None or not found.is_refusal or at.observed.unjudged:
        return
    seen, kind = at.observed, f"/{call.operation}{getattr(call, 'action', '')} {code}"
    if kind not in seen.at_times:
        if not seen.takes_a_try(kind) or not (told := _some_refused(at, call, code)):
            return
        seen.at_times.add(kind)
        found.reason += told
    found.cause = KnownCause.AT_TIMES


def _some_refused(at: Stage, call: WebhookCall, code: str) -> str:
    """Return what many calls like *call* are answered, if some are refused with *code*, and some are not."""
    codes = Counter[str]()
    for number in range(at.observed.times(_TRIES, _FEWEST_TRIES)):
        if number == _FEW and codes[code] == _FEW:
            return ""
        codes[_code_of_another(at, call)] += 1
    told = " and ".join(f"{times} returned {each}" for each, times in codes.most_common() if each)
    return f". Of {codes.total()} fresh calls like it, one at a time, {told}" if {code, "SUCCESS"} <= set(codes) else ""


def _code_of_another(at: Stage, call: WebhookCall) -> str:
    """Return what another call of the kind of *call* is answered, which must be SUCCESS; "" if it cannot be sent."""
    bet = at.bet(wager_cents=call.amount_cents if isinstance(call, WithdrawCall) else None)
    end = bet.deposit(bet.wager_cents) if isinstance(call, DepositCall) else bet.rollback()
    calls: list[WebhookCall] = [bet.withdraw(), end]
    if isinstance(call, BalanceCall):
        calls = [call]
    elif isinstance(call, DepositCall) and call.is_claim:
        calls = [at.claim(call.amount_cents, call.action)]
    first, *rest = (at.send(at.request(each, f"another {each.operation}, by itself")) for each in calls)
    if not rest or isinstance(call, WithdrawCall):
        return first.code or "SUCCESS"
    return (rest[0].code or "SUCCESS") if first.succeeded else ""


def _look_again(at: Stage, found: Found, exchanges: Mapping[int, Exchange], *, under_load: bool) -> bool:
    """
    Let *found* say how its call is answered when it comes again, if it got no answer, or a refusal that is not due.

    Return whether a call that got no answer has one now. Once may have a reason in what came before; what happens again
    is chance.
    """
    decisive = _decisive(found, exchanges)
    if decisive is None or (decisive.signed_by, decisive.manner, decisive.at) != _AS_EVER or at.observed.is_slow:
        return False
    call = at.call_of(decisive.request_body)
    if call is None or decisive.path != f"/{call.operation}":
        return False
    was_silent, is_at_once = found.cause in _LOOKS_SILENT, at.was_at_once(decisive.request_body)
    # Where a scenario lets two calls of one bet meet, it has its own words for what they did to each other.
    is_apart = is_at_once and not under_load
    is_only_said = found.cause == KnownCause.ONLY_SAID
    is_open = is_only_said or (found.is_refusal and found.cause in _UNEXPLAINED)
    if not was_silent and (is_apart or not is_open):
        return False
    heard = None if is_at_once and was_silent else at.answer_to_repeat(decisive.request_body)
    if heard is None and was_silent and _is_repeat(found, exchanges):
        found.cause = KnownCause.REPEAT_REFUSED
    if heard is None or not (was_silent or heard[0].succeeded is not is_only_said):
        return False
    again, other = heard
    left = "" if again.balance_cents is None else f" with a balance of {units(again.balance_cents)}"
    found.reason += f". Sent again, it returned {again.code or 'SUCCESS'}{left}"
    if is_only_said:
        found.cause = ""  # It was no rule: the scenario, played again, shows whether it is chance.
    elif not was_silent and other.succeeded:
        found.cause = KnownCause.AMONG if is_at_once else KnownCause.AT_TIMES
    elif was_silent and KnownCause.NOW_AND_THEN in at.observed.at_times:
        found.cause = KnownCause.NOW_AND_THEN
    if was_silent:
        at.observed.at_times.add(KnownCause.NOW_AND_THEN)
    return was_silent


def _decisive(found: Found, exchanges: Mapping[int, Exchange]) -> Exchange | None:
    return exchanges.get(-1 if found.place is None else found.place)


def _is_repeat(found: Found, exchanges: Mapping[int, Exchange]) -> bool:
    decisive = _decisive(found, exchanges)
    if decisive is None:
        return False
    before = replies_to(decisive, [each for place, each in exchanges.items() if place < (found.place or 0)])
    return any(reply.code is None or found.cause in _LOOKS_SILENT for reply in before)


def _some_lost(at: Stage) -> str:
    """Return how many calls were known when they came again, if of one operation some were, and some were not."""
    lost, tried = Counter[str](), Counter[str]()
    for number in range(at.observed.times(_TRIES, _FEWEST_TRIES)):
        bet = at.bet()
        ends: list[MovingCall] = [bet.deposit(bet.wager_cents), bet.rollback()]
        known = [end for end in ends if f"/{end.operation}" in at.observed.accepted]
        for call in (bet.withdraw(), *known[number % 2 :][:1], *at.jackpots(1)):
            kind = f"{call.operation} {call.action}"
            tried[kind] += 1
            lost[kind] += _is_lost(at, call)
        if number + 1 == _FEW and any(lost[each] == tried[each] for each in tried):
            break
    if not any(0 < lost[each] < tried[each] for each in tried):
        return ""
    return f". Of {tried.total()} other calls, {(tried - lost).total()} were known when they came again"


def _is_lost(at: Stage, call: WebhookCall) -> bool:
    request = at.request(call, "a call, to see whether it is known again")
    first, again = at.send(request), at.send(request)
    if not (first.succeeded and again.succeeded and again.balance_cents == first.balance_cents):
        return first.succeeded
    # The money may move behind the balance of the reply.
    cents = current_cents(at, at.player)
    return None not in (cents, first.balance_cents) and cents != first.balance_cents
