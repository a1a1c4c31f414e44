"""
The express lane in PostgreSQL: the two calls that make up nearly all traffic, in one statement and one round trip.

The statement takes a call only where nothing is left to decide: a withdraw whose bet and identity are unseen and
whose account can pay all withdraws of the batch, while bets are not stopped, and a deposit whose identity is unseen
and whose bet is OPEN and the same player's. What it does not take, it does not touch. That goes the long way, through
``decide``. A withdraw or deposit that another machine stores at the same moment is a unique violation, which undoes
the whole statement.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from game_operator.codes import BetState
from game_operator.ledger.api import Outcome
from game_operator.ledger.engine.dialects import BET_COLUMNS, CALL_ROW
from game_operator.ledger.engine.tables import OLDEST_WRITER, VERSION, sql_texts
from game_operator.ledger.rules.book import Item, asks_operator, currency_named
from game_operator.models.webhooks import DepositCall, WebhookCall, WithdrawCall
from game_operator.money import Cents

#: A statement of PostgreSQL with ``$1``, ``$2`` and so on, all of them of the type text, and what they are.
Statement: TypeAlias = tuple[str, Sequence[str | None]]


class Express:
    """Makes the statements for tables with a prefix, and reads their rows."""

    def __init__(self, prefix: str, clock: str) -> None:
        # Nothing is taken here once a newer program has shut out those of our version.
        may_write = f"coalesce(({OLDEST_WRITER.format(prefix=prefix)}), 0) <= {VERSION}"
        values = {"call_columns": CALL_ROW, "bet_columns": BET_COLUMNS, "may_write": may_write, "version": str(VERSION)}
        self._sql = sql_texts(__package__, "express.sql", prefix=prefix, clock=clock, **values)

    def statement(self, items: Sequence[Item]) -> Statement | None:
        """Return the statement that applies what can be applied of *items*, all of one source; None if nothing can."""
        rows: list[tuple[Any, ...]] = []
        bets: set[str] = set()
        identities: set[tuple[str, str]] = set()
        for index, item in enumerate(items):
            row = _row(index, item)
            # Each bet and each identity goes this way once.
            if row is None or row[5] in bets or (row[1], row[3]) in identities:
                continue
            bets.add(row[5])
            identities.add((row[1], row[3]))
            rows.append(row)
        if not rows:
            return None
        source = items[0].terms.source
        if len(rows) == 1 and rows[0][1] == "withdraw":
            index, _, account, tx_id, action, bet_id, cents, _, *content = rows[0]
            parameters = (str(index), source, account, tx_id, action, bet_id, str(cents), *content)
            return self._sql["lone_withdraw"], parameters
        return self._sql["batch"], (json.dumps(rows), source)

    def outcomes(self, items: Sequence[Item], rows: Iterable[Sequence[str]]) -> dict[int, Outcome]:
        """Return the outcomes by the index of their *items*, from the rows of the statement."""
        return {
            int(index): Outcome(
                code=None,
                balance_cents=Cents(int(cents)),
                at_millis=int(at_millis),
                applied=True,
                delta_cents=_delta_cents(items[int(index)].call),
            )
            for index, cents, at_millis in rows
        }


def _delta_cents(call: WebhookCall) -> int:
    assert isinstance(call, WithdrawCall | DepositCall)
    return -call.amount_cents if isinstance(call, WithdrawCall) else call.amount_cents


def _row(index: int, item: Item) -> tuple[Any, ...] | None:
    call, terms = item.call, item.terms
    if terms.account_of is not None or asks_operator(call, terms):
        return None
    if isinstance(call, WithdrawCall) and call.amount_cents:
        state = BetState.SPENT if call.action in terms.rules.spent_actions else BetState.OPEN
        digest = call.body_digest.hex() if call.body else None
        rest: tuple[Any, ...] = (-call.amount_cents, call.instance_id, call.game, call.round_id, state.value, digest)
    elif isinstance(call, DepositCall) and not call.is_claim and call.won_cents in (None, call.amount_cents):
        rest = (call.amount_cents, call.instance_id, call.game, call.round_id, BetState.OPEN.value, None)
    else:
        return None
    named = (call.player_id, call.tx_id, call.action, call.bet_id)
    return (index, call.operation, *named, call.amount_cents, *rest, currency_named(call, terms))
