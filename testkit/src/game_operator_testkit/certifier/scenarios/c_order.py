"""Group C, order and state: calls that come late, early, for the wrong bet or to the wrong player (spec §3, §6)."""

from collections.abc import Mapping
from itertools import permutations, product
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import DepositCall, RollbackCall, WebhookCall
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found, NotTried
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import BetCalls

#: What a player has whose account is opened for a scenario.
_NEWCOMER_CENTS: Final = 1_000


def c01(at: Stage) -> None:
    """There is nothing to give back."""
    gives_nothing_back(at, at.bet().rollback(), "a rollback without its withdraw")


def c02(at: Stage) -> None:
    """The rollback leaves a mark by which the late withdraw is refused; repeated, it still gives nothing back."""
    bet = at.bet()
    first = gives_nothing_back(at, bet.rollback(), "a rollback without its withdraw")
    at.refuses(bet.withdraw(), "the withdraw that arrives after its rollback", Code.BET_ROLLED_BACK)
    at.refuses(bet.withdraw(), "the same late withdraw again", Code.BET_ROLLED_BACK)
    other = bet.withdraw(tx_id=at.fresh("withdraw"))
    at.refuses(other, "a withdraw of the cancelled bet under another tx_id", Code.BET_ROLLED_BACK)
    at.again(bet.rollback(), first, "the same rollback again")
    if at.profile.rollback_tx_id == "withdraw" and at.writer.name("tx_id", "rollback"):
        borrowing = at.bet(tx_id=bet.withdraw().tx_id)
        title = "a withdraw of another bet under the tx_id of the cancelled one"
        at.refuses(borrowing.withdraw(), title, Code.DUPLICATE_TRANSACTION)


def c03(at: Stage) -> None:
    """The deposit stands."""
    bet = at.placed()
    at.accepts(bet.deposit(bet.wager_cents * 2), "its deposit")
    at.refuses(bet.rollback(), "a rollback after the deposit", Code.BET_ALREADY_CLOSED)


def c04(at: Stage) -> None:
    """The refund stands."""
    bet = at.placed()
    at.accepts(bet.rollback(), "its rollback")
    at.refuses(bet.deposit(bet.wager_cents * 2), "a deposit after the rollback", Code.BET_ROLLED_BACK)


def c05(at: Stage) -> None:
    """It is refused for now, and paid once its withdraw is there."""
    bet = at.bet()
    won = bet.deposit(bet.wager_cents * 2)
    at.refuses(won, "a deposit before its withdraw", at.profile.early_deposit_code)
    at.accepts(bet.withdraw(), "the withdraw that arrives after its deposit")
    at.accepts(won, "the same deposit again")


def c06(at: Stage) -> None:
    """Nothing was taken, and nothing is given back or won."""
    bet = at.bet(wager_cents=at.player.due_cents + 1)
    refused = at.refuses(bet.withdraw(), "a withdraw of more than there is", Code.INSUFFICIENT_BALANCE)
    title = "a deposit of the refused withdraw's bet"
    at.refuses(bet.deposit(at.unit_cents), title, Code.BET_NOT_FOUND, final_code_is_advice=True)
    gives_nothing_back(at, bet.rollback(), "the rollback of the refused withdraw")
    won = at.placed(title="a withdraw of another bet")
    at.accepts(won.deposit(won.wager_cents + at.unit_cents), "its deposit, so that there is money for the refused one")
    at.again(bet.withdraw(), refused, "the refused withdraw again, after its rollback")


def c07(at: Stage) -> None:
    """What was taken is given back."""
    if not at.writer.name("amount_cents", "rollback"):
        raise NotTried("the profile has no amount in a rollback")
    for cents, much in ((2 * at.unit_cents, "twice the wager"), (1, "a single cent")):
        bet = at.placed()
        at.accepts(bet.rollback(amount_cents=cents), f"a rollback of {much}", moves=bet.wager_cents)


def c08(at: Stage) -> None:
    """It is refused, and the bet stays open: its own rollback refunds it."""
    bet = at.placed()
    _refused_to_both(at, bet.rollback(player_id=at.other.id), "a rollback by another player")
    at.accepts(bet.rollback(), "the rollback by its own player")


def c09(at: Stage) -> None:
    """The balance follows from the answers, and a bet is resolved once at most."""
    orders = list(permutations(("withdraw", "deposit", "rollback")))
    # Of a slow wallet every other one, each call being first once.
    for order in orders[:: 2 if at.observed.is_slow else 1]:
        bet, opening_cents, first = at.bet(), at.player.due_cents, dict[str, Carried]()
        calls: Mapping[str, WebhookCall] = {
            "withdraw": bet.withdraw(),
            "deposit": bet.deposit(bet.wager_cents * 3),
            "rollback": bet.rollback(),
        }
        for time, name in product(("first", "second"), order):
            heard = at.ask(calls[name], f"the {time} {name} in the order {'-'.join(order)}")
            if heard.succeeded and name not in first:
                first[name] = heard
                if name == "withdraw" and "rollback" in order[: order.index(name)]:
                    at.check_not_only_said(heard, at.player, Code.BET_ROLLED_BACK)
                    told = "returned SUCCESS after the rollback of its bet, which the service has cancelled"
                    raise Found(told, heard, weight=Weight.MONEY_LOST)
                if {"deposit", "rollback"} <= first.keys():
                    due = Code.BET_ROLLED_BACK if name == "deposit" else Code.BET_ALREADY_CLOSED
                    at.check_not_only_said(heard, at.player, due)
                    raise Found("returned SUCCESS, and the bet is both paid and refunded for the service", heard)
                if "deposit" in first and "withdraw" not in first:
                    raise Found("returned SUCCESS, and nothing was wagered", heard)
                at.player.due_cents = opening_cents + _due_after(bet, first)
            elif name not in first or heard.reply == first[name].reply:
                continue
            at.check_balance(heard, at.player)
        at.check_balances(at.player)


def c10(at: Stage) -> None:
    """It is refused, and the bet stays open: its own deposit is paid."""
    bet = at.placed()
    won_cents = bet.wager_cents * 2
    _refused_to_both(at, bet.deposit(won_cents, player_id=at.other.id), "a deposit to another player")
    at.accepts(bet.deposit(won_cents), "the deposit to its own player")
    late = bet.deposit(won_cents, player_id=at.other.id, tx_id=at.fresh("deposit"))
    title = "a deposit to another player once the bet is paid"
    at.refuses(late, title, Code.BET_NOT_FOUND, final_code_is_advice=True)


def c11(at: Stage) -> None:
    """It refunds nothing; the one that names the bet's withdraw does."""
    if at.profile.rollback_tx_id == "own" or not at.writer.name("tx_id", "rollback"):
        raise NotTried("in this profile a rollback does not have the tx_id of its withdraw")
    bet = at.placed()
    at.refuses(bet.rollback(tx_id=at.fresh("withdraw")), "a rollback of another withdraw", Code.BET_NOT_FOUND)
    # It may cancel the bet that it names, and not take the tx_id from the bet that has it.
    unseen = at.bet().rollback(tx_id=bet.withdraw().tx_id)
    gives_nothing_back(at, unseen, "a rollback of an unseen bet that names this withdraw")
    at.accepts(bet.rollback(), "the rollback of its withdraw, once that rollback of an unseen bet has named it")


def c12(at: Stage) -> None:
    """It is debited, no deposit settles it, and its rollback refunds it."""
    if not at.profile.spent_actions or not at.writer.name("action", "withdraw"):
        raise NotTried("the profile has no action whose bets are never settled")
    action = at.profile.spent_actions[0]
    bet = at.placed(at.bet(action=action), title=f"a withdraw with the action {action}")
    at.refuses(bet.deposit(bet.wager_cents * 2), f"a deposit for the {action}", Code.BET_ALREADY_CLOSED)
    at.accepts(bet.rollback(), "its rollback")
    early = at.bet(action=action)
    gives_nothing_back(at, early.rollback(), f"a rollback of a {action} without its withdraw")
    at.refuses(early.withdraw(), f"the withdraw of the {action}, after its rollback", Code.BET_ROLLED_BACK)


def c13(at: Stage) -> None:
    """It is refused again."""
    request = at.request(at.bet().withdraw(), "a withdraw of a blocked player")
    (heard,) = at.during("block", "unblock", [request], at.player.id)
    at.check_reply(heard)
    at.check_refused(heard, Code.PLAYER_BLOCKED)
    at.again(request, heard, "the same withdraw, after the player is unblocked")


def c14(at: Stage) -> None:
    """The bet stays cancelled."""
    newcomer = Player(at.fresh("newcomer"), _NEWCOMER_CENTS, _NEWCOMER_CENTS)
    bet = at.bet(newcomer)
    heard = at.ask(bet.rollback(), "a rollback of an unknown player")
    if not heard.succeeded:
        at.check_code(heard, Code.PLAYER_NOT_FOUND)
    at.act("open_account", newcomer.id, newcomer.opening_cents)
    at.refuses(bet.withdraw(), "the withdraw that arrives after the account is opened", Code.BET_ROLLED_BACK)
    at.check_balances(newcomer)


def c15(at: Stage) -> None:
    """It is refused: the bet stays cancelled."""
    bet = at.bet()
    first = at.accepts(bet.withdraw(), "a withdraw")
    at.accepts(bet.rollback(), "its rollback")
    for _ in range(2):
        at.stays_cancelled(bet.withdraw(), first, "the same withdraw after the rollback")


def gives_nothing_back(at: Stage, rollback: RollbackCall, title: str) -> Carried:
    """Hold that a rollback of what was never debited moves nothing; another answer than the profile's is advice."""
    if at.profile.unknown_rollback == "error":
        return at.refuses(rollback, title, Code.BET_NOT_FOUND, success_is_advice=True)
    heard = at.ask(rollback, title)
    at.check_balance(heard, at.player)
    if not heard.succeeded:
        told = f"refused with {heard.code}, and in this profile SUCCESS is assumed"
        at.note(told, Weight.ADVICE, KnownCause.UNKNOWN_ROLLBACK, heard)
    return heard


def _refused_to_both(at: Stage, call: RollbackCall | DepositCall, title: str) -> None:
    """Hold that a call by the wrong player is refused, and moves neither player's money."""
    heard = at.ask(call, title)
    # First, because it says which player was paid.
    at.check_balances(at.other, at.player, after=heard)
    at.check_refused(heard, Code.BET_NOT_FOUND)


def _due_after(bet: BetCalls, succeeded: Mapping[str, Carried]) -> int:
    """Return what three calls have moved, of which these have been answered SUCCESS."""
    if "withdraw" not in succeeded or "rollback" in succeeded:
        return 0
    return bet.wager_cents * 2 if "deposit" in succeeded else -bet.wager_cents
