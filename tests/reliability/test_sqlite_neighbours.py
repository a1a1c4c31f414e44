"""Two ledgers on one file, one of them without a pause: the other is not starved, however slow the disk is."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count, takewhile
from threading import Event

import pytest

from game_operator.ledger import SqlLedger, Terms
from tests.support.calls import withdraw
from tests.support.crowds import open_accounts
from tests.support.ledgers import AsyncInDatabase, InDatabase

pytestmark = pytest.mark.slow

#: As a disk that takes its time, in each transaction.
SLOW = Terms(after=lambda *_: time.sleep(0.1))


@contextmanager
def _without_a_pause(ledger: InDatabase) -> Iterator[None]:
    stopped, begun = Event(), Event()

    def play() -> None:
        for number in takewhile(lambda _: not stopped.is_set(), count()):
            ledger.apply(withdraw(f"busy-{number}", amount_cents=1), SLOW)
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(play)
        try:
            assert begun.wait(30)
            yield
        finally:
            stopped.set()
        busy.result()


@pytest.mark.parametrize("kind", [InDatabase, AsyncInDatabase], ids=["threads", "tasks"])
def test_a_neighbour_that_never_pauses(sqlite_url: str, kind: type[InDatabase]) -> None:
    """Commits that follow one another leave a gap now and then, which who waits will find."""
    open_accounts(sqlite_url, {"p1": 10_000})
    neighbour = kind(sqlite_url)
    with SqlLedger(sqlite_url, patience_seconds=3) as ledger, closing(neighbour), _without_a_pause(neighbour):
        for number in range(8):
            assert ledger.apply(withdraw(f"b{number}", amount_cents=1)).applied
