"""The calls of one bet at several processes of a wallet, which may each remember something for themselves."""

from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import MovingCall, RollbackCall
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.calls import moved_by
from game_operator_testkit.certifier.engine.diagnosis import WITHDRAW
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.provider.delivery import Carried

#: Which process serves a connection is chance. In process, where calls go to each by turns, fewer rounds show as much.
_ROUNDS: Final = 16
_ROUNDS_IN_PROCESS: Final = 4
_FEWEST_ROUNDS: Final = 2


def check_ends_anywhere(at: Stage) -> None:
    """Hold that bets end once, and each answer has the balance of now, whichever process serves a call."""
    rounds = at.observed.times(_ROUNDS if "wire" in at.supplied else _ROUNDS_IN_PROCESS, _FEWEST_ROUNDS)
    for number in range(rounds):
        if at.observed.hides_money:
            return  # Other scenarios say why.
        found = _wrong_in_round(at, number, apart=True)
        if found is None:
            continue
        for again in range(rounds):
            # What one process does wrong alone is for other scenarios to say.
            at.player.due_cents = at.balance_of(at.player)
            if _wrong_in_round(at, again, apart=False) is not None:
                return
        several = "two addresses" if "second_url" in at.supplied else "several connections"
        found.reason += (
            f". Its calls came over {several}; over one connection, {rounds} bets like it ended as they should"
        )
        raise found


def _wrong_in_round(at: Stage, number: int, *, apart: bool) -> Found | None:
    """
    Place a bet and end it in both ways, and return what is wrong with one of the answers, if anything is.

    *apart* says that every other call goes to another process: over a new connection, which any may serve, and
    to the second address if there is one. The kept connection always leads to the same one.
    """
    bet = at.bet()
    ends: list[MovingCall] = [bet.deposit(bet.wager_cents * 2), bet.rollback()]
    first, second = ends[::-1] if number % 2 else ends
    steps = [
        (bet.withdraw(), "a withdraw"),
        (first, f"its {first.operation}"),
        (second, f"a {second.operation} after the {first.operation}"),
        (second, f"the same {second.operation} again"),
        (first, f"the {first.operation} again"),
    ]
    for place, (call, title) in enumerate(steps):
        request = at.request(call, title)
        heard = at.ask(at.at_another(request) if apart and (place + number // 2) % 2 else request)
        if request.path == WITHDRAW:
            at.check_unlimited(heard, asked=False)
        is_due = call is not second
        if found := _wrong_outcome(at, heard, call, is_due=is_due):
            return found
        at.player.due_cents += moved_by(call) if place < 2 else 0
        if heard.balance_cents not in (None, at.player.due_cents):
            told = f"returned a balance of {units(heard.balance_cents or 0)}; expected {units(at.player.due_cents)}"
            return Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.OF_A_PROCESS)
        if apart and call is first and place == 1:
            # Where the bet was placed, the balance that it left may be remembered.
            at.check_balance_anywhere(at.player)
    return None


def _wrong_outcome(at: Stage, heard: Carried, call: MovingCall, *, is_due: bool) -> Found | None:
    """Return what is wrong if a call is refused that *is_due*, or another one is accepted."""
    if heard.succeeded is is_due:
        return None
    if is_due:
        weight = Weight.CONTRACT_BROKEN if heard.request.path == WITHDRAW else Weight.MONEY_LOST
        told = f"refused with {heard.code} instead of SUCCESS"
        return Found(told, heard, weight=weight, cause=KnownCause.OF_A_PROCESS)
    due = Code.BET_ALREADY_CLOSED if isinstance(call, RollbackCall) else Code.BET_ROLLED_BACK
    try:
        at.accepted_wrongly(heard, at.player, due, cause=KnownCause.OF_A_PROCESS)
    except Found as found:
        return found
    return None
