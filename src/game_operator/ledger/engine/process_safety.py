"""
What keeps a process from harming itself: forks, calls from within its own transactions, and a clock that steps back.

After a fork the child must not use, and not even lock, what is the parent's. SQLite's locks belong to the process and
are not inherited, while its memory of holding them is; a connection to PostgreSQL shared by two processes mixes their
answers; and a lock held by another thread is never released in the child.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import ContextVar
from weakref import WeakSet

from game_operator.errors import LedgerError


class Forkable(ABC):
    """What comes to rest before a fork and goes on after it."""

    def before_fork(self) -> None:  # noqa: B027 - not all have something to bring to rest
        """Come to rest; nothing here may raise."""

    @abstractmethod
    def after_fork(self, *, in_child: bool) -> None:
        """Go on, in the parent as before, in the child with nothing of the parent's."""


_FORKABLE: WeakSet[Forkable] = WeakSet()
_at_rest: list[Forkable] = []


def notify_of_forks(forkable: Forkable) -> None:
    """Notify *forkable* of every fork for as long as it lives."""
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


class Transaction:
    """
    A transaction of *owner*, from ``with`` to the end of its block. A plain class, because every call enters one.

    It is kept in the context, which threads begin empty and tasks inherit: a task that ``after`` starts, to await it,
    is inside as well.
    """

    __slots__ = ("_before", "owner")

    def __init__(self, owner: object) -> None:
        self.owner: object | None = owner
        self._before = _ENTERED.get()

    def __enter__(self) -> None:
        _ENTERED.set((*self._before, self))

    def __exit__(self, *_exc: object) -> None:
        # A task that outlives it has inherited it, and may go on with the ledger.
        self.owner = None
        _ENTERED.set(self._before)


def is_inside(owner: object) -> bool:
    """Return whether the code that asks runs inside a transaction of the ledger *owner*."""
    return any(each.owner is owner for each in _ENTERED.get())


def check_outside(owner: object) -> None:
    """Raise LedgerError if the code that asks runs inside a transaction of the ledger *owner*."""
    if is_inside(owner):
        raise LedgerError(
            "may_bet, account_of, after and accounts run in a transaction of this ledger, which would wait for itself. "
            "In may_bet and after, pass their connection on: ledger.spent(account, since_millis=…, "
            "connection=connection), and in after ledger.apply(call, connection=connection). Read your tables over it, "
            "too."
        )


_ENTERED: ContextVar[tuple[Transaction, ...]] = ContextVar("game_operator_transactions", default=())


def never_back(clock_millis: Callable[[], int]) -> Callable[[], int]:
    """
    Return *clock_millis*, standing still where it would step back.

    The time of a reply with a balance is kept nowhere. If the clock steps back, the next movement would be stored with
    an earlier time than that reply had. Call it with a lock held.
    """
    latest = 0

    def read() -> int:
        nonlocal latest
        latest = max(latest, clock_millis())
        return latest

    return read
