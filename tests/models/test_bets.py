"""A bet in each of its states, and a round with its bets (spec §2.4, §2.8, §3)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies
from pydantic import BaseModel, TypeAdapter

from game_operator.models import BetNotFound, ClosedBet, OpenBet, RolledBackBet, RoundFound, RoundNotFound
from game_operator.models.operator_api import BetLookup, RoundLookup
from game_operator.models.wire import decode
from game_operator.models.wire_format import WireFormatError
from tests.support.wire import JSON_VALUES, TEXT, JsonObject, assert_is_a_value, bet, examples, round_of, wire

# Any: a union has no type of its own to name here.
LOOKUP: TypeAdapter[Any] = TypeAdapter(BetLookup)
ROUND: TypeAdapter[Any] = TypeAdapter(RoundLookup)

COMMON = ["status", "reference_id", "player_id", "round_id", "instance_id", "game", "wager", "timestamp"]
CLASSES = {"OPEN": "OpenBet", "CLOSED": "ClosedBet", "ROLLED_BACK": "RolledBackBet", "NOT_FOUND": "BetNotFound"}


@pytest.mark.parametrize("status", ["OPEN", "CLOSED", "ROLLED_BACK"])
def test_all_fields_of_a_bet(status: str) -> None:
    """The bet is a union tagged by its status, and has all its fields in each of its three states (spec §2.4)."""
    found = decode(LOOKUP, wire(bet(status)))
    assert type(found).__name__ == CLASSES[status]
    assert found.status == status
    assert (found.reference_id, found.player_id, found.round_id) == ("bet-1", "player-1", "round-1")
    assert (found.instance_id, found.game) == ("instance-1", "crash")
    assert (found.wager, found.timestamp) == (500, 1_700_000_000_123)
    assert found.model_extra == {}


def test_which_fields_there_are() -> None:
    """Only a closed bet has won (spec §2.4)."""
    assert list(OpenBet.model_fields) == COMMON
    assert list(RolledBackBet.model_fields) == COMMON
    assert list(ClosedBet.model_fields) == [*COMMON, "won"]


def test_won_belongs_to_closed_bets_alone() -> None:
    """A closed bet must say what it won, and 0 is a loss; an open bet has no such attribute (spec §2.4)."""
    assert decode(LOOKUP, wire(bet("CLOSED", won=0))).won == 0
    without = bet("CLOSED")
    del without["won"]
    with pytest.raises(WireFormatError, match=r"^won: Field required$"):
        decode(LOOKUP, wire(without))
    assert not hasattr(decode(LOOKUP, wire(bet("OPEN"))), "won")
    assert not hasattr(decode(LOOKUP, wire(bet("ROLLED_BACK"))), "won")


@pytest.mark.parametrize(("adapter", "kind"), [(LOOKUP, BetNotFound), (ROUND, RoundNotFound)])
def test_not_found_carries_only_its_status(adapter: TypeAdapter[Any], kind: type[BaseModel]) -> None:
    """What was not found is no error, and has nothing else to read (spec §2.4, §2.8, §4.2)."""
    found = decode(adapter, b'{"status":"NOT_FOUND"}')
    assert found == kind()
    assert found.model_dump() == {"status": "NOT_FOUND"}
    assert list(kind.model_fields) == ["status"]
    assert not hasattr(found, "wager")


@pytest.mark.parametrize("status", ["PENDING", "open", "", "OPEN ", "OK", "日本", None, 5, True, [], {}, ["OPEN"]])
def test_an_unknown_status_is_refused_by_name(status: Any) -> None:
    """Money may hang on a bet's status: one that is not known is named, never guessed at (spec §2.4, §3)."""
    with pytest.raises(WireFormatError) as refused:
        decode(LOOKUP, wire(bet() | {"status": status}))
    expected = "'OPEN', 'CLOSED', 'ROLLED_BACK', 'NOT_FOUND'"
    assert str(refused.value) == f"status: must be one of {expected}, not {str(status)!r}"


def test_a_status_must_be_there() -> None:
    """Without its tag a bet is not guessed from its fields (spec §2.4)."""
    without = bet()
    del without["status"]
    with pytest.raises(WireFormatError, match=r"^the body: .*'status'$"):
        decode(LOOKUP, wire(without))


@pytest.mark.parametrize("field", COMMON[1:])
@pytest.mark.parametrize("status", ["OPEN", "CLOSED", "ROLLED_BACK"])
def test_every_field_is_there_and_of_its_type(status: str, field: str) -> None:
    """No field of a placed bet is absent, null or of another type (spec §2.4)."""
    absent = bet(status)
    del absent[field]
    with pytest.raises(WireFormatError, match=rf"^{field}: Field required$"):
        decode(LOOKUP, wire(absent))
    wrong: tuple[object, ...] = (None, True, [], {}, "5" if field in {"wager", "timestamp"} else 5)
    for value in wrong:
        with pytest.raises(WireFormatError, match=rf"^{field}: .*, not "):
            decode(LOOKUP, wire(bet(status, **{field: value})))


@pytest.mark.parametrize(
    ("cents", "units"),
    [(0, "0.00"), (1, "0.01"), (500, "5.00"), (123456789, "1234567.89"), (10**15, "10000000000000.00")],
)
def test_cents_divided_by_100(cents: int, units: str) -> None:
    """Wager and payout are in cents; divided by 100 they are the actual value (spec §2.4)."""
    found = decode(LOOKUP, wire(bet("CLOSED", wager=cents, won=7)))
    assert (found.wager, str(found.wager_amount), str(found.won_amount)) == (cents, units, "0.07")
    found = decode(LOOKUP, wire(bet("CLOSED", wager=7, won=cents)))
    assert (found.won, str(found.won_amount), str(found.wager_amount)) == (cents, units, "0.07")
    assert type(found.wager_amount) is Decimal


@pytest.mark.parametrize(
    ("millis", "moment"),
    [
        pytest.param(0, datetime(1970, 1, 1, tzinfo=UTC), id="the epoch"),
        pytest.param(
            1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC), id="to the millisecond"
        ),
        pytest.param(
            253_402_300_799_999, datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), id="the last there is"
        ),
    ],
)
def test_when_a_bet_was_placed(millis: int, moment: datetime) -> None:
    """The timestamp is Unix time in milliseconds (spec §2.4)."""
    found = decode(LOOKUP, wire(bet(timestamp=millis)))
    assert found.timestamp == millis
    assert found.placed_at == moment
    assert found.placed_at.utcoffset() == timedelta(0)


@given(strategies.dictionaries(TEXT, JSON_VALUES, max_size=4), strategies.sampled_from(sorted(CLASSES)))
@examples(150)
def test_unknown_fields_are_kept(extra: JsonObject, status: str) -> None:
    """Whatever a later version adds to a bet is in model_extra, and does no harm (spec §2.4, §9)."""
    known = bet(status) if status != "NOT_FOUND" else {"status": status}
    found = decode(LOOKUP, wire(extra | known))
    fields = type(found).model_fields
    assert found.model_extra == {name: value for name, value in extra.items() if name not in fields}
    assert_is_a_value(found)


@pytest.mark.parametrize(
    "name", ["model_config", "model_extra", "copy", "wager_amount", "__class__", "placed_at", "won"]
)
def test_unknown_fields_cannot_hide_ours(name: str) -> None:
    """A field that is called like an attribute of ours is kept, and changes nothing (spec §2.4)."""
    found = decode(LOOKUP, wire(bet(**{name: "evil"})))
    assert type(found) is OpenBet
    assert found.model_extra == {name: "evil"}
    assert str(found.wager_amount) == "5.00"
    assert found.placed_at.year == 2023
    assert found.model_dump_json()


def test_a_bet_built_by_hand() -> None:
    """In tests and sandboxes the status need not be said twice (spec §2.4)."""
    fields = bet()
    del fields["status"]
    assert OpenBet(**fields) == decode(LOOKUP, wire(bet("OPEN")))
    assert RolledBackBet(**fields).status == "ROLLED_BACK"
    assert ClosedBet(**fields, won=1250) == decode(LOOKUP, wire(bet("CLOSED")))


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


@pytest.mark.parametrize("status", ["BAD_REQUEST", "OPEN", "ok", ""])
def test_an_unknown_status_of_a_round_is_refused_by_name(status: str) -> None:
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
def test_wrong_types_in_a_round_are_refused_with_their_path(document: JsonObject, path: str) -> None:
    """What is wrong with a round is named, down to the field of the bet (spec §2.8)."""
    with pytest.raises(WireFormatError, match=rf"^{path}: .*, not "):
        decode(ROUND, wire(document))


def test_round_numbers() -> None:
    """The number shown to the player is a whole number, zero and negative ones included (spec §2.8)."""
    for round_no in (0, -1, 12, 2**63 - 1):
        assert decode(ROUND, wire(round_of(round_no=round_no))).round_no == round_no
    assert decode(ROUND, wire(round_of(round_no=12.0))).round_no == 12


def test_unknown_fields_of_a_round_are_kept() -> None:
    """What a later version adds to a round or its bets is in model_extra (spec §2.8, §9)."""
    found = decode(ROUND, wire(round_of(bet(late=True), multiplier=2.5)))
    assert found.model_extra == {"multiplier": 2.5}
    assert found.bets[0].model_extra == {"late": True}


def test_rounds_are_values() -> None:
    """Rounds are frozen, hashable and comparable, and travel between processes (spec §2.8)."""
    for document in (round_of(bet(late=True), bet("CLOSED"), more=[1]), {"status": "NOT_FOUND", "why": "?"}):
        assert_is_a_value(decode(ROUND, wire(document)))
