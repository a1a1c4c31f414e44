"""What a scenario makes its calls of: two players, fresh ids, bets, claims, and the requests that carry them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from game_operator.certify.engine.steps import NotTried
from game_operator.models.webhooks import BalanceCall, DepositCall, WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import BodyWriter
from game_operator.provider.requests import BetCalls, Request, Seal

_MOST_UNIT_CENTS: Final = 500


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


@dataclass(kw_only=True, eq=False, repr=False)
class CallMaker:
    """
    Makes calls.

    Attributes:
        player, other: Two players with money.
        profile: What is assumed of the wallet.
        prefix: What all ids begin with.
        instance_id: The instance that is played.
        playing: The players of the bets and claims that have been made, by their ids.
    """

    player: Player
    other: Player
    profile: Profile
    prefix: str
    instance_id: str | None
    _made: int = field(default=0, init=False)
    playing: dict[str, Player] = field(default_factory=dict, init=False)
    _bets: list[BetCalls] = field(default_factory=list, init=False)

    @cached_property
    def writer(self) -> BodyWriter:
        """Writes bodies under the names of the profile."""
        return BodyWriter(self.profile)

    def fresh(self, word: str = "id") -> str:
        """Return a new id."""
        self._made += 1
        return f"{self.prefix}-{word}-{self._made}"

    @property
    def unit_cents(self) -> int:
        """A wager of which the poorer player can pay twenty."""
        return max(1, min(_MOST_UNIT_CENTS, self.player.opening_cents // 20, self.other.opening_cents // 20))

    def bet(
        self,
        player: Player | None = None,
        cents: int | None = None,
        *,
        action: str = "BET",
        bet_id: str | None = None,
        tx_id: str | None = None,
    ) -> BetCalls:
        """Return a new bet; of *player*, or of the first; of *cents*, or of a unit."""
        bet_id = self.fresh("bet") if bet_id is None else bet_id
        player = player or self.player
        self.playing[player.id] = player
        bet = BetCalls(
            player_id=player.id,
            bet_id=bet_id,
            wager_cents=self.unit_cents if cents is None else cents,
            tx_id=f"withdraw:{action.lower()}:{bet_id}" if tx_id is None else tx_id,
            round_id=f"{bet_id}-round",
            instance_id=self.instance_id,
            game="certify",
            action=action,
            rollback_tx_id=self.profile.rollback_tx_id,
        )
        self._bets.append(bet)
        return bet

    def bets_of(self, player: Player) -> list[BetCalls]:
        """Return the bets that were made for a player, the last one first."""
        return [bet for bet in reversed(self._bets) if bet.player_id == player.id]

    def claim(self, cents: int, action: str, *, player: Player | None = None, bet_id: str | None = None) -> DepositCall:
        """Return a claim of *cents*, of free bets or a jackpot; raise NotTried if the profile has no such claims."""
        if action not in self.writer.claim_types:
            raise NotTried(f"the profile has no claims of the type {action}")
        claimed = self.fresh("claim") if bet_id is None else bet_id
        player = player or self.player
        self.playing[player.id] = player
        return DepositCall(
            player_id=player.id,
            bet_id=claimed,
            amount_cents=cents,
            tx_id=f"deposit:{action.lower()}:{claimed}",
            action=action,
            instance_id=self.instance_id,
            game="certify",
        )

    def jackpots(self, cents: int | None = None, player: Player | None = None) -> list[DepositCall]:
        """Return a jackpot of *cents*, or of a unit, in a list; an empty list if the profile has no jackpots."""
        cents = self.unit_cents if cents is None else cents
        return [self.claim(cents, "JACKPOT", player=player)] if "JACKPOT" in self.writer.claim_types else []

    def request(self, call: WebhookCall, title: str, *, seal: Seal | None = None) -> Request:
        """Return *call* as the service posts it; the same bytes whenever it is asked for the same call."""
        return Request(title, f"/{call.operation}", self.writer.encoded(call), seal or Seal())

    def balance_request(self, title: str, player: Player | None = None, *, seal: Seal | None = None) -> Request:
        """Return a request for the balance of *player*, or of the first."""
        return self.request(BalanceCall(player_id=(player or self.player).id), title, seal=seal)
