"""
A ledger's rows in PostgreSQL, by psycopg 3: rows locked in sorted order, each batch one transaction.

Correctness rests on row locks and unique constraints, never on this process's memory, so any number of machines may
share one database. An account's row is locked before bets and calls are read, each by a statement of its own: under
READ COMMITTED they see all that was committed before the lock was ours. The clock is the server's, read row by row
after each lock.
"""

import json
from collections.abc import Generator, Iterable, Mapping, Set
from typing import Any, Protocol

from game_operator.ledger.accounts.own import OwnPostgresAccounts
from game_operator.ledger.api import Account, CallRecord
from game_operator.ledger.engine.rows import (
    BET_COLUMNS,
    CALL_COLUMNS,
    CALL_ROW,
    CLOCK,
    JSON_ROWS,
    KEYS,
    anomaly_rows,
    bet_of,
    bet_rows,
    call_rows,
    changed_bet_rows,
    json_column,
    json_columns,
)
from game_operator.ledger.engine.schema import OLDEST_WRITER, refuse_writer
from game_operator.ledger.engine.script import ConflictError, Execute, Loaded, Rows, Step, Together
from game_operator.ledger.engine.sources import Sources
from game_operator.ledger.postgres.express import Express
from game_operator.ledger.rules.book import Changes, Needs


class PostgresAccounts(Protocol):
    """How accounts are locked, read and moved in PostgreSQL: our own, or the operator's."""

    @property
    def unknown(self) -> str:
        """What to do about an account that does not exist."""

    @property
    def key_parts(self) -> int:
        """How many parts the key of an account has."""

    @property
    def parts(self) -> Mapping[str, str]:
        """The statements that write the rows of ``rows``, for the one statement that stores a batch."""

    def load(
        self, keys: Set[str], others: tuple[Execute, ...]
    ) -> Generator[Step, Any, tuple[list[Account], int | None, list[Rows]]]:
        """Lock the accounts, then read *others*; return those that exist, the clock if it was read, and their rows."""

    def rows(self, changes: Changes, was: Mapping[str, Account]) -> Mapping[str, list[Any]]:
        """Return the rows to write, as many as each of ``parts`` must change."""

    def stored(self, statement: Execute, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, Rows]:
        """Perform the statement with ``parts``, make sure that balances moved as they should, and return its rows."""

    def after_store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Do what cannot be done by ``parts``."""

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents as it is committed, or None if there is no such account."""


class PostgresDialect:
    """How rows are loaded and stored in PostgreSQL."""

    def __init__(self, prefix: str, *, accounts: PostgresAccounts | None = None) -> None:
        self.accounts = accounts or OwnPostgresAccounts(prefix)
        self.key_parts = self.accounts.key_parts
        # S608: the prefix was checked; all else is a parameter.
        self._bets = f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE source = ? AND bet_id = ANY({KEYS})"  # noqa: S608
        self._calls = (
            f"SELECT {CALL_COLUMNS} FROM {prefix}calls "  # noqa: S608
            f"WHERE source = ? AND operation = ? AND tx_id = ANY({KEYS})"
        )
        self._parts = {**_parts(prefix), **self.accounts.parts}
        self.express = Express(prefix, CLOCK)
        #: Further columns of the statement that stores, each with a comma before it.
        self.beside = ""
        self.sources = Sources("postgres", prefix)
        self._prefix = prefix
        self._oldest_writer = f"({OLDEST_WRITER.format(prefix=prefix)})"
        self._upsert_anomalies = (
            f"INSERT INTO {prefix}anomalies AS kept (source, kind, code, operation, tx_id, bet_id, player_id, body, "  # noqa: S608
            "digest, first_at_millis, last_at_millis, seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) "
            "ON CONFLICT (source, kind, operation, digest) DO UPDATE SET seen = kept.seen + 1, code = excluded.code, "
            f"last_at_millis = excluded.last_at_millis RETURNING {self._oldest_writer}"
        )

    def load(self, needs: Needs) -> Generator[Step, Any, Loaded]:
        """Lock the accounts in sorted order, then read bets and calls."""
        statements = []
        if needs.bets:
            statements.append(Execute(self._bets, (needs.source, json.dumps(sorted(needs.bets)))))
        for operation, tx_ids in _by_operation(needs.calls):
            statements.append(Execute(self._calls, (needs.source, operation, json.dumps(tx_ids))))
        accounts, clock_millis, others = yield from self.accounts.load(needs.accounts, tuple(statements))
        bets = others.pop(0) if needs.bets else []
        if clock_millis is None:
            clock_millis = (yield Execute(f"SELECT {CLOCK}", ()))[0][0]
        return Loaded(
            accounts,
            list(map(bet_of, bets)),
            [CallRecord(*row) for rows in others for row in rows],
            clock_millis,
        )

    def store(self, source: str, changes: Changes, *, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Write what changed in one statement; ConflictError if any of it is there already."""
        rows: dict[str, list[Any]] = {
            "calls": [_hexed(row, 11) for row in call_rows(changes, source)],
            "new_bets": [_hexed(row, 14) for row in bet_rows(changes.new_bets.values(), source)],
            "changed_bets": changed_bet_rows(changes.changed_bets.values(), source),
            "postings": list(changes.postings),
            **self.accounts.rows(changes, was),
        }
        present = [name for name in rows if rows[name]]
        if present:
            # A dot, for the operator's own table could have any other name, and would be taken for one of these.
            parts = ", ".join(f'"stored.{name}" AS ({self._parts[name]} RETURNING 1)' for name in present)
            counts = ", ".join(f'(SELECT count(*) FROM "stored.{name}")' for name in present)  # noqa: S608
            sql = f"WITH {parts} SELECT {self._oldest_writer}, {counts}{self.beside}"
            statement = Execute(sql, [json.dumps(rows[name]) for name in present])
            stored = yield from self.accounts.stored(statement, changes, was)
            refuse_writer(stored[0][0], self._prefix)
            if list(stored[0][1 : 1 + len(present)]) != [len(rows[name]) for name in present]:
                raise ConflictError
        yield from self.accounts.after_store(changes, was)
        if changes.anomalies:
            in_order = sorted(anomaly_rows(changes.anomalies, source), key=lambda row: (row[1], row[3], row[8]))
            upserted = yield Together(tuple(Execute(self._upsert_anomalies, row) for row in in_order))
            refuse_writer(upserted[0][0][0], self._prefix)


def _by_operation(calls: Iterable[tuple[str, str]]) -> Iterable[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for operation, tx_id in sorted(calls):
        groups.setdefault(operation, []).append(tx_id)
    return groups.items()


def _hexed(row: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    value = row[index]
    return row if value is None else (*row[:index], value.hex(), *row[index + 1 :])


def _parts(prefix: str) -> dict[str, str]:
    """Return the statement for each list of rows; the rows come as one JSON text, an array of arrays."""
    return {
        "calls": f"INSERT INTO {prefix}calls ({CALL_ROW}) SELECT {json_columns('tttttttbtbbx')} FROM {JSON_ROWS} "  # noqa: S608
        "ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING",
        "new_bets": f"INSERT INTO {prefix}bets ({BET_COLUMNS}) SELECT {json_columns('ttttttbbtbbtttxt')} "  # noqa: S608
        f"FROM {JSON_ROWS} ORDER BY 1 ON CONFLICT DO NOTHING",
        "changed_bets": (
            f"UPDATE {prefix}bets SET state = {json_column(0, 't')}, won_cents = {json_column(1, 'b')}, "  # noqa: S608
            f"settled_at_millis = {json_column(2, 'b')}, deposit_tx_id = {json_column(3, 't')}, "
            f"round_id = {json_column(4, 't')} "
            f"FROM {JSON_ROWS} WHERE source = {json_column(5, 't')} AND bet_id = {json_column(6, 't')} "
            "AND (state IN ('OPEN', 'SPENT') "
            f"OR (state = 'CLOSED' AND deposit_tx_id IS NULL AND {json_column(7, 't')} = 'CLOSED'))"
        ),
        "postings": (
            f"INSERT INTO {prefix}postings "  # noqa: S608
            "(from_account, to_account, amount_cents, source, operation, tx_id, at_millis) "
            f"SELECT {json_columns('ttbtttb')} FROM {JSON_ROWS}"
        ),
    }
