"""The calls of a bet (docs/decisions/0010), and who plays in a scenario."""

from dataclasses import dataclass, replace
from typing import Any

from game_operator.models.webhooks import DepositCall, RollbackCall, WithdrawCall


@dataclass(frozen=True, slots=True, kw_only=True)
class BetCalls:
    """
    A bet that may be placed, settled and cancelled; its calls are those of the service.

    *changes* to a call are fields of its class.

    Attributes:
        tx_id: The withdraw's; "" for the one that follows from action and bet.
        rollback_tx_id: As in the profile: ``withdraw`` when a rollback carries its withdraw's tx_id, ``own`` when not.
    """

    player_id: str
    bet_id: str
    wager_cents: int
    round_id: str
    instance_id: str | None = None
    game: str | None = None
    tx_id: str = ""
    action: str = "BET"
    rollback_tx_id: str = "withdraw"

    def withdraw(self, **changes: Any) -> WithdrawCall:  # Any: fields of the call, which checks them
        """Return the call that places it."""
        call = WithdrawCall(
            player_id=self.player_id,
            bet_id=self.bet_id,
            amount_cents=self.wager_cents,
            tx_id=self.tx_id,
            # No round_id: deposit and rollback carry one (spec §6), and so no withdraw has the bytes of a rollback.
            action=self.action,
            instance_id=self.instance_id,
            game=self.game,
        )
        return replace(call, **changes) if changes else call

    def deposit(self, won_cents: int, **changes: Any) -> DepositCall:
        """Return the call that settles it; 0 is a loss."""
        call = DepositCall(
            player_id=self.player_id,
            bet_id=self.bet_id,
            amount_cents=won_cents,
            wager_cents=self.wager_cents,
            won_cents=won_cents,
            round_id=self.round_id,
            instance_id=self.instance_id,
            game=self.game,
        )
        if "amount_cents" in changes:
            changes.setdefault("won_cents", changes["amount_cents"])
        return replace(call, **changes) if changes else call

    def rollback(self, **changes: Any) -> RollbackCall:
        """Return the call that cancels it."""
        own = self.rollback_tx_id == "own"
        call = RollbackCall(
            player_id=self.player_id,
            bet_id=self.bet_id,
            tx_id=f"rollback:bet:{self.bet_id}" if own else self.withdraw().tx_id,
            action=self.action,
            amount_cents=self.wager_cents,
            round_id=self.round_id,
            instance_id=self.instance_id,
            game=self.game,
        )
        return replace(call, **changes) if changes else call

    def jackpot(self, cents: int) -> DepositCall:
        """Return the call that pays a jackpot on top of it."""
        return DepositCall(
            player_id=self.player_id,
            bet_id=self.bet_id,
            amount_cents=cents,
            action="JACKPOT",
            jackpot_id=f"pool:{self.game}",
            round_id=self.round_id,
            instance_id=self.instance_id,
            game=self.game,
        )


@dataclass(slots=True, eq=False)
class Player:
    """
    A player of the wallet.

    Attributes:
        id: The player_id.
        opening_cents: The balance at the beginning of the scenario.
        due_cents: What the balance must be now.
    """

    id: str
    opening_cents: int
    due_cents: int

    @property
    def drifted_cents(self) -> int:
        """How much more is due than at the beginning."""
        return self.due_cents - self.opening_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class Bet(BetCalls):
    """A bet of a scenario's player."""

    player: Player
