"""Our bet beside the provider's, field by field, in plain words."""

from typing import Any, Final, NamedTuple

from game_operator.codes import BetState
from game_operator.ledger import BetRecord
from game_operator.models.operator_api import BetNotFound, ClosedBet, RoundFound
from game_operator.money import amount_from_cents
from game_operator.protocol.operations import AnyBet, AnyRound

#: The provider's states that agree with each of ours, as a reconciliation judges them. A rain has no settling call, so
#: the provider may close it or not. Where no money moved here, none is missing there.
_AGREES: Final = {
    BetState.OPEN: {"OPEN"},
    BetState.SPENT: {"OPEN", "CLOSED"},
    BetState.CLOSED: {"CLOSED"},
    BetState.ROLLED_BACK: {"ROLLED_BACK", "NOT_FOUND"},
    BetState.TOMBSTONE: {"ROLLED_BACK", "NOT_FOUND"},
    BetState.DECLINED: {"ROLLED_BACK", "NOT_FOUND"},
}
#: What it means for money where the two do not agree, by our state and theirs.
_MEANS: Final = {
    ("OPEN", "CLOSED"): "The deposit that settles the bet has not arrived here.",
    ("OPEN", "ROLLED_BACK"): "The rollback that refunds the wager has not arrived here.",
    ("CLOSED", "ROLLED_BACK"): "The bet was paid here, and the provider cancelled it.",
    ("CLOSED", "OPEN"): "The bet is settled here, and the provider still plays it.",
    ("ROLLED_BACK", "OPEN"): "The wager was refunded here, and the provider still plays the bet.",
    ("ROLLED_BACK", "CLOSED"): "The wager was refunded here, and the provider settled the bet.",
    ("DECLINED", "OPEN"): "No wager was taken here, and the provider plays the bet.",
    ("DECLINED", "CLOSED"): "No wager was taken here, and the provider settled the bet.",
    ("TOMBSTONE", "OPEN"): "The bet was cancelled here before it was placed, and the provider plays it.",
    ("TOMBSTONE", "CLOSED"): "The bet was cancelled here before it was placed, and the provider settled it.",
}
_IDS: Final = ("round_id", "instance_id", "game")


class Difference(NamedTuple):
    """
    One field in which the two sides differ.

    Attributes:
        field: ``bet``, ``state``, ``player_id``, ``wager_cents``, ``won_cents``, ``round_id``, ``instance_id``,
            ``game``, or ``round`` for a round whose entry differs from the answer about the bet.
        ours, theirs: The values; None where a side has none.
        text: What differs, in a sentence that names no player.
    """

    field: str
    ours: str | int | None
    theirs: str | int | None
    text: str


def compared(ours: BetRecord | None, theirs: AnyBet) -> list[Difference]:
    """Return the differences between the ledger's bet and the provider's answer; empty if they agree."""
    if ours is None:
        if theirs.status in ("NOT_FOUND", "ROLLED_BACK"):  # No wager was taken, and none is to be.
            return []
        text = f"The ledger does not have the bet; the provider has it as {theirs.status}."
        return [Difference("bet", None, theirs.status, text)]
    if theirs.status not in _AGREES[ours.state]:
        means = _MEANS.get((ours.state.value, theirs.status), "")
        state = Difference("state", ours.state.value, theirs.status, _states(ours, theirs.status, means))
    else:
        state = None
    if isinstance(theirs, BetNotFound):
        return [state] if state else []
    return [each for each in (state, *_fields(ours, theirs)) if each is not None]


def _states(ours: BetRecord, theirs: str, means: str) -> str:
    if theirs == "NOT_FOUND":
        return (
            f"The state differs: {ours.state.value} here, and the provider does not find the bet. It also answers so "
            "for each bet that is older than 90 days."
        )
    return f"The state differs: {ours.state.value} here, {theirs} there. {means}".rstrip()


def _fields(ours: BetRecord, theirs: Any) -> list[Difference]:  # Any: one of three classes with these fields.
    found = []
    if ours.player_id != theirs.player_id:
        found.append(Difference("player_id", ours.player_id, theirs.player_id, "The player differs."))
    # A tombstone was made by a rollback, and has no wager.
    if ours.state is not BetState.TOMBSTONE and ours.wager_cents != theirs.wager:
        found.append(_amounts("wager_cents", "wager", ours.wager_cents, theirs.wager))
    # A rain that has won something is owed it.
    is_settled = ours.state in (BetState.CLOSED, BetState.SPENT)
    if is_settled and isinstance(theirs, ClosedBet) and (ours.won_cents or 0) != theirs.won:
        found.append(_amounts("won_cents", "amount won", ours.won_cents or 0, theirs.won))
    for name in _IDS:
        here, there = getattr(ours, name), getattr(theirs, name)
        if here is not None and here != there:
            words = {"round_id": "round", "instance_id": "game instance", "game": "game"}[name]
            found.append(Difference(name, here, there, f"The {words} differs."))
    return found


def _amounts(field: str, words: str, ours: int, theirs: int) -> Difference:
    here, there = amount_from_cents(ours), amount_from_cents(theirs)
    text = f"The {words} differs: {here} here, {there} there, in currency units."
    return Difference(field, ours, theirs, text)


def compared_with_round(bet_id: str, theirs: AnyBet, found: AnyRound) -> list[Difference]:
    """Return where the provider's round disagrees with its own answer about the bet."""
    if isinstance(theirs, BetNotFound):
        return []
    if not isinstance(found, RoundFound):
        return [Difference("round", None, "NOT_FOUND", "The provider has the bet, and does not find its round.")]
    entry = next((each for each in found.bets if each.reference_id == bet_id), None)
    if entry is None:
        return [Difference("round", None, None, "The provider's round does not list the bet.")]
    if entry != theirs:
        text = "The provider's round and its answer about the bet differ; the bet may have moved between the two."
        return [Difference("round", theirs.status, entry.status, text)]
    return []
