"""
Many callers of one database at once: threads of this process, and processes of their own.

A worker process opens its own ledger, waits until all the others have, and sends its share of the calls.
"""

import multiprocessing
import os
import select
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier as BarrierOfProcesses
from threading import Barrier
from typing import TYPE_CHECKING

from game_operator.ledger import Outcome, SqlLedger
from game_operator.models.webhooks import WebhookCall
from game_operator.money import amount_from_cents
from tests.support.calls import withdraw
from tests.support.traffic import Answer, Apply, Log, deliver

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

PATIENCE_SECONDS = 30.0


def open_accounts(url: str, openings: Mapping[str, int]) -> None:
    """Make the tables and open the accounts."""
    with SqlLedger(url, patience_seconds=PATIENCE_SECONDS) as ledger:
        for player_id, cents in openings.items():
            ledger.open_account(player_id, amount_from_cents(cents))


def in_threads(apply: Apply, shares: Sequence[Sequence[WebhookCall]], *, seconds: float = 60.0) -> Log:
    """Send each share in a thread of its own, all at the same moment; return what was answered."""
    log: Log = []
    start = Barrier(len(shares))

    def send(share: Sequence[WebhookCall]) -> None:
        start.wait()
        deliver(apply, share, log, seconds=seconds)

    with ThreadPoolExecutor(len(shares)) as pool:
        for sent in [pool.submit(send, share) for share in shares]:
            sent.result()
    return log


#: In a worker process: where all of them meet.
_meeting: list[BarrierOfProcesses] = []


def _begin(meeting: BarrierOfProcesses) -> None:
    _meeting.append(meeting)


def meet(_number: int = 0) -> None:
    _meeting[0].wait(PATIENCE_SECONDS)


def _work(url: str, shares: Sequence[Sequence[WebhookCall]]) -> list[Answer]:
    with SqlLedger(url, migrate=False, patience_seconds=PATIENCE_SECONDS) as ledger:
        meet()
        return in_threads(ledger.apply, shares)


def worker_context(*modules: str) -> "SpawnContext | ForkServerContext":
    """Return how workers begin: as children of a process that has loaded *modules* once, where the system has that."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *modules])
    return context


class Processes:
    """Worker processes, begun once and used again."""

    def __init__(self, count: int) -> None:
        self.count = count
        context = worker_context()
        self._pool = ProcessPoolExecutor(
            count, mp_context=context, initializer=_begin, initargs=(context.Barrier(count),)
        )
        # Each takes one task, so that all begin.
        list(self._pool.map(meet, range(count)))

    def send(self, url: str, shares: Sequence[Sequence[Sequence[WebhookCall]]]) -> Log:
        """Give each process its share, which is a share for each of its threads; return all that was answered."""
        assert len(shares) == self.count
        asked = [self._pool.submit(_work, url, share) for share in shares]
        return [answer for answers in asked for answer in answers.result()]

    def submit(self, function: Callable[..., object], *arguments: object) -> "Future[object]":
        """Run *function*, which must be importable, in one of them."""
        return self._pool.submit(function, *arguments)

    def close(self) -> None:
        self._pool.shutdown()


@contextmanager
def processes(count: int) -> Iterator[Processes]:
    """Begin workers for the block."""
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
