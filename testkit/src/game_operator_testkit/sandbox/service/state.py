"""
The service behind the sandbox: what it knows, how it deals a round, what it answers, and what went over the wire.

It gives out the dealer that plays a plan, and keeps what the carrier of the posts reports. Its answers to the Operator
API show the faults that are switched on (docs/decisions/0017). Any thread may use it.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from threading import Lock
from typing import Any, Final

from game_operator.errors import ConfigurationError, shown
from game_operator.models import ClosedBet, OpenBet, RolledBackBet
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply, HttpRequest
from game_operator_testkit.provider.bodies import BodyWriter
from game_operator_testkit.provider.delivery import Answer, Carried, Delivery, Post, answer_to, delivered, pairs_of
from game_operator_testkit.provider.faults import FAULTS_TO_REFUSE, Fault, FaultSwitches
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.dealing.balances import BalanceBoard
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtBet, DealtClaim, ServiceState
from game_operator_testkit.sandbox.dealing.deliveries import DEFAULT_RETRIES, retry_preset
from game_operator_testkit.sandbox.dealing.plan import PlannedClaim, PlannedItem
from game_operator_testkit.sandbox.service.exchange_log import Exchange, LiveLog
from game_operator_testkit.sandbox.service.lies import Lies
from game_operator_testkit.sandbox.service.operator_api import answer, signature_verdict
from game_operator_testkit.sandbox.service.requested_rounds import RequestedRounds
from game_operator_testkit.sandbox.service.world import PlacedBet, SandboxWorld

#: Nobody waits longer for a round than for so many deliveries of a call.
_MOST_ATTEMPTS: Final = 12
#: All that the live log keeps.
_LOOKED_THROUGH: Final = 1_000
#: What the log notes on a post that no correct wallet accepts.
_MUST_BE_REFUSED: Final = "must be refused"
_SENT_TWICE: Final = "sent twice: the wallet closed a kept connection"
#: What it notes on an answer of the Operator API that is not true.
_LIE: Final = "not the truth: a lie was asked for"
#: What the Operator API answers for a bet in each state.
_PLACED: Final[Mapping[ServiceState, type[PlacedBet]]] = {
    ServiceState.OPEN: OpenBet,
    ServiceState.CLOSED: ClosedBet,
    ServiceState.ROLLED_BACK: RolledBackBet,
}
_JSON: Final = {"content-type": "application/json"}
_TOO_MANY: Final = HttpReply(429, {**_JSON, "retry-after": "1"}, b'{"error":"Too many requests"}')
_BROKEN: Final = HttpReply(500, _JSON, b'{"error":"Internal server error"}')


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """
    A round, or a claim of free bets, that was played against the wallet.

    Attributes:
        round_id: The round, as fetch-round-bets knows it.
        round_no: Its number.
        bet_ids: Its bets, as fetch-bet knows them; empty for a claim.
        deliveries: What the wallet answered, in order; repeats, and what a fault added, among them.
        problems: What no correct wallet would have answered; empty if all is well.
        lost: Whether a call was given up without a definite answer, so that nobody knows what became of it.
        unsent: Those of *bet_ids* whose deposit or rollback is kept back by a lasting fault.
    """

    round_id: str
    round_no: int
    bet_ids: tuple[str, ...]
    deliveries: tuple[Delivery, ...]
    problems: tuple[str, ...] = ()
    lost: bool = False
    unsent: tuple[str, ...] = ()


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
        #: What is assumed of the wallet.
        self.profile: Final = profile
        self.world: SandboxWorld = world
        self.faults: FaultSwitches = FaultSwitches()
        self.live: LiveLog = LiveLog()
        self.balances: BalanceBoard = BalanceBoard()
        self._retries = DEFAULT_RETRIES
        self._make_keys = keys
        self._keys: ServiceKeys | None = None
        #: The service's time, in Unix milliseconds.
        self.clock: Callable[[], int] = clock
        self._seed = seed
        #: Plans the rounds and claims that somebody asks for.
        self.requested: RequestedRounds = RequestedRounds(
            world, clock, seed=seed, default_instance_id=default_instance_id
        )
        self._lock = Lock()
        #: The numbers of the calls of the Operator API; counting is one step, for all threads.
        self._api_calls = count(1)
        #: The free bets that are being claimed now.
        self._claiming: set[str] = set()
        #: Those who keep settlements back.
        self._keepers: list[Dealer] = []
        #: What the Operator API answers in place of the truth.
        self.lies: Lies = Lies()

    @property
    def keys(self) -> ServiceKeys:
        """What webhooks are signed with."""
        with self._lock:
            self._keys = self._keys or self._make_keys()
            return self._keys

    def switch_keys(self, keys: ServiceKeys) -> None:
        """Sign webhooks with *keys* from now on."""
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
        self._believe_players_of(item)
        if isinstance(item, PlannedClaim):
            if "FREE_BET_CLAIM" not in BodyWriter(self.profile).claim_types:
                raise ConfigurationError(
                    "The profile has no claims of free bets. Add FREE_BET_CLAIM to claim_types, and a name for "
                    "action.deposit."
                )
            with self._lock:
                # Two claims would both expect the winnings, and a wallet pays them once.
                if item.free_bet_id in self._claiming:
                    raise ConfigurationError(
                        f"The free bets {shown(item.free_bet_id)} are being claimed just now. Wait for the result."
                    )
                # Asked again: since they were played, somebody may have claimed them.
                self.world.begin_claim(item.free_bet_id, now_millis=item.at_millis)
                self._claiming.add(item.free_bet_id)
        return Dealer(
            (item,),
            faults=self.faults,
            retries=retries,
            # Each item has its own plan, which begins with the call number 1.
            seed=f"{self._seed}:{item.round_id}",
            profile=self.profile,
            on_change=self._record,
            balances=self.balances,
            most_attempts=_MOST_ATTEMPTS,
        )

    async def play(self, item: PlannedItem, carry: Callable[[Post], Awaitable[Carried]]) -> PlayedRound:
        """Play *item*, one post at a time; *carry* brings each to the wallet. What it raises breaks off."""
        deliveries: list[Delivery] = []
        dealer = self.dealer(item)
        try:
            await self._carry_all(dealer, carry, deliveries)
        finally:
            played = self.played(item, dealer, deliveries)
        return played

    async def release(self, carry: Callable[[Post], Awaitable[Carried]], *, lost: bool) -> tuple[Delivery, ...]:
        """Send what was held back, with *lost* also what was never to be sent, as ``play`` does; return the answers."""
        deliveries: list[Delivery] = []
        with self._lock:
            keepers, self._keepers = self._keepers, []
        try:
            for dealer in keepers:
                for player_id in {pending.dealt.player_id for pending in dealer.unsent}:
                    # The operator may have settled the bet meanwhile: then its late call moves nothing.
                    self.believe_next_balance(player_id)
                dealer.release(lost=lost)
                await self._carry_all(dealer, carry, deliveries)
        finally:
            for dealer in keepers:
                # What nobody could carry may be released again.
                dealer.abandon()
            with self._lock:
                self._keepers = [*(dealer for dealer in keepers if dealer.unsent), *self._keepers]
        return tuple(deliveries)

    @property
    def held(self) -> int:
        """How many deposits and rollbacks are held back until ``release``."""
        with self._lock:
            kept = [pending.dealt for dealer in self._keepers for pending in dealer.unsent]
        return sum(isinstance(dealt, DealtBet) and dealt.unsent is Fault.SETTLEMENT_HELD for dealt in kept)

    async def _carry_all(
        self, dealer: Dealer, carry: Callable[[Post], Awaitable[Carried]], deliveries: list[Delivery]
    ) -> None:
        async def answer_of(post: Post) -> Answer:
            carried = await carry(post)
            if carried.answer is not None:
                deliveries.append(delivered(carried))
            return replace(answer_to(post, carried), number=self.saw(post, carried).number)

        while (order := dealer.next()) is not None:
            dealer.answered(order, [await answer_of(post) for post in order.posts])

    def played(self, item: PlannedItem, dealer: Dealer, deliveries: list[Delivery]) -> PlayedRound:
        """Return what became of *item*."""
        # Of a wallet that cannot be reached any more, calls may be unanswered.
        dealer.abandon()
        problems = tuple(
            problem for dealt in dealer.dealt for problem in (*dealt.problems, *dealt.wrong_statuses(of_replies=True))
        )
        lost = any(dealt.lost for dealt in dealer.dealt)
        unsent = tuple(dict.fromkeys(pending.dealt.key for pending in dealer.unsent))
        with self._lock:
            if dealer.unsent:
                self._keepers.append(dealer)
            if isinstance(item, PlannedClaim):
                self._claiming.discard(item.free_bet_id)
        bet_ids = () if isinstance(item, PlannedClaim) else tuple(bet.bet_id for bet in item.bets)
        return PlayedRound(item.round_id, item.round_no, bet_ids, tuple(deliveries), problems, lost, unsent)

    def answered(self, request: HttpRequest, now_millis: int) -> HttpReply:
        """
        Return the response to *request*, with the faults that are switched on, and keep both in the live log.

        Faults occur in, and count, only calls with a valid signature: a fault that waits for the Nth waits for the
        operator's.
        """
        began_millis, began = time.time_ns() // 1_000_000, time.perf_counter()
        signature, note = signature_verdict(request, self.world), ""
        valid = signature == "valid"
        fault = self.faults.strike_api(f"{self._seed}:api:{next(self._api_calls)}") if valid else None
        if fault is Fault.API_429:
            response = _TOO_MANY
        else:
            # The worst case of a 500: the call is carried out all the same.
            response = answer(request, self.world, now_millis=now_millis, inactive=fault is Fault.API_INACTIVE)
            response = _BROKEN if fault is Fault.API_500 else response
        if valid and fault is None:
            true, response = response, self.lies.told(request, response)
            note = _LIE if response is not true else ""
        self.live.record(
            Exchange(
                at_millis=began_millis,
                direction="api",
                method=request.method,
                path=request.path,
                request_headers=request.headers,
                request_body=request.body,
                signature=signature,
                status=response.status,
                response_headers=pairs_of(response.headers),
                response_body=response.body,
                elapsed_ms=(time.perf_counter() - began) * 1_000,
                fault=fault or "",
                note=note,
            )
        )
        return response

    def saw(self, post: Post, carried: Carried) -> Exchange:
        """Keep a post that is over in the live log."""
        notes = (f"delivery {post.attempt}" if post.attempt > 1 else "", "" if post.is_genuine else _MUST_BE_REFUSED)
        request, twice = carried.request, _SENT_TWICE if carried.sent_again else ""
        call = post.call
        exchange = Exchange(
            direction="webhook",
            method=request.method,
            path=request.path,
            request_headers=carried.headers,
            request_body=request.body,
            note="; ".join(filter(None, (*notes, twice, carried.problem))),
            signature=post.signed_with,
            fault=post.faults,
            player_id=call.player_id,
            bet_id=call.bet_id or "",
            round_id=call.round_id or "",
            tx_id=call.tx_id or "",
            amount_cents=call.amount_cents,
            **_fields_of_outcome(carried),
        )
        return self.live.record(exchange)

    def saw_again(self, before: Exchange, carried: Carried) -> Exchange:
        """Keep a webhook that was sent again by hand: the wallet may have moved in between."""
        # Asked before this one is in the log too.
        same = (each for each in self.live.recent(_LOOKED_THROUGH) if each.request_body == before.request_body)
        acted = any(each.code == "SUCCESS" for each in same)
        refused = sorted(before.faults & FAULTS_TO_REFUSE)
        notes = (f"number {before.number}, delivered again", _MUST_BE_REFUSED if refused else "", carried.problem)
        note = "; ".join(filter(None, notes))
        again = self.live.record(replace(before, fault=", ".join(refused), note=note, **_fields_of_outcome(carried)))
        if not acted and again.code in {None, "SUCCESS"}:
            # It may have moved money just now, for the first time.
            self.believe_next_balance(again.player_id)
        if again.balance_cents is not None:
            # A wallet that acted before moves nothing now, and may repeat an old balance.
            self.balances.reported(again.player_id, again.balance_cents, repeated=acted, number=again.number)
        return again

    def _believe_players_of(self, item: PlannedItem) -> None:
        players = {item.player_id} if isinstance(item, PlannedClaim) else {bet.player_id for bet in item.bets}
        with self._lock:
            owed = {pending.dealt.player_id for dealer in self._keepers for pending in dealer.unsent}
        for player_id in players & owed:
            # The operator may have settled the bet without being sent its deposit.
            self.believe_next_balance(player_id)

    def believe_next_balance(self, player_id: str) -> None:
        """Believe the next balance of a player, whose money may have moved in a way that nobody knows."""
        self.balances.begin(player_id)
        self.balances.end(player_id, None)

    def _record(self, dealt: Dealt) -> None:
        """Let the Operator API answer with where a bet stands now; it does not know a refused bet."""
        if isinstance(dealt, DealtClaim):
            if dealt.state is ServiceState.PAID:
                self.world.end_claim(dealt.key)
        elif (kind := _PLACED.get(dealt.state)) is not None:
            planned = dealt.planned
            fields = {name: getattr(planned, name) for name in ("player_id", "round_id", "instance_id", "game")}
            fields |= {"reference_id": dealt.key, "wager": planned.wager_cents, "timestamp": planned.at_millis}
            fields |= {"won": planned.won_cents} if kind is ClosedBet else {}
            self.world.add_bet(kind.model_validate(fields))


def _fields_of_outcome(carried: Carried) -> dict[str, Any]:  # Any: fields of Exchange.
    """Return when and where a webhook went, and what came back, as fields of an exchange."""
    answer = carried.answer
    return {
        "at_millis": carried.began_millis,
        "url": carried.url,
        "status": None if answer is None else answer.status,
        "response_headers": () if answer is None else pairs_of(answer.headers),
        "response_body": b"" if answer is None else answer.body,
        "defect": "" if answer is None else answer.defect,
        "elapsed_ms": carried.elapsed_seconds * 1_000,
    }
