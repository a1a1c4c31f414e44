"""Group A, flows: what every wallet does all day (spec §3, §4.1)."""

from typing import Final

from game_operator.certify.players import Player
from game_operator.certify.scenario import Found, Play, scenario
from game_operator.certify.stage import Stage, units
from game_operator.certify.verdicts import Weight
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import BalanceCall

_MOST_SKEW_MILLIS: Final = 5_000


@scenario(
    "A01",
    "a balance check",
    Weight.CONTRACT_BROKEN,
    rests_on="spec §2.1, spec §4.1",
    means="The service cannot show the player's balance, or shows a stale one.",
    mend="Answer /player-balance with SUCCESS, the balance in currency units and the time in Unix milliseconds.",
)
def a01(at: Stage) -> Play:
    """A known player's balance is told, with the time of now."""
    heard = yield from at.hear(BalanceCall(player_id=at.player.id), "a balance check")
    if not heard.succeeded:
        raise Found(f"a balance check: refused with {heard.code}, and SUCCESS was due", place=heard.place)
    yield from at.check_told(heard, at.player)
    assert heard.reply is not None
    assert heard.reply.timestamp is not None
    off = heard.reply.timestamp - heard.at_millis
    if abs(off) > _MOST_SKEW_MILLIS + heard.elapsed_ms:
        at.advise(f"its timestamp is {off / 1000:+.1f} s off the certifier's clock; is it Unix milliseconds?", heard)


@scenario(
    "A02",
    "a bet that is won",
    Weight.MONEY_LOST,
    rests_on="spec §3, spec §4.1",
    means="A player does not pay for a bet, or is not paid what it won.",
    mend="Debit the wager at /withdraw and credit the amount at /deposit, in one transaction with the bet's state.",
)
def a02(at: Stage) -> Play:
    """A wager is debited, a win credited; the bet is CLOSED, so that a later rollback gives nothing back."""
    bet = at.bet()
    won_cents = bet.wager_cents * 5 // 2
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.holds(at.player)
    yield from at.accepts(bet.deposit(won_cents), "its deposit", moves=won_cents)


@scenario(
    "A06",
    "the whole balance can be wagered, and not a cent more",
    Weight.MONEY_LOST,
    rests_on="spec §4.1, decision 0013, decision 0014",
    means="Players bet money that they do not have, or cannot bet what they have.",
    mend="Compare wager and balance in whole cents, in the statement that debits: UPDATE … WHERE balance >= wager.",
)
def a06(at: Stage) -> Play:
    """A withdraw of exactly the balance leaves 0.00; one of a cent more is refused with the balance."""
    whole = at.bet(cents=at.player.due_cents)
    yield from at.accepts(whole.withdraw(), "a withdraw of all", moves=-whole.wager_cents, unless_limited=True)
    yield from at.accepts(whole.rollback(), "its rollback", moves=whole.wager_cents)
    beyond = at.bet(cents=at.player.due_cents + 1)
    refused = WebhookErrorCode.INSUFFICIENT_BALANCE
    heard = yield from at.refuses(beyond.withdraw(), "a withdraw of a cent more", refused)
    if heard.code == refused and heard.balance_cents is None:
        at.advise(f"{refused} came without the balance, which the service shows to the player", heard)


@scenario(
    "A07",
    "an unknown player",
    Weight.MONEY_DOUBLED,
    rests_on="decision 0013, decision 0014",
    means="Calls of a player who does not exist move money, or open an account that nobody asked for.",
    mend="Look the player up first, and answer PLAYER_NOT_FOUND; never create a player while answering a webhook.",
)
def a07(at: Stage) -> Play:
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
        at.check_code(heard, at.early_code(unknown) if call.operation == "deposit" else unknown)
