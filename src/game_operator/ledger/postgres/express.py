"""
The express lane in PostgreSQL: the two calls that make up nearly all traffic, in one statement and one round trip.

The statement takes a call only where nothing is left to decide: a withdraw whose bet and identity are unseen and
whose account can pay all withdraws of the batch, and a deposit whose identity is unseen and whose bet is OPEN and the
same player's. What it does not take, it does not touch. That goes the long way, through ``decide``. A withdraw or
deposit that another machine stores at the same moment is a unique violation, which undoes the whole statement.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from game_operator.codes import BetState
from game_operator.ledger.api import Outcome
from game_operator.ledger.engine.tables import BET_COLUMNS, CALL_ROW, OLDEST_WRITER, VERSION
from game_operator.ledger.rules.book import Item
from game_operator.models.webhooks import DepositCall, WithdrawCall
from game_operator.money import Cents


class Statement(NamedTuple):
    """A statement of PostgreSQL with ``$1``, ``$2`` and so on, all of them of the type text, and what they are."""

    sql: str
    parameters: Sequence[str | None]


class Express:
    """Makes the statements for tables with a prefix, and reads their rows."""

    def __init__(self, prefix: str, clock: str) -> None:
        self._sql = _sql(prefix, clock)
        self._lone_withdraw = _lone_withdraw(prefix, clock)

    def statement(self, items: Sequence[Item]) -> Statement | None:
        """Return the statement that applies what can be applied of *items*, all of one source; None if nothing can."""
        rows = _rows(items)
        if not rows:
            return None
        source = items[0].terms.source
        if len(rows) == 1 and rows[0][1] == "withdraw":
            index, _, account, tx_id, action, bet_id, cents, _, *content = rows[0]
            return Statement(
                self._lone_withdraw, (str(index), source, account, tx_id, action, bet_id, str(cents), *content)
            )
        return Statement(self._sql, (json.dumps(rows), source))

    def outcomes(self, rows: Iterable[Sequence[str]]) -> dict[int, Outcome]:
        """Return the outcomes by the index of their items, from the rows of the statement."""
        return {int(index): _applied(int(balance_cents), int(at_millis)) for index, balance_cents, at_millis in rows}


def _applied(balance_cents: int, at_millis: int) -> Outcome:
    return Outcome(code=None, balance_cents=Cents(balance_cents), at_millis=at_millis, applied=True)


def _rows(items: Sequence[Item]) -> list[tuple[Any, ...]]:
    """Return the calls that may go this way, each bet and each identity once."""
    rows: list[tuple[Any, ...]] = []
    bets: set[str] = set()
    identities: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        row = _row(index, item)
        if row is None or row[5] in bets or (row[1], row[3]) in identities:
            continue
        bets.add(row[5])
        identities.add((row[1], row[3]))
        rows.append(row)
    return rows


def _row(index: int, item: Item) -> tuple[Any, ...] | None:
    call, terms = item.call, item.terms
    if terms.may_bet is not None or terms.account_of is not None or terms.within is not None:
        return None
    if isinstance(call, WithdrawCall) and call.amount_cents:
        state = BetState.SPENT if call.action in terms.rules.spent_actions else BetState.OPEN
        digest = call.body_digest.hex() if call.body else None
        rest: tuple[Any, ...] = (-call.amount_cents, call.instance_id, call.game, call.round_id, state.value, digest)
    elif isinstance(call, DepositCall) and not call.is_claim and call.won_cents in (None, call.amount_cents):
        rest = (call.amount_cents, None, None, call.round_id, None, None)
    else:
        return None
    return (index, call.operation, call.player_id, call.tx_id, call.action, call.bet_id, call.amount_cents, *rest)


# Look-ups are scalar subqueries: NOT EXISTS becomes a join, which a plan made over empty tables would do by scanning.
# The rows travel as one JSON text, an array of arrays in this order.
_FIELDS = (
    ("n", "CAST({} AS bigint)"),
    ("operation", "{}"),
    ("account", "{}"),
    ("tx_id", "{}"),
    ("action", "{}"),
    ("bet_id", "{}"),
    ("amount_cents", "CAST({} AS bigint)"),
    ("delta_cents", "CAST({} AS bigint)"),
    ("instance_id", "{}"),
    ("game", "{}"),
    ("round_id", "{}"),
    ("state", "{}"),
    ("digest", "decode({}, 'hex')"),
)


def _may_write(prefix: str) -> str:
    """Return the condition that no newer program has shut out those of our version; then nothing is taken here."""
    return f"coalesce(({OLDEST_WRITER.format(prefix=prefix)}), 0) <= {VERSION}"


def _sql(prefix: str, clock: str) -> str:
    fields = ", ".join(f"{form.format(f'(row ->> {index})')} AS {name}" for index, (name, form) in enumerate(_FIELDS))
    # S608: made of our own texts and a checked prefix; all else is a parameter.
    return f"""
WITH item AS MATERIALIZED (
    SELECT {fields} FROM jsonb_array_elements(CAST(CAST($1 AS text) AS jsonb)) AS row
), locked AS MATERIALIZED (
    SELECT account, balance_cents, at_millis, {clock} AS clock FROM (
        SELECT account, balance_cents, at_millis FROM {prefix}accounts
        WHERE account = ANY(ARRAY(SELECT account FROM item)) AND {_may_write(prefix)} ORDER BY account FOR UPDATE
    ) AS each
), able AS MATERIALIZED (
    SELECT item.*, locked.balance_cents AS before_cents,
        greatest(clock, at_millis + 1) + row_number() OVER (PARTITION BY account ORDER BY n) - 1 AS at_millis,
        locked.balance_cents + sum(least(delta_cents, 0)) OVER (PARTITION BY account) >= 0 AS can_pay
    FROM item JOIN locked USING (account)
    WHERE (
        SELECT 1 FROM {prefix}calls AS known
        WHERE known.tx_id = item.tx_id AND known.operation = item.operation AND known.source = $2
    ) IS NULL
), debited AS (
    SELECT * FROM able WHERE operation = 'withdraw' AND can_pay AND (
        SELECT 1 FROM {prefix}bets AS seen WHERE seen.bet_id = able.bet_id AND seen.source = $2
    ) IS NULL
), closed AS (
    UPDATE {prefix}bets AS bet
    SET state = 'CLOSED', won_cents = able.amount_cents, settled_at_millis = able.at_millis,
        deposit_tx_id = able.tx_id, round_id = coalesce(able.round_id, bet.round_id)
    FROM able
    WHERE able.operation = 'deposit' AND bet.bet_id = able.bet_id AND bet.source = $2
        AND bet.state = 'OPEN' AND bet.player_id = able.account AND bet.account = able.account
    RETURNING able.*
), done AS MATERIALIZED (
    SELECT *,
        CAST(before_cents + sum(delta_cents) OVER (PARTITION BY account ORDER BY n) AS bigint) AS balance_cents
    FROM (SELECT * FROM debited UNION ALL SELECT * FROM closed) AS either
), moved AS (
    UPDATE {prefix}accounts AS kept
    SET balance_cents = kept.balance_cents + total.delta_cents, at_millis = total.at_millis
    FROM (
        SELECT account, CAST(sum(delta_cents) AS bigint) AS delta_cents, max(at_millis) AS at_millis
        FROM done GROUP BY account
    ) AS total
    WHERE kept.account = total.account
), called AS (
    INSERT INTO {prefix}calls ({CALL_ROW})
    SELECT $2, operation, tx_id, account, account, bet_id, action, amount_cents, NULL, balance_cents, at_millis, NULL
    FROM done ORDER BY tx_id
), placed AS (
    INSERT INTO {prefix}bets ({BET_COLUMNS})
    SELECT bet_id, account, account, instance_id, game, round_id, amount_cents, NULL, state, at_millis, NULL, action,
        tx_id, NULL, digest, $2
    FROM done WHERE operation = 'withdraw' ORDER BY bet_id
), posted AS (
    INSERT INTO {prefix}postings (from_account, to_account, amount_cents, source, operation, tx_id, at_millis)
    SELECT CASE WHEN delta_cents < 0 THEN account END, CASE WHEN delta_cents > 0 THEN account END,
        amount_cents, $2, operation, tx_id, at_millis
    FROM done WHERE delta_cents <> 0 ORDER BY n
)
SELECT n, balance_cents, at_millis FROM done
"""  # noqa: S608


def _lone_withdraw(prefix: str, clock: str) -> str:
    """
    Return the same for one withdraw: no lists, no running sums, and so a third of the work.

    $1 is its index, $2 the source; then come account, tx_id, action, bet_id, cents, instance_id, game, round_id, state
    and digest.

    The account is locked before the row is computed. An UPDATE that waits for somebody who only read would keep the
    time from before its wait, and a balance replied meanwhile would be the older one with the later time.
    """
    cents = "CAST(CAST($7 AS text) AS bigint)"
    return f"""
WITH locked AS MATERIALIZED (
    SELECT account FROM {prefix}accounts WHERE account = $3 AND {_may_write(prefix)} FOR UPDATE
), moved AS (
    UPDATE {prefix}accounts AS kept
    SET balance_cents = kept.balance_cents - {cents}, at_millis = greatest({clock}, kept.at_millis + 1)
    WHERE kept.account = $3 AND (SELECT account FROM locked) IS NOT NULL AND kept.balance_cents >= {cents}
        AND (
            SELECT 1 FROM {prefix}calls AS known
            WHERE known.tx_id = $4 AND known.operation = 'withdraw' AND known.source = $2
        ) IS NULL
        AND (SELECT 1 FROM {prefix}bets AS seen WHERE seen.bet_id = $6 AND seen.source = $2) IS NULL
    RETURNING kept.account, kept.balance_cents, kept.at_millis
), called AS (
    INSERT INTO {prefix}calls ({CALL_ROW})
    SELECT $2, 'withdraw', $4, account, account, $6, $5, {cents}, NULL, balance_cents, at_millis, NULL FROM moved
), placed AS (
    INSERT INTO {prefix}bets ({BET_COLUMNS})
    SELECT $6, account, account, $8, $9, $10, {cents}, NULL, $11, at_millis, NULL, $5, $4, NULL, decode($12, 'hex'), $2
    FROM moved
), posted AS (
    INSERT INTO {prefix}postings (from_account, to_account, amount_cents, source, operation, tx_id, at_millis)
    SELECT account, NULL, {cents}, $2, 'withdraw', $4, at_millis FROM moved
)
SELECT $1, balance_cents, at_millis FROM moved
"""  # noqa: S608 - made of our own texts and a checked prefix
