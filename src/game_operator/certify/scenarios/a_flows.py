"""Group A, flows: what every wallet does all day (spec §3, §4.1)."""

from dataclasses import replace
from typing import Final

from game_operator.certify.engine.stage import Player, Stage, moved_by, time_of, units
from game_operator.certify.engine.steps import Found, NotTried
from game_operator.certify.report.verdicts import KnownCause, Weight
from game_operator.certify.scenarios.bodies import answers, batch
from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import BalanceCall, FreeBet, MovingCall

_DAY_MILLIS: Final = 86_400_000
_MOST_SKEW_MILLIS: Final = 5_000


def a01(at: Stage) -> None:
    """A known player's balance is returned, with the current time."""
    heard = at.accepts(at.balance_request("a balance check"))
    off = time_of(heard) - heard.began_millis
    if abs(off) > _DAY_MILLIS:
        told = f"its timestamp {time_of(heard)} is not the current Unix time in milliseconds"
        raise Found(told, heard, weight=Weight.CONTRACT_BROKEN)
    if abs(off) > _MOST_SKEW_MILLIS + heard.elapsed_ms:
        at.advise(f"its timestamp is {off / 1000:+.1f} s off the certifier's clock", heard)


def a02(at: Stage) -> None:
    """A wager is debited, a win credited."""
    bet = at.bet()
    heard = at.ask(bet.withdraw(), "a withdraw")
    balance_cents, wager_cents = heard.balance_cents, bet.wager_cents
    if balance_cents is not None:
        # The first days' mistake: cents are mixed up with currency units.
        wrong = {100 * wager_cents, wager_cents // 100} - {0}
        is_hundredfold = heard.succeeded and at.player.due_cents - balance_cents in wrong
        is_poor = heard.code == Code.INSUFFICIENT_BALANCE and wager_cents <= balance_cents < 100 * wager_cents
        if is_hundredfold or is_poor:
            what = "was refused for want of money" if is_poor else f"left {units(balance_cents)}"
            reason = f"a withdraw of {wager_cents} cents from {units(at.player.due_cents)} {what}"
            raise Found(reason, cause=KnownCause.SCALE, place=heard.place)
    at.check_moved(heard, at.player, -wager_cents)
    at.check_balances(at.player)
    at.accepts(bet.deposit(wager_cents * 5 // 2), "its deposit")


def a03(at: Stage) -> None:
    """A deposit of 0 moves nothing and closes the bet, so that a later rollback gives nothing back."""
    bet = at.placed()
    at.accepts(bet.deposit(0), "its deposit of 0, a loss")
    at.refuses(bet.rollback(), "a rollback of the lost bet", Code.BET_ALREADY_CLOSED)


def a04(at: Stage) -> None:
    """A rollback of an open bet gives the wager back."""
    at.accepts(at.placed().rollback(), "its rollback")


def a05(at: Stage) -> None:
    """One bet wins, one of another wager is cancelled, one wins again: each settles alone."""
    first = at.bet()
    wagers = max(1, at.unit_cents // 2), at.unit_cents
    cancelled, last = (at.bet(cents=cents, round_id=first.round_id) for cents in wagers)
    at.placed(first, cancelled, last, title="a withdraw in the round")
    at.accepts(first.deposit(2 * first.wager_cents), "the first bet's deposit")
    at.accepts(cancelled.rollback(), "the second bet's rollback")
    at.accepts(last.deposit(last.wager_cents), "the third bet's deposit")


def a06(at: Stage) -> None:
    """A withdraw of exactly the balance leaves 0.00; one of a cent more is refused with the balance."""
    whole = at.bet(cents=at.player.due_cents)
    at.accepts(whole.withdraw(), "a withdraw of all", may_limit=True)
    at.accepts(whole.rollback(), "its rollback")
    beyond = at.bet(cents=at.player.due_cents + 1)
    heard = at.refuses(beyond.withdraw(), "a withdraw of a cent more", Code.INSUFFICIENT_BALANCE)
    if heard.code == Code.INSUFFICIENT_BALANCE and heard.balance_cents is None:
        at.advise(f"{heard.code} came without the balance, which the service shows to the player", heard)


def a07(at: Stage) -> None:
    """Each of the four calls is refused, and does not make an account."""
    nobody = Player(at.fresh("nobody"), 0, 0)
    bet = at.bet(nobody)
    for call in (bet.withdraw(), bet.deposit(100), at.bet(nobody).rollback(), BalanceCall(player_id=nobody.id)):
        heard = at.ask(call, f"a {call.operation} of an unknown player")
        if heard.succeeded:
            raise Found(f"returned SUCCESS with {units(heard.balance_cents or 0)}", heard)
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
            claim = at.claim(3 * cents, action)
            if action == "JACKPOT":
                claim = replace(claim, jackpot_id=pool)
            elif action == "FREE_BET_CLAIM":
                free = (
                    FreeBet(id=at.fresh("free"), round_id=at.fresh("round"), wager_cents=cents, won_cents=cents)
                    for _ in range(3)
                )
                claim = replace(claim, free_bets=tuple(free))
            title = f"{which} deposit of the type {action}"
            first = at.accepts(claim, title)
        at.again(claim, first, f"{title}, sent again")


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
