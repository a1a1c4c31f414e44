"""A catalogue is read whole, with exact amounts, or refused with the place of what is wrong (spec §2.5 to §2.7)."""

import json
from decimal import Decimal

import pytest
from pydantic import TypeAdapter

from benchmarks.bodies import catalogue
from game_operator.models import GameInfo
from game_operator.models.operator_api import reader_of
from game_operator.models.wire import decode
from game_operator.models.wire_format import WireFormatError
from tests.support.wire import assert_is_a_value, bet_config, game, game_instance, hole, wire

read = reader_of("fetch-games")

_LIMITS = wire(bet_config())
_LONG_AMOUNT = "12345678901234567.89"


def test_a_large_catalogue_has_all_its_games() -> None:
    """Each game is the one that is read alone; members that may be absent are (spec §2.5)."""
    document = json.loads(catalogue(50))
    del document["games"][3]["rtp"], document["games"][4]["thumbnail_url"]
    games = read(wire(document))
    assert games == [decode(TypeAdapter(GameInfo), wire(one)) for one in document["games"]]
    assert [one.model_dump(mode="json", exclude_unset=True) for one in games] == document["games"]
    assert ("rtp" in games[2].model_fields_set, "rtp" in games[3].model_fields_set) == (True, False)
    assert_is_a_value(games[0])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"[]", "the body: ", id="a list"),
        pytest.param(b"{}", "games: Field required", id="no games"),
        pytest.param(b'{"games": 5}', "games: ", id="a number for the list"),
        pytest.param(b'{"games": [5]}', r"games\[0\]: ", id="a number for a game"),
        pytest.param(wire({"games": [game()] * 1000 + [{"id": 7}]}), r"games\[1000\]\.id: ", id="the last of 1,001"),
        pytest.param(b'{"games": []', "the body: Invalid JSON", id="cut off"),
        pytest.param(b'{"games": [], "next": NaN}', "the body: Invalid JSON", id="NaN"),
        pytest.param(
            wire({"games": [game(name=hole())]}, r'"\ud83d"'), "the body: Invalid JSON", id="half a surrogate pair"
        ),
    ],
)
def test_a_catalogue_that_does_not_fit(body: bytes, problem: str) -> None:
    """The first thing that is wrong is named by its place (spec §2.5)."""
    with pytest.raises(WireFormatError, match=f"^{problem}"):
        read(body)


@pytest.mark.parametrize(
    ("there", "instead", "name"),
    [
        pytest.param(b'{"games":', b'{"games": [], "games":', "games", id="the list"),
        pytest.param(b'"provider_name":', b'"id": "b", "provider_name":', "id", id="of a game"),
        pytest.param(_LIMITS, _LIMITS + b', "bet_config": ' + _LIMITS, "bet_config", id="the limits"),
        pytest.param(b'"currency":', b'"max_win": 1, "currency":', "max_win", id="of the limits"),
        pytest.param(b'"games":', b'"more": {"a": 1, "a": 2}, "games":', "a", id="of an unknown object"),
    ],
)
@pytest.mark.parametrize("amount", ["10000", _LONG_AMOUNT], ids=["fast way", "exact way"])
def test_a_member_that_stands_twice(there: bytes, instead: bytes, name: str, amount: str) -> None:
    """Readers disagree on which of two counts, so the catalogue is refused (spec §2.5)."""
    body = wire({"games": [game(instances=[game_instance(bet_config=bet_config(max_win=hole()))])]}, amount)
    there, instead = (text.replace(b"10000", amount.encode()) for text in (there, instead))
    assert body.count(there) == 1
    assert len(read(body)) == 1
    with pytest.raises(WireFormatError, match=f"the member '{name}' stands twice"):
        read(body.replace(there, instead))


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        pytest.param({"currency": "}"}, True, id="a brace in a text"),
        pytest.param({"currency": '"bet_config": {'}, True, id="a member in a text"),
        pytest.param({"more": {"max_win": 1}}, False, id="an object"),
        pytest.param({'"max_win"': 1}, False, id="a name with quotation marks"),
    ],
)
def test_limits_are_kept_as_they_are(changes: dict[str, object], known: bool) -> None:
    """Text that looks like JSON is text, and unknown members are kept (spec §2.7, §9)."""
    [one] = read(wire({"games": [game(instances=[game_instance(bet_config=bet_config(**changes))])]}))
    limits = one.instances[0].bet_config
    assert limits.max_win == Decimal(10000)
    assert limits.model_extra == ({} if known else changes)
    assert limits.model_dump().items() >= changes.items()


@pytest.mark.parametrize("text", ["0.1", "1.50", "250000.55", "999999999999999", _LONG_AMOUNT, "0.1234567890123456789"])
def test_amounts_of_a_catalogue_are_exact(text: str) -> None:
    """Digit for digit, beyond what a double carries, and beside the same amount in other limits (spec §2.7)."""
    limits = bet_config(max_win=hole())
    instances = [game_instance(bet_config=limits), game_instance(id="2", bet_config=limits)]
    [one] = read(wire({"games": [game(rtp=hole(), instances=instances)]}, text))
    assert [one.rtp, *(each.bet_config.max_win for each in one.instances)] == [Decimal(text)] * 3


def test_other_members_beside_the_games_do_no_harm() -> None:
    """A later version may add some (spec §9)."""
    assert read(wire({"games": [game()], "next": "2"})) == read(wire({"games": [game()]}))
