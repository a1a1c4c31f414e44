"""What the service knows of a bet or claim that it dealt, its calls on their way, and the orders to post them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias

from game_operator.models.webhooks import MAX_AMOUNT_CENTS, DepositCall, MovingCall, RollbackCall, WithdrawCall
from game_operator.money import amount_from_cents
from game_operator.provider.delivery import Answer, Post, Sent
from game_operator.provider.faults import Fault
from game_operator.sandbox.dealing.plan import PlannedBet, PlannedClaim


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
_STATE_IN_WORDS: Final = {
    ServiceState.OPEN: "was placed and not settled",
    ServiceState.CLOSED: "was settled",
    ServiceState.ROLLED_BACK: "was cancelled or never placed",
    ServiceState.REFUSED: "was never placed",
}


@dataclass(frozen=True, slots=True)
class Fate:
    """
    What may have become of a bet or claim.

    Attributes:
        cents: What it did to the balance.
        state: Where the bet is then; of a claim, PAID or CLAIMING.
        in_words: The same in words; "" if it is what the service believes.
    """

    cents: int
    state: ServiceState
    in_words: str = ""


@dataclass(slots=True, eq=False, kw_only=True)
class _Record:
    """
    What a bet and a claim have in common.

    Attributes:
        state: Where it stands for the service.
        lost: Whether the service gave a call up without knowing what became of it.
        problems: What no correct wallet would have answered.
        history: What was sent and what came back, in the order of the answers.
    """

    KIND: ClassVar[str]

    planned: PlannedBet | PlannedClaim
    state: ServiceState
    lost: bool = False
    problems: list[str] = field(default_factory=list)
    history: list[Sent] = field(default_factory=list)

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
        return f"{self.KIND} {self.key}"

    def given_up(self) -> frozenset[str]:
        """Return which calls were sent and never answered definitely: their operations, or ``jackpot``."""
        genuine = [each for each in self.history if each.post.is_genuine]
        answered = (each.call for each in genuine if each.answer.settles(each.call))
        return frozenset(_name(each.call) for each in genuine) - frozenset(map(_name, answered))

    def wrong_statuses(self, *, of_replies: bool = False) -> Iterator[str]:
        """
        Yield, in words, each HTTP status but 200 that a genuine call was answered with (spec §4.1).

        With *of_replies* only answers that are a reply count: an error page may come from a proxy.
        """
        answers = [sent.answer for sent in self.history if sent.post.is_genuine]
        statuses = {answer.status for answer in answers if answer.reply is not None or not of_replies}
        for status in sorted(statuses - {None, _HTTP_OK}, key=str):
            yield f"a call was answered with HTTP {status}, which must be 200 always (spec §4.1)"

    def history_in_words(self) -> Iterator[str]:
        """Yield what was sent and what came back, line by line."""
        yield f"{self.subject} of {self.player_id}, {self.planned.in_words}"
        for sent in sorted(self.history, key=lambda sent: sent.post.serial):
            post = sent.post
            faults = f", {post.faults}" if post.faults else ""
            yield f"  #{post.serial} {sent.call.operation}, delivery {post.attempt}{faults}: {sent.answer}"
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
    """

    KIND = "bet"

    planned: PlannedBet
    accepted: bool = False
    hurried: bool = False
    cancelled_unseen: bool = False
    paid: bool = False
    jackpot_paid: bool = False
    state: ServiceState = ServiceState.PLACING

    @property
    def belief(self) -> str:
        """Where the service has it, in words."""
        won = f" with {amount_from_cents(self.planned.won_cents)} won" if self.state is ServiceState.CLOSED else ""
        return f"the service has it {self.state}{won}"

    def fates(self) -> list[Fate]:
        """Return what may have become of it, what the service believes first; one fate if no call was given up."""
        lost, states = self.given_up(), [self.state]
        if self.accepted or "withdraw" in lost:
            if self.state is ServiceState.PLACING or not lost.isdisjoint({"rollback", "deposit"}):
                states.append(ServiceState.OPEN)
            if "deposit" in lost:
                states.append(ServiceState.CLOSED)
        settled_cents = self.planned.won_cents - self.planned.wager_cents
        effects = {ServiceState.OPEN: -self.planned.wager_cents, ServiceState.CLOSED: settled_cents}
        found = []
        for state in dict.fromkeys(states):
            words = "" if state is self.state else _STATE_IN_WORDS.get(state, "")
            cents = effects.get(state, 0)
            found.append(Fate(cents + (self.planned.jackpot_cents if self.jackpot_paid else 0), state, words))
            if "jackpot" in lost:
                paid = " and ".join(filter(None, (words, "was paid its jackpot")))
                found.append(Fate(cents + self.planned.jackpot_cents, state, paid))
        return found


@dataclass(slots=True, eq=False, kw_only=True)
class DealtClaim(_Record):
    """Free bets that were played, and their winnings claimed."""

    KIND = "claim"

    planned: PlannedClaim
    state: ServiceState = ServiceState.CLAIMING

    @property
    def belief(self) -> str:
        """Where the service has it, in words."""
        return f"the service has it {self.state}, {self.planned.in_words}"

    def fates(self) -> list[Fate]:
        """Return what may have become of it, what the service believes first; one fate if no call was given up."""
        won_cents = self.planned.won_cents
        believed = Fate(won_cents if self.state is ServiceState.PAID else 0, self.state)
        return [believed, Fate(won_cents, ServiceState.PAID, "was paid")] if self.given_up() else [believed]


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

    @property
    def name(self) -> str:
        """What a trace calls it: bet, operation, action and why it is sent. No two that wait have the same name."""
        return " ".join(filter(None, (self.dealt.key, self.call.operation, self.call.action, self.extra)))

    @property
    def may_move_cents(self) -> int:
        """What the call may move, less than 0 from the player."""
        return -self.call.amount_cents if isinstance(self.call, WithdrawCall) else self.call.amount_cents or 0

    def moved_cents(self, answer: Answer) -> int | None:
        """Return what the call moved, as far as its answer shows."""
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
        pending: Whose calls they are; several in a batch.
        posts: The posts, in order.
        at_millis: The simulated time.
    """

    pending: tuple[PendingCall, ...] = field(repr=False)
    posts: tuple[Post, ...]
    at_millis: int

    @property
    def names(self) -> tuple[str, ...]:
        """What a trace calls its calls."""
        return tuple(pending.name for pending in self.pending)


def _name(call: MovingCall) -> str:
    return "jackpot" if call.action == "JACKPOT" else call.operation
