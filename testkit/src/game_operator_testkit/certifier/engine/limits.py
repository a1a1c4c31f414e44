"""A wager that the wallet takes, where the usual one is above or below a limit of it."""

from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import Weight

#: In parts of the usual wager: smaller ones first, for most limits are of what a player may lose.
_PARTS: Final = ((1, 5), (1, 25), (1, 100), (2, 1), (5, 1), (10, 1), (1, 500))
_KNOWN: Final = frozenset(code.value for code in Code) - {Code.LIMIT_EXCEEDED}


def find_wager(at: Stage) -> None:
    """Try wagers, and note the first one that is not refused by a limit; each is rolled back."""
    usual_cents = at.unit_cents
    at.observed.is_limited = True
    due_cents = at.balance_of(at.player)
    for part, of in _PARTS:
        cents = usual_cents * part // of
        if not 1 <= cents <= at.player.opening_cents:
            continue
        bet = at.bet(wager_cents=cents)
        placed = at.send(at.request(bet.withdraw(), f"a withdraw of {cents} cents, to find a wager within the limits"))
        if placed.succeeded:
            at.send(at.request(bet.rollback(), "its rollback"))
            at.observed.wager_cents = cents
            return
        if placed.code is None or placed.code in _KNOWN:
            return
        if (left_cents := at.balance_of(at.player)) != due_cents:
            told = f"refused with {placed.code}, and the balance moved from {units(due_cents)} to {units(left_cents)}"
            raise Found(told, placed, weight=Weight.MONEY_LOST)
