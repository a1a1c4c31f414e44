"""A small world for the service's side: whatever a test puts into it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator.codes import GrantErrorCode
from game_operator.models import BetNotFound, GameInfo, GrantAccepted, GrantRequest, RoundFound, RoundNotFound
from game_operator.protocol.operations import AnyBet, AnyRound
from game_operator_testkit.sandbox.service.world import SandboxWorld

OPERATOR_ID = "acme"


@dataclass
class SmallWorld(SandboxWorld):
    """Operators, games, bets and rounds by id; grants are remembered by instance and reference id."""

    public_key: RSAPublicKey
    operator_id: str = OPERATOR_ID
    active: bool = True
    catalogue: list[GameInfo] = field(default_factory=list)
    placed: dict[str, AnyBet] = field(default_factory=dict)
    rounds: list[RoundFound] = field(default_factory=list)
    instances: frozenset[str] = frozenset({"instance-1"})
    granted: dict[tuple[str, str], GrantRequest] = field(default_factory=dict)
    asked: list[object] = field(default_factory=list)

    def games(self) -> Sequence[GameInfo]:
        """Return the catalogue."""
        self.asked.append("games")
        return self.catalogue

    def bet(self, bet_id: str, *, now_millis: int) -> AnyBet:
        """Return the bet of that id."""
        self.asked.append((bet_id, now_millis))
        return self.placed.get(bet_id, BetNotFound())

    def round(self, instance_id: str, round_id: str | None, round_no: int | None, *, now_millis: int) -> AnyRound:
        """Return the instance's round of that id, or else of that number."""
        self.asked.append((instance_id, round_id, round_no, now_millis))
        for found in self.rounds:
            is_named = found.round_no == round_no if round_id is None else found.round_id == round_id
            if is_named and found.instance_id == instance_id:
                return found
        return RoundNotFound()

    def grant(self, request: GrantRequest, *, now_millis: int) -> GrantAccepted | GrantErrorCode:
        """Grant once for each instance and reference id."""
        self.asked.append((request, now_millis))
        if not request.instance_id.startswith("instance-"):
            return GrantErrorCode.INVALID_INSTANCE_ID
        if request.instance_id not in self.instances:
            return GrantErrorCode.INSTANCE_NOT_FOUND
        key = (request.instance_id, request.reference_id)
        if key in self.granted:
            return GrantErrorCode.DUPLICATE_REFERENCE_ID
        self.granted[key] = request
        return GrantAccepted(success=True, free_bet_id=f"free-bet-{len(self.granted)}", message="Free bets granted")
