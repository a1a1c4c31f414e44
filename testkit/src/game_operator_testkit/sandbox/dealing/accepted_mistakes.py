"""
Answers that no correct wallet gives; each is noted as a problem of its bet or claim.

What a correct wallet answers is assumed (docs/decisions/0013, 0014).
"""

from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import WithdrawCall
from game_operator.money import amount_from_cents
from game_operator_testkit.provider.delivery import UNSEEN, Answer
from game_operator_testkit.sandbox.dealing.dealt import DealtBet, PendingCall, ServiceState

#: What a withdraw is answered once its bet is cancelled; the second where codes are few (docs/decisions/0013).
_CANCELLED: Final = frozenset({WebhookErrorCode.BET_ROLLED_BACK, WebhookErrorCode.BET_ALREADY_CLOSED})
#: Never the answer to the withdraw of a bet that nobody cancelled: no other call has its identity.
_NEVER_OF_A_NEW_BET: Final = _CANCELLED | {WebhookErrorCode.DUPLICATE_TRANSACTION}


def check_repeat(pending: PendingCall, answer: Answer) -> None:
    """A call was sent again, and answered otherwise."""
    first = pending.first
    assert first is not None
    cancelled = pending.dealt.state is ServiceState.ROLLED_BACK and not _CANCELLED.isdisjoint({first.code, answer.code})
    # A correct wallet answers otherwise only after a cancellation in between.
    if first.succeeded != answer.succeeded and not cancelled:
        pending.dealt.problems.append(f"one {pending.call.operation}, sent again, was answered {first} and {answer}")


def check_refused(bet: DealtBet, answer: Answer) -> None:
    """A new bet was refused for what only an old one can be."""
    if answer.code in _NEVER_OF_A_NEW_BET:
        bet.problems.append(f"its withdraw was refused with {answer.code}, and it is the only one of this bet")


def check_funds(pending: PendingCall, answer: Answer, *, alone: bool) -> None:
    """
    A bet was accepted without the wager being there, or refused because of missing money that was there.

    Without *alone* the player had other calls under way, and the balance of a refusal may be another moment's.
    """
    call, balance_cents = pending.call, None if answer.reply is None else answer.reply.balance_cents
    if not isinstance(call, WithdrawCall) or balance_cents is None:
        return
    balance, problems = amount_from_cents(balance_cents), pending.dealt.problems
    if answer.succeeded and balance_cents < 0:
        problems.append(f"its withdraw was accepted, and left {balance}, below zero")
    elif alone and answer.code == WebhookErrorCode.INSUFFICIENT_BALANCE and balance_cents >= call.amount_cents:
        wager = amount_from_cents(call.amount_cents)
        problems.append(
            f"its withdraw of {wager} was refused with {answer.code}, and the balance reported is {balance}"
        )


def check_unpaid(bet: DealtBet) -> None:
    """A bet won that was never placed."""
    if bet.paid and bet.state is ServiceState.REFUSED:
        bet.problems.append("its deposit was accepted, and its withdraw refused")


def check_cancelled(bet: DealtBet, answer: Answer) -> None:
    """A cancellation was refused."""
    if answer.code not in UNSEEN | {None}:
        bet.problems.append(f"its rollback was refused with {answer.code}, and the bet was never settled")
    elif answer.code is not None and bet.accepted:
        bet.problems.append(f"its rollback was answered {answer.code}, and its withdraw SUCCESS")


def check_paid(pending: PendingCall, answer: Answer) -> None:
    """A payment was refused."""
    if not answer.succeeded:
        pending.dealt.problems.append(f"its {pending.call.action} deposit was refused with {answer.code}")
