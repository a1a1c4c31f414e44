"""
Plain calls in SQLite: the two that make up nearly all traffic, decided without records, in the transaction of a batch.

A call is plain where nothing is left to decide: a withdraw of an unseen bet which its account can pay while bets are
not stopped, and a deposit of the same player's OPEN bet. What is not plain follows in the same transaction the long
way, through ``decide``. That an identity is unseen is not looked up: its constraint says so. If one is known,
ConflictError is raised, and the whole batch goes the long way.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from game_operator.codes import BetState
from game_operator.ledger.api import MAX_BALANCE_CENTS, Account, Outcome, Terms
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.script import Result, Rows, Script, apply_items, completed
from game_operator.ledger.engine.tables import LookUp
from game_operator.ledger.rules.book import Changes, Item, asks_operator, currency_named
from game_operator.models.webhooks import DepositCall, WithdrawCall
from game_operator.money import Cents

_Row: TypeAlias = tuple[Any, ...]

_OPEN, _SPENT, _CLOSED = BetState.OPEN.value, BetState.SPENT.value, BetState.CLOSED.value
#: In place of a bet that a call of this batch has opened or closed.
_TAKEN: _Row = ("", "", "", None)


class PlainCalls:
    """Applies calls in the tables of *dialect*: an SQLite file with the ledger's own balances."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect
        columns, prefix = "bet_id, state, player_id, account, round_id", dialect.prefix
        # S608: the prefix was checked.
        bets = f"SELECT {columns} FROM {prefix}bets WHERE source = ? AND bet_id"  # noqa: S608
        stop = f"SELECT NULL, code, NULL, NULL, NULL FROM {prefix}bet_stops WHERE started_at_millis IS NULL"  # noqa: S608
        self._bets = LookUp("sqlite", f"{stop} UNION ALL {bets}")

    def attempts(self, items: Sequence[Item]) -> Callable[[], Script[list[Result]]]:
        """Return what applies *items*, all of one known source: the first time plain calls as such, then none."""
        scripts = iter((partial(self._plain_first, items),))
        return lambda: next(scripts, partial(apply_items, items, self._dialect))()

    def _plain_first(self, items: Sequence[Item]) -> Script[list[Result]]:
        done = yield from self._done(items)
        return (yield from completed(items, done, lambda rest: apply_items(rest, self._dialect)))

    def _done(self, items: Sequence[Item]) -> Script[dict[int, Outcome]]:
        """Apply those of *items* that are plain; return their outcomes by index."""
        calls = {index: call for index, item in enumerate(items) if (call := _candidate(item))}
        if not calls:
            return {}
        source = items[0].terms.source
        players, bet_ids = {call.player_id for call in calls.values()}, {call.bet_id for call in calls.values()}
        loading = self._dialect.accounts.load(players, (self._bets.of(bet_ids, source),))
        accounts, _, (bets,) = yield from loading
        page = _Page(source, (yield from self._dialect.now_millis()), accounts, bets)
        outcomes = {index: page.applied(call, items[index].terms) for index, call in calls.items()}
        done = {index: outcome for index, outcome in outcomes.items() if outcome}
        yield from self._dialect.write(page.rows(), Changes(), {})
        return done


def _candidate(item: Item) -> WithdrawCall | DepositCall | None:
    """Return the call of *item* if it may be plain."""
    call, terms = item.call, item.terms
    if terms.account_of is not None or asks_operator(call, terms):
        return None
    if type(call) is WithdrawCall and call.amount_cents:
        return call
    if type(call) is DepositCall and not call.is_claim and call.won_cents in (None, call.amount_cents):
        return call
    return None


class _Page:
    """Accounts and bets as they were loaded, and the rows of the calls that were applied to them."""

    def __init__(self, source: str, clock_millis: int, accounts: Iterable[Account], bets: Rows) -> None:
        self._source, self._clock_millis = source, clock_millis
        #: Balance and time by account; and the balance as it was loaded, of those that were moved.
        self._accounts = {key: (cents, at_millis) for key, cents, at_millis in accounts}
        self._was: dict[str, int] = {}
        #: By id. A stop of bets has none.
        self._bets: dict[str | None, _Row] = {bet_id: tuple(bet) for bet_id, *bet in bets}
        self._calls: list[_Row] = []
        self._new_bets: list[_Row] = []
        self._changed_bets: list[_Row] = []
        self._postings: list[_Row] = []

    def applied(self, call: WithdrawCall | DepositCall, terms: Terms) -> Outcome | None:
        """Apply *call*; return None if it is not plain."""
        if call.player_id not in self._accounts:
            return None
        if isinstance(call, WithdrawCall):
            return self._withdrawn(call, terms)
        return self._deposited(call, terms)

    def _withdrawn(self, call: WithdrawCall, terms: Terms) -> Outcome | None:
        player_id, bet_id, cents = call.player_id, call.bet_id, call.amount_cents
        if bet_id in self._bets or None in self._bets or self._accounts[player_id][0] < cents:
            return None
        self._bets[bet_id] = _TAKEN
        state = _SPENT if call.action in terms.rules.spent_actions else _OPEN
        digest, currency = call.body_digest if call.body else None, currency_named(call, terms)
        outcome = self._moved(call, -cents, currency)
        content = (call.instance_id, call.game, call.round_id, cents, None, state, outcome.at_millis, None, call.action)
        rest = (call.tx_id, None, digest, self._source, currency, None)
        self._new_bets.append((bet_id, player_id, player_id, *content, *rest))
        return outcome

    def _deposited(self, call: DepositCall, terms: Terms) -> Outcome | None:
        player_id, bet_id, cents = call.player_id, call.bet_id, call.amount_cents
        state, *owners, round_id = self._bets.get(bet_id, _TAKEN)
        if state != _OPEN or owners != [player_id, player_id]:
            return None
        if self._accounts[player_id][0] + cents > MAX_BALANCE_CENTS:
            return None
        self._bets[bet_id] = _TAKEN
        outcome = self._moved(call, cents, currency_named(call, terms))
        settled = (_CLOSED, cents, outcome.at_millis, call.tx_id, call.round_id or round_id, None)
        self._changed_bets.append((*settled, self._source, bet_id, _CLOSED))
        return outcome

    def _moved(self, call: WithdrawCall | DepositCall, delta_cents: int, currency: str | None) -> Outcome:
        """Move the account of *call*, at a time later than that of its last movement."""
        account, operation, tx_id = call.player_id, call.operation, call.tx_id
        before_cents, before_millis = self._accounts[account]
        cents, at_millis = before_cents + delta_cents, max(self._clock_millis, before_millis + 1)
        self._was.setdefault(account, before_cents)
        self._accounts[account] = cents, at_millis
        named = (self._source, operation, tx_id, account, account, call.bet_id, call.action, call.amount_cents)
        self._calls.append((*named, None, cents, at_millis, call.instance_id, call.game, currency, None))
        if delta_cents:
            ends = (account, None) if delta_cents < 0 else (None, account)
            self._postings.append((*ends, call.amount_cents, self._source, operation, tx_id, at_millis))
        balance_cents = Cents(cents)
        return Outcome(
            code=None, balance_cents=balance_cents, at_millis=at_millis, applied=True, delta_cents=delta_cents
        )

    def rows(self) -> dict[str, list[_Row]]:
        """Return the rows to write, by the names of a dialect's statements."""
        return {
            "calls": self._calls,
            "new_bets": self._new_bets,
            "changed_bets": self._changed_bets,
            "postings": self._postings,
            "accounts": [(*self._accounts[key], key, cents) for key, cents in self._was.items()],
        }
