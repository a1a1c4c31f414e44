"""What migrating the tables of a ledger would do: the version they have, and what is locked. It opens no ledger."""

import re
from functools import partial
from typing import NamedTuple

from game_operator.errors import ConfigurationError
from game_operator.ledger.engine.address import check_psycopg, is_postgres, unknown_database
from game_operator.ledger.engine.online_migration import IndexBuild, is_bounded, is_prepared_first, missing_indexes
from game_operator.ledger.engine.script import Execute, Kind, Rows, Script
from game_operator.ledger.engine.tables import (
    CALL_TABLES,
    VERSION,
    check_prefix,
    check_version,
    ddl,
    found_version,
    has_table,
    statements,
)
from game_operator.ledger.staff.queries import has_own_snapshot, survey


class TablePlan(NamedTuple):
    """
    What a migration does to one table.

    Attributes:
        table: The table.
        rows: How many rows it has, as the database estimates; None if that is unknown.
        locked: What waits until the migration ends: "" (nothing but changes of the same rows), "writes" or "all".
        steps: What is done to it.
    """

    table: str
    rows: int | None
    locked: str
    steps: tuple[str, ...]


class MigrationPlan(NamedTuple):
    """
    What a migration does.

    Attributes:
        version: The version that the tables have; 0 without tables.
        needed: The version of this program.
        beside: What happens first, while calls go on, to each table; only large ones of PostgreSQL have such steps.
        tables: What happens to each table that is there, in one transaction.
        made: The tables that are added.
    """

    version: int
    needed: int
    beside: tuple[TablePlan, ...]
    tables: tuple[TablePlan, ...]
    made: tuple[str, ...]


class _Step(NamedTuple):
    table: str
    what: str
    name: str
    locked: str


#: What a statement does to the table it names, and what of it waits in PostgreSQL.
_STEPS = (
    (re.compile(r"^CREATE TABLE (?:IF NOT EXISTS )?(\w+)"), "make", ""),
    (re.compile(r"^CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?(\w+)\s+ON (\w+)"), "add the index", "writes"),
    (re.compile(r"^DROP INDEX (?:IF EXISTS )?(\w+)"), "drop the index", "all"),
    (re.compile(r"^ALTER TABLE \w+ ADD COLUMN (?:IF NOT EXISTS )?(\w+)"), "add the column", "all"),
    (re.compile(r"^DELETE FROM (\w+)"), "delete rows", ""),
    (re.compile(r"^UPDATE (\w+)"), "change rows", ""),
    (re.compile(r"^INSERT INTO (\w+)"), "add rows", ""),
    (re.compile(r"^DO \$\$.*?^\s+LOCK TABLE (\w+) IN ACCESS EXCLUSIVE", re.DOTALL | re.MULTILINE), "partition", "all"),
)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_ALTERED = re.compile(r"ALTER TABLE (\w+)")
_WEIGHTS = ("", "writes", "all")


def kind_of(url: str) -> Kind:
    """Return which database *url* names; raise ConfigurationError if there is nothing to read at it."""
    if is_postgres(url):
        check_psycopg()
        return "postgres"
    if not url.startswith("sqlite:///"):
        raise unknown_database(url)
    if not has_own_snapshot(url):
        raise ConfigurationError("A database in memory ends with its process: it has no tables yet.")
    return "sqlite"


def tables_version(url: str, prefix: str) -> int:
    """
    Return the version of the tables at *url*, 0 without tables.

    Raises:
        ConfigurationError: *url* or *prefix* is invalid.
        LedgerUnavailableError: The database cannot be read.
        SchemaError: The tables are newer than this program.
    """
    script = partial(found_version, kind_of(url), check_prefix(prefix))
    return check_version(survey(url, script, "listing"), prefix)


def migration_plan(url: str, prefix: str) -> MigrationPlan:
    """Return what a migration of the tables at *url* would do; raise what ``tables_version`` raises."""
    kind, version = kind_of(url), tables_version(url, prefix)
    return survey(url, partial(_plan, kind, prefix, version), "listing")


def online_statements(url: str, prefix: str) -> list[str]:
    """Return what is to be run before a migration of large tables in PostgreSQL, while calls go on."""
    online = partial(_online, kind_of(url), check_prefix(prefix))
    return [statement for build in survey(url, online, "listing") for statement in build.statements]


def _online(kind: Kind, prefix: str) -> Script[list[IndexBuild]]:
    is_online = kind == "postgres" and (yield from is_prepared_first(prefix))
    return (yield from missing_indexes(prefix)) if is_online else []


def _beside(kind: Kind, prefix: str) -> Script[tuple[TablePlan, ...]]:
    """Return what happens before the migration, while calls go on."""
    steps: dict[str, list[str]] = {}
    for build in (yield from _online(kind, prefix)):
        steps.setdefault(build.table, []).append(f"add the index {build.name}")
    if steps and not (yield from is_bounded(prefix)):
        steps.setdefault(f"{prefix}postings", []).append("check that all are from before the first partition")
    plans = []
    for table, its in steps.items():
        plans.append(TablePlan(table, (yield from _estimate(kind, table)), "", tuple(its)))
    return tuple(plans)


def _plan(kind: Kind, prefix: str, version: int) -> Script[MigrationPlan]:
    beside = yield from _beside(kind, prefix)
    done_before = {step for each in beside for step in each.steps}
    steps: dict[str, list[tuple[str, str]]] = {}
    index_tables = _index_tables(kind, prefix)
    for statement in statements(kind, prefix, after=version) if version < VERSION else ():
        found = _step_of(_COMMENT.sub("", statement).lstrip(), index_tables)
        if found and f"{found.what} {found.name}" not in done_before and not (yield from _is_done(kind, found)):
            steps.setdefault(found.table, []).append((f"{found.what} {found.name}".strip(), found.locked))
    tables, made = [], []
    for table, its in steps.items():
        if not (yield from has_table(kind, table)):
            made.append(table)
        elif table != f"{prefix}meta":  # Its few rows are changed by every migration.
            # In SQLite one transaction holds the one lock for all writes.
            locked = "writes" if kind == "sqlite" else max((each for _, each in its), key=_WEIGHTS.index)
            if kind == "postgres" and table.removeprefix(prefix) in CALL_TABLES:
                locked = "all"
            doing = tuple(dict.fromkeys(step for step, _ in its))
            tables.append(TablePlan(table, (yield from _estimate(kind, table)), locked, doing))
    return MigrationPlan(version, VERSION, beside, tuple(tables), tuple(made))


def _index_tables(kind: Kind, prefix: str) -> dict[str, str]:
    """Return the table of each index that any version has."""
    whole = re.compile(_STEPS[1][0].pattern, re.MULTILINE)
    return dict(whole.findall(ddl(kind, prefix)))


def _step_of(statement: str, index_tables: dict[str, str]) -> _Step | None:
    """Return what a statement does; None for triggers and functions, which lock nothing for long."""
    for pattern, what, locked in _STEPS:
        if found := pattern.match(statement):
            name = found[1]
            if what.endswith("index"):
                return _Step(index_tables[name], what, name, locked)
            if altered := _ALTERED.match(statement):
                return _Step(altered[1], what, name, locked)
            return _Step(name, what, "", locked)
    return None


def _is_done(kind: Kind, step: _Step) -> Script[bool]:
    """Return whether a step finds nothing left to do: the way back leaves what was added."""
    match step.what:
        case "make":
            return (yield from has_table(kind, step.table))
        case "add the index":
            return (yield from _has(kind, step.name))
        case "drop the index":
            return not (yield from _has(kind, step.name))
        case "partition":
            partitioned = "SELECT 1 FROM pg_class WHERE oid = to_regclass(?) AND relkind = 'p'"
            return bool((yield Execute(partitioned, (step.table,))))
    return False


def _has(kind: Kind, name: str) -> Script[bool]:
    of_sqlite, of_postgres = "SELECT 1 FROM sqlite_master WHERE name = ?", "SELECT 1 WHERE to_regclass(?) IS NOT NULL"
    return bool((yield Execute(of_sqlite if kind == "sqlite" else of_postgres, (name,))))


def _estimate(kind: Kind, table: str) -> Script[int | None]:
    if kind == "postgres":
        sql = "SELECT CAST(nullif(reltuples, -1) AS bigint) FROM pg_class WHERE oid = to_regclass(?)"
        rows: Rows = yield Execute(sql, (table,))
        return rows[0][0]  # type: ignore[no-any-return]  # A number, or NULL.
    rows = yield Execute("SELECT 1 FROM sqlite_master WHERE name = ? AND sql LIKE '%WITHOUT ROWID%'", (table,))
    if rows:
        return None
    return (yield Execute(f"SELECT coalesce(max(rowid), 0) FROM {table}", ()))[0][0]  # type: ignore[no-any-return]  # noqa: S608 - a name of ours
