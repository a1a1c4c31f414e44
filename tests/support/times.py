"""Clocks that a test sets, what a timestamp must be (Unix time in whole milliseconds, and now), and how tests wait."""

import time
from collections.abc import Callable

_SLACK_MILLIS = 5_000


def wait_until(
    is_so: Callable[[], object], problem: str = "it does not come to that", *, seconds: float = 40.0
) -> None:
    """Return as soon as *is_so*, looked at every few milliseconds; fail with *problem* when that takes too long."""
    give_up = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up, problem
        time.sleep(0.005)


class StoppedClock:
    """A clock in Unix milliseconds that moves when a test says so."""

    def __init__(self, now_millis: int) -> None:
        self.now_millis = now_millis

    def __call__(self) -> int:
        return self.now_millis


class RunningClock:
    """A clock in Unix milliseconds that moves one each time it is read, and further when a test says so."""

    millis = 1_700_000_000_000

    def __call__(self) -> int:
        self.millis += 1
        return self.millis


def is_now(timestamp: object, since: float) -> bool:
    """Return whether *timestamp* is an int of Unix milliseconds between *since*, in seconds, and now, within 5 s."""
    if type(timestamp) is not int:
        return False
    return since * 1000 - _SLACK_MILLIS < timestamp < time.time() * 1000 + _SLACK_MILLIS
