"""
What the sandbox knows: operators, games, bets, rounds and grants, changed by hand or by calls.

It answers by the rules of the service: nothing of another operator is ever found, and neither is a bet or round older
than 90 days. What the specification does not show is chosen here, and said so: an instance id is 24 lower-case hex
digits (docs/decisions/0009).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
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
from game_operator_testkit.provider.service import OperatorAccount

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
        operator_id: Whose grant it is.
        request: What the operator asked for.
        granted_at_millis: When they were granted, in Unix milliseconds.
    """

    free_bet_id: str
    operator_id: str
    request: GrantRequest
    granted_at_millis: int

    @property
    def expires_at_millis(self) -> int:
        """When its free bets can no longer be played."""
        return self.granted_at_millis + self.request.expire_duration_millis


class SandboxWorld:
    """
    The state behind the Operator API, for your operator and any number of others.

    Every method may be called from any thread while the sandbox serves. Where *operator_id* is left out, the operator
    the world was made for is meant.

    Args:
        operator_id: The operator the world is made for.
        public_key: The key it has registered.
    """

    def __init__(self, operator_id: str, public_key: RSAPublicKey) -> None:
        self.operator_id: str = operator_id
        self._lock = Lock()
        self._accounts: dict[str, OperatorAccount] = {}
        self._games: dict[str, dict[str, GameInfo]] = {}
        self._instances: dict[str, str] = {}
        self._bets: dict[tuple[str, str], PlacedBet] = {}
        self._in_round: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        #: Bets of other operators in each round.
        self._strangers: defaultdict[tuple[str, str], list[PlacedBet]] = defaultdict(list)
        #: Each round without its bets, and when it started.
        self._rounds: dict[tuple[str, str], tuple[RoundFound, int]] = {}
        self._round_ids: dict[tuple[str, str, int], str] = {}
        self._round_nos: dict[str, int] = {}
        self._grants: dict[tuple[str, str], Grant] = {}
        self._claimed: set[str] = set()
        self.add_operator(operator_id, public_key)

    def add_operator(self, operator_id: str, public_key: RSAPublicKey, *, active: bool = True) -> None:
        """
        Register an operator, or register another key for one (spec §5).

        Args:
            operator_id: The operator.
            public_key: The key that verifies its calls.
            active: Whether its account is active; if not, calls are answered 403 or 401.

        Raises:
            ConfigurationError: The id could not travel in a header, or holds a colon, which would make the signed
                string ``<operator_id>:<bet_id>`` ambiguous.
        """
        checked_operator_id(operator_id)
        with self._lock:
            self._accounts[operator_id] = OperatorAccount(operator_id, public_key, active)
            self._games.setdefault(operator_id, {})

    def add_game(self, game: GameInfo, *, operator_id: str | None = None) -> None:
        """
        Offer *game* with its instances to the operator; a game with the same id is replaced (spec §2.5).

        Raises:
            ConfigurationError: An instance id is not of the sandbox's format, or another operator's.
        """
        owner = self._known(operator_id)
        for instance in game.instances:
            if not _INSTANCE_ID.fullmatch(instance.id) or self._instances.get(instance.id, owner) != owner:
                raise ConfigurationError(
                    f"instance id {shown(instance.id)} cannot be used. Pass 24 lower-case hex digits that no other "
                    "operator has."
                )
        with self._lock:
            replaced = self._games[owner].get(game.id)
            for instance in () if replaced is None else replaced.instances:
                del self._instances[instance.id]
            self._games[owner][game.id] = game
            self._instances |= {instance.id: owner for instance in game.instances}

    def add_instances(self, games: Iterable[GameInfo], *, operator_id: str | None = None) -> None:
        """Offer *games* as ``add_game`` does, and keep the instances that games with the same ids have already."""
        offered = {game.id: game.instances for game in self.games(self._known(operator_id))}
        for game in games:
            known = offered.get(game.id, ())
            new = tuple(each for each in game.instances if each.id not in {instance.id for instance in known})
            self.add_game(game.model_copy(update={"instances": (*known, *new)}), operator_id=operator_id)

    def add_bet(self, bet: PlacedBet, *, operator_id: str | None = None) -> None:
        """Record *bet*; one with the same ``reference_id`` is replaced, which is how a bet changes its state."""
        owner = self._known(operator_id)
        with self._lock:
            before = self._bets.get((owner, bet.reference_id))
            if before is not None and before.round_id != bet.round_id:
                self._in_round[owner, before.round_id].pop(bet.reference_id, None)
            self._bets[owner, bet.reference_id] = bet
            self._in_round[owner, bet.round_id][bet.reference_id] = None

    def add_bet_of_stranger(self, bet: PlacedBet, *, operator_id: str | None = None) -> None:
        """
        Record a *bet* of another operator in a round that the operator's players share, as in a crash game.

        fetch-round-bets returns it, after the operator's own bets. fetch-bet does not find it.
        """
        owner = self._known(operator_id)
        with self._lock:
            self._strangers[owner, bet.round_id].append(bet)

    def bets(self, *, operator_id: str | None = None, limit: int = 100) -> tuple[PlacedBet, ...]:
        """Return up to *limit* of the operator's bets, the one recorded last first."""
        owner = self._known(operator_id)
        with self._lock:
            newest = (bet for (whose, _), bet in reversed(self._bets.items()) if whose == owner)
            return tuple(islice(newest, limit))

    def add_round(
        self,
        *,
        round_id: str,
        round_no: int,
        instance_id: str,
        game: str,
        started_at_millis: int,
        operator_id: str | None = None,
    ) -> None:
        """
        Record a round; its bets are those that name its id and instance (spec §2.8).

        A bet alone makes no round: there are games without rounds (spec §4.2).

        Args:
            round_id: The round.
            round_no: The number that is shown to the player.
            instance_id: The game instance.
            game: The game id.
            started_at_millis: When it started, in Unix milliseconds; after 90 days it is not found.
            operator_id: Whose round it is.
        """
        owner = self._known(operator_id)
        found = RoundFound(round_id=round_id, round_no=round_no, instance_id=instance_id, game=game, bets=())
        with self._lock:
            self._rounds[owner, round_id] = found, started_at_millis
            self._round_ids[owner, instance_id, round_no] = round_id
            self._round_nos[instance_id] = max(round_no, self._round_nos.get(instance_id, 0))

    def next_round_no(self, instance_id: str) -> int:
        """Return a number above those of all rounds of the instance, and of those it was returned for before."""
        with self._lock:
            self._round_nos[instance_id] = self._round_nos.get(instance_id, 0) + 1
            return self._round_nos[instance_id]

    def grants(self, *, operator_id: str | None = None) -> tuple[Grant, ...]:
        """Return the operator's grants, oldest first."""
        owner = self._known(operator_id)
        with self._lock:
            return tuple(grant for grant in self._grants.values() if grant.operator_id == owner)

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

    def account(self, operator_id: str) -> OperatorAccount | None:
        """Return the operator registered as *operator_id*, or None."""
        with self._lock:
            return self._accounts.get(operator_id)

    def games(self, operator_id: str) -> Sequence[GameInfo]:
        """Return the games and instances available to the operator (spec §4.2)."""
        with self._lock:
            return tuple(self._games.get(operator_id, {}).values())

    def bet(self, operator_id: str, bet_id: str, *, now_millis: int) -> AnyBet:
        """Return the operator's bet as it is found at *now_millis*, or ``BetNotFound`` (spec §4.2)."""
        with self._lock:
            bet = self._bets.get((operator_id, bet_id))
        return BetNotFound() if bet is None or _is_gone(bet.timestamp, now_millis) else bet

    def round(
        self, operator_id: str, instance_id: str, round_id: str | None, round_no: int | None, *, now_millis: int
    ) -> AnyRound:
        """
        Return the instance's round as it is found at *now_millis*, or ``RoundNotFound`` (spec §4.2).

        It is looked up by *round_id*, or by *round_no* if that is None.
        """
        with self._lock:
            if round_id is None and round_no is not None:
                round_id = self._round_ids.get((operator_id, instance_id, round_no))
            found, started_at_millis = self._rounds.get((operator_id, round_id or ""), (None, 0))
            ids = self._in_round.get((operator_id, round_id or ""), {})
            bets = [self._bets[operator_id, bet_id] for bet_id in ids]
            bets += self._strangers.get((operator_id, round_id or ""), ())
        if found is None or found.instance_id != instance_id or _is_gone(started_at_millis, now_millis):
            return RoundNotFound()
        in_round = (bet for bet in bets if bet.round_id == found.round_id and bet.instance_id == instance_id)
        kept = tuple(bet for bet in in_round if not _is_gone(bet.timestamp, now_millis))
        return found.model_copy(update={"bets": kept})

    def grant(self, operator_id: str, request: GrantRequest, *, now_millis: int) -> GrantAccepted | GrantErrorCode:
        """
        Grant free bets, and return the answer: GrantAccepted, or the code of what is in the way.

        Args:
            operator_id: Who asks.
            request: What is asked for, within the limits of spec §8.
            now_millis: When, in Unix milliseconds.
        """
        if not _INSTANCE_ID.fullmatch(request.instance_id):
            return GrantErrorCode.INVALID_INSTANCE_ID
        key = (request.instance_id, request.reference_id)
        # The id is made from the key, so that the same grant has the same id in every run.
        free_bet_id = sha256(":".join(key).encode()).hexdigest()[:24]
        grant = Grant(free_bet_id, operator_id, request, now_millis)
        with self._lock:
            if self._instances.get(request.instance_id) != operator_id:
                return GrantErrorCode.INSTANCE_NOT_FOUND
            if self._grants.setdefault(key, grant) is not grant:
                return GrantErrorCode.DUPLICATE_REFERENCE_ID
        return GrantAccepted(success=True, free_bet_id=grant.free_bet_id, message="Free bet granted successfully")

    def _known(self, operator_id: str | None) -> str:
        owner = self.operator_id if operator_id is None else operator_id
        if owner not in self._accounts:
            raise ConfigurationError(
                f"The sandbox has no operator {shown(owner)}. Register it with add_operator first."
            )
        return owner


def _is_gone(at_millis: int, now_millis: int) -> bool:
    return now_millis - at_millis > RETENTION_MILLIS
