"""What became of a round that a sandbox played."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Whoever only serves pays for no client.
    from game_operator.provider.caller import Delivery

__all__ = ["PlayedRound"]


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """
    A round, or a claim of free bets, that was played against the wallet.

    Attributes:
        round_id: The round, as fetch-round-bets knows it.
        round_no: Its number.
        bet_ids: Its bets, as fetch-bet knows them; empty for a claim.
        deliveries: What the wallet answered, in order; repeats, and what a fault added, among them.
        problems: What no sound wallet would have answered; empty if all is well.
        lost: Whether a call was given up without a definite answer, so that nobody knows what became of it.
    """

    round_id: str
    round_no: int
    bet_ids: tuple[str, ...]
    deliveries: "tuple[Delivery, ...]"
    problems: tuple[str, ...] = ()
    lost: bool = False
