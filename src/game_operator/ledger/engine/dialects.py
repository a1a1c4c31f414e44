"""
How a ledger's rows are loaded and stored: in SQLite one statement a table, in PostgreSQL one statement a batch.

In SQLite the one write lock of the file is held, so all that is read stands still until COMMIT, the clock included. In
PostgreSQL an account's row is locked, in sorted order, before bets and calls are read, each by a statement of its own:
under READ COMMITTED they see all that was committed before the lock was ours. Correctness rests on row locks and unique
constraints, never on this process's memory, so any number of machines may share one database. The clock is the
server's, read row by row after each lock.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Set
from typing import Any, Protocol

from game_operator.ledger.api import Account, CallRecord
from game_operator.ledger.engine.rows import (
    BET_COLUMNS,
    CALL_COLUMNS,
    CALL_ROW,
    CLOCK,
    JSON_ROWS,
    LookUp,
    anomaly_rows,
    bet_of,
    bet_rows,
    call_rows,
    changed_bet_rows,
    json_column,
    json_columns,
)
from game_operator.ledger.engine.schema import OLDEST_WRITER, VERSION, check_writer, refuse_writer
from game_operator.ledger.engine.script import ConflictError, Execute, Kind, Loaded, Rows, Step, Together
from game_operator.ledger.engine.sources import Sources
from game_operator.ledger.rules.book import Changes, Needs


class Balances(Protocol):
    """How accounts are locked, read and moved: our own, those of a table, or those behind an object."""

    @property
    def unknown(self) -> str:
        """What to do about an account that does not exist."""

    @property
    def key_parts(self) -> int:
        """How many parts the key of an account has."""

    @property
    def parts(self) -> Mapping[str, str]:
        """The statements that write the lists of ``rows``, each as many rows as its list has."""

    def load(
        self, keys: Set[str], others: tuple[Execute, ...]
    ) -> Generator[Step, Any, tuple[list[Account], int | None, list[Rows]]]:
        """Lock the accounts, then read *others*; return those that exist, the clock if it was read, and their rows."""

    def rows(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, Mapping[str, list[Any]]]:
        """Return the rows to write, by the names of ``parts``."""

    def stored(
        self, statements: tuple[Execute, ...], changes: Changes, was: Mapping[str, Account]
    ) -> Generator[Step, Any, list[Any]]:
        """Perform the *statements*, make sure that balances moved as they should, and return the answers."""

    def after_store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Do what ``parts`` cannot."""

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents as it is committed, or None if there is no such account."""


class _Dialect(ABC):
    """What both dialects share: which rows a batch needs, and in which order they are read."""

    kind: Kind

    def __init__(self, prefix: str, accounts: Balances) -> None:
        self.accounts, self.key_parts = accounts, accounts.key_parts
        self.sources = Sources(self.kind, prefix)
        self._prefix = prefix
        # S608: the prefix was checked; all else is a parameter.
        self._bets = LookUp(self.kind, f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE source = ? AND bet_id ")  # noqa: S608
        self._calls = LookUp(
            self.kind,
            f"SELECT {CALL_COLUMNS} FROM {prefix}calls WHERE source = ? AND operation = ? AND tx_id ",  # noqa: S608
        )

    def load(self, needs: Needs) -> Generator[Step, Any, Loaded]:
        """Lock the accounts, then read bets and calls, and the clock if it was not read with the lock."""
        statements = [self._bets.of(needs.bets, needs.source)] if needs.bets else []
        groups: dict[str, set[str]] = {}
        for operation, tx_id in needs.calls:
            groups.setdefault(operation, set()).add(tx_id)
        statements += [self._calls.of(tx_ids, needs.source, operation) for operation, tx_ids in sorted(groups.items())]
        accounts, clock_millis, others = yield from self.accounts.load(needs.accounts, tuple(statements))
        bets = others.pop(0) if needs.bets else ()
        if clock_millis is None:
            clock_millis = yield from self._clock()
        calls = [CallRecord(*row) for rows in others for row in rows]
        return Loaded(accounts, list(map(bet_of, bets)), calls, clock_millis)

    @abstractmethod
    def _clock(self) -> Generator[Step, Any, int]:
        """Return the time it is, in milliseconds."""


class SqliteDialect(_Dialect):
    """How rows are loaded and stored in SQLite; the write lock is ours."""

    kind = "sqlite"

    def __init__(self, prefix: str, accounts: Balances, clock_millis: Callable[[], int]) -> None:
        super().__init__(prefix, accounts)
        self._clock_millis = clock_millis
        # Within the statement, for one of its own would cost as much as the whole look-up of a bet.
        may_write = f"NOT EXISTS ({OLDEST_WRITER.format(prefix=prefix)} AND value > {VERSION})"
        self._insert_calls = _insert(prefix, "calls", CALL_ROW, f"SELECT {{}} WHERE {may_write}")
        self._insert_bets = _insert(prefix, "bets", BET_COLUMNS)
        self._update_bets = (
            f"UPDATE {prefix}bets SET state = ?, won_cents = ?, settled_at_millis = ?, deposit_tx_id = ?, round_id = ? "  # noqa: S608
            "WHERE source = ? AND bet_id = ? AND (state IN ('OPEN', 'SPENT') "
            "OR (state = 'CLOSED' AND deposit_tx_id IS NULL AND ? = 'CLOSED'))"
        )
        self._insert_postings = (
            f"INSERT INTO {prefix}postings "  # noqa: S608
            "(from_account, to_account, amount_cents, source, operation, tx_id, at_millis) VALUES (?, ?, ?, ?, ?, ?, ?)"
        )
        self._upsert_anomalies = (
            f"INSERT INTO {prefix}anomalies (source, kind, code, operation, tx_id, bet_id, player_id, body, digest, "  # noqa: S608
            "first_at_millis, last_at_millis, seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) "
            "ON CONFLICT (source, kind, operation, digest) DO UPDATE SET seen = seen + 1, code = excluded.code, "
            "last_at_millis = excluded.last_at_millis"
        )

    def store(self, source: str, changes: Changes, *, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Write what changed; ConflictError if any of it is there already."""
        if not changes.calls:
            yield from check_writer(self._prefix)
        elif (yield Execute(self._insert_calls, rows := call_rows(changes, source), many=True)) != len(rows):
            yield from check_writer(self._prefix)
            raise ConflictError
        if changes.new_bets:
            yield from _write(self._insert_bets, bet_rows(changes.new_bets.values(), source))
        if changes.changed_bets:
            yield from _write(self._update_bets, changed_bet_rows(changes.changed_bets.values(), source))
        by_part = yield from self.accounts.rows(changes, was)
        writes = tuple(Execute(self.accounts.parts[name], rows, many=True) for name, rows in by_part.items() if rows)
        if (yield from self.accounts.stored(writes, changes, was)) != [len(each.parameters) for each in writes]:
            raise ConflictError
        yield from self.accounts.after_store(changes, was)
        if changes.postings:
            yield from _write(self._insert_postings, changes.postings)
        if changes.anomalies:
            yield Execute(self._upsert_anomalies, anomaly_rows(changes.anomalies, source), many=True)

    def _clock(self) -> Generator[Step, Any, int]:
        yield from ()
        return self._clock_millis()


class PostgresDialect(_Dialect):
    """How rows are loaded and stored in PostgreSQL."""

    kind = "postgres"

    def __init__(self, prefix: str, accounts: Balances) -> None:
        super().__init__(prefix, accounts)
        self._parts = {**_parts(prefix), **accounts.parts}
        #: Further columns of the statement that stores, each with a comma before it.
        self.beside = ""
        self._oldest_writer = f"({OLDEST_WRITER.format(prefix=prefix)})"
        self._upsert_anomalies = (
            f"INSERT INTO {prefix}anomalies AS kept (source, kind, code, operation, tx_id, bet_id, player_id, body, "  # noqa: S608
            "digest, first_at_millis, last_at_millis, seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) "
            "ON CONFLICT (source, kind, operation, digest) DO UPDATE SET seen = kept.seen + 1, code = excluded.code, "
            f"last_at_millis = excluded.last_at_millis RETURNING {self._oldest_writer}"
        )

    def store(self, source: str, changes: Changes, *, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Write what changed in one statement; ConflictError if any of it is there already."""
        rows: dict[str, list[Any]] = {
            "calls": [_hexed(row, 11) for row in call_rows(changes, source)],
            "new_bets": [_hexed(row, 14) for row in bet_rows(changes.new_bets.values(), source)],
            "changed_bets": changed_bet_rows(changes.changed_bets.values(), source),
            "postings": list(changes.postings),
            **(yield from self.accounts.rows(changes, was)),
        }
        present = [name for name in rows if rows[name]]
        if present:
            # A dot, for the operator's own table could have any other name, and would be taken for one of these.
            parts = ", ".join(f'"stored.{name}" AS ({self._parts[name]} RETURNING 1)' for name in present)
            counts = ", ".join(f'(SELECT count(*) FROM "stored.{name}")' for name in present)  # noqa: S608
            sql = f"WITH {parts} SELECT {self._oldest_writer}, {counts}{self.beside}"
            statement = Execute(sql, [json.dumps(rows[name]) for name in present])
            stored = (yield from self.accounts.stored((statement,), changes, was))[0]
            refuse_writer(stored[0][0], self._prefix)
            if list(stored[0][1 : 1 + len(present)]) != [len(rows[name]) for name in present]:
                raise ConflictError
        yield from self.accounts.after_store(changes, was)
        if changes.anomalies:
            in_order = sorted(anomaly_rows(changes.anomalies, source), key=lambda row: (row[1], row[3], row[8]))
            upserted = yield Together(tuple(Execute(self._upsert_anomalies, row) for row in in_order))
            refuse_writer(upserted[0][0][0], self._prefix)

    def _clock(self) -> Generator[Step, Any, int]:
        return (yield Execute(f"SELECT {CLOCK}", ()))[0][0]  # type: ignore[no-any-return]  # Drivers send rows back.


def _insert(prefix: str, table: str, columns: str, row: str = "VALUES ({})") -> str:
    values = row.format(", ".join("?" * len(columns.split(", "))))
    return f"INSERT INTO {prefix}{table} ({columns}) {values} ON CONFLICT DO NOTHING"


def _write(sql: str, rows: list[Any]) -> Generator[Step, Any, None]:
    if (yield Execute(sql, rows, many=True)) != len(rows):
        raise ConflictError


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
