"""What differs between two lists of games: each kind of change, and that together they are complete."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, strategies

from game_operator import GameInfo
from game_operator.backoffice.catalogue import CatalogueChange, ChangeKind
from game_operator.backoffice.catalogue.state import CatalogueState, changes_between, decode_state
from tests.support.catalogues import games_of, listed, named
from tests.support.wire import JsonObject, bet_config, game, game_instance

NOW = 1_700_000_000_000


def changed(before: Sequence[JsonObject], after: Sequence[JsonObject]) -> list[CatalogueChange]:
    """Return what differs between two lists as they stand on the wire."""
    return changes_between(games_of(*before), games_of(*after), at_millis=NOW)


def change(kind: str, game_id: str, **values: Any) -> CatalogueChange:
    """Return a change of a game."""
    return CatalogueChange(kind=ChangeKind(kind), game_id=game_id, at_millis=NOW, **values)


def test_games_and_instances_come_and_go() -> None:
    """A game stands for its instances; an instance of a game that stays is a separate change."""
    before = [named("one", "i1", "i2"), named("two", "i3")]
    after = [named("one", "i2", "i4"), named("three", "i5")]
    (one, two), (changed_one, three) = games_of(*before), games_of(*after)
    assert changed(before, after) == [
        change("game_gone", "two", before=two),
        change("instance_gone", "one", instance_id="i1", before=one.instances[0]),
        change("instance_added", "one", instance_id="i4", after=changed_one.instances[1]),
        change("game_added", "three", after=three),
    ]


def test_a_number_written_otherwise_is_no_difference() -> None:
    """100, 100.0 and 1E2 are the same limit."""
    limits = (bet_config(max_wager=each) for each in (100, 100.0))
    as_whole, as_decimal = (game(instances=[game_instance(bet_config=each)]) for each in limits)
    assert changed([as_whole], [as_decimal]) == []


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
        case "game_changed":
            changed: GameInfo = change.after.model_copy(update={"instances": before.instances})
            return changed
        case "instance_added" | "instance_changed":
            instances[its_id] = change.after
        case "instance_gone":
            del instances[its_id]
        case _:
            raise AssertionError(change)
    return before.model_copy(update={"instances": tuple(instances.values())})


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


@given(strategies.lists(listed(), max_size=4))
def test_what_was_applied_is_known_for_ever(lists: list[list[JsonObject]]) -> None:
    """Whatever came after it: listed, or among those that are gone, and never both."""
    state, seen = CatalogueState(service="s"), set[str]()
    for number, games in enumerate(lists):
        fetched = games_of(*games)
        state = state.after(fetched, number)
        assert (state.games, state.at_millis) == (fetched, number)
        seen |= {each.id for game in fetched for each in game.instances}
        assert sorted([*state.listed, *(each.id for each in state.gone)]) == sorted(seen) == sorted(state.instances)
        assert not any(each.active for each in state.gone)
        assert decode_state(state.model_dump_json().encode(), service="s") == state
