"""Group B, repeats: the service sends a call again, and nothing moves twice (spec §3, docs/decisions/0014)."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from game_operator.certify.engine.endings import Found, NotTried
from game_operator.certify.engine.stage import Judging, Stage
from game_operator.certify.scenarios.batches import answers, batch
from game_operator.certify.scenarios.malformed import Body, lacking, without_field
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, RollbackCall
from game_operator.protocol.exact_json import encode_json
from game_operator.provider.bets import Bet
from game_operator.provider.requests import Heard, Manner, Request

_RETENTION_DAYS = 90
#: What has a rollback that refunds.
_REFUNDING = (
    *("A04", "A05", "A06", "A08", "A09", "B02", "B12", "C04", "C07", "C08", "C09", "C11", "C12", "D01", "D03", "D04"),
    *("D07", "D08", "D09", "E09", "E12", "F11", "G04", "H02", "H05"),
)


def b01(at: Stage) -> Judging:
    """One debit, however often it is sent, before the bet is settled and after."""
    bet = at.bet()
    first = yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    for _ in range(2):
        yield from at.again(bet.withdraw(), first, "the same withdraw again")
    yield from _settled(at, bet)
    yield from at.again(bet.withdraw(), first, "the same withdraw once its bet is settled")


def b02(at: Stage) -> Judging:
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


def b03(at: Stage) -> Judging:
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


def b05(at: Stage) -> Judging:
    """It is a call of its own: the wager is given back."""
    if at.profile.rollback_tx_id == "own":
        raise NotTried("the profile's rollbacks have tx_ids of their own")
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.accepts(bet.rollback(), "a rollback with the withdraw's tx_id", moves=bet.wager_cents)


def b06(at: Stage) -> Judging:
    """A refusal is final for this tx_id, whatever money there is later."""
    open_bet, beyond = at.bet(), at.bet(cents=at.player.due_cents + 1)
    won_cents = 3 * open_bet.wager_cents
    yield from at.accepts(open_bet.withdraw(), "a withdraw", moves=-open_bet.wager_cents)
    code = WebhookErrorCode.INSUFFICIENT_BALANCE
    first = yield from at.refuses(beyond.withdraw(), "a withdraw of more than there is", code)
    yield from at.accepts(open_bet.deposit(won_cents), "a win that makes it enough", moves=won_cents)
    yield from at.again(beyond.withdraw(), first, "the refused withdraw again")


def b07(at: Stage) -> Judging:
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


def b08(at: Stage) -> Judging:
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


def b11(at: Stage) -> Judging:
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


def b14(at: Stage) -> Judging:
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


_DUPLICATE = WebhookErrorCode.DUPLICATE_TRANSACTION
_CLOSED = WebhookErrorCode.BET_ALREADY_CLOSED


def b04(at: Stage) -> Judging:
    """It is refused, and nothing moves for either player."""
    bet = at.bet()
    cents = bet.wager_cents
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-cents)
    larger = bet.withdraw(amount_cents=2 * cents)
    yield from at.refuses(larger, "its tx_id with another amount", _DUPLICATE)
    foreign = bet.withdraw(player_id=at.other.id)
    yield from at.refuses(foreign, "its tx_id with another player", _DUPLICATE)
    yield from at.accepts(bet.deposit(cents), "its deposit", moves=cents)
    yield from at.refuses(bet.deposit(2 * cents), "the deposit's tx_id with another amount", _DUPLICATE)
    if "JACKPOT" in at.claim_types:
        yield from _known_jackpot(at)


def _known_jackpot(at: Stage) -> Judging:
    cents = at.unit_cents
    claim = at.claim(cents, "JACKPOT")
    yield from at.accepts(claim, "a jackpot", moves=cents)
    larger, foreign = replace(claim, amount_cents=2 * cents), replace(claim, player_id=at.other.id)
    yield from at.refuses(larger, "the jackpot's tx_id with another amount", _DUPLICATE)
    yield from at.refuses(foreign, "the jackpot's tx_id with another player", _DUPLICATE)


def b09(at: Stage) -> Judging:
    """They are three bets, each with a wager and a win of its own."""
    name = at.fresh("Bet")
    bets = [at.bet(bet_id=bet_id) for bet_id in (name, name.swapcase(), f"{name} ")]
    for bet in bets:
        yield from at.accepts(bet.withdraw(), f"a withdraw of the bet {bet.bet_id!r}", moves=-bet.wager_cents)
    for bet in bets:
        title = f"the deposit of the bet {bet.bet_id!r}"
        yield from at.accepts(bet.deposit(2 * bet.wager_cents), title, moves=2 * bet.wager_cents)
    trailing = BalanceCall(player_id=f"{at.player.id} ")
    heard = yield from at.hear(trailing, f"the balance of {trailing.player_id!r}")
    if heard.succeeded:
        at.advise(f"{heard.request.title}: answered SUCCESS; it is another id than {at.player.id!r}", heard)


def b10(at: Stage) -> Judging:
    """It is refused: a bet is settled once."""
    bet = at.bet()
    won_cents = 2 * bet.wager_cents
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.accepts(bet.deposit(won_cents), "its deposit", moves=won_cents)
    second = bet.deposit(won_cents, tx_id=_other_tx_id(at, "deposit"))
    yield from at.refuses(second, "a deposit of the same bet with another tx_id", _CLOSED, success_is_sound=True)
    third = bet.deposit(won_cents + 1, tx_id=_other_tx_id(at, "deposit"))
    yield from at.refuses(third, "a deposit of the same bet with another tx_id and amount", _CLOSED)


def b12(at: Stage) -> Judging:
    """It is refused: a bet has one wager."""
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    second = bet.withdraw(tx_id=_other_tx_id(at, "withdraw"))
    yield from at.refuses(second, "a withdraw of the same bet with another tx_id", _DUPLICATE, success_is_sound=True)
    yield from at.accepts(bet.deposit(bet.wager_cents), "its deposit", moves=bet.wager_cents)
    third = bet.withdraw(tx_id=_other_tx_id(at, "withdraw"))
    yield from at.refuses(third, "a withdraw of a settled bet with another tx_id", _DUPLICATE, success_is_sound=True)
    yield from _no_second_chance(at)


def _no_second_chance(at: Stage) -> Judging:
    """Hold that a bet that was cancelled or refused is not placed by another tx_id."""
    cancelled, beyond = at.bet(), at.bet(cents=at.player.due_cents + 1)
    poor = WebhookErrorCode.INSUFFICIENT_BALANCE
    yield from at.refuses(beyond.withdraw(), "a withdraw of more than there is", poor)
    affordable = beyond.withdraw(amount_cents=at.unit_cents, tx_id=_other_tx_id(at, "withdraw"))
    yield from at.refuses(affordable, "a withdraw of the refused bet with another tx_id and less", _DUPLICATE)
    yield from at.accepts(cancelled.withdraw(), "another withdraw", moves=-cancelled.wager_cents)
    yield from at.accepts(cancelled.rollback(), "its rollback", moves=cancelled.wager_cents)
    again = cancelled.withdraw(tx_id=_other_tx_id(at, "withdraw"))
    title = "a withdraw of the cancelled bet with another tx_id"
    yield from at.refuses(again, title, WebhookErrorCode.BET_ROLLED_BACK)


def b13(at: Stage) -> Judging:
    """It is refused, and a rollback of the refused bet refunds neither of them."""
    bet = at.bet()
    _other_tx_id(at, "withdraw")
    unpaid = at.bet(tx_id=bet.tx_id)
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.refuses(unpaid.withdraw(), "its tx_id with another bet", _DUPLICATE)
    yield from _refunds_nothing(at, unpaid.rollback(), "a rollback of the refused bet")
    deposit = bet.deposit(bet.wager_cents)
    yield from at.accepts(deposit, "the first bet's deposit", moves=bet.wager_cents)
    if at.writer.name("tx_id", "deposit"):
        yield from _pays_by_its_own(at, deposit)


def _pays_by_its_own(at: Stage, known: DepositCall) -> Judging:
    """Hold that a bet is not settled by the tx_id of another's deposit, and then by one of its own."""
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "another withdraw", moves=-bet.wager_cents)
    borrowed = bet.deposit(known.amount_cents, tx_id=known.tx_id)
    yield from at.refuses(borrowed, "its deposit with the tx_id of the first bet's", _DUPLICATE)
    own = bet.deposit(known.amount_cents)
    yield from at.accepts(own, "its deposit with a tx_id of its own", moves=known.amount_cents)


def _refunds_nothing(at: Stage, call: RollbackCall, title: str) -> Judging:
    if at.profile.unknown_rollback == "success":
        yield from at.accepts(call, title)
    else:
        yield from at.refuses(call, title, WebhookErrorCode.BET_NOT_FOUND, success_is_sound=True)


def b15(at: Stage) -> Judging:
    """Order and further members make no other call of it."""
    bet = at.bet()
    won_cents = 2 * bet.wager_cents
    first = yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.again(_in_other_words(at, bet.withdraw()), first, "")
    deposit = bet.deposit(won_cents)
    paid = yield from at.accepts(deposit, "its deposit", moves=won_cents)
    yield from at.again(_in_other_words(at, deposit), paid, "")
    elsewhere = bet.deposit(won_cents, round_id=at.fresh("round"), game="another")
    yield from at.again(elsewhere, paid, "the same deposit, told of another round and game")
    if at.profile.deposit_batch:
        yield from _again_in_a_batch(at, deposit)
        yield from _twice_in_a_batch(at)


def _in_other_words(at: Stage, call: MovingCall) -> Request:
    body = _reversed(at.writer.body(call)) | {"added_later": {"by": "the service"}}
    title = f"the same {call.operation}, its members in another order and one more"
    return Request(title, f"/{call.operation}", encode_json(body))


def _reversed(body: Body) -> Body:
    return {name: _reversed(each) if isinstance(each, dict) else each for name, each in reversed(body.items())}


def _again_in_a_batch(at: Stage, deposit: DepositCall) -> Judging:
    heard = yield from at.send(batch(at, (deposit,), "the same deposit in a batch"))
    (again,) = answers(heard, (deposit,))
    if again is None:
        raise Found("the same deposit in a batch: it is not answered", place=heard.place)
    at.check_success(again)
    yield from at.check_told(again, at.player)


def _twice_in_a_batch(at: Stage) -> Judging:
    bet = at.bet()
    yield from at.accepts(bet.withdraw(), "another withdraw", moves=-bet.wager_cents)
    deposit = bet.deposit(2 * bet.wager_cents)
    heard = yield from at.send(batch(at, (deposit, deposit), "its deposit twice in one batch"))
    at.player.due_cents += 2 * bet.wager_cents
    yield from at.holds(at.player, after=heard)
    yield from at.accepts(deposit, "the same deposit alone, once a batch has brought it")


def b16(at: Stage) -> Judging:
    """The jackpot is credited once, the bet stays OPEN, and its own deposit is credited too."""
    bet = at.bet()
    jackpot = _without_tx_id(at, at.claim(3 * at.unit_cents, "JACKPOT", bet_id=bet.bet_id), "a jackpot on an open bet")
    deposit = _without_tx_id(at, bet.deposit(2 * bet.wager_cents), "the bet's own deposit")
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    first = yield from at.accepts(jackpot, moves=3 * at.unit_cents)
    yield from at.accepts(deposit, moves=2 * bet.wager_cents)
    yield from at.again(replace(jackpot, title="the same jackpot again"), first, "")


def _without_tx_id(at: Stage, call: DepositCall, title: str) -> Request:
    body, name = at.writer.body(call), at.writer.name("tx_id", call.operation)
    return Request(title, f"/{call.operation}", encode_json(without_field(body, name) if name else body))


def _other_tx_id(at: Stage, operation: str) -> str:
    """Return a tx_id that is not made of the bet's id; raise NotTried if the service's calls have none."""
    if not at.writer.name("tx_id", operation):
        raise NotTried("the profile's calls have no tx_ids")
    return at.fresh("tx")
