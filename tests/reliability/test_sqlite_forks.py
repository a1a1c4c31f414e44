"""Forks in the middle of commits."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from game_operator.ledger import SqlLedger
from tests.support.books import problems, read_books
from tests.support.calls import withdraw
from tests.support.crowds import Child, open_accounts
from tests.support.leftovers import assert_idle

pytestmark = [
    pytest.mark.outside,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def test_forked_in_the_middle_of_commits(url: str) -> None:
    """While other threads commit, a fork waits for a moment between: no child finds a lock that nobody releases."""
    open_accounts(url, {"p1": 10_000, "rich": 10**9})
    stop = threading.Event()

    def load(name: int) -> int:
        for number in count():
            if stop.is_set():
                return number
            assert ledger.apply(withdraw(f"b{name}-{number}", "rich", 1)).applied
        raise AssertionError

    with SqlLedger(url, patience_seconds=30) as ledger, ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load, name) for name in range(4)]
        try:
            for number in range(5):
                child = Child(ledger.apply)
                assert child.apply(f"c{number}")
                child.end()
        finally:
            stop.set()
        loaded = sum(each.result() for each in loads)
    books = read_books(url)
    assert loaded > 0
    assert books.accounts == {"p1": 10_000 - 5 * 500, "rich": 10**9 - loaded}
    assert problems(books) == []
    assert_idle(url)
