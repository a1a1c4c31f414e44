"""
What the sandbox knows: its operator, and its games, bets, rounds and grants, changed by hand or by calls.

It answers by the rules of the service: a bet or round older than 90 days is not found. What the specification does not
show is chosen here, and said so: an instance id is 24 lower-case hex digits (docs/decisions/0017).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from threading import Lock
from typing import Final, Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator.codes import GrantErrorCode
from game_operator.errors import ConfigurationError, shown
from game_operator.models import (
    BetNotFound,
    ClosedBet,
    GameInfo,
    GrantAccepted,
    GrantRequest,
    OpenBet,
    RolledBackBet,
    RoundFound,
    RoundNotFound,
)
from game_operator.protocol.operations import AnyBet, AnyRound
from game_operator.signers.environment import checked_operator_id

#: Bets and rounds older than 90 days are gone (spec §8).
RETENTION_MILLIS: Final = 90 * 24 * 60 * 60 * 1000

_INSTANCE_ID: Final = re.compile(r"[0-9a-f]{24}")

PlacedBet = OpenBet | ClosedBet | RolledBackBet
GrantStatus: TypeAlias = Literal["granted", "claimed", "expired"]


@dataclass(frozen=True, slots=True)
class Grant:
    """
    Free bets that were granted (spec §2.2, §2.3).

    Attributes:
        free_bet_id: Identifies the grant.
        request: What the operator asked for.
        granted_at_millis: When they were granted, in Unix milliseconds.
    """

    free_bet_id: str
    request: GrantRequest
    granted_at_millis: int

    @property
    def expires_at_millis(self) -> int:
        """When its free bets can no longer be played."""
        return self.granted_at_millis + self.request.expire_duration_millis


class SandboxWorld:
    """
    The state behind the Operator API.

    Every method may be called from any thread while the sandbox serves.

    Attributes:
        operator_id: The operator whose world it is; nobody else is known (spec §5).
        public_key: The key that verifies its calls; set another to register it.
        active: Whether its account is active; if not, calls are answered 403 or 401.

    Raises:
        ConfigurationError: The id could not travel in a header, or holds a colon, which would make the signed string
            ``<operator_id>:<bet_id>`` ambiguous.
    """

    def __init__(self, operator_id: str, public_key: RSAPublicKey) -> None:
        checked_operator_id(operator_id)
        self.operator_id: str = operator_id
        self.public_key: RSAPublicKey = public_key
        self.active: bool = True
        self._lock = Lock()
        self._games: dict[str, GameInfo] = {}
        self._bets: dict[str, PlacedBet] = {}
        #: Each round without its bets, and when it started.
        self._rounds: dict[str, tuple[RoundFound, int]] = {}
        self._round_ids: dict[tuple[str, int], str] = {}
        self._round_nos: dict[str, int] = {}
        self._grants: dict[tuple[str, str], Grant] = {}
        self._claimed: set[str] = set()

    def add_game(self, game: GameInfo) -> None:
        """
        Offer *game* with its instances; a game with the same id is replaced (spec §2.5).

        Raises:
            ConfigurationError: An instance id is not of the sandbox's format.
        """
        for instance in game.instances:
            if not _INSTANCE_ID.fullmatch(instance.id):
                raise ConfigurationError(
                    f"instance id {shown(instance.id)} cannot be used. Pass 24 lower-case hex digits."
                )
        with self._lock:
            self._games[game.id] = game

    def add_bet(self, bet: PlacedBet) -> None:
        """Record *bet*; one with the same ``reference_id`` is replaced, which is how a bet changes its state."""
        with self._lock:
            self._bets[bet.reference_id] = bet

    def bets(self, *, limit: int = 100) -> tuple[PlacedBet, ...]:
        """Return up to *limit* of the bets, the one recorded last first."""
        with self._lock:
            return tuple(islice(reversed(self._bets.values()), limit))

    def add_round(self, *, round_id: str, round_no: int, instance_id: str, game: str, started_at_millis: int) -> None:
        """
        Record a round; its bets are those that name its id and instance (spec §2.8).

        A bet alone makes no round: there are games without rounds (spec §4.2).

        Args:
            round_id: The round.
            round_no: The number that is shown to the player.
            instance_id: The game instance.
            game: The game id.
            started_at_millis: When it started, in Unix milliseconds; after 90 days it is not found.
        """
        found = RoundFound(round_id=round_id, round_no=round_no, instance_id=instance_id, game=game, bets=())
        with self._lock:
            self._rounds[round_id] = found, started_at_millis
            self._round_ids[instance_id, round_no] = round_id
            self._round_nos[instance_id] = max(round_no, self._round_nos.get(instance_id, 0))

    def next_round_no(self, instance_id: str) -> int:
        """Return a number above those of all rounds of the instance, and of those it was returned for before."""
        with self._lock:
            self._round_nos[instance_id] = self._round_nos.get(instance_id, 0) + 1
            return self._round_nos[instance_id]

    def grants(self) -> tuple[Grant, ...]:
        """Return the grants, oldest first."""
        with self._lock:
            return tuple(self._grants.values())

    def grant_status(self, grant: Grant, *, now_millis: int) -> GrantStatus:
        """Return what became of *grant* by *now_millis*, in Unix milliseconds."""
        if grant.free_bet_id in self._claimed:
            return "claimed"
        return "expired" if now_millis >= grant.expires_at_millis else "granted"

    def begin_claim(self, free_bet_id: str, *, now_millis: int) -> Grant:
        """
        Return the grant whose free bets are to be played at *now_millis*; until ``end_claim`` it may be begun again.

        Raises:
            ConfigurationError: There is no such grant, it is claimed already, or it has expired.
        """
        with self._lock:
            grant = next((grant for grant in self._grants.values() if grant.free_bet_id == free_bet_id), None)
        if grant is None:
            raise ConfigurationError(f"The free bets {shown(free_bet_id)} are unknown. Grant them first.")
        status = self.grant_status(grant, now_millis=now_millis)
        if status != "granted":
            raise ConfigurationError(f"The free bets {shown(free_bet_id)} are {status} already. Grant others.")
        return grant

    def end_claim(self, free_bet_id: str) -> None:
        """Note that the winnings of a grant were paid."""
        with self._lock:
            self._claimed.add(free_bet_id)

    def games(self) -> Sequence[GameInfo]:
        """Return the games and instances available to the operator (spec §4.2)."""
        with self._lock:
            return tuple(self._games.values())

    def bet(self, bet_id: str, *, now_millis: int) -> AnyBet:
        """Return the bet as it is found at *now_millis*, or ``BetNotFound`` (spec §4.2)."""
        with self._lock:
            bet = self._bets.get(bet_id)
        return BetNotFound() if bet is None or _is_gone(bet.timestamp, now_millis) else bet

    def round(self, instance_id: str, round_id: str | None, round_no: int | None, *, now_millis: int) -> AnyRound:
        """
        Return the instance's round as it is found at *now_millis*, or ``RoundNotFound`` (spec §4.2).

        It is looked up by *round_id*, or by *round_no* if that is None.
        """
        with self._lock:
            if round_id is None and round_no is not None:
                round_id = self._round_ids.get((instance_id, round_no))
            found, started_at_millis = self._rounds.get(round_id or "", (None, 0))
            bets = [bet for bet in self._bets.values() if bet.round_id == round_id]
        if found is None or found.instance_id != instance_id or _is_gone(started_at_millis, now_millis):
            return RoundNotFound()
        here = (bet for bet in bets if bet.instance_id == instance_id)
        kept = tuple(bet for bet in here if not _is_gone(bet.timestamp, now_millis))
        return found.model_copy(update={"bets": kept})

    def grant(self, request: GrantRequest, *, now_millis: int) -> GrantAccepted | GrantErrorCode:
        """
        Grant free bets, and return the answer: GrantAccepted, or the code of what is in the way.

        Args:
            request: What is asked for, within the limits of spec §8.
            now_millis: When, in Unix milliseconds.
        """
        if not _INSTANCE_ID.fullmatch(request.instance_id):
            return GrantErrorCode.INVALID_INSTANCE_ID
        key = (request.instance_id, request.reference_id)
        # The id is made from the key, so that the same grant has the same id in every run.
        free_bet_id = sha256(":".join(key).encode()).hexdigest()[:24]
        grant = Grant(free_bet_id, request, now_millis)
        with self._lock:
            if not any(request.instance_id == each.id for game in self._games.values() for each in game.instances):
                return GrantErrorCode.INSTANCE_NOT_FOUND
            if self._grants.setdefault(key, grant) is not grant:
                return GrantErrorCode.DUPLICATE_REFERENCE_ID
        return GrantAccepted(success=True, free_bet_id=grant.free_bet_id, message="Free bet granted successfully")


def _is_gone(at_millis: int, now_millis: int) -> bool:
    return now_millis - at_millis > RETENTION_MILLIS
