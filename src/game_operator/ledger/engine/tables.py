"""
The tables: made and migrated on opening, printed on request, and refused when they are newer than this program.

And what is said of them in many places: their columns, in the order of the fields of records, and SQL that is shared.

A new version of the tables needs a file in ``migrations`` for each database, and ``VERSION``. Ask for what it adds in
``has_newest_table``, and for the rights it needs in ``doctor/upgrade.sql``. Raise ``oldest_writer`` if older programs
must not write any more: on SQLite those of version 1 cannot write to a table that has a new column. The way back leaves
what was added, so each statement must be able to run again. A column that is there already is not added again.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence, Set
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from game_operator.codes import BetState
from game_operator.errors import ConfigurationError, SchemaError, shown
from game_operator.ledger.api import BetRecord, CallRecord
from game_operator.ledger.engine.script import Execute, Kind, Rows, Script, Work
from game_operator.ledger.rules.book import Anomaly, Changes

T = TypeVar("T")

#: The version of the tables that this program reads and writes.
VERSION = 4

#: PostgreSQL's codes for a right that this user does not have, and for a table that does not exist.
DENIED = "42501"
#: Something refers to a table that a migration replaces.
_IN_USE = "55006"
UNDEFINED_TABLE = "42P01"

#: SQLite's ``synchronous`` from which a commit waits for the disk: FULL and EXTRA.
FULL = 2

#: What all ledgers of a database share: which of them moves the balances in a table of the operator's.
BALANCE_TABLES = "game_operator_balance_tables"

#: The tables with a prefix that versions after the first have added.
ADDED_TABLES = (
    *("carried", "checkpoints", "chunks", "closes", "corrections", "documents", "findings", "items", "looks", "runs"),
    *("slices", "sources", "totals"),
)

#: The tables that calls write, without those of later versions.
CALL_TABLES = ("accounts", "bets", "calls", "postings", "anomalies")

#: Raises SchemaError for accounts that cannot be used, before tables are made.
Check: TypeAlias = Callable[[], Script[object]]

#: The question for the oldest version whose programs may still write; NULL in tables of version 1.
OLDEST_WRITER = "SELECT value FROM {prefix}meta WHERE name = 'oldest_writer'"

#: What the names of a ledger's tables may begin with.
PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,30}")
#: Between two statements: each begins in the first column, and what a trigger or a function holds is indented.
_ADD_COLUMN = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (\w+)")
_BETWEEN_STATEMENTS = re.compile(r"(?<=;)\n+(?!END|\s)")


def check_prefix(prefix: str) -> str:
    """Return *prefix* if a table's name can begin with it; raise ConfigurationError if not."""
    if not PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            f"The table prefix {shown(prefix)} is invalid.",
            setting="table_prefix",
            remedy="Pass 1 to 31 of a-z, 0-9 and _ that do not begin with a digit.",
        )
    return prefix


@lru_cache
def sql_texts(package: str, file: str, **values: str) -> dict[str, str]:
    """
    Return the statements of an SQL file by name: each stands below a line ``-- name: NAME``.

    ``{word}`` stands for one of *values*, or for a statement above. Other lines that begin with ``--`` are left out.
    """
    text = files(package).joinpath(file).read_text("utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    texts: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        statement = "\n".join(line for line in body.splitlines() if not line.startswith("--"))
        texts[name] = statement.strip().format(**values, **texts)
    return texts


@lru_cache
def toml_texts(package: str, file: str) -> dict[str, Any]:
    """Return the tables of a TOML file, which hold texts."""
    return tomllib.loads(files(package).joinpath(file).read_text("utf-8"))


def ddl(dialect: str, prefix: str, *, after: int = 0) -> str:
    """Return the statements that make the tables of *dialect*, from version *after* on."""
    folder = files(__package__) / "migrations"
    texts = [(folder / f"{dialect}_{version:04}.sql").read_text() for version in range(after + 1, VERSION + 1)]
    return "\n".join(texts).replace("{prefix}", prefix)


def statements(dialect: str, prefix: str, *, after: int) -> list[str]:
    """Return the statements of ``ddl``, one by one."""
    return [each for each in _BETWEEN_STATEMENTS.split(ddl(dialect, prefix, after=after)) if each]


def check_version(version: int | None, prefix: str) -> int:
    """Return the version to migrate from, 0 without tables; raise SchemaError if they are newer than this program."""
    if version is not None and version > VERSION:
        raise SchemaError(
            f"The tables {prefix}* have version {version}, and this program knows version {VERSION}. "
            "A newer program has migrated them: upgrade this one. Programs that ran before go on."
        )
    return version or 0


def migration(kind: Kind, prefix: str, migrate: bool, check: Check) -> Script[None]:
    """Make or migrate the tables; raise SchemaError if they or *check* refuse, or *migrate* is False."""
    version = check_version((yield from found_version(kind, prefix)), prefix)
    if version == VERSION:
        return
    if not migrate:
        what = f"There are no tables {prefix}* in this database."
        if version:
            what = f"The tables {prefix}* have version {version}, and this program needs version {VERSION}."
        text = ddl(kind, prefix, after=version)
        raise SchemaError(what, remedy=f"Run these statements:\n\n{text}", statements=text, version=version)
    yield from check()
    if kind == "postgres":
        for statement in _BEFORE_MIGRATION:
            yield Execute(statement, ())
        ((path,),) = yield Execute("SELECT current_setting('search_path')", ())
        # All in one schema: an empty table in another one would hide what is known.
        yield Execute(_BESIDE_OLDER, (f"{prefix}meta",))
        if version:
            yield Execute(waiting_briefly(prefix), ())
            yield Execute(lock_of_calls(prefix), ())
        for statement in statements(kind, prefix, after=version):
            yield Execute(statement, ())
        yield Execute("SELECT set_config('search_path', ?, true)", (path,))
        return
    for statement in statements(kind, prefix, after=version):
        if not (yield from _has_column(statement)):
            yield Execute(statement, ())


def lock_of_calls(prefix: str) -> str:
    """
    Return the statement that keeps calls out of a migration in PostgreSQL, before it takes any lock by itself.

    Locks that are taken one by one between steps of seconds meet those of calls in another order: under steady traffic
    each attempt ends in a deadlock.
    """
    tables = ", ".join(prefix + name for name in CALL_TABLES)
    return f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE"


def waiting_briefly(prefix: str, *, local: bool = True) -> str:
    """
    Return the statement that says how long to wait for such a lock: all calls queue behind who waits for it.

    A vacuum that PostgreSQL has started by itself gives way to who waits for a second.
    """
    tables = ", ".join(f"to_regclass('{prefix}{name}')" for name in CALL_TABLES)
    return (
        "SELECT set_config('lock_timeout', CASE WHEN EXISTS (SELECT FROM pg_locks WHERE relation IN "  # noqa: S608
        f"({tables}) AND mode = 'ShareUpdateExclusiveLock' AND pid <> pg_backend_pid()) "
        f"THEN '1500ms' ELSE '300ms' END, {str(local).lower()})"
    )


def _has_column(statement: str) -> Script[bool]:
    """Return whether the column that *statement* adds is there already: SQLite has no ADD COLUMN IF NOT EXISTS."""
    added = _ADD_COLUMN.search(statement)
    if added is None:
        return False
    return bool((yield Execute("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", added.groups())))


#: PostgreSQL makes tables in the first schema of the path, and finds older ones in any.
_BESIDE_OLDER = (
    "SELECT set_config('search_path', CAST(CAST(relnamespace AS regnamespace) AS text) || ', ' || "
    "current_setting('search_path'), true) FROM pg_class WHERE oid = to_regclass(?)"
)
_BEFORE_MIGRATION = (
    # One table is for ledgers of all prefixes, which may be opened for the first time at once.
    f"SELECT pg_advisory_xact_lock(hashtext('{BALANCE_TABLES}'))",
    # Whole tables are read, unlike by calls.
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL enable_seqscan = on",
)


def migration_in_postgres(prefix: str, migrate: bool, check: Check) -> Script[None]:
    """Do the same in PostgreSQL, one process at a time."""
    # A waiter makes all others wait behind it, so we give up soon and try again.
    yield Execute("SET LOCAL lock_timeout = '1s'", ())
    yield Execute("SELECT pg_advisory_xact_lock(hashtext(?))", (f"{prefix}migration",))
    yield from migration("postgres", prefix, migrate, check)
    yield from _check_grants(prefix)


def by_owner(prefix: str, script: Script[T]) -> Script[T]:
    """Run *script*, which changes tables; raise SchemaError if this user may not, or others refer to a table."""
    try:
        return (yield from script)
    except Exception as failed:
        if getattr(failed, "sqlstate", None) == _IN_USE:
            remedy = "Drop them, migrate, and make them again. Nothing was changed."
            raise SchemaError(f"{str(failed).splitlines()[0]}.", remedy=remedy) from failed
        if getattr(failed, "sqlstate", None) != DENIED:
            raise
        raise SchemaError(
            f"The ledger's user may not look after the tables {prefix}*: {str(failed).splitlines()[0]}. Let somebody "
            "who may run what `game-operator ledger schema --sql --grants ROLE` prints, for the role of this user."
        ) from failed


def rights_explained(prefix: str, work: Work[T]) -> Work[T]:
    """Do *work* of staff; raise SchemaError if this user of PostgreSQL lacks a right."""
    try:
        return (yield from work)
    except Exception as failed:  # Psycopg's, which is not imported here: it is known by its SQLSTATE.
        if getattr(failed, "sqlstate", None) != DENIED:
            raise
        raise SchemaError(
            f"The ledger's user lacks a right on the tables {prefix}*: {str(failed).splitlines()[0]}. What was "
            "committed before stays.",
            remedy="Let their owner run what `game-operator ledger schema --sql --grants ROLE` prints.",
        ) from failed


def _check_grants(prefix: str) -> Script[None]:
    """Raise SchemaError if who may write the ledger's calls may not write the tables that later versions added."""
    names = [BALANCE_TABLES, *(f"{prefix}{name}" for name in ADDED_TABLES)]
    rows = yield Execute(
        "SELECT name, quote_ident(current_user) FROM unnest(CAST(? AS text[])) AS name "
        "WHERE NOT has_table_privilege(name, 'SELECT') OR (has_table_privilege(?, 'INSERT') "
        "AND NOT (has_table_privilege(name, 'INSERT') AND has_table_privilege(name, 'UPDATE')))",
        (names, f"{prefix}calls"),
    )
    if rows:
        missing = ", ".join(row[0] for row in rows)
        raise SchemaError(
            f"The ledger's user may not read and write tables that a migration added. Let their owner run: "
            f"GRANT SELECT, INSERT, UPDATE ON {missing} TO {rows[0][1]};"
        )


def refuse_writer(oldest: int | None, prefix: str) -> None:
    """Raise SchemaError if programs of this version may not write any more; *oldest* answers OLDEST_WRITER."""
    if oldest is not None and oldest > VERSION:
        raise SchemaError(
            f"The tables {prefix}* were migrated while this program ran: programs older than version {oldest} may not "
            f"write any more, and this one has version {VERSION}. Nothing was written: upgrade it and repeat the call."
        )


def check_writer(prefix: str) -> Script[None]:
    """Raise SchemaError if programs of this version may not write any more."""
    rows = yield Execute(OLDEST_WRITER.format(prefix=prefix), ())
    refuse_writer(int(rows[0][0]) if rows else None, prefix)


#: With the id of the last one that was folded, so that an account's postings stay in the order of their times.
_CARRIED_BACK = (
    "INSERT INTO {prefix}postings (id, from_account, to_account, amount_cents, source, operation, tx_id, at_millis) "
    "SELECT {id}, CASE WHEN cents < 0 THEN account END, CASE WHEN cents > 0 THEN account END, abs(cents), '', 'carry', "
    "account, at_millis FROM {prefix}carried AS kept WHERE cents <> 0"
)
_CARRIED_ID: dict[Kind, str] = {
    "postgres": "last_id",
    # Several rows may have the id of one posting, see lower_carried. Those below all others are not given to new ones.
    "sqlite": (
        "CASE WHEN row_number() OVER (PARTITION BY last_id ORDER BY account) > 1 "
        "OR EXISTS (SELECT 1 FROM {prefix}postings AS p WHERE p.id = last_id) "
        "THEN -row_number() OVER (ORDER BY account) ELSE last_id END"
    ),
}


def back(kind: Kind, prefix: str) -> Script[int]:
    """
    Undo the latest migration, so that programs of the version before can be started again; return that version.

    The tables it added stay, with what is known: programs of the version before do not look at them, and going
    forward again finds all of it.

    Raises:
        SchemaError: The migration is not one that only adds tables, or there is none to undo.
    """
    version = (yield from stored_version(prefix)) or 0
    rows = yield Execute(OLDEST_WRITER.format(prefix=prefix), ())
    oldest = int(rows[0][0]) if rows else version
    if version != VERSION or oldest >= version:
        raise SchemaError(
            f"The tables {prefix}* have version {version}, and programs older than version {oldest} cannot work with "
            "them: there is no way back. Restore a backup, or stay with this version."
        )
    if version == 4:  # Version 3 looks for what is carried among the postings.
        if kind == "postgres":  # What others carry at this moment is either moved as well, or waits and stays.
            yield Execute(f"SELECT pg_advisory_xact_lock(hashtext('{prefix}days'))", ())
            yield Execute(f"LOCK TABLE {prefix}carried IN SHARE ROW EXCLUSIVE MODE", ())
        yield Execute(_CARRIED_BACK.format(prefix=prefix, id=_CARRIED_ID[kind].format(prefix=prefix)), ())
        yield Execute(f"UPDATE {prefix}carried SET cents = 0", ())  # noqa: S608
    if version == 2:  # Version 1 knows of no such row.
        yield Execute(f"DELETE FROM {prefix}meta WHERE name = 'oldest_writer'", ())  # noqa: S608 - a checked prefix
    yield Execute(f"UPDATE {prefix}meta SET value = {version - 1} WHERE name = 'version'", ())  # noqa: S608
    return version - 1


def has_table(kind: Kind, name: str) -> Script[bool]:
    """Return whether there is a table called *name*."""
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    rows: Rows = yield Execute(sql if kind == "sqlite" else "SELECT 1 WHERE to_regclass(?) IS NOT NULL", (name,))
    return bool(rows)


def has_newest_table(kind: Kind, prefix: str) -> Script[bool]:
    """Return whether the tables that the latest migration adds are there; the way back leaves them."""
    return (yield from has_table(kind, f"{prefix}slices"))


def found_version(kind: Kind, prefix: str) -> Script[int | None]:
    """Return the version of the tables; None if there are none."""
    return (yield from stored_version(prefix)) if (yield from has_table(kind, f"{prefix}meta")) else None


def stored_version(prefix: str) -> Script[int | None]:
    """Read the version out of the tables, which must be there; None if they do not say."""
    rows: Rows = yield Execute(f"SELECT value FROM {prefix}meta WHERE name = ?", ("version",))  # noqa: S608 - a checked prefix
    return int(rows[0][0]) if rows else None


#: PostgreSQL's clock in Unix milliseconds, one for all machines.
CLOCK = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)"

#: PostgreSQL: wait for the disk at this transaction's commit, even if the session prefers otherwise; lower nothing.
DURABLE = (
    "(SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN "
    "('off', 'local'))"
)

#: PostgreSQL: any number of keys as one JSON text: one parameter of one type for every driver, and quicker to read than
#: an array each.
KEYS = "ARRAY(SELECT jsonb_array_elements_text(CAST(CAST(? AS text) AS jsonb)))"

#: PostgreSQL: rows as one JSON text, an array of arrays.
JSON_ROWS = "json_array_elements(CAST(CAST(? AS text) AS json)) AS item"


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


BET_COLUMNS: Final[str] = ", ".join(BetRecord._fields)
CALL_COLUMNS: Final[str] = ", ".join(CallRecord._fields)
#: The columns of ``call_rows``.
CALL_ROW = f"source, {CALL_COLUMNS}, body"

#: The account of a posting, and what came to it, or went when negative; the braces take "" or an alias with its dot.
POSTING_ACCOUNT = "COALESCE({0}to_account, {0}from_account)"
POSTING_DELTA = "CASE WHEN {0}to_account IS NULL THEN -{0}amount_cents ELSE {0}amount_cents END"

_STATES = dict(BetState.__members__)
_CHANGED = attrgetter("state.value", "won_cents", "settled_at_millis", "deposit_tx_id", "round_id", "settled_by")


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
