"""Group C, order and state: calls that come late, early, for the wrong bet or to the wrong player (spec §3, §6)."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Final

from game_operator.certify.engine.endings import Found, NotTried
from game_operator.certify.engine.stage import Asking, Judging, Stage
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import DepositCall, RollbackCall, WebhookCall
from game_operator.provider.bets import Bet, Player
from game_operator.provider.requests import Heard

_WITHDRAW, _DEPOSIT, _ROLLBACK = "withdraw", "deposit", "rollback"
_ORDERS: Final = tuple(permutations((_WITHDRAW, _DEPOSIT, _ROLLBACK)))
#: What a player has whose account is opened for a scenario.
_NEWCOMER_CENTS: Final = 1_000


def c01(at: Stage) -> Judging:
    """There is nothing to give back."""
    yield from _gives_nothing_back(at, at.bet().rollback(), "a rollback without its withdraw")


def c02(at: Stage) -> Judging:
    """The rollback leaves a mark by which the late withdraw is refused; repeated, it still gives nothing back."""
    bet = at.bet()
    first = yield from _gives_nothing_back(at, bet.rollback(), "a rollback without its withdraw")
    rolled_back = WebhookErrorCode.BET_ROLLED_BACK
    yield from at.refuses(bet.withdraw(), "the withdraw that arrives after its rollback", rolled_back)
    other = bet.withdraw(tx_id=at.fresh("withdraw"))
    yield from at.refuses(other, "a withdraw of the cancelled bet under another tx_id", rolled_back)
    yield from at.again(bet.rollback(), first, "the same rollback again")


def c03(at: Stage) -> Judging:
    """The deposit stands."""
    bet = at.bet()
    yield from _placed(at, bet)
    yield from at.accepts(bet.deposit(bet.wager_cents * 2), "its deposit", moves=bet.wager_cents * 2)
    closed = WebhookErrorCode.BET_ALREADY_CLOSED
    yield from at.refuses(bet.rollback(), "a rollback after the deposit", closed)


def c04(at: Stage) -> Judging:
    """The refund stands."""
    bet = at.bet()
    yield from _placed(at, bet)
    yield from at.accepts(bet.rollback(), "its rollback", moves=bet.wager_cents)
    rolled_back = WebhookErrorCode.BET_ROLLED_BACK
    yield from at.refuses(bet.deposit(bet.wager_cents * 2), "a deposit after the rollback", rolled_back)


def c05(at: Stage) -> Judging:
    """It is refused for now, and paid once its withdraw is there."""
    bet = at.bet()
    won = bet.deposit(bet.wager_cents * 2)
    yield from at.refuses(won, "a deposit before its withdraw", at.early_code())
    yield from at.accepts(bet.withdraw(), "the withdraw that arrives after its deposit", moves=-bet.wager_cents)
    yield from at.accepts(won, "the same deposit again", moves=won.amount_cents)


def c06(at: Stage) -> Judging:
    """Nothing was taken, and nothing is given back or won."""
    bet = at.bet(cents=at.player.due_cents + 1)
    funds = WebhookErrorCode.INSUFFICIENT_BALANCE
    yield from at.refuses(bet.withdraw(), "a withdraw of more than there is", funds)
    won = bet.deposit(at.unit_cents)
    unknown = WebhookErrorCode.BET_NOT_FOUND
    yield from at.refuses(won, "a deposit of the refused withdraw's bet", unknown, final_is_sound=True)
    yield from _gives_nothing_back(at, bet.rollback(), "the rollback of the refused withdraw")


def c07(at: Stage) -> Judging:
    """What was taken is given back."""
    if not at.writer.name("amount_cents", _ROLLBACK):
        raise NotTried("the profile has no amount in a rollback")
    for bet, cents, much in ((at.bet(), 2 * at.unit_cents, "twice the wager"), (at.bet(), 1, "a single cent")):
        yield from _placed(at, bet)
        odd = bet.rollback(amount_cents=cents)
        yield from at.accepts(odd, f"a rollback of {much}", moves=bet.wager_cents)


def c08(at: Stage) -> Judging:
    """It is refused, and the bet stays open: its own rollback refunds it."""
    bet = at.bet()
    yield from _placed(at, bet)
    others = bet.rollback(player_id=at.other.id)
    yield from _refused_to_both(at, others, "a rollback by another player")
    yield from at.accepts(bet.rollback(), "the rollback by its own player", moves=bet.wager_cents)


def c09(at: Stage) -> Judging:
    """Whatever is answered: the balance follows from it, and a bet is resolved once at most."""
    for order in _ORDERS:
        yield from _twice_in_order(at, at.bet(), order)


def c10(at: Stage) -> Judging:
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


def c11(at: Stage) -> Judging:
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


def c12(at: Stage) -> Judging:
    """It is debited, no deposit settles it, and its rollback refunds it."""
    if not at.profile.spent_actions or not at.writer.name("action", "withdraw"):
        raise NotTried("the profile has no action whose bets are never settled")
    action = at.profile.spent_actions[0]
    bet = at.bet(action=action)
    yield from at.accepts(bet.withdraw(), f"a withdraw with the action {action}", moves=-bet.wager_cents)
    closed = WebhookErrorCode.BET_ALREADY_CLOSED
    yield from at.refuses(bet.deposit(bet.wager_cents * 2), f"a deposit for the {action}", closed)
    yield from at.accepts(bet.rollback(), "its rollback", moves=bet.wager_cents)


def c13(at: Stage) -> Judging:
    """It is refused again."""
    request = at.request(at.bet().withdraw(), "a withdraw of a blocked player")
    yield from at.act("block", at.player.id)
    heard = yield from at.send(request)
    # Before anything is judged: a finding ends the scenario, and the player must be able to play the next one.
    yield from at.act("unblock", at.player.id)
    yield from _is_refused(at, heard, WebhookErrorCode.PLAYER_BLOCKED)
    yield from at.again(request, heard, "the same withdraw, after the player is unblocked")


def c14(at: Stage) -> Judging:
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
