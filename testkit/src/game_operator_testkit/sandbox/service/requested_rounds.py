"""The rounds that somebody asks a sandbox to play: a round of one bet, or the claim of a grant."""

from collections.abc import Callable, Mapping
from itertools import count
from random import Random
from typing import Any, Final, Literal, Required, TypeAlias, TypedDict

from game_operator.codes import GameStatus
from game_operator.errors import ConfigurationError, shown
from game_operator.models import GameInfo, GameInstance, RoundFound
from game_operator.money import amount_from_cents
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.dealing.plan import (
    BetEnd,
    PlannedBet,
    PlannedClaim,
    PlannedRound,
    free_bets,
    limits_of_claim,
    run_id_of,
)
from game_operator_testkit.sandbox.games import limits_of, play
from game_operator_testkit.sandbox.service.world import SandboxWorld

_END_AFTER_MILLIS: Final = 2_000

#: What becomes of a round's deposit or rollback: it is sent, held until it is released, or never sent.
Settlement: TypeAlias = Literal["send", "hold", "lose"]
_KEPT_BACK: Final[Mapping[str, Fault | None]] = {
    "send": None,
    "hold": Fault.SETTLEMENT_HELD,
    "lose": Fault.SETTLEMENT_LOST,
}


class RoundRequest(TypedDict, total=False):
    """The arguments of ``Sandbox.play_round``, which says what they mean."""

    player_id: Required[str]
    wager_cents: Required[int]
    won_cents: int | None
    cancel: bool
    instance_id: str | None
    round_id: str | None
    settlement: Settlement


class RequestedRounds:
    """
    Plans a round or claim within the limits of an instance, and opens its round in *world*.

    Args:
        world, clock, seed, default_instance_id: As for ``SandboxService``.
    """

    def __init__(self, world: SandboxWorld, clock: Callable[[], int], *, seed: int, default_instance_id: str) -> None:
        self._world = world
        self._clock = clock
        self._seed = seed
        self._run_id = run_id_of(seed, clock())
        self._default_instance_id = default_instance_id
        #: The numbers of the rounds; counting is one step, for all threads.
        self._numbers = count(1)

    def round(
        self,
        *,
        player_id: str,
        wager_cents: int,
        won_cents: int | None = None,
        cancel: bool = False,
        instance_id: str | None = None,
        round_id: str | None = None,
        settlement: Settlement = "send",
    ) -> PlannedRound:
        """
        Return a round of one bet; *won_cents* None leaves its outcome to the game's rules. See ``Sandbox.play_round``.

        Raises:
            ConfigurationError: The instance cannot be played, an amount is beyond its limits, or the round is unknown.
        """
        if cancel and won_cents:
            raise ConfigurationError("A bet that is cancelled wins nothing. Pass won_cents or cancel, and not both.")
        if settlement not in _KEPT_BACK:
            raise ConfigurationError(f"The settlement {shown(settlement)} is unknown. Pass send, hold or lose.")
        game, instance = self._place(instance_id or self._default_instance_id)
        limits = limits_of(instance.bet_config)
        _check_amount("wager", wager_cents, limits.min_cents, limits.max_cents, instance)
        now_millis, number = self._clock(), next(self._numbers)
        if won_cents is None and not cancel:
            random = Random(f"{self._seed}:played:{number}")  # noqa: S311 - outcomes of a toy, which must repeat
            (won_cents,) = play(game, limits, (wager_cents,), random)
        won_cents = 0 if won_cents is None or cancel else won_cents
        _check_amount("win", won_cents, 0, limits.max_win_cents, instance)
        joined = None if round_id is None else self._known_round(round_id, instance.id, now_millis)
        round_id = round_id or f"round-{self._run_id}-{number}"
        # Any: fields of round and bet.
        where: dict[str, Any] = {"round_id": round_id, "instance_id": instance.id, "game": game.id}
        bet = PlannedBet(
            bet_id=f"bet-{self._run_id}-{number}",
            player_id=player_id,
            wager_cents=wager_cents,
            end=BetEnd.ROLLED_BACK if cancel else BetEnd.CLOSED,
            won_cents=won_cents,
            at_millis=now_millis,
            ends_at_millis=now_millis + _END_AFTER_MILLIS,
            settlement_fault=_KEPT_BACK[settlement],
            **where,
        )
        round_no = joined.round_no if joined else self._world.next_round_no(instance.id)
        planned = PlannedRound(round_no=round_no, at_millis=now_millis, bets=(bet,), **where)
        # Built once here, so that a call that cannot be sent is refused before anything is sent.
        try:
            bet.withdraw()
        except ValueError as wrong:
            raise ConfigurationError(f"This bet cannot be placed: {wrong}. Pass another.") from None
        if joined is None:
            self._open_round(planned)
        return planned

    def claim(self, free_bet_id: str) -> PlannedClaim:
        """
        Play the free bets of a grant, and return their claim.

        Raises:
            ConfigurationError: There is no such grant, it is claimed already, or it has expired.
        """
        now_millis = self._clock()
        grant = self._world.begin_claim(free_bet_id, now_millis=now_millis)
        request = grant.request
        game, instance = self._place(request.instance_id, active=False)
        limits = limits_of_claim(limits_of(instance.bet_config), request.count)
        random = Random(f"{self._seed}:free:{free_bet_id}")  # noqa: S311 - outcomes of a toy, which must repeat
        won = [play(game, limits, [request.wager_amount_cents], random)[0] for _ in range(request.count)]
        # A claim that was not paid is played again, in the same round.
        round_id = f"round-{free_bet_id}"
        found = self._world.round(instance.id, round_id, None, now_millis=now_millis)
        planned = PlannedClaim(
            free_bet_id=free_bet_id,
            player_id=request.player_id,
            instance_id=instance.id,
            game=game.id,
            round_id=round_id,
            round_no=found.round_no if isinstance(found, RoundFound) else self._world.next_round_no(instance.id),
            at_millis=now_millis,
            bets=free_bets(free_bet_id, round_id, request.wager_amount_cents, won),
        )
        try:
            planned.deposit()
        except ValueError as wrong:
            raise ConfigurationError(f"These free bets cannot be claimed: {wrong}. Grant others.") from None
        if not isinstance(found, RoundFound):
            # Its deposit names the round, so that it can be looked up (spec §6).
            self._open_round(planned)
        return planned

    def _known_round(self, round_id: str, instance_id: str, now_millis: int) -> RoundFound:
        found = self._world.round(instance_id, round_id, None, now_millis=now_millis)
        if not isinstance(found, RoundFound):
            raise ConfigurationError(f"The round {shown(round_id)} of this instance is unknown. Pass one played here.")
        return found

    def _open_round(self, planned: PlannedRound | PlannedClaim) -> None:
        self._world.add_round(
            round_id=planned.round_id,
            round_no=planned.round_no,
            instance_id=planned.instance_id,
            game=planned.game,
            started_at_millis=planned.at_millis,
        )

    def _place(self, instance_id: str, *, active: bool = True) -> tuple[GameInfo, GameInstance]:
        for game in self._world.games():
            for instance in game.instances:
                if instance.id == instance_id:
                    if active and not (instance.active and game.status == GameStatus.ACTIVE):
                        raise ConfigurationError(f"{instance.name} cannot be played now. Choose an active instance.")
                    return game, instance
        raise ConfigurationError(f"The instance {shown(instance_id)} is unknown. `fetch_games` lists all instances.")


def _check_amount(name: str, cents: int, least: int, most: int, instance: GameInstance) -> None:
    if type(cents) is not int:
        raise TypeError(f"the {name} must be an int, in cents, not {type(cents).__name__}")
    if not least <= cents <= most:
        raise ConfigurationError(
            f"A {name} of {amount_from_cents(cents)} is out of the limits of {instance.name}. "
            f"Pass {amount_from_cents(least)} to {amount_from_cents(most)} {instance.bet_config.currency}, in cents."
        )
