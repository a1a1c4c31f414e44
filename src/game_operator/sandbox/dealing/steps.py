"""A call on its way to a definite answer, and the order to carry its posts."""

from dataclasses import dataclass, field

from game_operator.models.webhooks import MovingCall, RollbackCall, WithdrawCall
from game_operator.provider.delivery import Answer, Post
from game_operator.provider.faults import Fault
from game_operator.sandbox.dealing.dealt import Dealt, DealtBet

__all__ = ["Order", "Step", "may_move_cents", "moved_cents", "name_of"]


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
