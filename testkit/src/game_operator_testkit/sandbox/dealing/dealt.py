"""What the service knows of a bet or claim that it dealt, its calls on their way, and the orders to post them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from game_operator.models.webhooks import MAX_AMOUNT_CENTS, DepositCall, MovingCall, RollbackCall, WithdrawCall
from game_operator.money import amount_from_cents
from game_operator_testkit.provider.delivery import Answer, Post
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.dealing.plan import PlannedBet, PlannedClaim


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


_HTTP_OK: Final = 200


@dataclass(slots=True, eq=False, kw_only=True)
class _Record:
    """
    What a bet and a claim have in common.

    Attributes:
        state: Where it stands for the service.
        lost: Whether the service gave a call up without knowing what became of it.
        problems: What no correct wallet would have answered.
        faults: The faults that occurred in its calls, in their order.
        history: Each post with its answer, in the order of the answers.
    """

    planned: PlannedBet | PlannedClaim
    state: ServiceState
    lost: bool = False
    problems: list[str] = field(default_factory=list)
    faults: dict[Fault, None] = field(default_factory=dict)
    history: list[tuple[Post, Answer]] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The id of the bet or of the grant."""
        return self.planned.bet_id if isinstance(self.planned, PlannedBet) else self.planned.free_bet_id

    @property
    def player_id(self) -> str:
        """Whose it is."""
        return self.planned.player_id

    @property
    def subject(self) -> str:
        """What reports call it: bet or claim, and its id."""
        return f"{'bet' if isinstance(self.planned, PlannedBet) else 'claim'} {self.key}"

    def definite(self) -> Iterator[tuple[MovingCall, Answer]]:
        """Yield each call that was answered definitely, with its first such answer, in the order of the answers."""
        seen: set[MovingCall] = set()
        for post, answer in self.history:
            if post.is_genuine and post.call not in seen and answer.settles(post.call):
                seen.add(post.call)
                yield post.call, answer

    def wrong_statuses(self, *, of_replies: bool = False) -> Iterator[str]:
        """
        Yield, in words, each HTTP status but 200 that a genuine call was answered with (spec §4.1).

        With *of_replies* only answers that are a reply count: an error page may come from a proxy.
        """
        answers = [answer for post, answer in self.history if post.is_genuine]
        statuses = {answer.status for answer in answers if answer.reply is not None or not of_replies}
        for status in sorted(statuses - {None, _HTTP_OK}, key=str):
            yield f"a call was answered with HTTP {status}, which must be 200 always (spec §4.1)"

    def history_in_words(self) -> Iterator[str]:
        """Yield what was sent and what came back, line by line."""
        planned = self.planned
        if isinstance(planned, PlannedBet):
            money = f"wager {amount_from_cents(planned.wager_cents)}, planned to end {planned.end}"
        else:
            money = f"{amount_from_cents(planned.won_cents)}"
        yield f"{self.subject} of {self.player_id}, {money}"
        for post, answer in sorted(self.history, key=lambda sent: sent[0].serial):
            faults = f", {post.faults}" if post.faults else ""
            yield f"  #{post.serial} {post.call.operation}, delivery {post.attempt}{faults}: {answer}"
            yield f"      POST {post.path} {post.body.decode()}"


@dataclass(slots=True, eq=False, kw_only=True)
class DealtBet(_Record):
    """
    A bet.

    Attributes:
        planned: The bet of the plan.
        accepted: Whether its withdraw was answered SUCCESS.
        hurried: Whether what ends it was sent before its withdraw.
        cancelled_unseen: Whether its rollback was answered, and the wallet had not seen the bet.
        paid: Whether its deposit was answered SUCCESS.
        jackpot_paid: Whether its jackpot was answered SUCCESS.
        unsent: The lasting fault that keeps its deposit or rollback back, or None.
    """

    planned: PlannedBet
    accepted: bool = False
    hurried: bool = False
    cancelled_unseen: bool = False
    paid: bool = False
    jackpot_paid: bool = False
    unsent: Fault | None = None
    state: ServiceState = ServiceState.PLACING

    @property
    def jackpot_cents(self) -> int:
        """What its jackpot paid, as the service believes."""
        return self.planned.jackpot_cents if self.jackpot_paid else 0

    @property
    def belief(self) -> str:
        """Where the service has it, in words."""
        won = f" with {amount_from_cents(self.planned.won_cents)} won" if self.state is ServiceState.CLOSED else ""
        return f"the service has it {self.state}{won}"

    @property
    def moved_cents(self) -> int:
        """What it did to the balance, as the service believes."""
        if self.state not in (ServiceState.OPEN, ServiceState.CLOSED):
            return self.jackpot_cents
        won_cents = self.planned.won_cents if self.state is ServiceState.CLOSED else 0
        return won_cents - self.planned.wager_cents + self.jackpot_cents


@dataclass(slots=True, eq=False, kw_only=True)
class DealtClaim(_Record):
    """Free bets that were played, and their winnings claimed."""

    planned: PlannedClaim
    state: ServiceState = ServiceState.CLAIMING

    @property
    def belief(self) -> str:
        """Where the service has it, in words."""
        return f"the service has it {self.state}, {amount_from_cents(self.planned.won_cents)}"

    @property
    def moved_cents(self) -> int:
        """What it did to the balance, as the service believes."""
        return self.planned.won_cents if self.state is ServiceState.PAID else 0


#: A bet or a claim.
Dealt: TypeAlias = DealtBet | DealtClaim


@dataclass(slots=True, eq=False)
class PendingCall:
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
        releases: What may be sent only after the first delivery of this: it was overtaken.
        extra: Set for a post that is sent besides a call: nothing follows from it.
        is_late: Whether it was kept back before: somebody may have settled the bet in the meantime.
        again: Whether it was over, and is sent once more at the end: nothing may follow from it.
    """

    dealt: Dealt
    call: MovingCall
    draw: str
    faults: tuple[Fault, ...] = ()
    then: "PendingCall | None" = None
    attempts: int = 0
    first: Answer | None = None
    releases: "PendingCall | None" = None
    extra: Fault | None = None
    is_late: bool = False
    again: bool = False

    @property
    def may_move_cents(self) -> int:
        """What the call may move, less than 0 from the player."""
        return -self.call.amount_cents if isinstance(self.call, WithdrawCall) else self.call.amount_cents or 0

    def moved_cents(self, answer: Answer) -> int | None:
        """Return what the call moved, as far as its answer shows."""
        if self.is_late:
            # It moves nothing if the operator has settled the bet before.
            return None
        if not answer.succeeded:
            return 0
        if isinstance(self.call, RollbackCall) and not (isinstance(self.dealt, DealtBet) and self.dealt.accepted):
            # A wallet may answer so for a bet that it never saw (docs/decisions/0014).
            return None
        return self.may_move_cents

    def changed(self) -> "PendingCall":
        """Return a post of the same identity and other content: it moves a cent more, or less at the very most."""
        assert isinstance(self.call, WithdrawCall | DepositCall)
        cent = 1 if self.call.amount_cents < MAX_AMOUNT_CENTS else -1
        call = replace(self.call, amount_cents=self.call.amount_cents + cent)
        return PendingCall(self.dealt, call, self.draw, extra=Fault.OTHER_CONTENT)


@dataclass(frozen=True, slots=True)
class Order:
    """
    Posts to be carried now: one after the other, but a duplicate beside the post before it where that is possible.

    Attributes:
        pending: Whose call it is.
        posts: The posts, in order.
    """

    pending: PendingCall = field(repr=False)
    posts: tuple[Post, ...]
