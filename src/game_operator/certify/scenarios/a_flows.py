"""Group A, flows: what every wallet does all day (spec §3, §4.1)."""

from dataclasses import replace
from typing import Final

from game_operator.certify.engine.endings import Found, NotTried
from game_operator.certify.engine.stage import Judging, Stage, units
from game_operator.certify.report.mistakes import SCALE
from game_operator.certify.report.verdicts import Weight
from game_operator.certify.scenarios.batches import answers, batch
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import BalanceCall, DepositCall, FreeBet
from game_operator.provider.bets import Player
from game_operator.provider.requests import Heard

_JACKPOT: Final = "JACKPOT"
_DAY_MILLIS: Final = 86_400_000
_MOST_SKEW_MILLIS: Final = 5_000


def a01(at: Stage) -> Judging:
    """A known player's balance is told, with the time of now."""
    heard = yield from at.hear(BalanceCall(player_id=at.player.id), "a balance check")
    if not heard.succeeded:
        raise Found(f"a balance check: refused with {heard.code}, and SUCCESS was due", place=heard.place)
    yield from at.check_told(heard, at.player)
    assert heard.reply is not None
    assert heard.reply.timestamp is not None
    off = heard.reply.timestamp - heard.at_millis
    if abs(off) > _DAY_MILLIS:
        told = f"its timestamp {heard.reply.timestamp} is no Unix time of now in milliseconds"
        raise Found(told, Weight.CONTRACT_BROKEN, place=heard.place)
    if abs(off) > _MOST_SKEW_MILLIS + heard.elapsed_ms:
        at.advise(f"its timestamp is {off / 1000:+.1f} s off the certifier's clock", heard)


def a02(at: Stage) -> Judging:
    """A wager is debited, a win credited; the bet is CLOSED, so that a later rollback gives nothing back."""
    bet = at.bet()
    won_cents = bet.wager_cents * 5 // 2
    heard = yield from at.hear(bet.withdraw(), "a withdraw")
    _check_scale(at, heard, bet.wager_cents)
    yield from at.check_moved(heard, at.player, -bet.wager_cents)
    yield from at.holds(at.player)
    yield from at.accepts(bet.deposit(won_cents), "its deposit", moves=won_cents)


def _check_scale(at: Stage, heard: Heard, wager_cents: int) -> None:
    """The first days' mistake: cents are taken for currency units, or told in their place."""
    told = heard.balance_cents
    if told is None:
        return
    wrong = {100 * wager_cents, wager_cents // 100} - {0}
    hundredfold = heard.succeeded and at.player.due_cents - told in wrong
    poor = heard.code == WebhookErrorCode.INSUFFICIENT_BALANCE and wager_cents <= told < 100 * wager_cents
    if hundredfold or poor:
        told_ = "was refused for want of money" if poor else f"left {units(told)}"
        reason = f"a withdraw of {wager_cents} cents from {units(at.player.due_cents)} {told_}"
        raise Found(reason, cause=SCALE, place=heard.place)


def a03(at: Stage) -> Judging:
    """A deposit of 0 moves nothing and closes the bet, so that a later rollback gives nothing back."""
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.accepts(bet.deposit(0), "its deposit of 0, a loss")
    yield from at.refuses(bet.rollback(), "a rollback of the lost bet", WebhookErrorCode.BET_ALREADY_CLOSED)


def a04(at: Stage) -> Judging:
    """A rollback of an open bet gives the wager back."""
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.accepts(bet.rollback(), "its rollback", moves=bet.wager_cents)


def a05(at: Stage) -> Judging:
    """One bet wins, one of another wager is cancelled, one wins again: each settles alone."""
    first = at.bet()
    wagers = max(1, at.unit_cents // 2), at.unit_cents
    cancelled, last = (replace(at.bet(cents=cents), round_id=first.round_id) for cents in wagers)
    for bet in (first, cancelled, last):
        yield from at.accepts(bet.withdraw(), "a withdraw in the round", moves=-bet.wager_cents)
    yield from at.accepts(first.deposit(2 * first.wager_cents), "the first bet's deposit", moves=2 * first.wager_cents)
    yield from at.accepts(cancelled.rollback(), "the second bet's rollback", moves=cancelled.wager_cents)
    yield from at.accepts(last.deposit(last.wager_cents), "the third bet's deposit", moves=last.wager_cents)


def a06(at: Stage) -> Judging:
    """A withdraw of exactly the balance leaves 0.00; one of a cent more is refused with the balance."""
    whole = at.bet(cents=at.player.due_cents)
    yield from at.accepts(whole.withdraw(), "a withdraw of all", moves=-whole.wager_cents, unless_limited=True)
    yield from at.accepts(whole.rollback(), "its rollback", moves=whole.wager_cents)
    beyond = at.bet(cents=at.player.due_cents + 1)
    refused = WebhookErrorCode.INSUFFICIENT_BALANCE
    heard = yield from at.refuses(beyond.withdraw(), "a withdraw of a cent more", refused)
    if heard.code == refused and heard.balance_cents is None:
        at.advise(f"{refused} came without the balance, which the service shows to the player", heard)


def a07(at: Stage) -> Judging:
    """Each of the four calls is refused, and none of them makes an account."""
    nobody = Player(at.fresh("nobody"), 0, 0)
    bet = at.bet(nobody)
    unknown = WebhookErrorCode.PLAYER_NOT_FOUND
    calls = (bet.withdraw(), bet.deposit(100), at.bet(nobody).rollback(), BalanceCall(player_id=nobody.id))
    for call in calls:
        heard = yield from at.hear(call, f"a {call.operation} of a player that there is not")
        if heard.succeeded:
            told = f"{heard.request.title}: answered SUCCESS with {units(heard.balance_cents or 0)}"
            raise Found(told, place=heard.place)
        # Whatever the profile has for a deposit that comes early: of a bet, that is (docs/decisions/0014).
        at.check_code(heard, unknown)


def a08(at: Stage) -> Judging:
    """Calls of two players come by turns, and each moves that player's money alone."""
    ours, theirs = at.bet(), at.bet(at.other)
    cancelled, lost = at.bet(), at.bet(at.other)
    for bet in (ours, theirs, cancelled, lost):
        yield from at.accepts(bet.withdraw(), f"a withdraw of {bet.player.id}", moves=-bet.wager_cents)
    won_cents = 2 * ours.wager_cents
    yield from at.accepts(ours.deposit(won_cents), "the first player's deposit", moves=won_cents)
    yield from at.accepts(theirs.deposit(theirs.wager_cents), "the other's deposit", moves=theirs.wager_cents)
    yield from at.accepts(cancelled.rollback(), "the first player's rollback", moves=cancelled.wager_cents)
    yield from at.accepts(lost.deposit(0), "the other's loss")


def a09(at: Stage) -> Judging:
    """Open bets are paid and refunded; a new one is refused."""
    won, cancelled, late = at.bet(), at.bet(), at.bet()
    for bet in (won, cancelled):
        yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.act("block", at.player.id)
    paid = yield from at.send(at.request(won.deposit(won.wager_cents), "the deposit of a player who is blocked"))
    refunded = yield from at.send(at.request(cancelled.rollback(), "the rollback of a player who is blocked"))
    claims = [at.claim(won.wager_cents, _JACKPOT)] if _JACKPOT in at.claim_types else []
    claimed = []
    for claim in claims:
        claimed.append((yield from at.send(at.request(claim, "a jackpot of a blocked player"))))  # noqa: PERF401 - it yields
    refused = yield from at.send(at.request(late.withdraw(), "a new withdraw of a player who is blocked"))
    yield from at.act("unblock", at.player.id)
    for heard in (paid, refunded, *claimed):
        at.check_reply(heard)
        at.check_success(heard)
    at.player.due_cents += won.wager_cents + cancelled.wager_cents + sum(claim.amount_cents for claim in claims)
    at.check_reply(refused)
    if refused.succeeded:
        told = f"{refused.request.title}: answered SUCCESS, and {WebhookErrorCode.PLAYER_BLOCKED} was due"
        raise Found(told, Weight.CONTRACT_BROKEN, place=refused.place)
    at.check_code(refused, WebhookErrorCode.PLAYER_BLOCKED)
    yield from at.check_told(refused, at.player)


def a10(at: Stage) -> Judging:
    """Each kind of claim is credited once, though there is no bet; a second of the same jackpot is another."""
    if not at.claim_types:
        raise NotTried("the profile has no claims")
    pool = at.fresh("pool")
    for action in at.claim_types:
        for which in ("a", "another"):
            claim = _detailed(at, at.claim(3 * at.unit_cents, action), pool)
            title = f"{which} deposit of the type {action}"
            first = yield from at.accepts(claim, title, moves=3 * at.unit_cents)
        yield from at.again(claim, first, f"{title}, sent again")


def _detailed(at: Stage, claim: DepositCall, pool: str) -> DepositCall:
    """Return *claim* with the three free bets that it is for, or with its jackpot."""
    if claim.action == "JACKPOT":
        return replace(claim, jackpot_id=pool)
    if claim.action != "FREE_BET_CLAIM":
        return claim
    cents = at.unit_cents
    bets = (FreeBet(id=at.fresh("free"), round_id=at.fresh("round"), wager_cents=cents, won_cents=cents) for _ in "123")
    return replace(claim, free_bets=tuple(bets))


def a11(at: Stage) -> Judging:
    """Two are credited, the one between them is refused, and each is answered by its tx_id."""
    won, late, lost = at.bet(), at.bet(), at.bet(at.other)
    for bet in (won, lost):
        yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    calls = (won.deposit(2 * won.wager_cents), late.deposit(2 * late.wager_cents), lost.deposit(0))
    heard = yield from at.send(batch(at, calls, "a batch of deposits"))
    paid, refused, recorded = answers(heard, calls)
    at.player.due_cents += calls[0].amount_cents
    for each, player in ((paid, at.player), (recorded, at.other)):
        if each is None:
            raise Found("a batch of deposits: one that can be carried out is not answered", place=heard.place)
        at.check_success(each)
        yield from at.check_told(each, player)
    # What is left out is sent again: that is sound for a deposit that may be credited later.
    if refused is not None:
        yield from _refused(at, refused)
    closed = WebhookErrorCode.BET_ALREADY_CLOSED
    yield from at.refuses(won.rollback(), "a rollback of a bet that a batch has settled", closed)


def _refused(at: Stage, heard: Heard) -> Judging:
    code = at.early_code()
    if heard.succeeded:
        told = f"{heard.request.title}: answered SUCCESS, and {code} was due, for there is no such bet"
        raise Found(told, place=heard.place)
    at.check_code(heard, code)
    yield from at.check_told(heard, at.player)
