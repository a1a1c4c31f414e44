"""The state of a catalogue from list to list: what was applied is known for ever, and survives being written down."""

from decimal import Decimal

from hypothesis import given, strategies

from game_operator.backoffice.catalogue.snapshots import CatalogueState, after_fetch, decode_state, encode_state
from tests.support.catalogues import games_of, listed
from tests.support.wire import JsonObject


@given(strategies.lists(listed(), max_size=4), strategies.sampled_from(["0", "0.3", "1"]))
def test_what_was_applied_is_known_for_ever(lists: list[list[JsonObject]], share: str) -> None:
    """Whatever came after it: listed, or among those that are gone, and never both; and what is held counts nothing."""
    state, seen = CatalogueState(service="s"), set[str]()
    for number, games in enumerate(lists):
        before, fetched = state, games_of(*games)
        state = after_fetch(state, fetched, at_millis=number, most_gone=Decimal(share))
        if state.held is None:
            assert state.games == fetched
            seen |= {each.id for game in fetched for each in game.instances}
        else:
            assert state.held.games == fetched
            assert (state.current, state.gone) == (before.current, before.gone)
        known = state.current.instances if state.current else {}
        assert sorted([*known, *state.gone]) == sorted(seen)
        assert not any(each.instance.active for each in state.gone.values())
        assert decode_state(encode_state(state), service="s", place="it") == state
