"""
The cyclic garbage collector, relaxed while a large body is parsed.

A large parse makes tens of thousands of objects and no garbage, yet the collector walks all of them again and again:
up to a third of the time. It is always put back, also when several threads parse at once and when the process forks in
between.
"""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RELAXED = (100_000, 50, 1000)
#: Python 3.12 starts with some hundred frozen objects of its own; an application that freezes has many thousands.
_PYTHONS_OWN = 1_000

_lock = threading.Lock()
_users = 0
_before = gc.get_threshold()


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Collect rarely inside the block; the last block to end puts the thresholds back."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _users, _before
    with _lock:
        if _users == 0 and gc.get_threshold()[0] != 0:
            _before = gc.get_threshold()
            gc.set_threshold(*_RELAXED)
        _users += 1


def _leave() -> None:
    global _users
    with _lock:
        _users -= 1
        # Somebody else may have chosen new thresholds meanwhile: theirs stay.
        if _users == 0 and gc.get_threshold() == _RELAXED:
            gc.set_threshold(*_before)
            _pass_over_what_was_made()


def _pass_over_what_was_made() -> None:
    """
    Count every object as an old one, without walking over it; the next full collection does.

    Else the very next allocation would start a walk over all that was parsed, which takes longer than what was saved.
    """
    if gc.get_freeze_count() < _PYTHONS_OWN:  # What the application has frozen must stay so.
        gc.freeze()
        gc.unfreeze()


def _start_afresh_in_child() -> None:
    # The threads that would have put the thresholds back do not exist in the child.
    global _users, _lock
    _lock = threading.Lock()
    if _users and gc.get_threshold() == _RELAXED:
        gc.set_threshold(*_before)
    _users = 0


os.register_at_fork(after_in_child=_start_afresh_in_child)
