"""
Consecutive deliveries of one call with the same answer, as one row of the list.

A call that the wallet never answers definitely is sent a dozen times, and so many rows would hide all others. What
differs in anything that a row shows, such as the balance or a fault, has a row for itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from game_operator_testkit.control_room.outcomes import ExchangeRow
from game_operator_testkit.sandbox.dealing.balances import ReportedBalance


@dataclass(frozen=True, slots=True)
class Fold:
    """
    A row of the list.

    Attributes:
        row: The newest delivery.
        first: The number of the oldest one, by which a row is known that has grown.
        count: How many deliveries there are.
        disagrees: Whether the balance in the answer is wrong.
    """

    row: ExchangeRow
    first: int
    count: int
    disagrees: bool

    @property
    def number(self) -> int:
        """The number of the newest delivery."""
        return self.row.exchange.number

    def takes(self, older: "Fold") -> bool:
        """Return whether *older*, which comes next in the list, belongs to this row."""
        return self._is_of_a_call and self._shown() == older._shown()

    @property
    def _is_of_a_call(self) -> bool:
        return bool(self.row.exchange.call_key)

    def _shown(self) -> tuple[object, ...]:
        exchange = self.row.exchange
        answer = (self.row.answer, self.row.loss, exchange.balance_cents, self.disagrees)
        return (exchange.call_key, exchange.fault, *answer)


def folds_of(
    rows: Iterable[ExchangeRow], wrong: Mapping[int, ReportedBalance], below: Fold | None = None
) -> list[Fold]:
    """Return *rows*, the newest first, as folds; the oldest one may take in *below*. *wrong* are wrong balances."""
    folds: list[Fold] = []
    single = [Fold(each, each.exchange.number, 1, each.exchange.number in wrong) for each in rows]
    for each in [*single, *([] if below is None else [below])]:
        if folds and folds[-1].takes(each):
            folds[-1] = replace(folds[-1], first=each.first, count=folds[-1].count + each.count)
        else:
            folds.append(each)
    return folds
