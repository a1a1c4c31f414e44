"""What differs between two lists of games: each kind of change, and that together they are complete."""

import pickle
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from game_operator import GameInfo
from game_operator.backoffice.catalogue import CatalogueChange, ChangeKind
from game_operator.backoffice.catalogue.state import changes_between
from tests.support.catalogues import games_of, listed, named
from tests.support.wire import JsonObject, bet_config, game, game_instance

NOW = 1_700_000_000_000


def changed(before: Sequence[JsonObject], after: Sequence[JsonObject]) -> list[CatalogueChange]:
    """Return what differs between two lists as they stand on the wire."""
    return changes_between(games_of(*before), games_of(*after), at_millis=NOW)


def change(kind: str, game_id: str, **values: Any) -> CatalogueChange:
    """Return a change of a game."""
    return CatalogueChange(kind=ChangeKind(kind), game_id=game_id, at_millis=NOW, **values)


CRASH = game()
(BASE,) = games_of(CRASH)
(INSTANCE,) = BASE.instances


def of_game(**changes: Any) -> JsonObject:
    return CRASH | changes


def of_instance(**changes: Any) -> JsonObject:
    return CRASH | {"instances": [game_instance(**changes)]}


def _one(after: JsonObject) -> GameInfo:
    (found,) = games_of(after)
    return found


@pytest.mark.parametrize(
    ("after", "kind", "values"),
    [
        pytest.param(of_game(status="MAINTENANCE"), "game_status_changed", ("ACTIVE", "MAINTENANCE"), id="status"),
        pytest.param(of_game(status="ASLEEP"), "game_status_changed", ("ACTIVE", "ASLEEP"), id="a status of tomorrow"),
        pytest.param(of_game(rtp=97), "rtp_changed", (Decimal("96.5"), Decimal(97)), id="RTP"),
        pytest.param(of_game(rtp=None), "rtp_changed", (Decimal("96.5"), None), id="no RTP any more"),
        pytest.param(of_instance(active=False), "instance_switched", (True, False), id="switched off"),
    ],
)
def test_a_value_that_changed(after: JsonObject, kind: str, values: tuple[object, object]) -> None:
    """One change of its kind, with the value before, the value after and the time; and the other way round."""
    (forth,) = changed([CRASH], [after])
    (back,) = changed([after], [CRASH])
    assert forth.kind == back.kind == kind
    assert (forth.before, forth.after) == values
    assert (back.before, back.after) == values[::-1]
    assert (forth.game_id, forth.at_millis) == ("crash", NOW)


@pytest.mark.parametrize("field", ["min_wager", "max_wager", "default_wager", "max_win"])
def test_each_limit(field: str) -> None:
    """A limit is exact: the last of eighteen digits is a change (spec §2.7)."""
    limits = [bet_config(**{field: amount}) for amount in (1000000000000001, 1000000000000002)]
    (change,) = changed(*([of_instance(bet_config=each)] for each in limits))
    assert change.kind == "limits_changed"
    assert (change.game_id, change.instance_id) == ("crash", "instance-1")
    assert getattr(change.after, field) - getattr(change.before, field) == 1


def test_another_currency() -> None:
    """The same numbers are other limits in another currency."""
    (change,) = changed([CRASH], [of_instance(bet_config=bet_config(currency="JPY"))])
    assert change.kind == "limits_changed"
    assert (change.before.currency, change.after.currency) == ("EUR", "JPY")


@pytest.mark.parametrize(
    ("after", "kind", "fields"),
    [
        pytest.param(of_game(name="Crash 2"), "game_details_changed", ("name",), id="a game's name"),
        pytest.param(
            of_game(genre="Telepathy", provider_name="Others", thumbnail_url=None),
            "game_details_changed",
            ("thumbnail_url", "provider_name", "genre"),
            id="genre, provider and thumbnail",
        ),
        pytest.param(of_game(volatility=2), "game_details_changed", ("volatility",), id="a game's unknown field"),
        pytest.param(of_instance(name="Other"), "instance_details_changed", ("name",), id="an instance's name"),
        pytest.param(of_instance(table=None), "instance_details_changed", ("table",), id="an instance's unknown field"),
    ],
)
def test_details(after: JsonObject, kind: str, fields: tuple[str, ...]) -> None:
    """What has no separate kind is a change of details, which names the fields."""
    (change,) = changed([CRASH], [after])
    assert (change.kind, set(change.after)) == (kind, set(fields))
    assert set(change.before) <= set(fields)


def test_games_and_instances_come_and_go() -> None:
    """A game stands for its instances; an instance of a game that stays is a separate change."""
    before = [named("one", "i1", "i2"), named("two", "i3")]
    after = [named("one", "i2", "i4"), named("three", "i5")]
    two, three = games_of(before[1], after[1])
    assert changed(before, after) == [
        change("game_gone", "two", before=two),
        change("instance_gone", "one", instance_id="i1", before=_one(before[0]).instances[0]),
        change("instance_added", "one", instance_id="i4", after=_one(after[0]).instances[1]),
        change("game_added", "three", after=three),
    ]


def test_the_order_is_no_difference() -> None:
    """Services may list in any order."""
    games = [named("one", "i1", "i2"), named("two", "i3")]
    assert changed(games, [games[1], games[0] | {"instances": games[0]["instances"][::-1]}]) == []


def test_a_number_written_otherwise_is_no_difference() -> None:
    """100, 100.0 and 1E2 are the same limit."""
    as_whole, as_decimal = (of_instance(bet_config=bet_config(max_wager=each)) for each in (100, 100.0))
    assert changed([as_whole], [as_decimal]) == []


def test_a_change_travels_and_shows_its_kind() -> None:
    """To another process, and as plain values with exact amounts."""
    (change,) = changed([CRASH], [of_instance(bet_config=bet_config(max_win=5))])
    assert pickle.loads(pickle.dumps(change)) == change
    limits = bet_config(min_wager=Decimal("0.1"))
    assert change.as_dict() == {
        "kind": "limits_changed",
        "game_id": "crash",
        "instance_id": "instance-1",
        "before": limits,
        "after": limits | {"max_win": 5},
        "at_millis": NOW,
    }
    with pytest.raises(AttributeError):
        change.at_millis = 1  # type: ignore[misc]  # It is frozen.


def applied(games: Sequence[GameInfo], changes: Sequence[CatalogueChange]) -> dict[str, GameInfo]:
    """Return *games* by id after *changes*, from what these say alone; instances in the order of their ids."""
    found = {each.id: each for each in games}
    for each in changes:
        if each.kind == "game_gone":
            del found[each.game_id]
        elif each.kind == "game_added":
            found[each.game_id] = each.after
        else:
            found[each.game_id] = _changed_game(found[each.game_id], each)
    return {each.id: _in_order(each) for each in found.values()}


def _in_order(each: GameInfo) -> GameInfo:
    return each.model_copy(update={"instances": tuple(sorted(each.instances, key=lambda it: it.id))})


def _changed_game(before: GameInfo, change: CatalogueChange) -> GameInfo:
    instances = {each.id: each for each in before.instances}
    its_id = change.instance_id or ""
    match str(change.kind):
        case "game_status_changed":
            return before.model_copy(update={"status": change.after})
        case "rtp_changed":
            return before.model_copy(update={"rtp": change.after})
        case "game_details_changed":
            detailed: GameInfo = _with_details(before, change)
            return detailed
        case "instance_added":
            instances[its_id] = change.after
        case "instance_gone":
            del instances[its_id]
        case "instance_switched":
            instances[its_id] = instances[its_id].model_copy(update={"active": change.after})
        case "limits_changed":
            instances[its_id] = instances[its_id].model_copy(update={"bet_config": change.after})
        case "instance_details_changed":
            instances[its_id] = _with_details(instances[its_id], change)
        case _:
            raise AssertionError(change)
    return before.model_copy(update={"instances": tuple(instances.values())})


def _with_details(before: Any, change: CatalogueChange) -> Any:
    """Return a game or an instance with the details of *change*."""
    kept = {name: value for name, value in before.model_dump().items() if name not in change.before}
    return type(before).model_validate(kept | change.after)


@given(listed(), listed())
def test_the_changes_are_complete_and_each_appears_once(before: list[JsonObject], after: list[JsonObject]) -> None:
    """Applied to the one list they make the other, and without any one of them they do not."""
    earlier, later = games_of(*before), games_of(*after)
    changes = changes_between(earlier, later, at_millis=NOW)
    assert applied(earlier, changes) == applied(later, ())
    for left_out in range(len(changes)):
        assert applied(earlier, changes[:left_out] + changes[left_out + 1 :]) != applied(later, ())


@given(listed())
def test_equal_lists_have_no_changes(games: list[JsonObject]) -> None:
    """However they are ordered."""
    assert changed(games, games[::-1]) == []
