"""A bet or claim told to people: what it is, what the service believes, and everything that was sent and heard."""

from collections.abc import Iterator

from game_operator.ledger.api import BetRecord
from game_operator.money import amount_from_cents
from game_operator.provider.delivery import Sent
from game_operator.sandbox.dealing.dealt import Dealt, DealtBet, ServiceState

__all__ = ["belief", "history_of", "record_told", "subject"]


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
