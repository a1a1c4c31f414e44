"""A ledger that keeps its books in dicts and lists: what is compared with one in a database, call by call."""

from collections.abc import Mapping
from typing import Any, cast

from game_operator.errors import LedgerError
from game_operator.ledger import BetRecord, Outcome, Terms
from game_operator.ledger.api import Account, CallRecord
from game_operator.ledger.engine.batch import apply_items
from game_operator.ledger.engine.dialects import Loaded, SqlDialect
from game_operator.ledger.rules.book import Changes, Item, Needs
from game_operator.ledger.steps import AskOperator, Steps, run
from game_operator.models.webhooks import WebhookCall


class Twin:
    """The rows of one source, loaded and stored for each call as a dialect does."""

    key_parts = step_cents = 1

    def __init__(self, opening_cents: Mapping[str, int]) -> None:
        self.accounts = {key: Account(key, cents) for key, cents in opening_cents.items()}
        self.bets: dict[str, BetRecord] = {}
        self.calls: dict[tuple[str, str], CallRecord] = {}
        self.anomalies: set[str] = set()
        self.sources = self
        self._now_millis = 1_000

    def apply(self, call: WebhookCall, terms: Terms) -> Outcome:
        """Apply *call*; nobody undoes it."""
        result = run(apply_items([Item(call, terms)], cast("SqlDialect", self)), _asked)[0]
        if isinstance(result, Exception):
            raise result
        return result

    def knows(self, _: str) -> bool:
        return True

    def load(self, needs: Needs) -> Steps[Loaded]:
        yield from ()
        self._now_millis += 1
        return Loaded(
            [self.accounts[key] for key in needs.accounts if key in self.accounts],
            [self.bets[bet_id] for bet_id in needs.bets if bet_id in self.bets],
            [self.calls[identity] for identity in needs.calls if identity in self.calls],
            self._now_millis,
        )

    def store(self, _: str, changes: Changes, *, was: Mapping[str, Account]) -> Steps[None]:
        yield from ()
        assert was.keys() >= changes.accounts.keys()
        self.accounts |= changes.accounts
        self.bets |= changes.new_bets | changes.changed_bets
        self.calls |= {(call.operation, call.tx_id): call for call in changes.calls}
        self.anomalies |= {anomaly.kind for anomaly in changes.anomalies}

    def balance_now(self, _: str) -> Steps[int | None]:
        yield from ()
        return None


def _asked(step: Any) -> Any:
    if not isinstance(step, AskOperator):
        raise LedgerError(f"{step} is no question to the operator")
    return step.answered(None)
