"""
The service behind the sandbox: what it knows, how it deals a round, and what it saw on the wire.

It hands out the dealer who plays what its planner planned; whoever carries the posts tells it what happened. Any thread
may use it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Final

from game_operator.errors import ConfigurationError, MalformedCallError, shown
from game_operator.models import ClosedBet, OpenBet, RolledBackBet
from game_operator.models.webhooks import Reply
from game_operator.profile import Profile
from game_operator.protocol.webhook import BodyWriter
from game_operator.provider.delivery import Post
from game_operator.provider.faults import Fault, FaultSwitches
from game_operator.provider.keys import ServiceKeys
from game_operator.sandbox.dealing.balances import BalanceBoard
from game_operator.sandbox.dealing.dealer import Dealer
from game_operator.sandbox.dealing.dealt import Dealt, DealtBet, DealtClaim, ServiceState
from game_operator.sandbox.dealing.plan import PlannedClaim, PlannedItem
from game_operator.sandbox.dealing.timing import DEFAULT_RETRIES, retry_preset
from game_operator.sandbox.service.exchange_log import Exchange, LiveLog
from game_operator.sandbox.service.requested_rounds import Planner
from game_operator.sandbox.service.world import SandboxWorld

if TYPE_CHECKING:
    # Whoever only serves pays for no client.
    from game_operator.provider.caller import Delivery
    from game_operator.provider.delivery import Carried

#: Whoever waits for a round shall not wait for a wallet that never answers.
_MOST_ATTEMPTS: Final = 12
#: All that the live log keeps.
_LOOKED_THROUGH: Final = 1_000
_HTTP_OK: Final = 200
#: What the log notes on a post that no sound wallet accepts.
_MUST_BE_REFUSED: Final = "must be refused"


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


class SandboxService:
    """
    The service's side of the sandbox.

    Args:
        world: What the Operator API answers from.
        keys: Makes what webhooks are signed with, when it is first needed.
        clock: The service's time, in Unix milliseconds.
        seed: Decides outcomes and faults.
        default_instance_id: Where a round is played that names no instance.
        profile: What is assumed of the wallet.
    """

    def __init__(
        self,
        world: SandboxWorld,
        keys: Callable[[], ServiceKeys],
        clock: Callable[[], int],
        *,
        seed: int,
        default_instance_id: str,
        profile: Profile,
    ) -> None:
        self._profile = profile
        self.world = world
        self.faults = FaultSwitches()
        self.live = LiveLog()
        self.balances = BalanceBoard()
        self._retries = DEFAULT_RETRIES
        self._make_keys = keys
        self._keys: ServiceKeys | None = None
        self._clock = clock
        self._seed = seed
        #: Plans the rounds and claims that are asked for.
        self.planner = Planner(world, clock, seed=seed, default_instance_id=default_instance_id)
        self._lock = Lock()
        self._api_calls = 0
        #: The free bets that are being claimed now.
        self._claiming: set[str] = set()

    @property
    def keys(self) -> ServiceKeys:
        """What webhooks are signed with."""
        with self._lock:
            self._keys = self._keys or self._make_keys()
            return self._keys

    @keys.setter
    def keys(self, keys: ServiceKeys) -> None:
        with self._lock:
            self._keys = keys

    @property
    def retries(self) -> str:
        """When an unanswered call is repeated: the name of a preset; setting another raises ConfigurationError."""
        return self._retries

    @retries.setter
    def retries(self, name: str) -> None:
        self._retries = retry_preset(name).name

    def dealer(self, item: PlannedItem) -> Dealer:
        """
        Return the dealer who plays *item* with the faults that are switched on; ``played`` ends it.

        Raises:
            ConfigurationError: It is a claim, and another of the same free bets is under way or done.
        """
        retries = retry_preset(self.retries)
        if isinstance(item, PlannedClaim):
            if "FREE_BET_CLAIM" not in BodyWriter(self._profile).claim_types:
                raise ConfigurationError(
                    "The profile has no claims of free bets. Add FREE_BET_CLAIM to claim_types, and a name for "
                    "action.deposit."
                )
            self._begin_claim(item)
        return Dealer(
            (item,),
            faults=self.faults.reserve(),
            retries=retries,
            # Each has a plan of its own, which begins with the call number 1.
            seed=f"{self._seed}:{item.round_id}",
            profile=self._profile,
            batches=self._profile.deposit_batch,
            on_change=self._record,
            listener=_Ear(self.balances, self._clock),
            most_attempts=_MOST_ATTEMPTS,
        )

    def played(self, item: PlannedItem, dealer: Dealer, deliveries: "list[Delivery]") -> PlayedRound:
        """Return what became of *item*, and count its calls for faults that wait for the Nth."""
        # Of a wallet that cannot be reached any more, calls may be unanswered.
        dealer.abandon()
        self.faults.release(dealer.faults, dealer.calls, dealer.struck_nth)
        problems = tuple(problem for dealt in dealer.dealt for problem in (*dealt.problems, *_wrong_statuses(dealt)))
        lost = any(dealt.lost for dealt in dealer.dealt)
        if isinstance(item, PlannedClaim):
            with self._lock:
                self._claiming.discard(item.free_bet_id)
            return PlayedRound(item.round_id, self.planner.round_no(item), (), tuple(deliveries), problems, lost)
        bet_ids = tuple(bet.bet_id for bet in item.bets)
        return PlayedRound(item.round_id, item.round_no, bet_ids, tuple(deliveries), problems, lost)

    def api_fault(self) -> Fault | None:
        """Return what strikes this call of the Operator API, and count the call."""
        with self._lock:
            self._api_calls += 1
            number = self._api_calls
        return self.faults.strike_api(f"{self._seed}:api:{number}")

    # --- what was seen -----------------------------------------------------------------------------------------------

    def saw(self, post: Post, carried: "Carried") -> Exchange:
        """Keep a post that is over in the live log."""
        answer = carried.answer
        call = post.calls[0]
        return self.live.record(
            Exchange(
                at_millis=carried.began_millis,
                direction="webhook",
                method="POST",
                path=post.path,
                url=carried.url,
                request_headers=carried.headers,
                request_body=carried.request.body,
                signature=post.signed_with,
                status=None if answer is None else answer.status,
                response_headers=() if answer is None else answer.headers,
                response_body=b"" if answer is None else answer.body,
                defect="" if answer is None else answer.defect,
                elapsed_ms=carried.elapsed_seconds * 1_000,
                fault=post.faults,
                note=_note(post, carried.problem),
                player_id=call.player_id,
                bet_id=call.bet_id or "",
            )
        )

    def saw_again(self, before: Exchange, carried: "Carried") -> Exchange:
        """Keep a webhook that was sent again by hand: the wallet may have moved in between."""
        answer = carried.answer
        # Asked before this one is in the log too.
        acted = any(
            each.request_body == before.request_body and _succeeded(each) for each in self.live.recent(_LOOKED_THROUGH)
        )
        still = [_MUST_BE_REFUSED] if _MUST_BE_REFUSED in before.note.split("; ") else []
        again = self.live.record(
            replace(
                before,
                url=carried.url,
                at_millis=carried.began_millis,
                status=None if answer is None else answer.status,
                response_headers=() if answer is None else answer.headers,
                response_body=b"" if answer is None else answer.body,
                defect="" if answer is None else answer.defect,
                elapsed_ms=carried.elapsed_seconds * 1_000,
                fault="",
                note="; ".join([f"number {before.number}, delivered again", *still, *filter(None, (carried.problem,))]),
            )
        )
        self._hear_again(again, acted=acted)
        return again

    def _hear_again(self, again: Exchange, *, acted: bool) -> None:
        """Let the board know what was told to a webhook sent by hand; a wallet that *acted* before moves nothing."""
        reply = _reply_of(again)
        if not acted and (reply is None or reply.code is None):
            # It may have moved money just now, for the first time: whatever is told next is believed.
            self.balances.begin(again.player_id)
            self.balances.end(again.player_id, None)
        if reply is not None and reply.balance_cents is not None:
            self.balances.told(
                again.player_id, at_millis=self._clock(), balance_cents=reply.balance_cents, repeated=acted
            )

    def _record(self, dealt: Dealt) -> None:
        """Let the Operator API answer with where a bet stands now."""
        if isinstance(dealt, DealtClaim):
            if dealt.state is ServiceState.PAID:
                self.world.end_claim(dealt.key)
            return
        assert isinstance(dealt, DealtBet)
        placed = {
            "reference_id": dealt.key,
            "player_id": dealt.player_id,
            "round_id": dealt.round.round_id,
            "instance_id": dealt.round.instance_id,
            "game": dealt.round.game,
            "wager": dealt.planned.wager_cents,
            "timestamp": dealt.planned.at_millis,
        }
        match dealt.state:
            case ServiceState.OPEN:
                self.world.add_bet(OpenBet.model_validate(placed))
            case ServiceState.CLOSED:
                self.world.add_bet(ClosedBet.model_validate(placed | {"won": dealt.planned.won_cents}))
            case ServiceState.ROLLED_BACK:
                self.world.add_bet(RolledBackBet.model_validate(placed))
            case _:
                # Refused: the service knows no such bet.
                return

    def _begin_claim(self, planned: PlannedClaim) -> None:
        """Let nobody else claim the same: both would expect the winnings, and a wallet pays them once."""
        with self._lock:
            if planned.free_bet_id in self._claiming:
                raise ConfigurationError(
                    f"The free bets {shown(planned.free_bet_id)} are being claimed just now. Wait for what comes of it."
                )
            # Asked again: since they were played, somebody may have claimed them.
            self.world.begin_claim(planned.free_bet_id, now_millis=planned.at_millis)
            self._claiming.add(planned.free_bet_id)


class _Ear:
    """Writes down what wallets tell of balances."""

    def __init__(self, board: BalanceBoard, clock: Callable[[], int]) -> None:
        self._board, self._clock = board, clock

    def begin(self, dealt: Dealt, may_move_cents: int) -> None:
        self._board.begin(dealt.player_id, may_move_cents)

    def told(self, dealt: Dealt, reply: Reply, *, repeated: bool) -> None:
        if reply.balance_cents is not None:
            self._board.told(
                dealt.player_id, at_millis=self._clock(), balance_cents=reply.balance_cents, repeated=repeated
            )

    def end(self, dealt: Dealt, moved_cents: int | None) -> None:
        self._board.end(dealt.player_id, moved_cents)


def _reply_of(exchange: Exchange) -> Reply | None:
    try:
        return exchange.reply()
    except MalformedCallError:
        return None


def _succeeded(exchange: Exchange) -> bool:
    reply = _reply_of(exchange)
    return reply is not None and reply.code is None


def _wrong_statuses(dealt: Dealt) -> Iterator[str]:
    # With a reply only: an error page may come from a proxy, and the call was sent again.
    statuses = {sent.answer.status for sent in dealt.history if sent.answer.reply is not None and sent.post.is_genuine}
    for status in sorted(statuses - {None, _HTTP_OK}, key=str):
        yield f"a call was replied to with HTTP {status}, which must be 200 always (spec §4.1)"


def _note(post: Post, problem: str) -> str:
    told = [f"delivery {post.attempt}"] if post.attempt > 1 else []
    if not post.is_genuine:
        told.append(_MUST_BE_REFUSED)
    return "; ".join([*told, *filter(None, (problem,))])
