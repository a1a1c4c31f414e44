"""What the back office does with a ledger: scripts that read and write, in the ledger's own transactions."""

from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import TypeVar

from game_operator.ledger.accounts.choice import check_own, is_marked
from game_operator.ledger.api import BetRecord
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.ownership import check_owned
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.staff import queries
from game_operator.ledger.staff.adjustments import Adjustment, adjust
from game_operator.ledger.staff.queries import BetsWanted, Use
from game_operator.ledger.steps import Steps

T = TypeVar("T")


class Office:
    """
    The back office of one SqlLedger.

    A script is called with the ledger's dialect, which knows its tables, and returns steps. It runs from its beginning
    again where it raises ConflictError.
    """

    def __init__(self, ledger: SqlLedger) -> None:
        self._ledger = ledger

    def read(self, script: Callable[[SqlDialect], Steps[T]]) -> T:
        """
        Run a script that only reads, in one transaction over the ledger's connection.

        On SQLite it reads one snapshot. On PostgreSQL each statement sees what was committed before it; ``survey``
        reads one snapshot on both.
        """
        return self._ledger._read(lambda: script(self._ledger._fit))

    def survey(self, script: Callable[[SqlDialect], Steps[T]], use: Use = "survey") -> T:
        """Run a script that reads much from one snapshot, over a connection beside the ledger's: no call waits."""
        return self._ledger._survey(lambda: script(self._ledger._fit), use)

    def write(self, script: Callable[[SqlDialect], Steps[T]]) -> T:
        """Run a script in one transaction."""
        return self._ledger._write(lambda: script(self._ledger._fit))

    def known_accounts(self, keys: Collection[str]) -> set[str] | None:
        """
        Return which of *keys* are accounts of the ledger, or rows of its TableAccounts.

        None if that cannot be asked for many at once: accounts behind an object, and keys of several columns.
        """
        return self.read(lambda fit: fit.accounts.known(frozenset(keys)))

    def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> Adjustment:
        """Adjust an account of the ledger's own, as ``SqlLedger.adjust`` does, and report whether it was moved now."""
        check_own(self._ledger.accounts, "adjust")
        self.check_owned([player_id])
        return self.write(partial(adjust, player_id, amount, reference))

    def check_owned(self, player_ids: Iterable[str]) -> None:
        """Raise LedgerError for a player that the ledger does not own."""
        for each in player_ids:
            check_owned(self._ledger._owns, each)

    def resolve(self, anomaly_ids: Sequence[int]) -> None:
        """Mark anomalies as looked after; if one does not exist, mark none and raise RetryRefusedError."""
        self._ledger._resolve(anomaly_ids)

    def are_balances_elsewhere(self) -> bool:
        """Return whether a ledger was opened here whose balances are in the operator's own table."""
        return self.read(lambda fit: is_marked(fit.prefix))

    def now_millis(self) -> int:
        """Return the time by the ledger's clock in Unix milliseconds: on PostgreSQL by the server's."""
        return self.read(lambda fit: fit.now_millis())

    def oldest_bets(self, wanted: BetsWanted, most: int) -> list[BetRecord]:
        """Return at most *most* bets of one source or of all, the oldest first."""
        return self.survey(lambda fit: queries.oldest_bets(fit.prefix, wanted, most), "listing")
