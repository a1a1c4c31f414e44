"""Refuses what would wait for itself: a ledger that is used from within one of its own transactions."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from game_operator.errors import LedgerError

__all__ = ["Transactions"]


class Transactions:
    """
    Knows whether the code that asks runs inside a transaction of one ledger.

    It is kept in the context, which threads begin empty and tasks inherit: a task that ``within`` starts, to await it,
    is inside as well.
    """

    def check(self) -> None:
        """Raise LedgerError inside one."""
        if any(each.owner is self and each.is_open for each in _ENTERED.get()):
            raise LedgerError(
                "may_bet, account_of, within and accounts run in a transaction of this ledger, which would wait for "
                "itself. In within, pass its connection on: ledger.apply(call, connection=connection). Read what "
                "else you need before the call, or over a connection of your own."
            )

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside one."""
        before, transaction = _ENTERED.get(), _Transaction(self)
        _ENTERED.set((*before, transaction))
        try:
            yield
        finally:
            # A task that outlives it has inherited it, and may go on with the ledger.
            transaction.is_open = False
            _ENTERED.set(before)


class _Transaction:
    __slots__ = ("is_open", "owner")

    def __init__(self, owner: Transactions) -> None:
        self.owner = owner
        self.is_open = True


_ENTERED: ContextVar[tuple[_Transaction, ...]] = ContextVar("game_operator_transactions", default=())
