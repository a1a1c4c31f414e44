"""A round with its bets (spec §2.8)."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from game_operator.models import ClosedBet, OpenBet, RolledBackBet, RoundFound, RoundNotFound
from game_operator.models.operator_api import RoundLookup
from game_operator.models.wire import decode
from game_operator.models.wire_format import WireFormatError
from tests.support.wire import JsonObject, assert_is_a_value, bet, round_of, wire

# Any: a union has no type of its own to name here.
ROUND: TypeAdapter[Any] = TypeAdapter(RoundLookup)


def test_all_fields_of_a_round() -> None:
    """A round that was found has these fields, and all its bets in their states and order (spec §2.8)."""
    found = decode(ROUND, wire(round_of(bet("OPEN"), bet("CLOSED"), bet("ROLLED_BACK"))))
    assert list(RoundFound.model_fields) == ["status", "round_id", "round_no", "instance_id", "game", "bets"]
    assert type(found) is RoundFound
    assert (found.status, found.round_id, found.round_no) == ("OK", "round-1", 12)
    assert (found.instance_id, found.game) == ("instance-1", "crash")
    assert [type(item) for item in found.bets] == [OpenBet, ClosedBet, RolledBackBet]
    assert found.model_extra == {}


def test_a_round_without_bets() -> None:
    """The array of bets may be empty, but must be there (spec §2.8, §4.2)."""
    assert decode(ROUND, wire(round_of())).bets == ()
    without = round_of()
    del without["bets"]
    with pytest.raises(WireFormatError, match=r"^bets: Field required$"):
        decode(ROUND, wire(without))


def test_not_found_carries_only_its_status() -> None:
    """A round that was not found is no error, and has nothing else to read (spec §2.8, §4.2)."""
    found = decode(ROUND, b'{"status":"NOT_FOUND"}')
    assert found == RoundNotFound()
    assert found.model_dump() == {"status": "NOT_FOUND"}
    assert list(RoundNotFound.model_fields) == ["status"]


@pytest.mark.parametrize("status", ["BAD_REQUEST", "OPEN", "ok", ""])
def test_an_unknown_status_is_refused_by_name(status: str) -> None:
    """A 200 with another status than OK and NOT_FOUND is named (spec §2.8)."""
    with pytest.raises(WireFormatError) as refused:
        decode(ROUND, wire(round_of(status=status, error="?")))
    assert str(refused.value) == f"status: must be one of 'OK', 'NOT_FOUND', not {status!r}"


@pytest.mark.parametrize("status", ["NOT_FOUND", "PENDING", "OK"])
def test_bets_of_a_round_exist(status: str) -> None:
    """The bets of a round are CLOSED, OPEN or ROLLED_BACK; another status is named with its place (spec §2.8)."""
    with pytest.raises(WireFormatError) as refused:
        decode(ROUND, wire(round_of(bet(), bet(status))))
    assert str(refused.value) == f"bets[1].status: must be one of 'OPEN', 'CLOSED', 'ROLLED_BACK', not {status!r}"


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param(round_of(bet(), bet("CLOSED", won=None)), r"bets\[1\]\.won", id="a payout of null"),
        pytest.param(round_of(bet(player_id=5)), r"bets\[0\]\.player_id", id="a number for a player"),
        pytest.param(round_of(round_no="12"), "round_no", id="text for the number"),
    ],
)
def test_wrong_types_are_refused_with_their_path(document: JsonObject, path: str) -> None:
    """What is wrong with a round is named, down to the field of the bet (spec §2.8)."""
    with pytest.raises(WireFormatError, match=rf"^{path}: .*, not "):
        decode(ROUND, wire(document))


def test_round_numbers() -> None:
    """The number shown to the player is a whole number, zero and negative ones included (spec §2.8)."""
    for round_no in (0, -1, 12, 2**63 - 1):
        assert decode(ROUND, wire(round_of(round_no=round_no))).round_no == round_no
    assert decode(ROUND, wire(round_of(round_no=12.0))).round_no == 12


def test_unknown_fields_are_kept() -> None:
    """What a later version adds to a round or its bets is in model_extra (spec §2.8, §9)."""
    found = decode(ROUND, wire(round_of(bet(late=True), multiplier=2.5)))
    assert found.model_extra == {"multiplier": 2.5}
    assert found.bets[0].model_extra == {"late": True}


def test_rounds_are_values() -> None:
    """Rounds are frozen, hashable and comparable, and travel between processes (spec §2.8)."""
    for document in (round_of(bet(late=True), bet("CLOSED"), more=[1]), {"status": "NOT_FOUND", "why": "?"}):
        assert_is_a_value(decode(ROUND, wire(document)))
