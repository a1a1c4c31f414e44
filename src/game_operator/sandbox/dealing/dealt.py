"""What the service knows of a bet or claim that it dealt, its calls on their way, and the orders to post them."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TypeAlias

from game_operator.models.webhooks import MAX_AMOUNT_CENTS, DepositCall, FreeBet, MovingCall, RollbackCall, WithdrawCall
from game_operator.provider.delivery import Answer, Post, Sent
from game_operator.provider.faults import Fault
from game_operator.provider.requests import BetCalls
from game_operator.sandbox.dealing.plan import PlannedBet, PlannedClaim, PlannedRound


class ServiceState(StrEnum):
    """
    Where a bet or claim stands for the service.

    OPEN, CLOSED and ROLLED_BACK are the specification's (spec §3); the other bets are not found by a lookup. PLACING
    waits for the answer to its withdraw, REFUSED got a refusal. A claim is CLAIMING until it is PAID or REFUSED.
    """

    PLACING = "PLACING"
    OPEN = "OPEN"
    CLOSED = "CLOSED"
    ROLLED_BACK = "ROLLED_BACK"
    REFUSED = "REFUSED"
    CLAIMING = "CLAIMING"
    PAID = "PAID"


@dataclass(slots=True, eq=False, kw_only=True)
class _Record:
    """
    What a bet and a claim have in common.

    Attributes:
        state: Where it stands for the service.
        lost: Whether the service gave a call up without knowing what became of it.
        problems: What no sound wallet would have answered.
        history: What was sent and heard, in the order of hearing.
    """

    state: ServiceState
    lost: bool = False
    problems: list[str] = field(default_factory=list)
    history: list[Sent] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class DealtBet(_Record):
    """
    A bet.

    Attributes:
        planned: The bet of the plan.
        round: The round it is part of.
        accepted: Whether a SUCCESS to its withdraw was heard.
        hurried: Whether what ends it was sent before its withdraw.
        cancelled_unseen: Whether its rollback was answered, and the wallet had not seen the bet.
        paid: Whether a SUCCESS to its deposit was heard.
        jackpot_paid: Whether a SUCCESS to its jackpot was heard.
        rollback_tx_id: As in the profile.
    """

    planned: PlannedBet
    round: PlannedRound
    accepted: bool = False
    hurried: bool = False
    cancelled_unseen: bool = False
    paid: bool = False
    jackpot_paid: bool = False
    state: ServiceState = ServiceState.PLACING
    rollback_tx_id: str = "withdraw"

    @property
    def key(self) -> str:
        """The bet's id."""
        return self.planned.bet_id

    @property
    def player_id(self) -> str:
        """Who placed it."""
        return self.planned.player_id

    @property
    def effect_cents(self) -> int:
        """What it did to the balance, as the service believes."""
        return self.settled_cents(self.state) + (self.planned.jackpot_cents if self.jackpot_paid else 0)

    @property
    def possible_cents(self) -> frozenset[int]:
        """What it may have done to the balance: one amount, unless it is lost."""
        if not self.lost:
            return frozenset({self.effect_cents})
        wager, won = self.planned.wager_cents, self.planned.won_cents
        ends = {self.settled_cents(self.state), 0, -wager, won - wager}
        return frozenset(end + jackpot for end in ends for jackpot in (0, self.planned.jackpot_cents))

    def settled_cents(self, state: ServiceState) -> int:
        """Return what it did to the balance if it is in *state*, its jackpot aside."""
        match state:
            case ServiceState.OPEN:
                return -self.planned.wager_cents
            case ServiceState.CLOSED:
                return self.planned.won_cents - self.planned.wager_cents
            case _:
                return 0

    @property
    def calls(self) -> BetCalls:
        """The calls that place, settle and cancel it."""
        return BetCalls(
            player_id=self.player_id,
            bet_id=self.key,
            wager_cents=self.planned.wager_cents,
            round_id=self.round.round_id,
            instance_id=self.round.instance_id,
            game=self.round.game,
            rollback_tx_id=self.rollback_tx_id,
        )


@dataclass(slots=True, eq=False, kw_only=True)
class DealtClaim(_Record):
    """Free bets that were played, and their winnings claimed."""

    planned: PlannedClaim
    state: ServiceState = ServiceState.CLAIMING

    @property
    def key(self) -> str:
        """The id of the grant."""
        return self.planned.free_bet_id

    @property
    def player_id(self) -> str:
        """Whose they are."""
        return self.planned.player_id

    @property
    def effect_cents(self) -> int:
        """What the claim did to the balance, as the service believes."""
        return self.planned.won_cents if self.state is ServiceState.PAID else 0

    @property
    def possible_cents(self) -> frozenset[int]:
        """What it may have done to the balance: one amount, unless it is lost."""
        return frozenset({0, self.planned.won_cents}) if self.lost else frozenset({self.effect_cents})

    def deposit(self) -> DepositCall:
        """Return the call that claims the winnings."""
        planned = self.planned
        return DepositCall(
            player_id=planned.player_id,
            bet_id=planned.free_bet_id,
            amount_cents=planned.won_cents,
            action="FREE_BET_CLAIM",
            free_bets=tuple(
                FreeBet(id=bet.id, round_id=planned.round_id, wager_cents=bet.wager_cents, won_cents=bet.won_cents)
                for bet in planned.bets
            ),
            round_id=planned.round_id,
            instance_id=planned.instance_id,
            game=planned.game,
        )


#: A bet or a claim.
Dealt: TypeAlias = DealtBet | DealtClaim


def changed(call: MovingCall) -> MovingCall:
    """Return a call of the same identity and other content: one that moves a cent more, or less at the very most."""
    assert isinstance(call, WithdrawCall | DepositCall)
    kept = {each.name: getattr(call, each.name) for each in fields(call) if each.name not in {"raw", "body"}}
    step = 1 if call.amount_cents < MAX_AMOUNT_CENTS else -1
    return type(call)(**(kept | {"amount_cents": call.amount_cents + step}))


@dataclass(slots=True, eq=False)
class Step:
    """
    One call on its way to a definite answer.

    Attributes:
        dealt: What it is about.
        call: The call.
        draw: What its faults are drawn by: its number in the plan.
        faults: What is laid over its first delivery.
        then: What follows once it succeeded, or None.
        attempts: How many deliveries there were.
        first: The first definite answer, or None before it.
        alone_since: How many calls of its player had begun or ended when this one began with no other of them under
            way; None if another was.
        releases: What may be sent only after the first delivery of this: it was overtaken.
        extra: Set for a post that is sent besides a call: nothing follows from it.
    """

    dealt: Dealt
    call: MovingCall
    draw: str
    faults: tuple[Fault, ...] = ()
    then: "Step | None" = None
    attempts: int = 0
    first: Answer | None = None
    alone_since: int | None = None
    releases: "Step | None" = None
    extra: Fault | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """
    Posts to be carried now: one after the other, but a duplicate beside the post before it where that is possible.

    Attributes:
        steps: Whose calls they are; several in a batch.
        posts: The posts, in order.
        at_millis: The simulated time.
    """

    steps: tuple[Step, ...] = field(repr=False)
    posts: tuple[Post, ...]
    at_millis: int

    @property
    def names(self) -> tuple[str, ...]:
        """What a trace calls its calls: bet, operation, action and why it is sent."""
        return tuple(map(name_of, self.steps))


def name_of(step: Step) -> str:
    """Return what a trace calls *step*; no two that wait have the same."""
    told = (step.dealt.key, step.call.operation, step.call.action, step.extra)
    return " ".join(filter(None, told))


def may_move_cents(call: MovingCall) -> int:
    """Return what *call* may move, less than 0 from the player."""
    return -call.amount_cents if isinstance(call, WithdrawCall) else call.amount_cents or 0


def moved_cents(step: Step, answer: Answer) -> int | None:
    """Return what the call moved, as far as its answer tells."""
    if not answer.succeeded:
        return 0
    if isinstance(step.call, RollbackCall) and not (isinstance(step.dealt, DealtBet) and step.dealt.accepted):
        # A wallet may say so of a bet that it never saw (docs/decisions/0014).
        return None
    return may_move_cents(step.call)
