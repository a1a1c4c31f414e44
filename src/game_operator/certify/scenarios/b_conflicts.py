"""Group B, conflicts: what looks like a repeat and is none, and what does not look like one and is (spec §3)."""

from dataclasses import replace

from game_operator.certify.engine.scenario import Found, NotTried, Play, scenario
from game_operator.certify.engine.stage import Judging, Stage
from game_operator.certify.report.verdicts import Weight
from game_operator.certify.scenarios.batches import answers, batch
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, RollbackCall
from game_operator.protocol.canonical import encode_json
from game_operator.provider.bodies import Body, without_field
from game_operator.provider.requests import Request

_DUPLICATE = WebhookErrorCode.DUPLICATE_TRANSACTION
_CLOSED = WebhookErrorCode.BET_ALREADY_CLOSED


@scenario(
    "B04",
    "a known tx_id with another amount or player",
    Weight.MONEY_LOST,
    rests_on="spec §3, decision 0013, decision 0014",
    means="The service believes that a wager was taken, or a win paid, that nobody took or paid.",
    mend="Store player, bet, amount and the action's type (BET, JACKPOT …) with the tx_id; where they differ, move "
    "nothing and answer DUPLICATE_TRANSACTION.",
)
def b04(at: Stage) -> Play:
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


@scenario(
    "B09",
    "ids that differ in case or a space at the end",
    Weight.MONEY_LOST,
    rests_on="decision 0010, decision 0014",
    means="Two bets are taken for one: the second is played without a wager, and its win is not paid.",
    mend="Compare ids byte for byte: a binary collation in the database, and no trim() or lower() on the way there.",
    explains=("F07",),
)
def b09(at: Stage) -> Play:
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


@scenario(
    "B10",
    "a second deposit of a bet, with a tx_id of its own",
    Weight.MONEY_DOUBLED,
    rests_on="spec §3, decision 0013, decision 0014",
    means="A bet that is settled twice is paid twice.",
    mend="Credit only where UPDATE bets SET state = 'CLOSED' WHERE bet_id = … AND state = 'OPEN' changed a row.",
)
def b10(at: Stage) -> Play:
    """It is refused: a bet is settled once."""
    bet = at.bet()
    won_cents = 2 * bet.wager_cents
    yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents)
    yield from at.accepts(bet.deposit(won_cents), "its deposit", moves=won_cents)
    second = bet.deposit(won_cents, tx_id=_other_tx_id(at, "deposit"))
    yield from at.refuses(second, "a deposit of the same bet with another tx_id", _CLOSED, success_is_sound=True)
    third = bet.deposit(won_cents + 1, tx_id=_other_tx_id(at, "deposit"))
    yield from at.refuses(third, "a deposit of the same bet with another tx_id and amount", _CLOSED)


@scenario(
    "B12",
    "a second withdraw of a bet, with a tx_id of its own",
    Weight.MONEY_DOUBLED,
    rests_on="spec §2.4, decision 0013, decision 0014",
    means="A player pays twice for one bet, of which the service settles and refunds one wager.",
    mend="Make bet_id unique in the table of bets, and answer DUPLICATE_TRANSACTION where it is taken.",
)
def b12(at: Stage) -> Play:
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


@scenario(
    "B13",
    "a known tx_id with another bet",
    Weight.MONEY_LOST,
    rests_on="spec §3, decision 0013, decision 0014",
    means="A bet is played for which no wager was taken; and where it is cancelled, the other's wager is given back.",
    mend="Store the bet_id with the tx_id, answer DUPLICATE_TRANSACTION where it differs, and look for the bet that a "
    "rollback cancels by its bet_id.",
)
def b13(at: Stage) -> Play:
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


@scenario(
    "B15",
    "a call sent again in other words",
    Weight.MONEY_DOUBLED,
    rests_on="decision 0010, decision 0014",
    means="A call that is sent again with its members in another order or with one more, or in a batch, is paid twice; "
    "or it is refused though it was paid.",
    mend="Recognise a call by operation and tx_id, and compare player, bet, amount and the action's type, not bytes "
    "or digests.",
)
def b15(at: Stage) -> Play:
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


@scenario(
    "B16",
    "a jackpot that names an open bet",
    Weight.MONEY_LOST,
    rests_on="decision 0010, decision 0014",
    means="A player who wins a jackpot on a bet is not paid what the bet itself wins, or not paid the jackpot.",
    mend="Let a jackpot neither read nor change a bet; where it has no tx_id, make one of its type and the bet_id.",
)
def b16(at: Stage) -> Play:
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
