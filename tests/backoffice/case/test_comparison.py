"""Our bet beside the provider's: where they differ, in every pair of states, as a reconciliation judges it."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from game_operator.backoffice.case.comparison import compared, compared_with_round
from game_operator.backoffice.reconcile.evidence import Evidence
from game_operator.backoffice.reconcile.judge import Limits, Ours, Verdict, judge
from game_operator.codes import BetState
from game_operator.ledger import BetRecord
from game_operator.models import BetNotFound, RoundFound, RoundNotFound
from game_operator.models.operator_api import BetLookup
from game_operator.protocol.operations import AnyBet

OURS = BetRecord("b1", "p1", "p1", "i1", "crash", "r1", 500, None, BetState.OPEN, 1_000)
_LOOKUP: TypeAdapter[AnyBet] = TypeAdapter(BetLookup)
THERE = {
    "reference_id": "b1",
    "player_id": "p1",
    "round_id": "r1",
    "instance_id": "i1",
    "game": "crash",
    "wager": 500,
    "timestamp": 1_000,
}


def there(status: str, **changes: object) -> AnyBet:
    """Return the provider's bet in a state; a closed one is a loss unless said otherwise."""
    fields = {} if status == "NOT_FOUND" else THERE | ({"won": 0} if status == "CLOSED" else {}) | changes
    return _LOOKUP.validate_python({"status": status, **fields})


@pytest.mark.parametrize("status", ["OPEN", "CLOSED", "ROLLED_BACK", "NOT_FOUND"])
@pytest.mark.parametrize("state", [*BetState, None])
def test_states_agree_as_a_reconciliation_judges_them(state: BetState | None, status: str) -> None:
    """In every pair; what it would repair differs today."""
    ours = None if state is None else OURS._replace(state=state, won_cents=0 if state is BetState.CLOSED else None)
    verdict = judge(Ours(ours), Evidence("b1", there(status), b""), Limits(10**12, 0, 10**9)).verdict
    # An old bet that both have OPEN is an alarm, and no difference.
    agrees = {Verdict.AGREES} | ({Verdict.NEARS_THE_END} if state is BetState.OPEN else set())
    assert (not compared(ours, there(status))) == (verdict in agrees)


@pytest.mark.parametrize(
    ("ours", "theirs", "fields"),
    [
        pytest.param({}, there("OPEN"), [], id="the same"),
        pytest.param({"player_id": "p2"}, there("OPEN"), ["player_id"], id="another player"),
        pytest.param({"wager_cents": 501}, there("OPEN"), ["wager_cents"], id="another wager"),
        pytest.param({"round_id": "r2"}, there("OPEN"), ["round_id"], id="another round"),
        pytest.param({"round_id": None}, there("OPEN"), [], id="a round that we were not told"),
        pytest.param({"instance_id": "i2", "game": "x"}, there("OPEN"), ["instance_id", "game"], id="another game"),
        pytest.param(
            {"state": BetState.CLOSED, "won_cents": 7}, there("CLOSED", won=8), ["won_cents"], id="another amount won"
        ),
        pytest.param({"state": BetState.CLOSED, "won_cents": 8}, there("CLOSED", won=8), [], id="the same amount won"),
        pytest.param({"state": BetState.SPENT}, there("CLOSED", won=8), ["won_cents"], id="a rain that has won"),
        pytest.param(
            {"state": BetState.TOMBSTONE, "wager_cents": 0}, there("ROLLED_BACK"), [], id="a tombstone has no wager"
        ),
        pytest.param({"wager_cents": 7}, there("CLOSED"), ["state", "wager_cents"], id="two differences"),
    ],
)
def test_fields_that_differ(ours: dict[str, Any], theirs: AnyBet, fields: list[str]) -> None:
    found = compared(OURS._replace(**ours), theirs)
    assert [each.field for each in found] == fields
    assert not any("p1" in each.text or "p2" in each.text for each in found)


def test_a_round_that_disagrees_with_the_bet() -> None:
    """Its entry is another, or missing, or there is no such round; and it is no matter of ours if it agrees."""
    bets = [there("OPEN", reference_id="b2").model_dump(), there("CLOSED", won=5).model_dump()]
    fields = {"round_id": "r1", "round_no": 7, "instance_id": "i1", "game": "crash"}
    found = RoundFound.model_validate({"status": "OK", **fields, "bets": bets})
    assert compared_with_round("b1", there("CLOSED", won=5), found) == []
    assert [each.theirs for each in compared_with_round("b1", there("OPEN"), found)] == ["CLOSED"]
    assert "does not list the bet" in compared_with_round("b3", there("OPEN"), found)[0].text
    assert compared_with_round("b1", there("OPEN"), RoundNotFound())[0].theirs == "NOT_FOUND"
    assert compared_with_round("b1", BetNotFound(), RoundNotFound()) == []
