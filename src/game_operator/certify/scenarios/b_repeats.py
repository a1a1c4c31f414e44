"""Group B, repeats: the service sends a call again, and nothing moves twice (spec §3, docs/decisions/0014)."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from game_operator.certify.engine.scenario import NotTried, Play, scenario
from game_operator.certify.engine.stage import Judging, Stage
from game_operator.certify.report.verdicts import Weight
from game_operator.certify.scenarios.malformed import lacking
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import MovingCall
from game_operator.provider.bets import Bet
from game_operator.provider.requests import Heard, Manner

_RETENTION_DAYS = 90
#: What has a rollback that refunds.
_REFUNDING = (
    *("A04", "A05", "A06", "A08", "A09", "B02", "B12", "C04", "C07", "C08", "C09", "C11", "C12", "D01", "D03", "D04"),
    *("D07", "D08", "D09", "E09", "E12", "F11", "G04", "H02", "H05"),
)


@scenario(
    "B01",
    "a withdraw sent again",
    Weight.MONEY_DOUBLED,
    rests_on="spec §3, decision 0014",
    means="A player pays twice for one bet when the service did not hear the first answer and sends the call again.",
    mend="Keep (operation, tx_id) under a unique constraint, in the transaction that debits; answer a repeat SUCCESS.",
    explains=("B03", "B08", "B11", "B14", "B15", "C09", "D02", "D06", "D09", "E07", "E09", "F07", "F08", "G04", "H05"),
)
def b01(at: Stage) -> Play:
    """One debit, however often it is sent, before the bet is settled and after."""
    bet = at.bet()
    first = yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    for _ in range(2):
        yield from at.again(bet.withdraw(), first, "the same withdraw again")
    yield from _settled(at, bet)
    yield from at.again(bet.withdraw(), first, "the same withdraw once its bet is settled")


@scenario(
    "B02",
    "a deposit and a rollback sent again",
    Weight.MONEY_DOUBLED,
    rests_on="spec §3, decision 0014",
    means="A win is paid, or a wager given back, as often as the service sends the call.",
    mend="Keep (operation, tx_id) under a unique constraint, in the transaction that credits; credit OPEN bets alone.",
    explains=("B08", "B11", "B15", "C09", "D02", "D06", "D09", "E07", "G04", "H05"),
)
def b02(at: Stage) -> Play:
    """One credit, and one refund."""
    won, cancelled = at.bet(), at.bet()
    for bet in (won, cancelled):
        yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    deposit, rollback = won.deposit(2 * won.wager_cents), cancelled.rollback()
    paid = yield from at.accepts(deposit, "its deposit", moves=2 * won.wager_cents)
    refunded = yield from at.accepts(rollback, "a rollback of the other bet", moves=cancelled.wager_cents)
    for _ in range(4):
        yield from at.again(deposit, paid, "the same deposit again")
    for _ in range(2):
        yield from at.again(rollback, refunded, "the same rollback again")
    if at.profile.rollback_tx_id == "withdraw" and at.writer.name("tx_id", "rollback"):
        yield from _cancelled_by_its_id(at, cancelled)


def _cancelled_by_its_id(at: Stage, cancelled: Bet) -> Judging:
    """Hold that rollbacks without a tx_id refund once as well, whether they are answered SUCCESS or refused."""
    known = lacking(at, cancelled.rollback(), "tx_id", "missing")
    heard = yield from at.hear(replace(known, title="the same rollback again, without its tx_id"))
    yield from at.holds(at.player, after=heard)
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    heard = yield from at.hear(lacking(at, bet.rollback(), "tx_id", "missing"))
    if heard.succeeded:
        yield from at.check_moved(heard, at.player, bet.wager_cents)
        return
    at.advise(f"{heard.request.title}: refused with {heard.code}, and SUCCESS is assumed", heard)
    yield from at.accepts(bet.rollback(), "the rollback with its tx_id", moves=bet.wager_cents)


@scenario(
    "B03",
    "a withdraw sent again when the balance is another",
    Weight.MONEY_LOST,
    rests_on="spec §2.1, decision 0012, decision 0014",
    means="A bet that was paid for is told to have been refused, since the money left would not do for it now; or the "
    "player is shown an old balance as that of now.",
    mend="Look for the known call before asking for funds; tell the balance of now, or word for word the first answer.",
)
def b03(at: Stage) -> Play:
    """It is a SUCCESS with the balance of now, also when there is no money left."""
    bet, other = at.bet(), at.bet()
    first = yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.accepts(other.withdraw(), "another withdraw", moves=-other.wager_cents)
    yield from at.again(bet.withdraw(), first, "the first withdraw again")
    with suppress(NotTried):  # A wallet that limits wagers has shown what it can.
        yield from _without_funds(at, bet, first)


def _without_funds(at: Stage, bet: Bet, first: Heard) -> Judging:
    rest = at.bet(cents=at.player.due_cents)
    yield from at.accepts(rest.withdraw(), "a withdraw of all the rest", moves=-rest.wager_cents, unless_limited=True)
    yield from at.again(bet.withdraw(), first, "the first withdraw again, with no money left")
    yield from _settled(at, rest)


@scenario(
    "B05",
    "a rollback that carries its withdraw's tx_id",
    Weight.MONEY_LOST,
    rests_on="spec §3, decision 0014",
    means="No cancelled bet is refunded: its rollback does nothing, or is taken for the withdraw that was sent before.",
    mend="Make operation and tx_id together the key of a call, as in UNIQUE (operation, tx_id), never tx_id "
    "alone; and give the wager back wherever an OPEN bet is rolled back.",
    explains=_REFUNDING,
)
def b05(at: Stage) -> Play:
    """It is a call of its own: the wager is given back."""
    if at.profile.rollback_tx_id == "own":
        raise NotTried("the profile's rollbacks have tx_ids of their own")
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.accepts(bet.rollback(), "a rollback with the withdraw's tx_id", moves=bet.wager_cents)


@scenario(
    "B06",
    "a withdraw refused for want of money, sent again after a win",
    Weight.MONEY_LOST,
    rests_on="decision 0013, decision 0014",
    means="A player pays for a bet that the service gave up when it was refused: it is never played.",
    mend="Store the refusal with tx_id and bet_id, commit it, and answer the same call with the same code.",
    explains=("B12", "C13", "G04"),
)
def b06(at: Stage) -> Play:
    """A refusal is final for this tx_id, whatever money there is later."""
    open_bet, beyond = at.bet(), at.bet(cents=at.player.due_cents + 1)
    won_cents = 3 * open_bet.wager_cents
    yield from at.accepts(open_bet.withdraw(), "a withdraw", moves=-open_bet.wager_cents)
    code = WebhookErrorCode.INSUFFICIENT_BALANCE
    first = yield from at.refuses(beyond.withdraw(), "a withdraw of more than there is", code)
    yield from at.accepts(open_bet.deposit(won_cents), "a win that makes it enough", moves=won_cents)
    yield from at.again(beyond.withdraw(), first, "the refused withdraw again")


@scenario(
    "B07",
    "calls that failed, sent again when the wallet works",
    Weight.MONEY_LOST,
    rests_on="decision 0013, decision 0014",
    means="A win that came while the wallet was out of order is never paid, however often the service sends it.",
    mend="Answer SYSTEM_ERROR and roll the transaction back, with the record of the call: the repeat starts afresh.",
    explains=("H02",),
    needs=("fail", "recover"),
)
def b07(at: Stage) -> Play:
    """A failure of the wallet's own is not remembered."""
    won, placed = at.bet(), at.bet()
    yield from at.accepts(won.withdraw(), "a withdraw", moves=-won.wager_cents)
    deposit, withdraw = won.deposit(2 * won.wager_cents), placed.withdraw()
    yield from at.act("fail")
    unpaid = yield from at.send(at.request(deposit, "a deposit while the wallet fails"))
    untaken = yield from at.send(at.request(withdraw, "a withdraw while the wallet fails"))
    yield from at.act("recover")
    if unpaid.succeeded or untaken.succeeded:
        raise NotTried("the wallet answered SUCCESS when it was made to fail")
    yield from at.accepts(deposit, "the same deposit when the wallet works", moves=2 * won.wager_cents)
    yield from at.accepts(withdraw, "the same withdraw when the wallet works", moves=-placed.wager_cents)
    for heard in (unpaid, untaken):
        at.check_reply(heard)
        at.check_code(heard, WebhookErrorCode.SYSTEM_ERROR)


@scenario(
    "B08",
    "calls sent again after a restart",
    Weight.MONEY_DOUBLED,
    rests_on="decision 0014",
    means="When the wallet is restarted or deployed, calls of which the service heard no answer are carried out twice.",
    mend="Keep the calls that were carried out in the database, not in memory, and commit them with the money.",
    needs=("restart",),
)
def b08(at: Stage) -> Play:
    """Each moves once, whether or not it was answered before the process was killed."""
    answered, unanswered = at.bet(), at.bet()
    first = yield from at.accepts(answered.withdraw(), "a withdraw", moves=-answered.wager_cents)
    deposit = answered.deposit(2 * answered.wager_cents)
    paid = yield from at.accepts(deposit, "its deposit", moves=2 * answered.wager_cents)
    withdraw = at.request(unanswered.withdraw(), "a withdraw whose answer nobody hears")
    yield from at.send(replace(withdraw, manner=Manner.CUT))
    yield from at.act("restart")
    again = replace(withdraw, title="the same withdraw after the restart")
    yield from at.accepts(again, moves=-unanswered.wager_cents)
    yield from at.again(answered.withdraw(), first, "the answered withdraw after the restart")
    yield from at.again(deposit, paid, "the answered deposit after the restart")


@scenario(
    "B11",
    "calls sent again 89 days later",
    Weight.MONEY_DOUBLED,
    rests_on="spec §8, decision 0014",
    means="Whoever sends an old call again, the service or somebody who recorded it, is paid a second time.",
    mend="Never delete operation and tx_id of a call, nor bet_id and state of a bet; prune only details.",
    needs=("later",),
)
def b11(at: Stage) -> Play:
    """Withdraw, deposit and jackpot are still known, and bets that were lost, refused or cancelled stay so."""
    bet, lost, unseen = at.bet(), at.bet(), at.bet()
    calls = tuple(_a_days_calls(at, bet, lost))
    firsts = []
    for call, cents in calls:
        firsts.append((yield from at.accepts(call, f"a {call.operation}", moves=cents)))
    cancelled = yield from at.hear(unseen.rollback(), "a rollback without its withdraw")
    yield from at.check_told(cancelled, at.player)
    beyond = at.bet(cents=at.player.due_cents + 1)
    poor = WebhookErrorCode.INSUFFICIENT_BALANCE
    refused = yield from at.refuses(beyond.withdraw(), "a withdraw of more than there is", poor)
    yield from at.act("later", _RETENTION_DAYS - 1)
    for (call, _), first in zip(calls, firsts, strict=True):
        yield from at.again(call, first, f"the same {call.operation} {_RETENTION_DAYS - 1} days later")
    yield from at.again(beyond.withdraw(), refused, "the withdraw of more than there was")
    late, closed = WebhookErrorCode.BET_ROLLED_BACK, WebhookErrorCode.BET_ALREADY_CLOSED
    yield from at.refuses(unseen.withdraw(), "the withdraw that comes so long after its rollback", late)
    yield from at.refuses(lost.rollback(), "a rollback of a bet lost long ago", closed)


def _a_days_calls(at: Stage, bet: Bet, lost: Bet) -> Iterator[tuple[MovingCall, int]]:
    yield lost.withdraw(), -lost.wager_cents
    yield lost.deposit(0), 0
    yield bet.withdraw(), -bet.wager_cents
    yield bet.deposit(2 * bet.wager_cents), 2 * bet.wager_cents
    if "JACKPOT" in at.claim_types:
        yield at.claim(at.unit_cents, "JACKPOT"), at.unit_cents


@scenario(
    "B14",
    "a withdraw sent again once the player is blocked",
    Weight.MONEY_LOST,
    rests_on="decision 0014",
    means="A bet that was paid for is told to have been refused: the service drops it, and the wager is gone.",
    mend="Look for the known call before asking whether the player may bet.",
    needs=("block", "unblock"),
)
def b14(at: Stage) -> Play:
    """It is a SUCCESS: the wager was debited before."""
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.act("block", at.player.id)
    heard = yield from at.send(at.request(bet.withdraw(), "the same withdraw once the player is blocked"))
    yield from at.act("unblock", at.player.id)
    at.check_reply(heard)
    at.check_success(heard)
    yield from at.check_told(heard, at.player)
    yield from _settled(at, bet)


def _settled(at: Stage, bet: Bet) -> Judging:
    """Give the wager back, as a win."""
    yield from at.accepts(bet.deposit(bet.wager_cents), "its deposit", moves=bet.wager_cents)
