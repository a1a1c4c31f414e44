"""The balances that are the operator's, and those of them that are behind an object."""

from collections.abc import Callable, Mapping, Set
from typing import Any, ClassVar, NoReturn

from game_operator.errors import ConfigurationError, LedgerError, shown
from game_operator.ledger.api import MAX_BALANCE_CENTS, Account, Accounts, AsyncAccounts
from game_operator.ledger.engine.dialects import Balances, LookUp
from game_operator.ledger.engine.tables import CLOCK
from game_operator.ledger.rules.book import Changes
from game_operator.ledger.steps import AskOperator, Execute, Kind, Rows, Steps, Together


class OperatorBalances(Balances):
    """Balances of the operator's. They do not say when each account moved last, so the ledger keeps it."""

    writes: ClassVar[tuple[str, ...]] = ("clocks",)

    def __init__(self, kind: Kind, prefix: str) -> None:
        super().__init__(kind, prefix)
        self.clocks: LookUp = LookUp(kind, self._sql["clocks"])

    def rows(self, changes: Changes, was: Mapping[str, Account]) -> Steps[dict[str, list[Any]]]:  # noqa: ARG002 - the Protocol's
        """Return the rows to write."""
        yield from ()
        return {"clocks": [(key, at) for key, _, at in changes.accounts.values()]}


class ObjectBalances(OperatorBalances):
    """Balances behind an object: locked and moved by its methods, one call at a time."""

    unknown = "Accounts.lock answered None."

    def __init__(self, kind: Kind, prefix: str, accounts: Accounts | AsyncAccounts) -> None:
        super().__init__(kind, prefix)
        self._accounts = accounts

    def load(self, keys: Set[str], others: tuple[Execute, ...]) -> Steps[tuple[list[Account], int | None, list[Rows]]]:
        """Lock the accounts in sorted order, then read *others*; return those that exist, the clock, and their rows."""
        balances = {}
        for key in sorted(keys):
            cents = yield from self.balance(key)
            if cents is not None:
                balances[key] = cents
        clock = () if self.kind == "sqlite" else (Execute(f"SELECT {CLOCK}", ()),)
        rows, *rest = yield Together((self.clocks.of(balances.keys()), *clock, *others))
        now_millis = rest.pop(0)[0][0] if clock else None
        at_millis = {row[0]: row[1] for row in rows}
        return [Account(key, cents, at_millis.get(key, 0)) for key, cents in balances.items()], now_millis, rest

    def after_store(self, changes: Changes, was: Mapping[str, Account]) -> Steps[None]:
        """Move the accounts."""
        for key, cents, _ in changes.accounts.values():
            before_cents = was[key].balance_cents
            delta_cents = cents - before_cents
            if not delta_cents:
                continue
            moving = AskOperator("Accounts.move", self._mover(key, delta_cents))
            after_cents = _checked("move", key, (yield moving))
            if after_cents != cents:
                raise LedgerError(
                    f"Accounts.move answered {after_cents} cents for {shown(key)}, which held {before_cents} and was "
                    f"moved by {delta_cents}. Nothing was kept: lock and move must speak of one and the same balance."
                )

    def _mover(self, key: str, delta_cents: int) -> Callable[[Any], Any]:
        return lambda connection: self._accounts.move(connection, key, delta_cents)

    def balance(self, key: str) -> Steps[int | None]:
        """Return a balance in cents, or None if there is no such account."""
        cents = yield AskOperator("Accounts.lock", lambda connection: self._accounts.lock(connection, key))
        return None if cents is None else _checked("lock", key, cents)

    def known(self, keys: Set[str]) -> Steps[set[str] | None]:  # noqa: ARG002 - as its base class
        """Return None: to ask for each would lock each. Raise ConfigurationError if the accounts were not passed."""
        yield from ()
        if isinstance(self._accounts, Elsewhere):
            self._accounts.lock()
        return None


def _checked(method: str, key: str, cents: object) -> int:
    # bool is an int, and a float would be money lost.
    if type(cents) is not int or abs(cents) > MAX_BALANCE_CENTS:
        raise LedgerError(
            f"Accounts.{method} answered {shown(cents)} for {shown(key)}; it must answer the balance as an int of cents"
        )
    return cents


class Elsewhere:
    """Stands for the operator's Accounts in a ledger that was opened without them: it locks and moves nothing."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def lock(self, *_: object) -> NoReturn:
        """Raise ConfigurationError."""
        raise ConfigurationError(
            f"The ledger {self._prefix}* keeps its balances in your own table, and it was opened without accounts=. "
            "Nothing was moved. Pass the accounts= that your wallet passes; on the command line, --accounts-table, "
            "--accounts-key and --accounts-balance. Opening and adjusting accounts never work here: change the rows of "
            "your table instead. A campaign can go without your players: check_players=False, or --no-player-check."
        )

    move = lock
