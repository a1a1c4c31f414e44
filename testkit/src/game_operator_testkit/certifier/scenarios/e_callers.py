"""Group E, who calls: only what the service signed, as it signed it and where it sent it (spec §5, assumed)."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import BalanceCall, DepositCall, WebhookCall, WithdrawCall
from game_operator.protocol.exact_json import encode_json
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.certifier.scenarios.bodies import BATCH_PATHS, Body, batch, pays_nothing
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import UNSIGNED, Form, Request, Seal

_FORMS: Final[Sequence[Form]] = ("url-safe padded", "standard", "standard padded")
#: What may stand in the header instead of a signature.
_GARBAGE: Final = {
    "an empty signature": "",
    "a signature of one character": "a",
    "a signature of three characters": "!!!",
    "a signature that is no Base64": "no Base64, but {text} of 40 characters %s",
    "a signature of three bytes": "QUJD",
    "a signature of 256 zero bytes": "A" * 342,
    "a signature of 4,000 characters": "A" * 4_000,
}
_HUGE_BYTES: Final = 5_000_000


def e01(at: Stage) -> None:
    """Each of the calls is refused without a signature."""
    bet = at.placed()
    won, more = bet.deposit(bet.wager_cents), bet.deposit(bet.wager_cents + 1)
    calls: list[WebhookCall] = [*_claims(at), at.bet().withdraw(), bet.rollback(), more]
    _all_rejected(at, calls, UNSIGNED, "without a signature")
    if "batches" in at.supplied:
        for path in BATCH_PATHS:
            unsigned = batch(at, [*_claims(at), more], f"a batch to {path} without a signature", path=path)
            pays_nothing(at, replace(unsigned, seal=UNSIGNED))
    _is_not_kept(at, at.request(won, "the deposit of this bet, signed"), bet.wager_cents)
    # Nor does a balance check return a balance without a signature; no money is lost by it.
    heard = at.send(at.balance_request("a balance check without a signature", seal=UNSIGNED))
    if heard.succeeded:
        told = f"returned SUCCESS with the player's balance instead of {Code.INVALID_SIGNATURE}"
        at.note(told, Weight.CONTRACT_BROKEN, KnownCause.UNSIGNED_CHECK, heard)
    else:
        at.check_reply(heard, status=at.profile.unauthenticated_status)
        at.check_code(heard, Code.INVALID_SIGNATURE, final_code_is_advice=True)
        _check_silent(at, heard)


def _is_not_kept(at: Stage, genuine: Request, moves: int) -> None:
    """Hold that *genuine* is accepted, although a forged call named the same bet before."""
    heard = at.ask(genuine)
    other = at.same_content(heard) if heard.code == Code.INVALID_SIGNATURE else None
    if other is not None and other.succeeded:
        told = f"refused with {heard.code}; the same with other ids, of which no forged call came, is accepted"
        raise Found(told, heard, weight=Weight.MONEY_LOST, cause=KnownCause.KEPT_FORGERY)
    at.check_moved(heard, at.player, moves)


def e02(at: Stage) -> None:
    """Another key, a body that was changed, and the signature of another call are refused."""
    bet = at.placed()
    due, less = bet.deposit(bet.wager_cents), bet.deposit(bet.wager_cents - 1)
    calls: list[WebhookCall] = [*_claims(at), at.bet().withdraw(), bet.rollback(), due]
    _all_rejected(at, calls, Seal(key="stranger"), "signed with another key", is_final_lost=True)
    _all_rejected(at, [due], Seal(over=at.writer.encoded(less)), "of a cent more than was signed")
    balance = Seal(over=at.balance_request("").body)
    _all_rejected(at, [*_claims(at), due], balance, "with the signature of a balance check")
    genuine = at.request(due, "the same deposit, as the service signed it")
    _admitted(at, genuine, Weight.MONEY_LOST, moves=bet.wager_cents)


def e03(at: Stage) -> None:
    """What was not signed byte for byte is refused; a body with spaces in it, signed so, is accepted."""
    for how, written in _ANEW.items():
        call = at.bet().withdraw()
        signed = at.request(call, f"a withdraw {how} than was signed")
        _rejected(at, replace(signed, body=written(at.writer.body(call)), seal=Seal(over=signed.body)))
    check = at.balance_request("a balance check with spaces in it, signed so")
    _admitted(at, replace(check, body=_spaced(at.writer.body(BalanceCall(player_id=at.player.id)))))


def e04(at: Stage) -> None:
    """Both alphabets, padded or not, are accepted; anything else is refused like a wrong signature."""
    for form in _FORMS:
        check = at.balance_request(f"a balance check whose signature is {form} Base64", seal=Seal(form=form))
        _admitted(at, check, Weight.ADVICE)
    for what, literal in _GARBAGE.items():
        _all_rejected(at, [at.bet().withdraw()], Seal(literal=literal), f"with {what}")


def e05(at: Stage) -> None:
    """The header is found in capitals; twice in one request it is refused."""
    _admitted(at, at.balance_request("a balance check with the header in capitals", seal=Seal(upper=True)))
    if "wire" not in at.supplied:
        return
    heard = at.send(at.balance_request("a balance check with two signatures", seal=Seal(times=2)))
    if heard.succeeded:
        at.advise("accepted; a proxy before the wallet may have looked at the other one", heard)


def e06(at: Stage) -> None:
    """Old and new key are accepted while they overlap; one that was taken out is not."""
    bet, old = at.bet(), Seal(key="old")
    _admitted(at, at.balance_request("a balance check signed with the old key", seal=old))
    at.placed(bet, title="a withdraw signed with the new key")
    more = bet.deposit(bet.wager_cents + 1)
    _all_rejected(at, [*_claims(at), more], Seal(key="retired"), "signed with a retired key")
    settled = at.request(bet.deposit(bet.wager_cents), "the deposit signed with the old key", seal=old)
    at.accepts(settled, moves=bet.wager_cents)


def e07(at: Stage) -> None:
    """A withdraw, its deposit and a claim move nothing when they come again; if days can pass, a day later too."""
    bet = at.bet()
    calls: list[WebhookCall] = [*_claims(at), bet.withdraw(), bet.deposit(bet.wager_cents)]
    firsts = [(call, at.accepts(call, named(call))) for call in calls]
    between = at.placed(title="another withdraw")
    for when in ("again", *(["again, a day later"] if "later" in at.supplied else [])):
        if when != "again":
            at.act("later", 1)
        for call, first in firsts:
            at.again(call, first, f"{named(call)} {when}")
    at.accepts(between.deposit(between.wager_cents), "its deposit")


def e09(at: Stage) -> None:
    """A body moves money only where it was meant to go, and where it was meant to go it still does."""
    bet = at.placed()
    astray: list[tuple[WebhookCall, str]] = [
        (bet.withdraw(), "/deposit"),
        (bet.rollback(), "/deposit"),
        (bet.deposit(bet.wager_cents), "/withdraw"),
        (bet.deposit(0), "/rollback"),
    ]
    if not at.profile.rollback_may_equal_withdraw:
        astray.append((bet.withdraw(), "/rollback"))
    for call, path in astray:
        at.refuses(_astray(at, call, path), "", Code.INVALID_REQUEST)
    # It has all that makes it the withdraw again, so that both a SUCCESS and a refusal are sound.
    heard = at.ask(_astray(at, bet.rollback(), "/withdraw"))
    at.check_balance(heard, at.player)
    at.check_balances(at.player, after=heard)
    at.accepts(bet.rollback(), "the rollback at its own path")
    is_refused = not at.profile.rollback_may_equal_withdraw and not at.observed.is_slow
    if is_refused and at.profile.spent_actions and at.writer.name("action", "withdraw"):
        rain = at.placed(at.bet(action=at.profile.spent_actions[0]))
        at.refuses(_astray(at, rain.withdraw(), "/rollback"), "", Code.INVALID_REQUEST)
        at.accepts(rain.rollback(), "the rollback of the rain")


def _astray(at: Stage, call: WebhookCall, path: str) -> Request:
    """Return the bytes of *call*, signed as ever, on their way to *path*."""
    return replace(at.request(call, f"the body of {named(call)}, posted to {path}"), path=path)


def e10(at: Stage) -> None:
    """Another address is not answered, even if its headers name another one; the service's is."""
    check = replace(at.balance_request("a balance check from elsewhere"), at="elsewhere")
    spoofed = replace(
        check,
        title="a balance check from elsewhere that says it is from 127.0.0.1",
        headers=(("X-Forwarded-For", "127.0.0.1"), ("X-Real-IP", "127.0.0.1"), ("Forwarded", "for=127.0.0.1")),
    )
    for request in (check, spoofed):
        heard = at.send(request)
        if heard.succeeded:
            unlimited = "; no header says otherwise, so the wallet limits no addresses, or allows this one"
            raise Found(f"returned SUCCESS instead of a refusal{unlimited if request is check else ''}", heard)
    at.check_balances(at.player)


def e11(at: Stage) -> None:
    """It is answered or cut off in time. Afterwards the wallet answers as before."""
    heard = at.send(Request("five megabytes without a signature", "/withdraw", b"[" * _HUGE_BYTES, UNSIGNED))
    if heard.timed_out:
        raise Found(heard.problem, heard, cause=KnownCause.NO_ANSWER)
    if heard.succeeded:
        raise Found("returned SUCCESS", heard, weight=Weight.MONEY_DOUBLED)
    at.check_balances(at.player)


def e12(at: Stage) -> None:
    """What was refused while the wallet had a wrong key is accepted once it has the right one."""
    settled, cancelled, late = at.bet(), at.bet(), at.bet()
    at.placed(settled, cancelled)
    calls: list[WebhookCall] = [settled.deposit(settled.wager_cents), cancelled.rollback(), late.withdraw()]
    requests = [at.request(call, f"{named(call)} while no key is trusted") for call in calls]
    for heard in at.during("distrust", "trust", requests):
        at.check_reply(heard, status=at.profile.unauthenticated_status)
        at.check_refused(heard, Code.INVALID_SIGNATURE, Weight.MONEY_DOUBLED)
    for call in calls:
        at.accepts(call, f"the same {call.operation} afterwards")
    at.accepts(late.deposit(late.wager_cents), "the deposit of the last")


def e13(at: Stage) -> None:
    """A withdraw or a claim of an instance that is not this operator's is refused."""
    foreign = at.supplies.foreign_instance_id
    calls: list[WithdrawCall | DepositCall] = [at.bet().withdraw(), *_claims(at)]
    for call in calls:
        of_another = replace(call, instance_id=foreign)
        at.refuses(of_another, f"{named(call)} of another operator's instance", Code.INVALID_REQUEST)
    if "batches" in at.supplied and at.writer.claim_types:
        claims = [replace(claim, instance_id=foreign) for claim in _claims(at)]
        pays_nothing(at, batch(at, claims, "a batch with a claim of another operator's instance"))


def _claims(at: Stage) -> list[DepositCall]:
    """Return a new claim, which needs no bet and is worth most to a forger; an empty list without claims."""
    return [at.claim(at.unit_cents, action) for action in at.writer.claim_types[-1:]]


def named(call: WebhookCall) -> str:
    """Return what a report calls *call*."""
    return "a claim" if isinstance(call, DepositCall) and call.is_claim else f"a {call.operation}"


def _all_rejected(
    at: Stage, calls: Sequence[WebhookCall], seal: Seal, how: str, *, is_final_lost: bool = False
) -> None:
    """Hold that *calls* are rejected when they are sealed so."""
    for call in calls:
        _rejected(at, at.request(call, f"{named(call)} {how}", seal=seal), is_final_lost=is_final_lost)


def _rejected(at: Stage, request: Request, *, is_final_lost: bool = False) -> None:
    """Hold that *request* is rejected as not authentic; a final refusal is advice unless *is_final_lost*."""
    status, code = at.profile.unauthenticated_status, Code.INVALID_SIGNATURE
    heard = at.refuses(request, "", code, final_code_is_advice=not is_final_lost, status=status)
    _check_silent(at, heard)
    if not at.observed.is_slow:
        at.check_balances(at.player, after=heard)


def _check_silent(at: Stage, heard: Carried) -> None:
    told, due_cents = heard.balance_cents, at.player.due_cents
    if told is not None:
        is_right = told == due_cents
        rest = "" if is_right else f" of {units(told)}; the player has {units(due_cents)}"
        reason = f"refused, but returned a balance{rest}"
        at.note(reason, Weight.ADVICE if is_right else Weight.CONTRACT_BROKEN, KnownCause.LEAKED, heard)


def _admitted(at: Stage, request: Request, weight: Weight = Weight.CONTRACT_BROKEN, *, moves: int = 0) -> None:
    """Hold that a genuine *request* is accepted; a refusal weighs *weight*."""
    heard = at.send(request)
    at.check_reply(heard, status=200 if heard.succeeded else at.profile.unauthenticated_status)
    if heard.succeeded:
        at.check_moved(heard, at.player, moves)
    elif weight is Weight.ADVICE:
        at.advise(f"refused with {heard.code}; accepted is assumed", heard)
    else:
        raise Found(f"refused with {heard.code} instead of SUCCESS", heard, weight=weight)


def _spaced(body: Body) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


#: How a proxy, or the wallet itself, might rewrite a body.
_ANEW: Final[Mapping[str, Callable[[Body], bytes]]] = {
    "with other spaces": _spaced,
    "in another order": lambda body: encode_json(dict(reversed(body.items()))),
    "with a line break more": lambda body: encode_json(body) + b"\n",
}
