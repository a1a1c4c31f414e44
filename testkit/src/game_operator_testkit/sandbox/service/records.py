"""What was dealt, recorded in a world."""

from collections.abc import Mapping
from typing import Final

from game_operator.models import ClosedBet, OpenBet, RolledBackBet
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtClaim, ServiceState
from game_operator_testkit.sandbox.service.world import PlacedBet, SandboxWorld

#: What the Operator API answers for a bet in each state.
_PLACED: Final[Mapping[ServiceState, type[PlacedBet]]] = {
    ServiceState.OPEN: OpenBet,
    ServiceState.CLOSED: ClosedBet,
    ServiceState.ROLLED_BACK: RolledBackBet,
}


def record_bet(world: SandboxWorld, dealt: Dealt) -> None:
    """Let *world* answer with where a bet stands now. It does not know a refused bet, nor a claim."""
    kind = None if isinstance(dealt, DealtClaim) else _PLACED.get(dealt.state)
    if kind is None or isinstance(dealt, DealtClaim):
        return
    placed = {
        "reference_id": dealt.key,
        "player_id": dealt.player_id,
        "wager": dealt.planned.wager_cents,
        "timestamp": dealt.planned.at_millis,
        **{name: getattr(dealt.planned, name) for name in ("round_id", "instance_id", "game")},
    }
    won = {"won": dealt.planned.won_cents} if kind is ClosedBet else {}
    world.add_bet(kind.model_validate(placed | won))
