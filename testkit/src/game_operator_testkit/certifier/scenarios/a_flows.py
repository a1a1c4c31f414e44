"""Group A, flows: what every wallet does all day (spec §3, §4.1)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.operator_api import MAX_COUNT
from game_operator.models.webhooks import BalanceCall, MovingCall, WebhookCall
from game_operator.protocol.exact_json import encode_json
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.calls import Player, moved_by
from game_operator_testkit.certifier.engine.stage import Stage, time_of
from game_operator_testkit.certifier.engine.steps import Found, NotTried
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.certifier.scenarios.bodies import answers, batch, check_length, free_bets, lacking, tolerated
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import BetCalls, Request

_DAY_MILLIS: Final = 86_400_000
_CHECKS_OF_EACH: Final = 4
#: How long an id of the service may well be: those of a grant have up to so many characters (spec §2.2).
_LONG_ID: Final = 100
#: No operator has such a player. In some languages every object has members of these names, and a pattern of a database
#: fits all.
_NAMES_OF_NOBODY: Final = ("constructor", "%", "__proto__", "toString")


def a01(at: Stage) -> None:
    """A known player's balance is returned, with the current time."""
    heard = at.accepts(at.balance_request("a balance check"))
    _check_days(at, heard, Weight.CONTRACT_BROKEN)


def _check_days(at: Stage, heard: Carried, weight: Weight) -> None:
    """Hold that a timestamp is of today; another one weighs *weight*."""
    if abs(time_of(heard) - heard.began_millis) > _DAY_MILLIS:
        in_seconds = abs(time_of(heard) * 1_000 - heard.began_millis) <= _DAY_MILLIS
        told = f"its timestamp {time_of(heard)} is not the current Unix time in milliseconds"
        at.note(told, weight, KnownCause.SECONDS if in_seconds else "", heard)


def a02(at: Stage) -> None:
    """A wager is debited, a win credited."""
    bet = at.bet()
    heard = at.ask(bet.withdraw(), "a withdraw")
    wager_cents, left_cents = bet.wager_cents, heard.balance_cents or 0
    # The first days' mistake: cents are mixed up with currency units.
    if heard.code == Code.INSUFFICIENT_BALANCE and wager_cents <= left_cents < 100 * wager_cents:
        told = f"a withdraw of {wager_cents} cents from {units(left_cents)} was refused for want of money"
        at.observed.unjudged = told
        raise Found(told, cause=KnownCause.SCALE, place=heard.place)
    at.check_unlimited(heard, asked=False)
    if heard.code == Code.INVALID_REQUEST:
        _find_name(at)
        _find_surplus(at, heard)
        at.check_success(heard, Weight.CONTRACT_BROKEN)  # Nothing was taken, and the service learns it.
    at.check_moved(heard, at.player, -wager_cents)
    at.check_balances(at.player)
    won_cents = wager_cents * 5 // 2
    at.suspects = {
        wager_cents - won_cents: (KnownCause.OTHER_FIELD, ", which is action.wager in place of the amount"),
        -wager_cents: (KnownCause.OTHER_FIELD, ", which is the amount less the wager"),
    }
    at.accepts(bet.deposit(won_cents), "its deposit")


def _find_name(at: Stage) -> None:
    """Send withdraws with the other names of their fields, and end the run's judging at one that is accepted."""
    for canonical in ("bet_id", "tx_id", "amount_cents"):
        first, *others = at.profile.names_of(canonical, "withdraw") or ("",)
        for name in others:
            told = f"a withdraw with {name} in place of {first}"
            heard = at.send(_with_names(at, at.bet(), {first: name}, told))
            if heard.succeeded:
                at.observed.unjudged = f"{told} is accepted"
                # The balance is put back by these names.
                key = f"{canonical}.withdraw" if canonical == "amount_cents" else canonical
                at.observed.reads[key] = (name,)
                cause = KnownCause.FIELD_NAMES
                raise Found(at.observed.unjudged, weight=Weight.CONTRACT_BROKEN, cause=cause, place=heard.place)


def _find_surplus(at: Stage, refused: Carried) -> None:
    """Leave one member after the other out of a *refused* withdraw, and end the scenario at the one that it was for."""
    needed = {at.writer.name(name, "withdraw") for name in ("player_id", "bet_id", "tx_id", "amount_cents")}
    for name in [each for each in at.writer.body(at.bet().withdraw()) if each not in needed]:
        bet = at.bet()
        if at.send(_with_names(at, bet, {name: ""}, f"a withdraw without its member {name}")).succeeded:
            at.send(at.request(bet.rollback(), "its rollback"))
            told = f"refused with {refused.code} because of its member {name}: without it, a withdraw is accepted"
            raise Found(told, refused, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.UNREADABLE)


def _with_names(at: Stage, bet: BetCalls, names: Mapping[str, str], title: str) -> Request:
    """Return the withdraw of *bet* with some members under other *names*, or left out if that is empty."""
    body = {names.get(key, key): value for key, value in at.writer.body(bet.withdraw()).items()}
    body.pop("", None)
    return replace(at.request(bet.withdraw(), title), body=encode_json(body))


def a03(at: Stage) -> None:
    """A deposit of 0 moves nothing and closes the bet, so that a later rollback gives nothing back."""
    bet = at.placed()
    at.accepts(bet.deposit(0), "its deposit of 0, a loss")
    at.refuses(bet.rollback(), "a rollback of the lost bet", Code.BET_ALREADY_CLOSED)
    if at.writer.name("tx_id", "deposit"):
        win = bet.deposit(2 * bet.wager_cents, tx_id=at.fresh("deposit"))
        # Its rollback was refused: the bet is closed, and it is another mistake if it is paid all the same.
        cause = KnownCause.PAID_AGAIN
        at.refuses(win, "a win of the lost bet, with another tx_id", Code.BET_ALREADY_CLOSED, cause=cause)


def a04(at: Stage) -> None:
    """A rollback of an open bet gives the wager back."""
    at.accepts(at.placed().rollback(), "its rollback")


def a05(at: Stage) -> None:
    """One bet wins, one of another wager is cancelled, one wins again, one is cancelled: each settles alone."""
    first = at.bet()
    # Half a unit may be less than the wallet takes.
    wagers = at.unit_cents if at.observed.is_limited else max(1, at.unit_cents // 2), at.unit_cents
    cancelled, last = (at.bet(wager_cents=cents, round_id=first.round_id) for cents in wagers)
    void = at.bet(round_id=first.round_id)
    at.placed(first, cancelled, last, void, title="a withdraw in the round")
    at.accepts(first.deposit(2 * first.wager_cents), "the first bet's deposit")
    at.accepts(cancelled.rollback(), "the second bet's rollback")
    at.accepts(last.deposit(last.wager_cents), "the third bet's deposit")
    at.accepts(void.rollback(), "the fourth bet's rollback")


def a06(at: Stage) -> None:
    """A withdraw of exactly the balance leaves 0.00; one of a cent more is refused with the balance."""
    whole = at.bet(wager_cents=at.player.due_cents)
    at.accepts(whole.withdraw(), "a withdraw of all", may_limit=True)
    at.accepts(whole.rollback(), "its rollback")
    beyond = at.bet(wager_cents=at.player.due_cents + 1)
    heard = at.refuses(beyond.withdraw(), "a withdraw of a cent more", Code.INSUFFICIENT_BALANCE)
    if heard.code != Code.LIMIT_EXCEEDED:
        at.observed.no_funds_code = heard.code
    if heard.balance_cents is not None and time_of(heard):
        _check_days(at, heard, Weight.ADVICE)
    if heard.code == Code.INSUFFICIENT_BALANCE and heard.balance_cents is None:
        at.advise(f"{heard.code} came without the balance, which the service shows to the player", heard)


def a07(at: Stage) -> None:
    """Each of the four calls is refused, and does not make an account; nor does a name that a language knows."""
    nobody = Player(at.fresh("nobody"), 0, 0)
    bet = at.bet(nobody)
    calls: list[WebhookCall] = [bet.withdraw(), bet.deposit(100), at.bet(nobody).rollback()]
    # The balance is asked for last: money for nobody costs more than an account of nobody.
    for call in (*calls, *at.jackpots(player=nobody), BalanceCall(player_id=nobody.id)):
        _knows_nobody(at, call, f"a {call.operation} of an unknown player")
    for name in _NAMES_OF_NOBODY[: at.observed.times(len(_NAMES_OF_NOBODY), 2)]:
        named = f"of the player {name!r}, whom nobody opened"
        cause = KnownCause.BY_PATTERN
        _knows_nobody(at, BalanceCall(player_id=name), f"a balance check {named}", cause=cause)
        _knows_nobody(at, at.bet(Player(name, 0, 0)).withdraw(), f"a withdraw {named}", cause=cause)


def _knows_nobody(at: Stage, call: WebhookCall, title: str, *, cause: str = "") -> None:
    heard = at.ask(call, title)
    if heard.succeeded:
        weight = None if heard.balance_cents else Weight.MONEY_LOST
        if isinstance(call, BalanceCall):
            weight = Weight.CONTRACT_BROKEN
        raise Found(f"returned SUCCESS with {units(heard.balance_cents or 0)}", heard, weight=weight, cause=cause)
    # The profile's code for an early deposit is about bets, not players (docs/decisions/0014).
    at.check_code(heard, Code.PLAYER_NOT_FOUND)


def a08(at: Stage) -> None:
    """Calls of two players come by turns, and each moves that player's money alone."""
    ours, theirs = at.bet(), at.bet(at.other)
    cancelled, lost = at.bet(), at.bet(at.other)
    for bet in (ours, theirs, cancelled, lost):
        at.accepts(bet.withdraw(), f"a withdraw of {bet.player_id}")
    at.accepts(ours.deposit(2 * ours.wager_cents), "the first player's deposit")
    at.accepts(theirs.deposit(theirs.wager_cents), "the other's deposit")
    at.accepts(cancelled.rollback(), "the first player's rollback")
    at.accepts(lost.deposit(0), "the other's loss")
    before = {at.player.due_cents, at.other.due_cents}
    _check_at_once(at, (at.player, at.other), before)
    if at.observed.is_slow:
        return
    # Each connection, and so each worker, has answered balance checks by now.
    last = at.placed()
    for players in ((at.player, at.other), (at.other, at.player)):
        _check_at_once(at, players, before)
    at.accepts(last.rollback(), "its rollback")


def _check_at_once(at: Stage, each: Sequence[Player], before: Collection[int]) -> None:
    """Hold that balance checks of both players at once return the current balance of the right player."""
    at.check_balances()
    players = (*each,) * _CHECKS_OF_EACH
    requests = [at.balance_request(f"a balance check of {player.id} beside others", player) for player in players]
    for player, heard in zip(players, at.answered(requests), strict=True):
        told = heard.balance_cents
        if told is None or told == player.due_cents:
            continue
        whose, cause = "", ""
        if told in {player.due_cents for player in each}:
            whose = ", which is another player's"
        elif told in before:
            whose, cause = ", as before the last withdraw", KnownCause.LAGGING
        reason = f"returned a balance of {units(told)}{whose}; expected {units(player.due_cents)}"
        raise Found(reason, heard, weight=Weight.CONTRACT_BROKEN, cause=cause)


def a09(at: Stage) -> None:
    """Open bets are paid and refunded; a new one is refused."""
    won, cancelled, late = at.bet(), at.bet(), at.bet()
    at.placed(won, cancelled)
    due: list[tuple[MovingCall, str]] = [
        (won.deposit(won.wager_cents), "the deposit of a player who is blocked"),
        (cancelled.rollback(), "the rollback of a player who is blocked"),
        *((claim, "a jackpot of a blocked player") for claim in at.jackpots()),
    ]
    new = late.withdraw(), "a new withdraw of a player who is blocked"
    requests = [at.request(call, title) for call, title in (*due, new)]
    *credited, refused = at.during("block", "unblock", requests, at.player.id)
    for heard, (call, _) in zip(credited, due, strict=True):
        at.check_reply(heard)
        at.check_success(heard)
        at.player.due_cents += moved_by(call)
    at.check_reply(refused)
    at.check_refused(refused, Code.PLAYER_BLOCKED, Weight.CONTRACT_BROKEN)
    at.check_balance(refused, at.player)


def a10(at: Stage) -> None:
    """Each kind of claim is credited once, though there is no bet; a second of the same jackpot is another."""
    if not at.writer.claim_types:
        raise NotTried("the profile has no claims")
    pool, cents = at.fresh("pool"), at.unit_cents
    for action in at.writer.claim_types:
        for which in ("a", "another"):
            claim, more = at.claim(3 * cents, action), ""
            if action == "JACKPOT":
                claim, more = replace(claim, jackpot_id=pool), ", of one jackpot_id"
            elif action == "FREE_BET_CLAIM":
                claim = replace(claim, free_bets=free_bets(at, 3, cents))
            title = f"{which} deposit of the type {action}{more}"
            first = at.accepts(claim, title)
        at.again(claim, first, f"{title}, sent again")
        if at.writer.name("tx_id", "deposit") and (action == at.writer.claim_types[0] or not at.observed.is_slow):
            alone = at.claim(cents, action, tx_id=at.fresh("claim"))
            title = f"a deposit of the type {action} with a tx_id that names no bet"
            at.accepts(lacking(at, alone, "bet_id", title=title), moves=cents)
        nothing = at.request(at.claim(0, action), f"a deposit of the type {action} that won nothing")
        tolerated(at, nothing, moves=0, better="accepted")
    if "FREE_BET_CLAIM" in at.writer.claim_types and at.writer.name("free_bets", "deposit") and not at.observed.is_slow:
        _claim_all_of_a_grant(at)


def _claim_all_of_a_grant(at: Stage) -> None:
    """Hold that the winnings of as many free bets as a grant has are paid, however long their ids (spec §2.2)."""
    claim = at.claim(MAX_COUNT, "FREE_BET_CLAIM", free_bets=free_bets(at, MAX_COUNT, 1, width=_LONG_ID))
    heard = at.ask(claim, f"a claim of the {MAX_COUNT} free bets of one grant")
    if not heard.succeeded:
        check_length(at, heard)
    at.check_moved(heard, at.player, claim.amount_cents)


def a11(at: Stage) -> None:
    """Two are credited, the one between them is refused, and each is answered by its tx_id."""
    won, late, lost = at.bet(), at.bet(), at.bet(at.other)
    at.placed(won, lost)
    calls = (won.deposit(2 * won.wager_cents), late.deposit(2 * late.wager_cents), lost.deposit(0))
    heard = at.send(batch(at, calls, "a batch of deposits"))
    paid, refused, recorded = answers(heard, calls)
    at.player.due_cents += calls[0].amount_cents
    for each, player in ((paid, at.player), (recorded, at.other)):
        if each is None:
            raise Found("one that can be carried out is not answered", heard)
        at.check_success(each)
        at.check_balance(each, player)
    # What is left out is sent again: that is sound for a deposit that may be credited later.
    if refused is not None:
        at.check_refused(refused, at.profile.early_deposit_code)
        at.check_balance(refused, at.player)
    at.refuses(won.rollback(), "a rollback of a bet that a batch has settled", Code.BET_ALREADY_CLOSED)


def a12(at: Stage) -> None:
    """All answers of the run were written as the service expects it; what can be read all the same is advice."""
    for shape, title in at.observed.odd_shapes.items():
        at.advise(f"{title}: {shape}")
