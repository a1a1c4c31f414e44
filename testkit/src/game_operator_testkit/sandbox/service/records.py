"""What was dealt, recorded in a world: the bets of a round, those of strangers beside them, and free bets."""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from game_operator.models import ClosedBet, OpenBet, RolledBackBet
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtClaim, ServiceState
from game_operator_testkit.sandbox.dealing.plan import PlannedClaim, PlannedRound
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
        **_place_of(dealt.planned),
    }
    won = {"won": dealt.won_cents} if kind is ClosedBet else {}
    world.add_bet(kind.model_validate(placed | won))


def add_strangers(world: SandboxWorld, planned: PlannedRound, number: int) -> None:
    """Add so many bets of other operators' players to a round: it has them, and fetch-bet does not find them."""
    first = planned.bets[0]
    for index in range(number):
        reference_id = f"{first.bet_id}-stranger-{index}"
        random = Random(reference_id)  # noqa: S311 - amounts of a toy, which must repeat
        wager = random.randint(first.wager_cents // 2 + 1, first.wager_cents * 2)
        placed = {
            "reference_id": reference_id,
            "player_id": f"stranger-{index}",
            "wager": wager,
            "won": random.choice((0, wager * 2)),
            "timestamp": first.at_millis,
            **_place_of(planned),
        }
        world.add_bet_of_stranger(ClosedBet.model_validate(placed))


def add_free_bets(world: SandboxWorld, claim: PlannedClaim) -> None:
    """Add the free bets of *claim* to its round, closed with what they won."""
    for bet in claim.bets:
        placed = {
            "reference_id": bet.id,
            "player_id": claim.player_id,
            "wager": bet.wager_cents,
            "won": bet.won_cents or 0,
            "timestamp": claim.at_millis,
            **_place_of(claim),
        }
        world.add_bet(ClosedBet.model_validate(placed))


def _place_of(planned: Any) -> dict[str, Any]:  # Any: what has these fields.
    return {name: getattr(planned, name) for name in ("round_id", "instance_id", "game")}
