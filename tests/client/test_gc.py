"""The garbage collector is relaxed around a large answer, and always put back (docs/decisions/0004)."""

import gc
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from game_operator import AsyncOperatorClient
from game_operator.client.base import advance, relaxed_gc
from game_operator.errors import UnexpectedResponseError
from game_operator.protocol.exchange import Answer, Reply, Step, TransportFailed, Wait
from game_operator.protocol.http import HttpReply
from tests.support.flavours import Perform
from tests.support.hostile_server import HostileServer, response_bytes
from tests.support.wire import game, wire

_MINE = (601, 9, 8)


@pytest.fixture(scope="module", autouse=True)
def _frozen_again() -> Iterator[None]:
    """Freeze what conftest.py had frozen: else each collection of the tests after these walks over all of it."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _mine() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*_MINE)
    yield
    gc.enable()
    gc.set_threshold(*before)


def _relaxed() -> bool:
    return gc.get_threshold()[0] > 10_000


def test_it_is_relaxed_inside_and_put_back() -> None:
    """Inside the block collections are rare, afterwards all is as it was (docs/decisions/0004)."""
    with relaxed_gc():
        assert _relaxed()
    assert gc.get_threshold() == _MINE


def test_it_is_put_back_after_an_exception() -> None:
    """A parser that fails changes nothing for the program (docs/decisions/0004)."""
    with pytest.raises(KeyboardInterrupt), relaxed_gc():
        raise KeyboardInterrupt
    assert gc.get_threshold() == _MINE


def test_blocks_may_be_nested() -> None:
    """The outermost block puts it back (docs/decisions/0004)."""
    with relaxed_gc():
        with relaxed_gc():
            assert _relaxed()
        assert _relaxed()
    assert gc.get_threshold() == _MINE


def test_a_change_of_yours_stays() -> None:
    """What the program sets meanwhile is not overwritten (docs/decisions/0004)."""
    with relaxed_gc():
        gc.set_threshold(5000, 20, 20)
    assert gc.get_threshold() == (5000, 20, 20)
    with relaxed_gc():
        assert _relaxed()
    assert gc.get_threshold() == (5000, 20, 20)


def test_a_collector_that_is_off_stays_off() -> None:
    """Neither a threshold of 0 nor gc.disable() is undone (docs/decisions/0004)."""
    gc.set_threshold(0, 9, 8)
    with relaxed_gc():
        assert gc.get_threshold() == (0, 9, 8)
    assert gc.get_threshold() == (0, 9, 8)
    gc.set_threshold(*_MINE)
    gc.disable()
    with relaxed_gc():
        assert not gc.isenabled()
    assert not gc.isenabled()
    assert gc.get_threshold() == _MINE


@pytest.mark.slow
def test_what_you_have_frozen_stays_frozen() -> None:
    """And nothing else is frozen behind your back (docs/decisions/0004)."""
    at_start = gc.get_freeze_count()  # Python 3.12 freezes some objects of its own before any of ours are made.
    with relaxed_gc():
        pass
    assert gc.get_freeze_count() <= at_start
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        assert frozen > at_start
        with relaxed_gc():
            pass
        assert gc.get_freeze_count() >= frozen - 100  # Some of it may have been let go of since.
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    ("frozen", "steps"),
    [
        pytest.param(0, ["freeze", "unfreeze"], id="nothing"),
        pytest.param(375, ["freeze", "unfreeze"], id="what Python 3.12 starts with"),
        pytest.param(5_000, [], id="a small application"),
    ],
)
def test_what_was_parsed_is_passed_over(frozen: int, steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python itself has frozen keeps nobody from it; what an application has frozen does (docs/decisions/0004)."""
    done: list[str] = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: frozen)
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: done.append("unfreeze"))
    with relaxed_gc():
        assert done == []
    assert done == steps


@pytest.mark.slow
def test_garbage_is_still_found() -> None:
    """What is made inside is collected when its time comes (docs/decisions/0004)."""

    class Node:
        itself: "Node"

    collected: list[str] = []
    with relaxed_gc():
        node = Node()
        node.itself = node
    weakref.finalize(node, collected.append, "node")
    del node
    gc.collect()
    assert collected == ["node"]


def test_the_last_of_several_threads_puts_it_back() -> None:
    """As long as one thread parses it is relaxed, and not a moment longer (docs/decisions/0004)."""
    inside, leave = threading.Barrier(9, timeout=10), [threading.Event() for _ in range(8)]

    def work(number: int) -> None:
        with relaxed_gc():
            inside.wait()
            assert leave[number].wait(10)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    inside.wait()
    for thread, event in zip(threads, leave, strict=True):
        assert _relaxed()
        event.set()
        thread.join(10)
    assert gc.get_threshold() == _MINE


_FORKING = """
import gc, os, sys, threading
from game_operator.client.base import relaxed_gc

gc.set_threshold(601, 9, 8)
inside, leave = threading.Event(), threading.Event()

def parse():
    with relaxed_gc():
        inside.set()
        leave.wait(10)

thread = threading.Thread(target=parse)
thread.start()
inside.wait(10)
pid = os.fork()
if pid == 0:
    put_back = gc.get_threshold() == (601, 9, 8)
    with relaxed_gc():
        relaxed = gc.get_threshold()[0] > 10_000
    os._exit(0 if put_back and relaxed and gc.get_threshold() == (601, 9, 8) else 1)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
leave.set()
thread.join(10)
print(code, gc.get_threshold())
"""


@pytest.mark.outside
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_meanwhile_has_it_put_back() -> None:
    """The thread that would do so does not exist in the child (docs/decisions/0004)."""
    arguments = [
        sys.executable,
        "-W",
        "ignore::DeprecationWarning",
        "-c",
        _FORKING,
    ]  # Forking with threads is the point.
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "0 (601, 9, 8)\n"


def _watching(seen: list[bool]) -> Generator[Step, Reply, None]:
    yield Wait(0.0)
    seen.append(_relaxed())
    yield Wait(0.0)


@pytest.mark.parametrize(
    ("result", "relaxed"),
    [
        pytest.param(HttpReply(200, {}, b" " * (256 * 1024 + 1)), True, id="large"),
        pytest.param(HttpReply(200, {}, b" " * (256 * 1024)), False, id="not large"),
        pytest.param(TransportFailed("lost", sent=True), False, id="no answer"),
    ],
)
def test_only_a_large_answer_is_worth_it(result: Any, relaxed: bool) -> None:
    """A body of more than 256 KiB is parsed relaxed, every other as ever (docs/decisions/0004)."""
    seen: list[bool] = []
    steps = _watching(seen)
    next(steps)
    advance(steps, Answer(result, 0.0, 0))
    assert seen == [relaxed]
    assert gc.get_threshold() == _MINE


@pytest.mark.outside
@pytest.mark.parametrize("flavour", ["sync", "asyncio", "trio"])
def test_a_large_catalogue_leaves_the_collector_as_it_was(perform: Perform) -> None:
    """Read or refused, through either client (spec §4.2)."""
    games = [game(id=f"game-{number}") for number in range(1000)]
    good = wire({"games": games})
    bad = wire({"games": [*games, {"id": 7}]})
    assert min(len(good), len(bad)) > 256 * 1024

    async def both(client: AsyncOperatorClient) -> int:
        count = len(await client.fetch_games())
        with pytest.raises(UnexpectedResponseError, match=r"games\[1000\]"):
            await client.fetch_games()
        return count

    data = iter([response_bytes(200, good), response_bytes(200, bad)])

    def script(connection: Any) -> None:
        while connection.read_request():
            connection.send(next(data))

    with HostileServer(script) as server:
        assert perform(both, server.base_url) == 1000
    assert gc.get_threshold() == _MINE
    assert json.loads(good)["games"][0]["id"] == "game-0"
