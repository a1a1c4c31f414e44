"""The state of a catalogue from list to list: what was applied is known for ever, and survives being written down."""

from hypothesis import given, strategies

from game_operator.backoffice.catalogue.state import CatalogueState, decode_state
from tests.support.catalogues import games_of, listed
from tests.support.wire import JsonObject


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
