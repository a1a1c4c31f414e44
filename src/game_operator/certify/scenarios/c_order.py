"""Group C, order and state: calls that come late, early, for the wrong bet or to the wrong player (spec §3, §6)."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Final

from game_operator.certify.engine.scenario import Found, NotTried, Play, scenario
from game_operator.certify.engine.stage import Asking, Judging, Stage
from game_operator.certify.report.verdicts import Weight
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import DepositCall, RollbackCall, WebhookCall
from game_operator.provider.bets import Bet, Player
from game_operator.provider.requests import Heard

_WITHDRAW, _DEPOSIT, _ROLLBACK = "withdraw", "deposit", "rollback"
_ORDERS: Final = tuple(permutations((_WITHDRAW, _DEPOSIT, _ROLLBACK)))
#: What a player has whose account is opened for a scenario.
_NEWCOMER_CENTS: Final = 1_000


@scenario(
    "C01",
    "a rollback of a bet that was never placed",
    Weight.MONEY_DOUBLED,
    rests_on="spec §4.1, decision 0014",
    means="A rollback overtakes its withdraw, or follows one that never reached you, and the player is given back a "
    "wager that was not taken. You pay it.",
    mend="Look up the withdraw that was debited before you refund, and refund what that row says; without such a row "
    "answer BET_NOT_FOUND and store that this bet is cancelled.",
    explains=("B13", "C02", "C09", "D03", "D08"),
)
def c01(at: Stage) -> Play:
    """There is nothing to give back."""
    yield from _gives_nothing_back(at, at.bet().rollback(), "a rollback without its withdraw")


@scenario(
    "C02",
    "a rollback that overtakes its withdraw",
    Weight.MONEY_LOST,
    rests_on="spec §3, decision 0014",
    means="The service cancels a bet whose withdraw is still on its way, and is told that nothing was taken. If the "
    "withdraw is accepted when it arrives, the player has paid for a bet that does not exist, and nobody refunds it.",
    mend="When a rollback names a bet that you do not have, insert that bet as cancelled, under the unique bet_id of "
    "all bets; a withdraw that finds it is refused with BET_ROLLED_BACK.",
    explains=("C14", "D03", "D08"),
)
def c02(at: Stage) -> Play:
    """The rollback leaves a mark by which the late withdraw is refused; repeated, it still gives nothing back."""
    bet = at.bet()
    first = yield from _gives_nothing_back(at, bet.rollback(), "a rollback without its withdraw")
    rolled_back = WebhookErrorCode.BET_ROLLED_BACK
    yield from at.refuses(bet.withdraw(), "the withdraw that arrives after its rollback", rolled_back)
    other = bet.withdraw(tx_id=at.fresh("withdraw"))
    yield from at.refuses(other, "a withdraw of the cancelled bet under another tx_id", rolled_back)
    yield from at.again(bet.rollback(), first, "the same rollback again")


@scenario(
    "C03",
    "a rollback after the deposit",
    Weight.MONEY_DOUBLED,
    rests_on="spec §3, decision 0014",
    means="A bet that was settled is refunded as well: the player keeps the win and gets the wager back. You pay both.",
    mend="Let a bet leave OPEN only once: UPDATE bets SET state = 'ROLLED_BACK' WHERE bet_id = ? AND state = 'OPEN', "
    "and refund only if one row was changed.",
    explains=("A03", "C09", "D04", "G04"),
)
def c03(at: Stage) -> Play:
    """The deposit stands."""
    bet = at.bet()
    yield from _placed(at, bet)
    yield from at.accepts(bet.deposit(bet.wager_cents * 2), "its deposit", moves=bet.wager_cents * 2)
    closed = WebhookErrorCode.BET_ALREADY_CLOSED
    yield from at.refuses(bet.rollback(), "a rollback after the deposit", closed)


@scenario(
    "C04",
    "a deposit after the rollback",
    Weight.MONEY_DOUBLED,
    rests_on="spec §3, decision 0014",
    means="A bet that was cancelled and refunded is paid as well: the player wins without a wager. You pay the win.",
    mend="Let a bet leave OPEN only once: UPDATE bets SET state = 'CLOSED' WHERE bet_id = ? AND state = 'OPEN', and "
    "credit only if one row was changed.",
    explains=("C09", "D04", "G04"),
)
def c04(at: Stage) -> Play:
    """The refund stands."""
    bet = at.bet()
    yield from _placed(at, bet)
    yield from at.accepts(bet.rollback(), "its rollback", moves=bet.wager_cents)
    rolled_back = WebhookErrorCode.BET_ROLLED_BACK
    yield from at.refuses(bet.deposit(bet.wager_cents * 2), "a deposit after the rollback", rolled_back)


@scenario(
    "C05",
    "a deposit that overtakes its withdraw",
    Weight.MONEY_LOST,
    rests_on="spec §6, decision 0013, decision 0014",
    means="If the early deposit is paid, you pay for a bet that nobody placed. If its refusal is remembered, the "
    "deposit is refused when it comes again, and the player never gets the win.",
    mend="Refuse a deposit of a bet that you do not have with a code after which it is sent again, and store nothing "
    "of it: neither the refusal nor its tx_id.",
    explains=("A11", "C09"),
)
def c05(at: Stage) -> Play:
    """It is refused for now, and paid once its withdraw is there."""
    bet = at.bet()
    won = bet.deposit(bet.wager_cents * 2)
    yield from at.refuses(won, "a deposit before its withdraw", at.early_code())
    yield from at.accepts(bet.withdraw(), "the withdraw that arrives after its deposit", moves=-bet.wager_cents)
    yield from at.accepts(won, "the same deposit again", moves=won.amount_cents)


@scenario(
    "C06",
    "a rollback of a withdraw that was refused for funds",
    Weight.MONEY_DOUBLED,
    rests_on="spec §4.1, decision 0014",
    means="Whoever bets more than they have is paid for it: the wager was never taken, and the rollback gives it back. "
    "A player can do this on purpose, with any amount.",
    mend="Refund only a withdraw that was debited: keep a refused one in a state of its own (DECLINED), and let a "
    "rollback move money of an OPEN bet alone.",
)
def c06(at: Stage) -> Play:
    """Nothing was taken, and nothing is given back or won."""
    bet = at.bet(cents=at.player.due_cents + 1)
    funds = WebhookErrorCode.INSUFFICIENT_BALANCE
    yield from at.refuses(bet.withdraw(), "a withdraw of more than there is", funds)
    won = bet.deposit(at.unit_cents)
    unknown = WebhookErrorCode.BET_NOT_FOUND
    yield from at.refuses(won, "a deposit of the refused withdraw's bet", unknown, final_is_sound=True)
    yield from _gives_nothing_back(at, bet.rollback(), "the rollback of the refused withdraw")


@scenario(
    "C07",
    "a rollback with another amount than its withdraw",
    Weight.MONEY_LOST,
    rests_on="spec §4.1, decision 0010, decision 0014",
    means="The player is given back more or less than was taken, or nothing at all; you lose the one, the player the "
    "other.",
    mend="Refund the wager that is stored with the bet; never read the amount of a rollback.",
    explains=("F11",),
)
def c07(at: Stage) -> Play:
    """What was taken is given back."""
    if not at.writer.name("amount_cents", _ROLLBACK):
        raise NotTried("the profile has no amount in a rollback")
    for bet, cents, much in ((at.bet(), 2 * at.unit_cents, "twice the wager"), (at.bet(), 1, "a single cent")):
        yield from _placed(at, bet)
        odd = bet.rollback(amount_cents=cents)
        yield from at.accepts(odd, f"a rollback of {much}", moves=bet.wager_cents)


@scenario(
    "C08",
    "a rollback that names another player's bet",
    Weight.MONEY_LOST,
    rests_on="decision 0014",
    means="A player gets back a wager that another one paid, or a bet that is still played is cancelled by a call that "
    "is not its own, and its win is refused.",
    mend="Compare the rollback's player_id with that of the bet before anything else, and answer BET_NOT_FOUND if they "
    "differ; leave the bet as it is.",
)
def c08(at: Stage) -> Play:
    """It is refused, and the bet stays open: its own rollback refunds it."""
    bet = at.bet()
    yield from _placed(at, bet)
    others = bet.rollback(player_id=at.other.id)
    yield from _refused_to_both(at, others, "a rollback by another player")
    yield from at.accepts(bet.rollback(), "the rollback by its own player", moves=bet.wager_cents)


@scenario(
    "C09",
    "withdraw, deposit and rollback in every order, each sent twice",
    Weight.MONEY_DOUBLED,
    rests_on="spec §3, spec §6, decision 0014",
    means="In some order of the same three calls, what you tell the service and what you do to the balance part: a "
    "wager is taken or given back twice, or a bet is both paid and refunded.",
    mend="Give each bet one row with one state, and let each call change state and balance in the same transaction: "
    "unseen to OPEN, OPEN to CLOSED or ROLLED_BACK, and never back.",
    explains=("G04",),
)
def c09(at: Stage) -> Play:
    """Whatever is answered: the balance follows from it, and a bet is resolved once at most."""
    for order in _ORDERS:
        yield from _twice_in_order(at, at.bet(), order)


@scenario(
    "C10",
    "a deposit that names another player",
    Weight.MONEY_LOST,
    rests_on="decision 0014",
    means="One player's win is paid to another, or the bet is closed unpaid and the winner's own deposit is refused.",
    mend="Compare the deposit's player_id with that of the bet, answer BET_NOT_FOUND if they differ, and leave the bet "
    "open; credit the account that was debited.",
)
def c10(at: Stage) -> Play:
    """It is refused, and the bet stays open: its own deposit is paid."""
    bet = at.bet()
    won_cents = bet.wager_cents * 2
    yield from _placed(at, bet)
    others = bet.deposit(won_cents, player_id=at.other.id)
    yield from _refused_to_both(at, others, "a deposit to another player")
    yield from at.accepts(bet.deposit(won_cents), "the deposit to its own player", moves=won_cents)
    late = bet.deposit(won_cents, player_id=at.other.id, tx_id=at.fresh("deposit"))
    title, unknown = "a deposit to another player once the bet is paid", WebhookErrorCode.BET_NOT_FOUND
    yield from at.refuses(late, title, unknown, final_is_sound=True)


@scenario(
    "C11",
    "a rollback of the right bet that names another withdraw",
    Weight.MONEY_LOST,
    rests_on="decision 0014",
    means="The service cancels a second withdraw of the same bet, which you have refused, and the first one is "
    "refunded: the bet is played on for nothing, and its win is refused.",
    mend="A rollback carries the tx_id of its withdraw: refund only if it is the tx_id under which the bet was "
    "debited, and answer BET_NOT_FOUND otherwise.",
)
def c11(at: Stage) -> Play:
    """It refunds nothing; the one that names the bet's withdraw does."""
    if at.profile.rollback_tx_id == "own":
        raise NotTried("in this profile a rollback has a tx_id of its own, and names no withdraw")
    if not at.writer.name("tx_id", _ROLLBACK):
        raise NotTried("in this profile a rollback has no tx_id")
    bet = at.bet()
    yield from _placed(at, bet)
    stray = bet.rollback(tx_id=at.fresh("withdraw"))
    yield from at.refuses(stray, "a rollback of another withdraw", WebhookErrorCode.BET_NOT_FOUND)
    yield from at.accepts(bet.rollback(), "the rollback of its own withdraw", moves=bet.wager_cents)


@scenario(
    "C12",
    "a wager that nothing is ever won for",
    Weight.MONEY_LOST,
    rests_on="decision 0010, decision 0014",
    means="What a player gives away (a rain) cannot be taken or given back, or a win is paid for it that nobody owes.",
    mend="Admit the action in withdraw and rollback, store it with the bet, and answer a deposit that would settle "
    "such a bet with BET_ALREADY_CLOSED.",
)
def c12(at: Stage) -> Play:
    """It is debited, no deposit settles it, and its rollback refunds it."""
    if not at.profile.spent_actions or not at.writer.name("action", "withdraw"):
        raise NotTried("the profile has no action whose bets are never settled")
    action = at.profile.spent_actions[0]
    bet = at.bet(action=action)
    yield from at.accepts(bet.withdraw(), f"a withdraw with the action {action}", moves=-bet.wager_cents)
    closed = WebhookErrorCode.BET_ALREADY_CLOSED
    yield from at.refuses(bet.deposit(bet.wager_cents * 2), f"a deposit for the {action}", closed)
    yield from at.accepts(bet.rollback(), "its rollback", moves=bet.wager_cents)


@scenario(
    "C13",
    "a withdraw that was refused to a blocked player, after the player is unblocked",
    Weight.MONEY_LOST,
    rests_on="decision 0013, decision 0014",
    means="The service was told that the bet is refused, and plays on without it. If a copy of the call arrives after "
    "the player is unblocked and is debited, the player pays for a bet that does not exist.",
    mend="Store the refusal with the bet, and answer the same withdraw from there: what is refused once stays refused.",
    needs=("block", "unblock"),
)
def c13(at: Stage) -> Play:
    """It is refused again."""
    request = at.request(at.bet().withdraw(), "a withdraw of a blocked player")
    yield from at.act("block", at.player.id)
    heard = yield from at.send(request)
    # Before anything is judged: a finding ends the scenario, and the player must be able to play the next one.
    yield from at.act("unblock", at.player.id)
    yield from _is_refused(at, heard, WebhookErrorCode.PLAYER_BLOCKED)
    yield from at.again(request, heard, "the same withdraw, after the player is unblocked")


@scenario(
    "C14",
    "a rollback for a player who is not known yet, and the late withdraw",
    Weight.MONEY_LOST,
    rests_on="decision 0014",
    means="An account is opened between a rollback and its late withdraw. The bet is cancelled for the service, and "
    "the player's first money is taken for it.",
    mend="Store that the bet is cancelled before you look for the player: it hangs on the bet_id, not on the account.",
    needs=("open_account",),
)
def c14(at: Stage) -> Play:
    """The bet stays cancelled."""
    newcomer = Player(at.fresh("newcomer"), _NEWCOMER_CENTS, _NEWCOMER_CENTS)
    bet = at.bet(newcomer)
    heard = yield from at.hear(bet.rollback(), "a rollback of a player that there is not")
    if heard.code is None:
        at.advise(f"{heard.request.title}: answered SUCCESS, and PLAYER_NOT_FOUND is assumed", heard)
    else:
        at.check_code(heard, WebhookErrorCode.PLAYER_NOT_FOUND)
    yield from at.act("open_account", newcomer.id, newcomer.opening_cents)
    late = "the withdraw that arrives after the account is opened"
    yield from at.refuses(bet.withdraw(), late, WebhookErrorCode.BET_ROLLED_BACK, player=newcomer)
    yield from at.holds(newcomer)


def _placed(at: Stage, bet: Bet) -> Asking:
    return (yield from at.accepts(bet.withdraw(), "a withdraw", moves=-bet.wager_cents))


def _gives_nothing_back(at: Stage, rollback: RollbackCall, title: str) -> Asking:
    """Hold that a rollback of what was never debited moves nothing; how it is answered is a matter of taste."""
    missing = WebhookErrorCode.BET_NOT_FOUND
    if at.profile.unknown_rollback == "error":
        return (yield from at.refuses(rollback, title, missing, success_is_sound=True))
    heard = yield from at.hear(rollback, title)
    yield from at.check_told(heard, at.player)
    if not heard.succeeded:
        at.advise(f"{title}: refused with {heard.code}, and in this profile SUCCESS is assumed", heard)
    return heard


def _refused_to_both(at: Stage, call: RollbackCall | DepositCall, title: str) -> Judging:
    """Hold that a call by the wrong player is refused, and moves neither player's money."""
    heard = yield from at.hear(call, title)
    if heard.succeeded:
        # First, for it tells who was paid.
        yield from at.holds(at.other, at.player, after=heard)
    yield from _is_refused(at, heard, WebhookErrorCode.BET_NOT_FOUND)
    yield from at.holds(at.player, after=heard)


def _is_refused(at: Stage, heard: Heard, code: str) -> Judging:
    """Hold that what was heard is a refusal."""
    at.check_reply(heard)
    if heard.succeeded:
        yield from at.holds(after=heard)
        raise Found(f"{heard.request.title}: answered SUCCESS, and {code} was due", place=heard.place)
    at.check_code(heard, code)


def _twice_in_order(at: Stage, bet: Bet, order: Sequence[str]) -> Judging:
    """Send all three calls in this order, and then again; after each, the balance must follow from the answers."""
    calls: Mapping[str, WebhookCall] = {
        _WITHDRAW: bet.withdraw(),
        _DEPOSIT: bet.deposit(bet.wager_cents * 3),
        _ROLLBACK: bet.rollback(),
    }
    opening_cents, first = at.player.due_cents, dict[str, Heard]()
    for time, name in ((time, name) for time in ("first", "second") for name in order):
        title = f"the {time} {name} in the order {'-'.join(order)}"
        heard = yield from at.hear(calls[name], title)
        if heard.succeeded and name not in first:
            first[name] = heard
            _check_resolved_once(heard, first)
            at.player.due_cents = opening_cents + _due_after(bet, first)
        elif name not in first or heard.reply == first[name].reply:
            continue
        yield from at.check_told(heard, at.player)
    yield from at.holds(at.player)


def _check_resolved_once(heard: Heard, first: Mapping[str, Heard]) -> None:
    if _DEPOSIT in first and _ROLLBACK in first:
        told = f"{heard.request.title}: answered SUCCESS, and the bet is both paid and refunded for the service"
        raise Found(told, place=heard.place)
    if _DEPOSIT in first and _WITHDRAW not in first:
        raise Found(f"{heard.request.title}: answered SUCCESS, and nothing was wagered", place=heard.place)


def _due_after(bet: Bet, succeeded: Mapping[str, Heard]) -> int:
    """Return what three calls have moved, of which these have been answered SUCCESS."""
    if _WITHDRAW not in succeeded or _ROLLBACK in succeeded:
        return 0
    return bet.wager_cents * 2 if _DEPOSIT in succeeded else -bet.wager_cents
