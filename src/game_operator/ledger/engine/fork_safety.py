"""
What a fork means for a ledger: the child must not use, and not even lock, what is the parent's.

SQLite's locks are the process's and are not inherited, while its memory of holding them is; a connection to PostgreSQL
shared by two processes mixes their answers; and a lock held by another thread is never released in the child.
"""

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["Forkable", "told_of_forks"]


class Forkable(Protocol):
    """What wants to know of a fork, by ``told_of_forks``."""

    def before_fork(self) -> None:
        """Come to rest; nothing here may raise."""

    def after_fork(self, *, in_child: bool) -> None:
        """Go on, in the parent as before, in the child with nothing of the parent's."""


_FORKABLE: WeakSet[Forkable] = WeakSet()
_at_rest: list[Forkable] = []


def told_of_forks(forkable: Forkable) -> None:
    """Tell *forkable* of every fork for as long as it lives."""
    _FORKABLE.add(forkable)


def _before() -> None:
    for forkable in list(_FORKABLE):
        forkable.before_fork()
        _at_rest.append(forkable)


def _after(*, in_child: bool) -> None:
    while _at_rest:
        _at_rest.pop().after_fork(in_child=in_child)


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )
