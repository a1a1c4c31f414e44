"""
What became of a bet or claim, in values and in words: what the service believes, what else may be, what was sent.

A call that was given up may have been carried out or not; all others are known. What a right wallet may have is no more
than what follows from that.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from game_operator.ledger.api import BetRecord
from game_operator.models.webhooks import MovingCall
from game_operator.money import amount_from_cents
from game_operator.provider.delivery import Sent
from game_operator.sandbox.dealing.dealt import Dealt, DealtBet, DealtClaim, ServiceState

_TOLD: Final = {
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
        told: That in words.
    """

    cents: int
    state: ServiceState
    told: str


def given_up(dealt: Dealt) -> frozenset[str]:
    """Return which calls were sent and never answered definitely: their operations, or ``jackpot``."""
    sent: set[str] = set()
    answered: set[str] = set()
    for each in dealt.history:
        if each.post.is_genuine:
            name = _name(each.call)
            sent.add(name)
            if each.answer.settles(each.call):
                answered.add(name)
    return frozenset(sent - answered)


def fates_of(dealt: Dealt) -> list[Fate]:
    """Return what may have become of *dealt*, what the service believes first; one fate if no call was given up."""
    lost = given_up(dealt)
    if isinstance(dealt, DealtClaim):
        fates = [Fate(dealt.effect_cents, dealt.state, "")]
        return [*fates, Fate(dealt.planned.won_cents, ServiceState.PAID, "was paid")] if lost else fates
    jackpots = [dealt.planned.jackpot_cents if dealt.jackpot_paid else 0]
    if "jackpot" in lost:
        jackpots.append(dealt.planned.jackpot_cents)
    return [
        Fate(dealt.settled_cents(state) + jackpot, state, _words(dealt, state, paid=number > 0))
        for state in _states(dealt, lost)
        for number, jackpot in enumerate(jackpots)
    ]


def _states(bet: DealtBet, lost: frozenset[str]) -> Iterable[ServiceState]:
    """Return where *bet* may be, where the service has it first."""
    states = {bet.state: None}
    if bet.accepted or "withdraw" in lost:
        if bet.state is ServiceState.PLACING or "rollback" in lost:
            states[ServiceState.OPEN] = None
        if "deposit" in lost:
            states |= {ServiceState.OPEN: None, ServiceState.CLOSED: None}
    return states


def _words(bet: DealtBet, state: ServiceState, *, paid: bool) -> str:
    words = [] if state is bet.state else [_TOLD.get(state, "")]
    return " and ".join([*words, "was paid its jackpot"] if paid else words)


def _name(call: MovingCall) -> str:
    return "jackpot" if call.action == "JACKPOT" else call.operation


def subject(dealt: Dealt) -> str:
    """Return what *dealt* is called: bet or claim, and its id."""
    return f"bet {dealt.key}" if isinstance(dealt, DealtBet) else f"claim {dealt.key}"


def belief(dealt: Dealt) -> str:
    """Return where the service has *dealt*."""
    if not isinstance(dealt, DealtBet):
        return f"the service has it {dealt.state}, {amount_from_cents(dealt.planned.won_cents)}"
    won = f" with {amount_from_cents(dealt.planned.won_cents)} won" if dealt.state is ServiceState.CLOSED else ""
    return f"the service has it {dealt.state}{won}"


def record_told(record: BetRecord | None) -> str:
    """Return what the wallet's ledger has of a bet."""
    if record is None:
        return "not at all"
    won = "" if record.won_cents is None else f", won {amount_from_cents(record.won_cents)}"
    return f"{record.state}, wager {amount_from_cents(record.wager_cents)}{won}"


def history_of(dealt: Dealt, record: BetRecord | None = None) -> Iterator[str]:
    """Yield what was sent and heard about *dealt*, and what the wallet's ledger has, line by line."""
    yield _title(dealt)
    for sent in sorted(dealt.history, key=lambda sent: sent.post.serial):
        yield from _told(sent)
    if record is not None:
        yield f"  in the wallet's ledger: {record_told(record)}"


def _title(dealt: Dealt) -> str:
    if isinstance(dealt, DealtBet):
        wager = amount_from_cents(dealt.planned.wager_cents)
        return f"bet {dealt.key} of {dealt.player_id}, wager {wager}, planned to end {dealt.planned.end}"
    return f"claim {dealt.key} of {dealt.player_id}, {amount_from_cents(dealt.planned.won_cents)}"


def _told(sent: Sent) -> Iterator[str]:
    post = sent.post
    faults = f", {post.faults}" if post.faults else ""
    yield f"  #{post.serial} {sent.call.operation}, delivery {post.attempt}{faults}: {sent.answer}"
    yield f"      POST {post.path} {post.sent_for(post.signed).decode()}"
