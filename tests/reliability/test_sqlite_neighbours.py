"""Two ledgers on one file, one of them without a pause: the other is not starved, however slow the disk is."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from game_operator.ledger import AsyncSqlLedger, SqlLedger, Terms
from tests.support.calls import withdraw
from tests.support.crowds import open_accounts

pytestmark = pytest.mark.slow

#: As a disk that takes its time, in each transaction.
SLOW = Terms(after=lambda *_: time.sleep(0.1))


@contextmanager
def _without_a_pause(url: str, kind: str) -> Iterator[None]:
    stopped = threading.Event()
    begun = threading.Event()

    def threads() -> None:
        with SqlLedger(url, patience_seconds=30) as ledger:
            for number in count():
                ledger.apply(withdraw(f"busy-{number}", amount_cents=1), terms=SLOW)
                begun.set()
                if stopped.is_set():
                    return

    async def tasks() -> None:
        async with AsyncSqlLedger(url, patience_seconds=30) as ledger:
            for number in count():
                await ledger.apply(withdraw(f"busy-{number}", amount_cents=1), terms=SLOW)
                begun.set()
                if stopped.is_set():
                    return

    busy = threading.Thread(target=threads if kind == "threads" else lambda: asyncio.run(tasks()))
    busy.start()
    assert begun.wait(30)
    try:
        yield
    finally:
        stopped.set()
        busy.join(60)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_neighbour_that_never_pauses(sqlite_url: str, kind: str) -> None:
    """Commits that follow one another leave a gap now and then, which who waits will find."""
    open_accounts(sqlite_url, {"p1": 10_000})
    with SqlLedger(sqlite_url, patience_seconds=3) as ledger, _without_a_pause(sqlite_url, kind):
        for number in range(8):
            assert ledger.apply(withdraw(f"b{number}", amount_cents=1)).applied
