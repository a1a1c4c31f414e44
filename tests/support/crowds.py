"""
Many callers of one database at once: threads of this process, and processes of their own.

A worker process opens its own ledger, waits for the moment told (the monotonic clock is one for all processes), and
sends its share of the calls.
"""

import multiprocessing
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from threading import Barrier

from game_operator.ledger import Outcome, SqlLedger
from game_operator.models.webhooks import WebhookCall
from game_operator.money import amount_from_cents
from tests.support.calls import withdraw
from tests.support.traffic import Answer, Log, deliver

__all__ = ["Child", "Processes", "in_threads", "open_accounts"]

PATIENCE_SECONDS = 30.0


def open_accounts(url: str, openings: Mapping[str, int]) -> None:
    """Make the tables and open the accounts."""
    with SqlLedger(url, patience_seconds=PATIENCE_SECONDS) as ledger:
        for player_id, cents in openings.items():
            ledger.open_account(player_id, amount_from_cents(cents))


def in_threads(ledger: SqlLedger, shares: Sequence[Sequence[WebhookCall]], *, seconds: float = 60.0) -> Log:
    """Send each share in a thread of its own, all at the same moment; return what was answered."""
    log: Log = []
    start = Barrier(len(shares))

    def send(share: Sequence[WebhookCall]) -> None:
        start.wait()
        deliver(ledger.apply, share, log, seconds=seconds)

    with ThreadPoolExecutor(len(shares)) as pool:
        for sent in [pool.submit(send, share) for share in shares]:
            sent.result()
    return log


def _work(url: str, shares: Sequence[Sequence[WebhookCall]], start_at: float) -> list[Answer]:
    with SqlLedger(url, migrate=False, patience_seconds=PATIENCE_SECONDS) as ledger:
        time.sleep(max(0.0, start_at - time.monotonic()))
        return in_threads(ledger, shares)


def _warm(until: float) -> None:
    time.sleep(max(0.0, until - time.monotonic()))


class Processes:
    """Worker processes, spawned once and used again."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
        # Each takes one task, so that all are spawned.
        list(self._pool.map(_warm, repeat(time.monotonic() + 0.5, count)))

    def send(self, url: str, shares: Sequence[Sequence[Sequence[WebhookCall]]]) -> Log:
        """Give each process its share, which is a share for each of its threads; return all that was answered."""
        start_at = time.monotonic() + 0.3
        asked = [self._pool.submit(_work, url, share, start_at) for share in shares]
        return [answer for answers in asked for answer in answers.result()]

    def submit(self, function: Callable[..., object], *arguments: object) -> "Future[object]":
        """Run *function*, which must be importable, in one of them."""
        return self._pool.submit(function, *arguments)

    def close(self) -> None:
        self._pool.shutdown()


@contextmanager
def processes(count: int) -> Iterator[Processes]:
    """Spawn workers for the block."""
    crowd = Processes(count)
    try:
        yield crowd
    finally:
        crowd.close()


def codes(answers: Iterable[Answer], operation: str) -> list[str | None]:
    """Return the codes answered to one operation."""
    return [answer.code for answer in answers if answer.call.operation == operation]


class Child:
    """A fork of this process that applies withdraws when told to, by *apply*."""

    def __init__(self, apply: Callable[[WebhookCall], Outcome]) -> None:
        told, self._tell = os.pipe()
        self._hear, says = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                while line := os.read(told, 100):
                    os.write(says, b"1" if apply(withdraw(line.decode())).applied else b"0")
            finally:
                os._exit(0)
        os.close(told)
        os.close(says)

    def apply(self, bet_id: str) -> bool:
        os.write(self._tell, bet_id.encode())
        # A child that inherited a lock waits for ever; one that died leaves nothing to read.
        heard, _, _ = select.select([self._hear], [], [], PATIENCE_SECONDS)
        return bool(heard) and os.read(self._hear, 1) == b"1"

    def end(self) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self._tell)
        os.close(self._hear)
