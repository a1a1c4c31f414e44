"""Calls in few words: one player, one bet, its withdraw, deposit and rollback, and variations of them."""

from typing import Any

from game_operator.models.webhooks import BalanceCall, DepositCall, RollbackCall, WebhookCall, WithdrawCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call, read_call

WAGER_CENTS = 500
WON_CENTS = 1250


def withdraw(bet_id: str = "b1", player_id: str = "p1", amount_cents: int = WAGER_CENTS, **more: Any) -> WithdrawCall:
    """Return the withdraw of a bet; its tx_id is derived unless given."""
    return WithdrawCall(player_id=player_id, bet_id=bet_id, amount_cents=amount_cents, **more)


def deposit(
    bet_id: str | None = "b1", player_id: str = "p1", amount_cents: int = WON_CENTS, **more: Any
) -> DepositCall:
    """Return the deposit that settles a bet; its tx_id is derived unless given."""
    return DepositCall(player_id=player_id, bet_id=bet_id, amount_cents=amount_cents, **more)


def claim(
    tx_id: str = "claim-1",
    player_id: str = "p1",
    amount_cents: int = 300,
    bet_id: str | None = None,
    action: str = "FREE_BET_CLAIM",
    **more: Any,
) -> DepositCall:
    """Return a claim; it names no bet unless told to."""
    return DepositCall(
        player_id=player_id, bet_id=bet_id, amount_cents=amount_cents, tx_id=tx_id, action=action, **more
    )


def rollback(
    bet_id: str = "b1", player_id: str = "p1", tx_id: str | None = "withdraw:bet:b1", **more: Any
) -> RollbackCall:
    """Return the rollback of a bet; unless told otherwise it carries the derived tx_id of b1's withdraw."""
    return RollbackCall(player_id=player_id, bet_id=bet_id, tx_id=tx_id, **more)


def ask_balance(player_id: str = "p1") -> BalanceCall:
    """Return the question for a balance."""
    return BalanceCall(player_id=player_id)


def with_body(call: WebhookCall) -> WebhookCall:
    """Return *call* as it is read from the body it would come in."""
    return read_call(call.operation, encode_call(call), Profile())[0]


def some_of_each_end(name: str, player_id: str = "p1") -> tuple[WebhookCall, ...]:
    """Return calls that are all applied: a bet that is won, one that is lost, an open one, one rolled back; a claim."""
    return (
        withdraw(f"{name}-won", player_id),
        deposit(f"{name}-won", player_id),
        withdraw(f"{name}-lost", player_id),
        deposit(f"{name}-lost", player_id, amount_cents=0),
        withdraw(f"{name}-open", player_id),
        withdraw(f"{name}-back", player_id),
        rollback(f"{name}-back", player_id, f"withdraw:bet:{name}-back"),
        claim(f"{name}-claim", player_id),
    )
