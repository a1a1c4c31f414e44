"""Who plays in a scenario, and the bets and claims that are made for them."""

from dataclasses import dataclass, replace
from typing import Any

from game_operator.models.webhooks import DepositCall, RollbackCall, WithdrawCall
from game_operator.profile import Profile

__all__ = ["Bet", "Player"]


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


@dataclass(frozen=True, slots=True)
class Bet:
    """
    A bet that may be placed, settled and cancelled; its calls are those of the service (docs/decisions/0010).

    *changes* to a call are fields of its class.
    """

    player: Player
    bet_id: str
    wager_cents: int
    tx_id: str
    round_id: str
    instance_id: str | None
    game: str | None
    action: str
    profile: Profile

    def withdraw(self, **changes: Any) -> WithdrawCall:  # Any: fields of the call, which checks them
        """Return the call that places it."""
        call = WithdrawCall(
            player_id=self.player.id,
            bet_id=self.bet_id,
            amount_cents=self.wager_cents,
            tx_id=self.tx_id,
            action=self.action,
            instance_id=self.instance_id,
            game=self.game,
        )
        return replace(call, **changes) if changes else call

    def deposit(self, won_cents: int, **changes: Any) -> DepositCall:
        """Return the call that settles it; 0 is a loss."""
        call = DepositCall(
            player_id=self.player.id,
            bet_id=self.bet_id,
            amount_cents=won_cents,
            tx_id=f"deposit:bet:{self.bet_id}",
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
        """Return the call that cancels it; it carries its withdraw's tx_id, unless the profile gives it its own."""
        own = self.profile.rollback_tx_id == "own"
        call = RollbackCall(
            player_id=self.player.id,
            bet_id=self.bet_id,
            tx_id=f"rollback:bet:{self.bet_id}" if own else self.tx_id,
            action=self.action,
            amount_cents=self.wager_cents,
            round_id=self.round_id,
            instance_id=self.instance_id,
            game=self.game,
        )
        return replace(call, **changes) if changes else call
