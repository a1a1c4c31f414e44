"""Group B, repeats: the service sends a call again, and nothing moves twice (spec §3, docs/decisions/0014)."""

from contextlib import suppress
from dataclasses import replace
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import BalanceCall, MovingCall
from game_operator.protocol.exact_json import encode_json
from game_operator_testkit.certifier.engine.calls import moved_by
from game_operator_testkit.certifier.engine.stage import Stage, time_of
from game_operator_testkit.certifier.engine.steps import Found, NotTried
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.certifier.scenarios.bodies import answers, batch, lacking
from game_operator_testkit.certifier.scenarios.c_order import gives_nothing_back
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import BetCalls, Manner, Request

_RETENTION_DAYS = 90
#: What may stand between two ids that are joined to one key.
_BETWEEN: Final = ("", ":", "-", "_", "|", "/")


def b01(at: Stage) -> None:
    """One debit, however often it is sent, before the bet is settled and after."""
    bet = at.bet()
    first = at.accepts(bet.withdraw(), "a withdraw")
    for _ in range(2):
        at.again(bet.withdraw(), first, "the same withdraw again")
    at.accepts(bet.deposit(bet.wager_cents), "its deposit")
    at.again(bet.withdraw(), first, "the same withdraw once its bet is settled", cause=KnownCause.SETTLED_GONE)


def b02(at: Stage) -> None:
    """One credit, and one refund."""
    won, cancelled = at.bet(), at.bet()
    at.placed(won, cancelled)
    deposit, rollback = won.deposit(2 * won.wager_cents), cancelled.rollback()
    paid = at.accepts(deposit, "its deposit")
    refunded = at.accepts(rollback, "a rollback of the other bet")
    for _ in range(at.observed.times(4, 1)):
        at.again(deposit, paid, "the same deposit again", cause=KnownCause.SETTLED_GONE)
    for _ in range(at.observed.times(2, 1)):
        at.again(rollback, refunded, "the same rollback again")
    if at.profile.rollback_tx_id != "withdraw" or not at.writer.name("tx_id", "rollback"):
        return
    title = "the same rollback again, without its tx_id"
    at.check_balances(at.player, after=at.ask(lacking(at, cancelled.rollback(), "tx_id", title=title)))


def b03(at: Stage) -> None:
    """It is a SUCCESS with the current balance, even when no money is left."""
    bet, other = at.bet(), at.bet()
    first = at.accepts(bet.withdraw(), "a withdraw")
    second = at.accepts(other.withdraw(), "another withdraw")
    heard = at.again(bet.withdraw(), first, "the first withdraw again")
    if heard.reply != first.reply and time_of(heard) < time_of(second):
        told = "it has the current balance with an earlier time, so that an older balance counts as the newer one"
        at.note(told, Weight.CONTRACT_BROKEN, KnownCause.OLD_TIME, heard)
    rest = at.bet(wager_cents=at.player.due_cents)
    with suppress(NotTried):  # A wallet that limits wagers has shown what it can.
        at.accepts(rest.withdraw(), "a withdraw of all the rest", may_limit=True)
        at.again(bet.withdraw(), first, "the first withdraw again, with no money left")
        at.accepts(rest.deposit(rest.wager_cents), "its deposit")


def b04(at: Stage) -> None:
    """It is refused, and nothing moves for either player."""
    bet, code = at.placed(), Code.DUPLICATE_TRANSACTION
    cents = bet.wager_cents
    at.refuses(bet.withdraw(amount_cents=2 * cents), "its tx_id with another amount", code)
    _refused_to_another(at, bet.withdraw(player_id=at.other.id), "its tx_id with another player")
    at.accepts(bet.deposit(cents), "its deposit")
    at.refuses(bet.deposit(2 * cents), "the deposit's tx_id with another amount", code)
    for claim in at.jackpots(cents):
        at.accepts(claim, "a jackpot")
        at.refuses(replace(claim, amount_cents=2 * cents), "the jackpot's tx_id with another amount", code)
        _refused_to_another(at, replace(claim, player_id=at.other.id), "the jackpot's tx_id with another player")
        if not at.writer.name("tx_id", "deposit"):
            return
        of_deposit = replace(claim, tx_id=bet.deposit(cents).tx_id)
        at.refuses(of_deposit, "a jackpot with the tx_id of a deposit", code)
        for action in at.writer.claim_types:
            if action != claim.action:
                at.refuses(replace(claim, action=action), f"the jackpot's tx_id with the type {action}", code)


def _refused_to_another(at: Stage, call: MovingCall, title: str) -> None:
    """Hold that a known tx_id is refused to another player; some service may mean it as a new call."""
    heard, code = at.ask(call, title), Code.DUPLICATE_TRANSACTION
    if heard.succeeded:
        is_new_call = at.balance_of(at.other) - at.other.due_cents == moved_by(call)
        at.accepted_wrongly(heard, at.other, code, cause=KnownCause.PER_PLAYER if is_new_call else "")
    at.check_code(heard, code)
    at.check_balance(heard, at.other)


def b05(at: Stage) -> None:
    """It is another call than the withdraw: the wager is given back, also where no call has a tx_id."""
    if at.profile.rollback_tx_id == "own":
        raise NotTried("the profile's rollbacks have tx_ids of their own")
    at.accepts(at.placed().rollback(), "a rollback with the withdraw's tx_id")
    if not all(at.writer.name("tx_id", each) for each in ("withdraw", "rollback", "deposit")):
        return
    # A rollback's tx_id is its withdraw's, whatever that is; so one that has none agrees.
    bet = at.placed(at.bet(tx_id=at.fresh("withdraw")))
    heard = at.ask(lacking(at, bet.rollback(), "tx_id"))
    if heard.code in (Code.BET_NOT_FOUND, Code.INVALID_REQUEST):
        told = f"refused with {heard.code}; a rollback with its withdraw's was accepted"
        raise Found(told, heard, cause=KnownCause.NEEDS_TX_ID)
    at.check_moved(heard, at.player, bet.wager_cents)
    bet = at.placed()
    at.accepts(bet.deposit(bet.wager_cents, tx_id=bet.withdraw().tx_id), "a deposit with its withdraw's tx_id")
    cancelled, won = at.bet(), at.bet()
    if at.observed.is_slow or not _played_without_tx_ids(at, cancelled, cancelled.rollback()).succeeded:
        return
    heard = _played_without_tx_ids(at, won, won.deposit(won.wager_cents))
    if not heard.succeeded:
        told = f"refused with {heard.code}; another bet without a tx_id was accepted"
        raise Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.NO_TX_ID)


def _played_without_tx_ids(at: Stage, bet: BetCalls, end: MovingCall) -> Carried:
    """Hold that a bet which is placed without a tx_id is ended so, and that both calls are known again."""
    withdraw = lacking(at, bet.withdraw(), "tx_id")
    first = at.ask(withdraw)
    if first.succeeded:
        at.check_moved(first, at.player, -bet.wager_cents)
        _check_known_without_tx_id(at, withdraw, first)
        last = lacking(at, end, "tx_id", title=f"its {end.operation}, which has no tx_id either")
        _check_known_without_tx_id(at, last, at.accepts(last, moves=bet.wager_cents))
    return first


def _check_known_without_tx_id(at: Stage, request: Request, first: Carried, *, is_claim: bool = False) -> None:
    """Hold that a request which was carried out, as *first* says, is known when it comes again."""
    # If repeats with a tx_id are not known either, that is the mistake.
    is_its_own = (f"{request.path}, a claim" if is_claim else request.path) in at.observed.repeated
    cause = KnownCause.SETTLED_GONE if request.path == "/deposit" else ""
    try:
        at.again(replace(request, title=f"{request.title}, again"), first, "", cause=cause)
    except Found as found:
        # Where no answer came, that is the mistake.
        found.cause = KnownCause.NO_TX_ID if is_its_own and found.symptom else found.cause
        raise


def b06(at: Stage) -> None:
    """A refusal is final for this tx_id, even if there is money later."""
    open_bet, beyond = at.bet(), at.bet(wager_cents=at.player.due_cents + 1)
    at.placed(open_bet)
    first = at.refuses(beyond.withdraw(), "a withdraw of more than there is", Code.INSUFFICIENT_BALANCE)
    at.accepts(open_bet.deposit(3 * open_bet.wager_cents), "a win that makes it enough")
    at.again(beyond.withdraw(), first, "the refused withdraw again")


def b07(at: Stage) -> None:
    """A failure of the wallet's own is not remembered."""
    won, late = at.bet(), at.bet()
    at.placed(won)
    calls: tuple[MovingCall, ...] = (won.deposit(2 * won.wager_cents), late.withdraw())
    requests = [at.request(call, f"a {call.operation} while the wallet fails") for call in calls]
    failed = at.during("fail", "recover", requests)
    if any(heard.succeeded for heard in failed):
        raise NotTried("the wallet returned SUCCESS when it was made to fail")
    for call in calls:
        at.accepts(call, f"the same {call.operation} when the wallet works")
    for heard in failed:
        at.check_reply(heard)
        at.check_code(heard, Code.SYSTEM_ERROR)


def b08(at: Stage) -> None:
    """Each moves once, whether or not it was answered before the process was killed."""
    answered, unanswered = at.bet(), at.bet()
    first = at.accepts(answered.withdraw(), "a withdraw")
    deposit = answered.deposit(2 * answered.wager_cents)
    paid = at.accepts(deposit, "its deposit")
    at.send(replace(at.request(unanswered.withdraw(), "a withdraw whose answer is lost"), manner=Manner.CUT))
    at.act("restart")
    at.accepts(unanswered.withdraw(), "the same withdraw after the restart")
    at.again(answered.withdraw(), first, "the answered withdraw after the restart")
    at.again(deposit, paid, "the answered deposit after the restart")


def b09(at: Stage) -> None:
    """They are three bets, each with its own wager and win."""
    name = at.fresh("Bet")
    bets = [at.bet(bet_id=bet_id) for bet_id in (name, name.swapcase(), f"{name} ")]
    at.accepts_all([(bet.withdraw(), f"a withdraw of the bet {bet.bet_id!r}") for bet in bets])
    at.accepts_all([(bet.deposit(2 * bet.wager_cents), f"the deposit of the bet {bet.bet_id!r}") for bet in bets])
    for player_id in (f"{at.player.id} ", at.player.id.swapcase()):
        if player_id not in (at.player.id, at.other.id):
            _check_is_another(at, player_id)


def _check_is_another(at: Stage, player_id: str) -> None:
    """Advise if the wallet takes *player_id* for the player's: no service has two such players, but a person may."""
    heard = at.ask(BalanceCall(player_id=player_id), f"the balance of {player_id!r}")
    if not heard.succeeded:
        return
    bet = replace(at.bet(), player_id=player_id)
    placed = at.send(at.request(bet.withdraw(), f"a withdraw of {player_id!r}"))
    pays = at.balance_of(at.player) != at.player.due_cents
    at.send(at.request(bet.rollback(), "its rollback"))
    at.check_balances(at.player)
    told = f"returned SUCCESS, and {at.player.id!r} pays its bets; it is another id" if pays else ""
    at.advise(told or f"returned SUCCESS; it is another id than {at.player.id!r}", placed if pays else heard)


def b10(at: Stage) -> None:
    """It is refused: a bet is settled once."""
    bet = at.placed()
    won_cents, code = 2 * bet.wager_cents, Code.BET_ALREADY_CLOSED
    at.accepts(bet.deposit(won_cents), "its deposit")
    second = bet.deposit(won_cents, tx_id=_other_tx_id(at, "deposit"))
    cause = KnownCause.PAID_AGAIN
    at.refuses(second, "a deposit of the same bet with another tx_id", code, success_is_advice=True, cause=cause)
    third = bet.deposit(won_cents + 1, tx_id=_other_tx_id(at, "deposit"))
    at.refuses(third, "a deposit of the same bet with another tx_id and amount", code, cause=cause)


def b11(at: Stage) -> None:
    """Withdraw, deposit and jackpot are still known, and bets that were lost, refused or cancelled stay so."""
    bet, lost, unseen = at.bet(), at.bet(), at.bet()
    calls: list[MovingCall] = [lost.withdraw(), lost.deposit(0), bet.withdraw(), bet.deposit(2 * bet.wager_cents)]
    calls += at.jackpots()
    firsts = [(call, at.accepts(call, f"a {call.operation}")) for call in calls]
    at.check_balance(at.ask(unseen.rollback(), "a rollback without its withdraw"), at.player)
    beyond = at.bet(wager_cents=at.player.due_cents + 1)
    refused = at.refuses(beyond.withdraw(), "a withdraw of more than there is", Code.INSUFFICIENT_BALANCE)
    at.act("later", _RETENTION_DAYS - 1)
    for call, first in firsts:
        at.again(call, first, f"the same {call.operation} {_RETENTION_DAYS - 1} days later")
    at.again(beyond.withdraw(), refused, "the withdraw of more than there was")
    at.refuses(unseen.withdraw(), "the withdraw that comes so long after its rollback", Code.BET_ROLLED_BACK)
    at.refuses(lost.rollback(), "a rollback of a bet lost long ago", Code.BET_ALREADY_CLOSED)


def b12(at: Stage) -> None:
    """It is refused: a bet has one wager."""
    bet, code = at.placed(), Code.DUPLICATE_TRANSACTION
    second = bet.withdraw(tx_id=_other_tx_id(at, "withdraw"))
    at.refuses(second, "a withdraw of the same bet with another tx_id", code, success_is_advice=True)
    foreign = bet.withdraw(player_id=at.other.id, tx_id=_other_tx_id(at, "withdraw"))
    at.refuses(foreign, "the same by another player, with another tx_id", code, success_is_advice=True)
    at.accepts(bet.deposit(bet.wager_cents), "its deposit")
    third = bet.withdraw(tx_id=_other_tx_id(at, "withdraw"))
    title = "a withdraw of a settled bet with another tx_id"
    at.refuses(third, title, code, success_is_advice=True, cause=KnownCause.SETTLED_GONE)
    # Nor is a bet that was cancelled or refused placed by another tx_id.
    cancelled, beyond = at.bet(), at.bet(wager_cents=at.player.due_cents + 1)
    at.refuses(beyond.withdraw(), "a withdraw of more than there is", Code.INSUFFICIENT_BALANCE)
    affordable = beyond.withdraw(amount_cents=at.unit_cents, tx_id=_other_tx_id(at, "withdraw"))
    at.refuses(affordable, "a withdraw of the refused bet with another tx_id and less", code)
    at.placed(cancelled, title="another withdraw")
    at.accepts(cancelled.rollback(), "its rollback")
    again = cancelled.withdraw(tx_id=_other_tx_id(at, "withdraw"))
    at.refuses(again, "a withdraw of the cancelled bet with another tx_id", Code.BET_ROLLED_BACK)


def b13(at: Stage) -> None:
    """It is refused, and a rollback of the refused bet refunds neither of them."""
    bet, code = at.bet(), Code.DUPLICATE_TRANSACTION
    _other_tx_id(at, "withdraw")
    unpaid = at.bet(tx_id=bet.withdraw().tx_id)
    at.placed(bet)
    at.refuses(unpaid.withdraw(), "its tx_id with another bet", code)
    gives_nothing_back(at, unpaid.rollback(), "a rollback of the refused bet")
    known = bet.deposit(bet.wager_cents)
    at.accepts(known, "the first bet's deposit")
    if at.writer.name("tx_id", "deposit"):
        another = at.placed(title="another withdraw")
        borrowed = another.deposit(known.amount_cents, tx_id=known.tx_id)
        at.refuses(borrowed, "its deposit with the tx_id of the first bet's", code)
        at.accepts(another.deposit(known.amount_cents), "its deposit with its own tx_id")


def b14(at: Stage) -> None:
    """It is a SUCCESS: the wager was debited before."""
    bet = at.placed()
    again = at.request(bet.withdraw(), "the same withdraw once the player is blocked")
    (heard,) = at.during("block", "unblock", [again], at.player.id)
    at.check_reply(heard)
    at.check_moved(heard, at.player, 0)
    at.accepts(bet.deposit(bet.wager_cents), "its deposit")


def b15(at: Stage) -> None:
    """Order and further members make no other call of it."""
    bet = at.bet()
    deposit = bet.deposit(2 * bet.wager_cents)
    for call in (bet.withdraw(), deposit):
        first = at.accepts(call, f"a {call.operation}")
        at.again(_with_one_more(at, call), first, "")
        at.again(_in_another_order(at, call), first, "")
    # Escapes in ids are the same text in JSON.
    escaped = at.request(deposit, "the same deposit, with escapes in its ids")
    escaped = replace(escaped, body=escaped.body.replace(b"-", b"\\u002d"))
    at.again(escaped, first, "", cause=KnownCause.ESCAPES)
    elsewhere = bet.deposit(2 * bet.wager_cents, round_id=at.fresh("round"), game="another")
    at.again(elsewhere, first, "the same deposit, of another round and game")
    if not at.profile.deposit_batch:
        return
    heard = at.send(batch(at, (deposit,), "the same deposit in a batch"))
    (again,) = answers(heard, (deposit,))
    if again is None:
        raise Found("it is not answered", heard)
    at.check_moved(again, at.player, 0)
    bet = at.placed(title="another withdraw")
    deposit = bet.deposit(2 * bet.wager_cents)
    heard = at.send(batch(at, (deposit, deposit), "its deposit twice in one batch"))
    at.player.due_cents += 2 * bet.wager_cents
    at.check_balances(at.player, after=heard)
    at.accepts(deposit, "the same deposit alone, after the batch", moves=0)


def _in_another_order(at: Stage, call: MovingCall) -> Request:
    request = at.request(call, f"the same {call.operation}, its members in another order")
    return replace(request, body=encode_json(dict(reversed(at.writer.body(call).items()))))


def _with_one_more(at: Stage, call: MovingCall) -> Request:
    """Return *call* with a member that was added later; one that it is refused for ends the scenario."""
    request = at.request(call, f"the same {call.operation} with one more member")
    request = replace(request, body=encode_json(at.writer.body(call) | {"added_later": {"by": "the service"}}))
    heard = at.ask(request)
    if heard.code == Code.INVALID_REQUEST:
        told = f"refused with {heard.code} because of the member added_later, which it does not need"
        raise Found(told, heard, cause=KnownCause.SURPLUS)
    return request


def b16(at: Stage) -> None:
    """The jackpot is credited once, the bet stays OPEN, and its own deposit is credited; so is a late jackpot."""
    bet = at.bet()
    claim = at.claim(3 * at.unit_cents, "JACKPOT", bet_id=bet.bet_id)
    jackpot = lacking(at, claim, "tx_id", title="a jackpot on an open bet")
    deposit = lacking(at, bet.deposit(2 * bet.wager_cents), "tx_id", title="the bet's own deposit")
    at.placed(bet)
    first = at.ask(jackpot)
    if first.code == Code.INVALID_REQUEST and at.send(at.request(at.jackpots()[0], "one with a tx_id")).succeeded:
        told = f"refused with {first.code}; one with a tx_id is accepted"
        raise Found(told, first, cause=KnownCause.NEEDS_TX_ID)
    at.check_moved(first, at.player, 3 * at.unit_cents)
    if at.writer.name("tx_id", "deposit"):
        _check_known_without_tx_id(at, jackpot, first, is_claim=True)
        another = at.claim(2 * at.unit_cents, "JACKPOT", bet_id=bet.bet_id, tx_id=at.fresh("jackpot"))
        at.accepts(another, "another jackpot on the same bet, with its own tx_id")
        if "FREE_BET_CLAIM" in at.writer.claim_types:
            free = at.claim(at.unit_cents, "FREE_BET_CLAIM", bet_id=bet.bet_id, tx_id=at.fresh("free"))
            at.accepts(free, "a claim of free bets that names the same bet")
    at.accepts(deposit, moves=2 * bet.wager_cents)
    again = replace(jackpot, title="the same jackpot again")
    at.again(again, first, "", cause=KnownCause.REPEAT_REFUSED)
    if not at.writer.name("tx_id", "deposit") or at.observed.is_slow:
        return
    cancelled = at.placed()
    at.accepts(cancelled.rollback(), "its rollback")
    for ended, what in ((bet, "a settled bet"), (cancelled, "a cancelled bet")):
        claim = at.claim(at.unit_cents, "JACKPOT", bet_id=ended.bet_id, tx_id=at.fresh("jackpot"))
        at.accepts(claim, f"a jackpot that names {what}, with its own tx_id")


def b17(at: Stage) -> None:
    """Two bets are two, although their ids, joined to one text, are the same."""
    _other_tx_id(at, "withdraw")
    bets: list[tuple[BetCalls, str]] = []
    for mark in _BETWEEN:
        start, end = at.fresh("bet"), at.fresh("tx")
        one = at.bet(bet_id=f"{start}{mark}a", tx_id=f"b{mark}{end}")
        another = at.bet(bet_id=start, tx_id=f"a{mark}b{mark}{end}")
        joined = f"whose ids are {one.bet_id!r} and {one.tx_id!r}, then {another.bet_id!r} and {another.tx_id!r}"
        bets += [(one, f"the first of two bets {joined}"), (another, f"the second of two bets {joined}")]
    at.accepts_all([(bet.withdraw(), f"a withdraw of {told}") for bet, told in bets])
    at.accepts_all([(bet.rollback(), f"the rollback of {told}") for bet, told in bets])


def _other_tx_id(at: Stage, operation: str) -> str:
    """Return a tx_id that is not made of the bet's id; raise NotTried if the service's calls have none."""
    if not at.writer.name("tx_id", operation):
        raise NotTried("the profile's calls have no tx_ids")
    return at.fresh("tx")
