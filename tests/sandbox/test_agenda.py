"""The agenda: in the order of time, and out of turn by name, without a search."""

import time

import pytest

from game_operator.sandbox.dealing.deliveries import Agenda
from tests.support.seeds import random_of


def drained(agenda: Agenda[str]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    while (first := agenda.first()) is not None:
        assert agenda.pop() == first
        found.append(first)
    return found


def test_in_the_order_of_time() -> None:
    """And of one time in the order in which they were added."""
    agenda: Agenda[str] = Agenda(str)
    for at_millis, name in ((5, "b"), (1, "z"), (5, "a"), (3, "c")):
        agenda.add(at_millis, name)
    assert drained(agenda) == [(1, "z"), (3, "c"), (5, "b"), (5, "a")]


@pytest.mark.parametrize("seed", range(20))
def test_out_of_turn(seed: int) -> None:
    """Whatever is added, taken by time, taken by name and added again: each thing is had once."""
    random, agenda = random_of(seed), Agenda[str](str)
    waiting: dict[str, int] = {}
    for number in range(300):
        match random.randrange(3):
            case 0:
                name = str(random.randrange(number + 1))
                if name not in waiting:
                    waiting[name] = random.randrange(50)
                    agenda.add(waiting[name], name)
            case 1 if waiting:
                name = random.choice(list(waiting))
                del waiting[name]
                assert agenda.take(name) == name
                assert agenda.take(name) is None
            case _:
                first = agenda.first()
                assert (first is None) is (not waiting)
                if first is not None:
                    assert agenda.pop() == first
                    assert waiting.pop(first[1]) == first[0] == min([first[0], *waiting.values()])
    assert {name: at_millis for at_millis, name in drained(agenda)} == waiting


def test_taking_many_by_name_is_no_search() -> None:
    """A trace of a hundred thousand bets is read in its order: each thing has its place at once."""
    agenda: Agenda[str] = Agenda(str)
    for number in range(50_000):
        agenda.add(number, str(number))
    began = time.monotonic()
    for number in reversed(range(50_000)):
        assert agenda.take(str(number)) is not None
    assert time.monotonic() - began < 10
    assert agenda.first() is None
