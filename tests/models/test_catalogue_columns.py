"""A catalogue read by columns is the one that pydantic reads; what is not regular is left to pydantic (spec §2.5)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.bodies import catalogue
from pydantic import TypeAdapter

from game_operator.models import GameInfo, catalogue_columns
from game_operator.models.answers import reader_of
from game_operator.models.catalogue_columns import catalogue_of
from game_operator.models.wire import decode
from game_operator.models.wire_format import WireFormatError
from tests.support.wire import assert_is_a_value, bet_config, game, game_instance, wire

# Any: the values stand in any field.
_VALUES: list[Any] = [None, True, False, 0, 1, -0.0, 1.5, 1e99, 10**15, 0.1234567890123456789, "", "Crash", "x", [], {}]


def _by_pydantic(body: bytes) -> list[GameInfo] | None:
    """Return the games as pydantic reads them one by one, or None if one is refused."""
    try:
        return [decode(TypeAdapter(GameInfo), wire(one)) for one in json.loads(body)["games"]]
    except (WireFormatError, KeyError, TypeError):
        return None


def _changed() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a game with each value in each field, without each field, and with one more."""
    for name in GameInfo.model_fields:
        yield f"no {name}", {key: value for key, value in game().items() if key != name}
        yield from ((f"{name}={value!r}", game(**{name: value})) for value in _VALUES)
    for name in game_instance():
        less = {key: value for key, value in game_instance().items() if key != name}
        for one in (less, *(game_instance(**{name: value}) for value in _VALUES)):
            yield f"instance {one}", game(instances=[game_instance(), one])
    for name in bet_config():
        less = {key: value for key, value in bet_config().items() if key != name}
        for one in (less, *(bet_config(**{name: value}) for value in _VALUES)):
            # Beside limits that are equal where true is 1.
            yield f"limits {one}", game(instances=[game_instance(), game_instance(bet_config=one)])
    yield "one more", game(more=1)
    yield "one more in an instance", game(instances=[game_instance(more=1)])
    yield "one more in the limits", game(instances=[game_instance(bet_config=bet_config(more=1))])
    yield "no instances", game(instances=[])
    yield "another order", dict(reversed(game(instances=[dict(reversed(game_instance().items()))]).items()))


def _whole(games: list[GameInfo] | None) -> object:
    """Return everything that a game shows of itself."""
    if games is None:
        return None
    parts = [part for one in games for i in one.instances for part in (one, i, i.bet_config)] or games
    return repr(games), [(p.model_fields_set, p.model_extra, p.model_dump(), p.model_dump_json(), p) for p in parts]


def test_every_change_of_a_game_is_read_as_pydantic_reads_it() -> None:
    """Where the columns read anything at all: what pydantic refuses, they refuse."""
    read = 0
    for name, document in _changed():
        body = wire({"games": [game(), document, game()]})
        found = catalogue_of(body)
        assert found is None or _whole(found) == _whole(_by_pydantic(body)), name
        read += found is not None
    assert read > 40


def test_a_large_catalogue_is_read_by_columns() -> None:
    """Optional members may be absent, and everything that a game shows is the same."""
    document = json.loads(catalogue(50))
    del document["games"][3]["rtp"], document["games"][4]["thumbnail_url"]
    found = catalogue_of(wire(document))
    assert found is not None
    assert _whole(found) == _whole(_by_pydantic(wire(document)))
    assert "rtp" not in found[3].model_fields_set
    assert "rtp" in found[2].model_fields_set


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"games": 5}', id="no list"),
        pytest.param(b'{"games": [5]}', id="no game"),
        pytest.param(b'{"games": []', id="no JSON"),
        pytest.param(b'{"games": [], "next": NaN}', id="NaN"),
        pytest.param(b'{"games": [], "games": []}', id="a member that stands twice"),
        pytest.param(
            wire({"games": [game()]})[:-2] + b',{"id":"a","id":"b"}]}', id="a game's member that stands twice"
        ),
        pytest.param(wire({"games": [game(rtp=0.12345678901234567)]}), id="more digits than a double carries"),
    ],
)
def test_what_is_left_to_pydantic(body: bytes) -> None:
    """It says what is wrong, or reads what columns would read wrongly."""
    assert catalogue_of(body) is None


_LIMITS = wire(bet_config())
_MARK = b"-617461746174617"


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        pytest.param(_LIMITS, _LIMITS[:-1], id="no end"),
        pytest.param(b'"currency":', b'"max_win": 1, "currency":', id="a member that stands twice"),
        pytest.param(b'"currency":', b'"more": 1, "currency":', id="another member"),
        pytest.param(b'"currency":', b'"more": {}, "currency":', id="another object"),
        pytest.param(b'"EUR"', b'"}"', id="a text with a brace"),
        pytest.param(_LIMITS, _LIMITS + b', "bet_config": ' + _LIMITS, id="limits that stand twice"),
        pytest.param(b"10000}", b"0.12345678901234567}", id="more digits than a double carries"),
        pytest.param(b'{"games":', b'{"bet_config": ' + _LIMITS + b', "games":', id="other limits"),
        pytest.param(b'"bet_config":', b'"\\"bet_config":', id="a name with a quotation mark"),
        pytest.param(b'"bet_config":', b'"x "bet_config":', id="a text that ends before"),
        pytest.param(_LIMITS, _MARK, id="our mark"),
        pytest.param(_LIMITS + b"}]}]", _MARK + b'}]}], "bet_config": ' + _LIMITS, id="our mark, and limits elsewhere"),
    ],
)
def test_limits_that_are_not_cut_out(there: bytes, instead: bytes) -> None:
    """A body where they could be mistaken is left to pydantic."""
    body = wire({"games": [game()]})
    assert body.count(there) == 1
    assert catalogue_of(body) is not None
    assert catalogue_of(body.replace(there, instead)) is None


def test_limits_of_two_instances_that_are_json_only_together() -> None:
    """Different limits are read in one go."""
    one, other = _LIMITS[:-1] + b', "more": "}', b'{", ' + _LIMITS[1:]
    assert json.loads(one + b"," + other)["min_wager"] == 0.1
    body = wire({"games": [game(instances=[game_instance(), game_instance()])]})
    assert catalogue_of(body) is not None
    assert catalogue_of(body.replace(_LIMITS, one, 1).replace(_LIMITS, other, 1)) is None


def test_other_members_beside_the_games_do_no_harm() -> None:
    """A later version may add some (spec §9)."""
    assert reader_of("fetch-games")(wire({"games": [game()], "next": "2"})) == [
        decode(TypeAdapter(GameInfo), wire(game()))
    ]


def test_the_models_can_do_what_pydantics_can() -> None:
    """They are frozen, copied, pickled, compared and hashed; a copy shares nothing that can be changed."""
    [found] = catalogue_of(wire({"games": [game()]})) or []
    expected = decode(TypeAdapter(GameInfo), wire(game()))
    assert found == expected
    assert hash(found) == hash(expected)
    for value in (found, found.instances[0], found.instances[0].bet_config):
        assert_is_a_value(value)
    changed = found.model_copy(update={"name": "Another", "more": 1})
    assert (changed.name, found.name) == ("Another", "Crash")
    assert (changed.model_extra, found.model_extra) == ({"more": 1}, {})
    assert changed.model_fields_set is not found.model_fields_set
    assert GameInfo.model_validate(found) is found


def test_equal_limits_are_one_object() -> None:
    """A catalogue repeats a few thousands of times."""
    [found] = catalogue_of(wire({"games": [game(instances=[game_instance(), game_instance(id="2")])]})) or []
    one, other = found.instances
    assert one.bet_config is other.bet_config


def test_pydantics_models_are_made_of_what_we_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a new pydantic keeps something else in a model: see ``_SLOTS``. Until then pydantic reads all."""
    assert catalogue_columns.KNOWS_PYDANTIC
    body = wire({"games": [game()]})
    expected = reader_of("fetch-games")(body)
    monkeypatch.setattr(catalogue_columns, "KNOWS_PYDANTIC", False)
    assert catalogue_of(body) is None
    assert reader_of("fetch-games")(body) == expected
