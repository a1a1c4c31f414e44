"""
How a ledger's rows are loaded and stored: in SQLite one statement a table, in PostgreSQL one statement a batch.

In SQLite the one write lock of the file is held, so all that is read stands still until COMMIT, the clock included. In
PostgreSQL an account's row is locked, in sorted order, before bets and calls are read, each by a separate statement:
under READ COMMITTED they see all that was committed before the lock was ours. Correctness rests on row locks and unique
constraints, never on this process's memory, so any number of machines may share one database. The clock is the
server's, read row by row after each lock.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from hashlib import sha256
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple

from game_operator.codes import BetState
from game_operator.ledger.api import OPEN_FIRST, Account, BetRecord, CallRecord
from game_operator.ledger.engine.sources import Sources
from game_operator.ledger.engine.tables import (
    CLOCK,
    JSON_ROWS,
    OLDEST_WRITER,
    VERSION,
    check_writer,
    refuse_writer,
    sql_texts,
)
from game_operator.ledger.rules.book import Anomaly, Changes, Needs, NewFinding, Posting
from game_operator.ledger.steps import ConflictError, Execute, Kind, Rows, Steps, Together

#: PostgreSQL: any number of keys as one JSON text: one parameter of one type for every driver, and quicker to read than
#: an array each.
KEYS = "ARRAY(SELECT jsonb_array_elements_text(CAST(CAST(? AS text) AS jsonb)))"

BET_COLUMNS: Final[str] = ", ".join(BetRecord._fields)
CALL_COLUMNS: Final[str] = ", ".join(CallRecord._fields)
#: The columns of ``call_rows``.
CALL_ROW = f"source, {CALL_COLUMNS}, body"

_STATES = dict(BetState.__members__)
_CHANGED = attrgetter("state.value", "won_cents", "settled_at_millis", "deposit_tx_id", "round_id", "settled_by")


class LookUp:
    """A look-up of rows by any number of keys; *select* ends before the condition of the key."""

    def __init__(self, kind: Kind, select: str) -> None:
        self._one = f"{select} = ?" if kind == "sqlite" else ""
        self._many = f"{select} IN (SELECT value FROM json_each(?))" if kind == "sqlite" else f"{select} = ANY({KEYS})"  # noqa: S608 - our own text

    def of(self, keys: Set[Any], *before: Any) -> Execute:
        """Return the statement for *keys*, after the parameters *before*; in SQLite a lone key has a quicker one."""
        if self._one and len(keys) == 1:
            return Execute(self._one, (*before, *keys))
        return Execute(self._many, (*before, json.dumps(sorted(keys))))


class Loaded(NamedTuple):
    """
    The rows a batch needs, and the clock as it was read while they were locked.

    With a withdraw in the batch, *stop_code* is what it is refused with while bets are stopped.
    """

    accounts: Iterable[Account]
    bets: Iterable[BetRecord]
    calls: Iterable[CallRecord]
    clock_millis: int
    stop_code: str | None = None


class Balances:
    """
    How accounts are locked, read and moved: our own here, in subclasses those of a table or behind an object.

    Attributes:
        unknown: What to do about an account that does not exist.
        key_parts: How many parts the key of an account has.
        step_cents: The least that a balance can move by.
        writes: The names of the lists of ``rows``.
        parts: The statements that write them, each as many rows as its list has.
    """

    unknown = OPEN_FIRST
    key_parts = 1
    step_cents = 1
    writes: ClassVar[tuple[str, ...]] = ("new_accounts", "accounts")

    def __init__(self, kind: Kind, prefix: str) -> None:
        self.kind: Kind = kind
        values = {"prefix": prefix, "clock": CLOCK, "keys": KEYS, "json_rows": JSON_ROWS}
        self._sql = sql_texts(__package__, "balances.sql", **values)
        self._own = LookUp(kind, self._sql["accounts"])
        self.parts: dict[str, str] = {name: self._sql[f"{kind}_{name}"] for name in self.writes}

    def load(self, keys: Set[str], others: tuple[Execute, ...]) -> Steps[tuple[list[Account], int | None, list[Rows]]]:
        """Lock the accounts in sorted order, then read *others*; return those that exist, the clock, and their rows."""
        if self.kind == "sqlite":
            rows, *rest = yield Together((self._own.of(keys), *others))
            return [Account(*row) for row in rows], None, rest
        rows, *rest = yield Together((Execute(self._sql["lock"], (json.dumps(sorted(keys)),)), *others))
        return [Account(*row[:3]) for row in rows], max((row[3] for row in rows), default=None), rest

    def rows(self, changes: Changes, was: Mapping[str, Account]) -> Steps[dict[str, list[Any]]]:
        """Return the rows to write, by the names of ``parts``; an account that is moved must hold what was loaded."""
        yield from ()
        return {
            "new_accounts": list(changes.new_accounts.values()),
            "accounts": [(cents, at, key, was[key].balance_cents) for key, cents, at in changes.accounts.values()],
        }

    def stored(
        self,
        statements: tuple[Execute, ...],
        changes: Changes,  # noqa: ARG002 - for those that compare
        was: Mapping[str, Account],  # noqa: ARG002
    ) -> Steps[list[Any]]:
        """Perform the *statements*, make sure that balances moved as they should, and return the answers."""
        return list((yield Together(statements)))

    def after_store(self, changes: Changes, was: Mapping[str, Account]) -> Steps[None]:  # noqa: ARG002 - as above
        """Do what ``parts`` cannot: nothing."""
        yield from ()

    def balance(self, key: str) -> Steps[int | None]:
        """Return a balance in cents as it is committed, or None if there is no such account."""
        rows: Rows = yield Execute(self._sql["balance"], (key,))
        return rows[0][0] if rows else None

    def known(self, keys: Set[str]) -> Steps[set[str] | None]:
        """Return which of *keys* are accounts; None if that cannot be said of all at once."""
        return {row[0] for row in (yield self._own.of(keys))}


class SqlDialect:
    """Which rows a batch needs and changes, in which order they are read, and how they are written."""

    def __init__(self, prefix: str, accounts: Balances, clock_millis: Callable[[], int], *, beside: str = "") -> None:
        """*clock_millis* is the clock for SQLite; *beside* is what else to select when storing in PostgreSQL."""
        self.kind: Kind = accounts.kind
        self.accounts: Balances = accounts
        self.key_parts: int = accounts.key_parts
        self.step_cents: int = accounts.step_cents
        self._clock_millis, self._beside = clock_millis, beside
        self.sources: Sources = Sources(self.kind, prefix)
        self.prefix: str = prefix
        #: Which players the ledger owns, for repairs and payments; None owns all.
        self.owns: Callable[[str], bool] | None = None
        self._oldest_writer = OLDEST_WRITER.format(prefix=prefix)
        sql = sql_texts(
            __package__,
            "dialects.sql",
            prefix=prefix,
            bet_columns=BET_COLUMNS,
            call_columns=CALL_COLUMNS,
            call_row=CALL_ROW,
            json_rows=JSON_ROWS,
            posting_columns=", ".join(Posting._fields),
            oldest_writer=self._oldest_writer,
            version=str(VERSION),
        )
        self._bets, self._calls = LookUp(self.kind, sql["bets"]), LookUp(self.kind, sql["calls"])
        self._calls_and_stop = LookUp(self.kind, sql["calls_and_stop"])
        self._upsert_anomaly, self._restate = sql["upsert_anomaly"], sql["restate"]
        self._upsert_finding, self._upsert_finding_of_call = sql["upsert_finding"], sql["upsert_finding_of_call"]
        self._parts = {name: sql[f"{self.kind}_{name}"] for name in ("calls", "new_bets", "changed_bets", "postings")}
        self._parts |= accounts.parts
        self._texts: dict[tuple[str, ...], str] = {}

    def load(self, needs: Needs) -> Steps[Loaded]:
        """Lock the accounts, then read bets, calls and a stop of bets, and the clock if not with the lock."""
        statements = [self._bets.of(needs.bets, needs.source)] if needs.bets else []
        groups: dict[str, set[str]] = {}
        for operation, tx_id in needs.calls:
            groups.setdefault(operation, set()).add(tx_id)
        for operation in sorted(groups):
            look_up = self._calls_and_stop if operation == "withdraw" else self._calls
            statements.append(look_up.of(groups[operation], needs.source, operation))
        accounts, now_millis, others = yield from self.accounts.load(needs.accounts, tuple(statements))
        bets = others.pop(0) if needs.bets else ()
        if now_millis is None:
            now_millis = yield from self.now_millis()
        found = [CallRecord(*row) for rows in others for row in rows]
        calls = [call for call in found if call.operation]
        stop_code = next((call.code for call in found if not call.operation), None)
        return Loaded(accounts, list(map(bet_of, bets)), calls, now_millis, stop_code)

    def now_millis(self) -> Steps[int]:
        """Return the time: in PostgreSQL the server's, one for all machines."""
        if self.kind == "sqlite":
            return self._clock_millis()
        return int((yield Execute(f"SELECT {CLOCK}", ()))[0][0])

    def store(self, source: str, changes: Changes, *, was: Mapping[str, Account]) -> Steps[None]:
        """Write what changed; ConflictError if any of it is there already."""
        every: dict[str, list[Any]] = {
            "calls": call_rows(changes, source),
            "new_bets": bet_rows(changes.new_bets.values(), source),
            "changed_bets": changed_bet_rows(changes.changed_bets.values(), source),
            "postings": list(changes.postings),
            **(yield from self.accounts.rows(changes, was)),
        }
        yield from self.write(every, changes, was)
        yield from self.accounts.after_store(changes, was)
        if changes.anomalies:
            in_order = sorted(anomaly_rows(changes.anomalies, source), key=lambda row: (row[1], row[3], row[8]))
            upserted = yield Together(tuple(Execute(self._upsert_anomaly, row) for row in in_order))
            refuse_writer(upserted[0][0][0], self.prefix)
        if changes.findings:
            yield from self.store_findings(source, changes.findings)

    def balance_now(self, account: str) -> Steps[int | None]:
        """Return a balance in cents as this transaction sees it, or None if there is no such account."""
        return (yield from self.accounts.balance(account))

    def restate(self, source: str, record: CallRecord, balance_cents: int) -> Steps[None]:
        """Keep another balance as the one that a stored call is answered with."""
        yield Execute(self._restate, (balance_cents, source, record.operation, record.tx_id))

    def store_findings(
        self, source: str, findings: Sequence[NewFinding], *, run_id: int | None = None, now_millis: int | None = None
    ) -> Steps[None]:
        """Keep *findings*; one that is open already is counted as seen again."""
        if now_millis is None:
            now_millis = yield from self.now_millis()
        # In one order, so that no two transactions wait for each other.
        for each in sorted(findings, key=lambda found: (found.subject, found.kind, found.tx_id)):
            named = (each.kind, source, each.subject, each.tx_id, each.player_id, each.account, each.detail)
            rest = (each.at_stake_cents, each.owed_cents, each.evidence, run_id, now_millis, now_millis)
            upsert = self._upsert_finding_of_call if each.tx_id else self._upsert_finding
            yield Execute(upsert, (*named, *rest))

    def write(self, every: Mapping[str, list[Any]], changes: Changes, was: Mapping[str, Account]) -> Steps[None]:
        """Write the rows by the names of their statements; ConflictError if any of them is there already."""
        rows = {name: each for name, each in every.items() if each}
        if rows and (yield from self._written(rows, changes, was)) != list(map(len, rows.values())):
            yield from check_writer(self.prefix)
            raise ConflictError

    def _written(self, rows: Mapping[str, list[Any]], changes: Changes, was: Mapping[str, Account]) -> Steps[list[int]]:
        """Write *rows* by their names in ``_parts``; return how many of each were written."""
        if self.kind == "sqlite":
            writes = [Execute(self._parts[name], each, many=True) for name, each in rows.items()]
            return (yield from self.accounts.stored(tuple(writes), changes, was))
        names = tuple(rows)
        sql = self._texts.get(names)
        if sql is None:
            # A dot, because the operator's table could have any other name, and would be taken for one of these.
            parts = ", ".join(f'"stored.{name}" AS ({self._parts[name]} RETURNING 1)' for name in names)
            counts = ", ".join(f'(SELECT count(*) FROM "stored.{name}")' for name in names)  # noqa: S608
            sql = f"WITH {parts} SELECT ({self._oldest_writer}), {counts}{self._beside}"
            self._texts[names] = sql
        statement = Execute(sql, list(map(_encoded, rows.values())))
        stored = (yield from self.accounts.stored((statement,), changes, was))[0][0]
        refuse_writer(stored[0], self.prefix)
        return list(stored[1 : 1 + len(rows)])


#: Rows as JSON, bytes in hexadecimal.
_encoded = json.JSONEncoder(default=bytes.hex).encode


def bet_of(row: Sequence[Any]) -> BetRecord:
    """Return the bet in a row of BET_COLUMNS."""
    fields = list(row)
    fields[8] = _STATES[fields[8]]
    if fields[14] is not None:
        fields[14] = bytes(fields[14])  # Some drivers give a memoryview.
    return BetRecord._make(fields)


def bet_rows(bets: Iterable[BetRecord], source: str) -> list[tuple[Any, ...]]:
    """Return *bets* as rows to insert."""
    return [(*bet[:8], bet.state.value, *bet[9:15], source, *bet[16:]) for bet in bets]


def changed_bet_rows(bets: Iterable[BetRecord], source: str) -> list[tuple[Any, ...]]:
    """Return what of *bets* can change: (state, won, settled at, deposit's tx_id, round, by, source, bet_id, state)."""
    return [(*_CHANGED(bet), source, bet.bet_id, bet.state.value) for bet in bets]


def call_rows(changes: Changes, source: str) -> list[tuple[Any, ...]]:
    """Return the calls as rows to insert: source, the record, and the body of a claim."""
    claims = changes.claims
    if not claims:
        return [(source, *call, None) for call in changes.calls]
    return [(source, *call, claims.get(call.tx_id) if call.operation == "deposit" else None) for call in changes.calls]


def anomaly_rows(anomalies: Iterable[Anomaly], source: str) -> list[tuple[Any, ...]]:
    """Return *anomalies* as rows to insert."""
    return [(source, *each[:-1], sha256(each.body).digest(), each.at_millis, each.at_millis) for each in anomalies]
