"""
The tables: made and migrated on opening, printed on request, and refused when their version is unknown.

The folder ``schema`` has all tables of ``FIRST_VERSION``, and for each later version one file per
database, such as ``postgres_0007.sql``. That file sets ``version`` in the table ``meta``, and raises ``oldest_writer``
if older programs must not write any more. Until the first release, change the tables in the whole files, and raise the
number there and both numbers here.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeAlias, TypeVar

from game_operator.errors import ConfigurationError, SchemaError, shown
from game_operator.ledger.steps import Execute, Kind, Rows, Steps, UnwritableError

T = TypeVar("T")

#: The version of the tables that this program reads and writes.
VERSION = 6
#: The oldest version that can be migrated. Those before it were never released.
FIRST_VERSION = 6

#: PostgreSQL's codes for a right that this user does not have, and for a table that does not exist.
DENIED = "42501"
UNDEFINED_TABLE = "42P01"

#: SQLite's ``synchronous`` from which a commit waits for the disk: FULL and EXTRA.
FULL = 2

#: What all ledgers of a database share: which of them moves the balances in a table of the operator's.
BALANCE_TABLES = "game_operator_balance_tables"

#: The tables that calls write.
CALL_TABLES = ("accounts", "bets", "calls", "postings", "anomalies")

#: Raises SchemaError for accounts that cannot be used, before tables are made.
Check: TypeAlias = Callable[[], Steps[object]]

#: The question for the oldest version whose programs may still write.
OLDEST_WRITER = "SELECT value FROM {prefix}meta WHERE name = 'oldest_writer'"

#: What the names of a ledger's tables may begin with.
PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,30}")
#: Between two statements: each begins in the first column, and what a trigger or a function holds is indented.
_BETWEEN_STATEMENTS = re.compile(r"(?<=;)\n+(?!END|\s)")
_MADE = re.compile(r"^CREATE TABLE (?:IF NOT EXISTS )?(\w+)(?! PARTITION)\b", re.MULTILINE)

#: A role that can stand in a statement as it is, in quotes.
_ROLE = re.compile(r"[\w .@-]{1,63}")
#: The tables whose ids come from a sequence, which the ledger sets where it is behind.
_NUMBERED = ("postings", "anomalies", "findings")
_FUNCTIONS = ("make_day", "fold_day")

_USE_SCHEMA = """DO $$ BEGIN
    EXECUTE 'GRANT USAGE ON SCHEMA ' || (
        SELECT CAST(relnamespace AS regnamespace) FROM pg_class WHERE oid = to_regclass('{prefix}meta')
    ) || ' TO {role}';
END $$;"""

_SERVER = "SELECT current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only')"


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
    """Return the statements that make the tables of *dialect*, or migrate those of version *after*."""
    folder = files(__package__) / "schema"
    later = range(max(after, FIRST_VERSION) + 1, VERSION + 1)
    names = [] if after else [f"{dialect}.sql"]
    names += [f"{dialect}_{version:04}.sql" for version in later]
    return "\n".join((folder / name).read_text() for name in names).replace("{prefix}", prefix)


def statements(dialect: str, prefix: str, *, after: int) -> list[str]:
    """Return the statements of ``ddl``, one by one."""
    return [each for each in _BETWEEN_STATEMENTS.split(ddl(dialect, prefix, after=after)) if each]


@lru_cache
def table_names(dialect: str, prefix: str) -> list[str]:
    """Return the names of all tables that a ledger uses in *dialect*, without partitions."""
    return sorted(_MADE.findall(ddl(dialect, prefix)))


def check_version(version: int | None, prefix: str) -> int:
    """
    Return the version to migrate from, 0 without tables.

    Raises:
        SchemaError: The tables are newer than this program, or have a version that was never released.
    """
    if version is not None and version > VERSION:
        raise SchemaError(
            f"The tables {prefix}* have version {version}, and this program knows version {VERSION}. "
            "A newer program has migrated them: upgrade this one. Programs that ran before go on."
        )
    if version is not None and version < FIRST_VERSION:
        raise SchemaError(
            f"The tables {prefix}* do not have a version that was ever released, but {version}, so {prefix}meta may "
            "have lost rows. Stop the wallet, keep a copy of the database, and restore a backup."
        )
    return version or 0


def migration(kind: Kind, prefix: str, migrate: bool, check: Check) -> Steps[None]:
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
        ((path,),) = yield Execute("SELECT current_setting('search_path')", ())
        for statement in _before_migration(prefix):
            yield Execute(statement, ())
        if version:
            yield Execute(lock_of_calls(prefix), ())
        for statement in statements(kind, prefix, after=version):
            yield Execute(statement, ())
        yield Execute("SELECT set_config('search_path', ?, true)", (path,))
        return
    for statement in statements(kind, prefix, after=version):
        yield Execute(statement, ())


def lock_of_calls(prefix: str) -> str:
    """
    Return the statement that keeps calls out of a migration in PostgreSQL, before it takes any lock by itself.

    Locks that are taken one by one between steps of seconds meet those of calls in another order: under steady traffic
    each attempt ends in a deadlock.
    """
    tables = ", ".join(prefix + name for name in CALL_TABLES)
    return f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE"


def _alone(prefix: str) -> tuple[str, ...]:
    """Return the statements that let one process at a time migrate in PostgreSQL."""
    return (
        # A waiter makes all others wait behind it, so we give up soon and try again. But not too soon: PostgreSQL stops
        # a vacuum that it has started by itself only for who waits a second.
        "SET LOCAL lock_timeout = '1500ms'",
        f"SELECT pg_advisory_xact_lock(hashtext('{prefix}migration'))",
    )


def _before_migration(prefix: str) -> tuple[str, ...]:
    """Return the statements that go before the tables in PostgreSQL."""
    return (
        # One table is for ledgers of all prefixes, which may be opened for the first time at once.
        f"SELECT pg_advisory_xact_lock(hashtext('{BALANCE_TABLES}'))",
        # Whole tables are read, unlike by calls.
        "SET LOCAL statement_timeout = 0",
        "SET LOCAL enable_seqscan = on",
        # PostgreSQL makes tables in the first schema of the path, and finds older ones in any. All must be in one: an
        # empty table in another would hide what is known.
        (
            "SELECT set_config('search_path', CAST(CAST(relnamespace AS regnamespace) AS text) || ', ' || "  # noqa: S608
            f"current_setting('search_path'), true) FROM pg_class WHERE oid = to_regclass('{prefix}meta')"
        ),
    )


def look_at_server(*, migrate: bool) -> Steps[None]:
    """
    Look at what a PostgreSQL server takes.

    Raises:
        SchemaError: The database has an encoding that cannot hold all ids.
        UnwritableError: Nothing can be written there, and *migrate* says that this process will.
    """
    ((encoding, is_standby, read_only),) = yield Execute(_SERVER, ())
    if encoding != "UTF8":
        raise SchemaError(
            f"The database has the encoding {encoding}, and the ledger needs UTF8, because ids can hold any text. "
            "Create the database with ENCODING 'UTF8'."
        )
    if migrate and is_standby:
        raise UnwritableError("the server is a standby, which takes no calls: let the address lead to the primary")
    if migrate and read_only == "on":
        raise UnwritableError(
            "transactions of this user are read-only: reset default_transaction_read_only of server, database and role"
        )


def migration_in_postgres(prefix: str, migrate: bool, check: Check) -> Steps[None]:
    """Do the same in PostgreSQL, one process at a time."""
    for statement in _alone(prefix):
        yield Execute(statement, ())
    yield from migration("postgres", prefix, migrate, check)
    yield from _check_grants(prefix)


@contextmanager
def rights_explained(prefix: str) -> Iterator[None]:
    """Raise SchemaError if this user of PostgreSQL lacks a right for what is done inside."""
    try:
        yield
    except Exception as failed:  # Psycopg's, which is not imported here: it is known by its SQLSTATE.
        if getattr(failed, "sqlstate", None) != DENIED:
            raise
        raise SchemaError(
            f"The ledger's user lacks a right on the tables {prefix}*: {str(failed).splitlines()[0]}. What was "
            "committed before stays.",
            remedy="Let their owner run what `game-operator ledger schema --sql --grants ROLE` prints.",
        ) from failed


def _check_grants(prefix: str) -> Steps[None]:
    """Raise SchemaError if who may write the ledger's calls may not write other tables, such as one just added."""
    of_calls = {prefix + name for name in CALL_TABLES}
    names = [name for name in table_names("postgres", prefix) if name not in of_calls]
    rows = yield Execute(
        "SELECT name, quote_ident(current_user) FROM unnest(CAST(? AS text[])) AS name "
        "WHERE NOT has_table_privilege(name, 'SELECT') OR (has_table_privilege(?, 'INSERT') "
        "AND NOT (has_table_privilege(name, 'INSERT') AND has_table_privilege(name, 'UPDATE')))",
        (names, f"{prefix}calls"),
    )
    if rows:
        missing = ", ".join(row[0] for row in rows)
        raise SchemaError(
            f"The ledger's user may not read and write some of the tables {prefix}*. Let their owner run: "
            f"GRANT SELECT, INSERT, UPDATE ON {missing} TO {rows[0][1]};"
        )


def schema_sql(kind: Kind, prefix: str, *, after: int = 0, role: str | None = None) -> str:
    """
    Return one transaction that makes or migrates the tables, "" if there is nothing to do.

    Args:
        kind: The database.
        prefix: How the names of the tables begin.
        after: The version that the tables have; 0 without tables.
        role: In PostgreSQL, who serves from them, and needs rights for all but migrating.

    Raises:
        ConfigurationError: *prefix* or *role* is invalid.
    """
    parts = [ddl(kind, check_prefix(prefix), after=after)] if after < VERSION else []
    if parts and after and kind == "postgres":
        parts.insert(0, f"{lock_of_calls(prefix)};\n")
    if role is not None:
        parts.append(grants(prefix, role))
    if not parts:
        return ""
    begin = "BEGIN IMMEDIATE;\n"
    if kind == "postgres":  # As when a program migrates.
        begin = "".join(f"{each};\n" for each in ("BEGIN", *_alone(prefix), *_before_migration(prefix)))
    return f"{begin}\n" + "\n".join(parts) + "\nCOMMIT;\n"


def grants(prefix: str, role: str) -> str:
    """Return what lets *role* do everything in PostgreSQL but migrate the tables *prefix*, which it need not own."""
    if not _ROLE.fullmatch(role):
        raise ConfigurationError(
            f"The role {shown(role)} is invalid.",
            remedy="Pass 1 to 63 letters, digits, blanks and _ . @ - of its name.",
        )
    quoted = f'"{role}"'
    tables = ", ".join(table_names("postgres", prefix))
    sequences = ", ".join(f"{prefix}{name}_id_seq" for name in _NUMBERED)
    functions = ", ".join(f"{prefix}{name}(date)" for name in _FUNCTIONS)
    use = _USE_SCHEMA.replace("{prefix}", prefix).replace("{role}", quoted)
    return f"""-- All but migrating needs these rights. DELETE is for maintain, the default partition for the doctor.
{use}
GRANT SELECT, INSERT, UPDATE ON {tables} TO {quoted};
GRANT SELECT ON {prefix}postings_default TO {quoted};
GRANT DELETE ON {prefix}postings TO {quoted};
GRANT USAGE, SELECT, UPDATE ON SEQUENCE {sequences} TO {quoted};
GRANT EXECUTE ON FUNCTION {functions} TO {quoted};
"""


def refuse_writer(oldest: int | None, prefix: str) -> None:
    """Raise SchemaError if programs of this version may not write any more; *oldest* answers OLDEST_WRITER."""
    if oldest is not None and oldest > VERSION:
        raise SchemaError(
            f"The tables {prefix}* were migrated while this program ran: programs older than version {oldest} may not "
            f"write any more, and this one has version {VERSION}. Nothing was written: upgrade it and repeat the call."
        )


def check_writer(prefix: str, *, until_commit: bool = False) -> Steps[None]:
    """
    Raise SchemaError if programs of this version may not write any more.

    With *until_commit*, which only PostgreSQL needs, a migration that raises the version waits for our commit.
    """
    rows = yield Execute(OLDEST_WRITER.format(prefix=prefix) + (" FOR SHARE" if until_commit else ""), ())
    refuse_writer(int(rows[0][0]) if rows else None, prefix)


def by_writer(kind: Kind, prefix: str, script: Callable[[], Steps[T]]) -> Steps[T]:
    """
    Run *script*, which may write; raise SchemaError if programs of this version may not write any more.

    In PostgreSQL it is asked again at the end, for a migration may have committed while the script waited for its
    locks. It is asked under a lock only then: a migration takes that one after those of the tables, too.
    """
    yield from check_writer(prefix)
    result = yield from script()
    if kind == "postgres":
        yield from check_writer(prefix, until_commit=True)
    return result


def has_table(kind: Kind, name: str) -> Steps[bool]:
    """Return whether there is a table called *name*."""
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    rows: Rows = yield Execute(sql if kind == "sqlite" else "SELECT 1 WHERE to_regclass(?) IS NOT NULL", (name,))
    return bool(rows)


def found_version(kind: Kind, prefix: str) -> Steps[int | None]:
    """
    Return the version of the tables; None if there are none, and 0 if they do not say.

    Raises:
        SchemaError: There can be none, because the search_path of PostgreSQL leads to no schema.
    """
    if (yield from has_table(kind, f"{prefix}meta")):
        return (yield from stored_version(prefix)) or 0
    if kind == "postgres":
        yield from check_search_path()
    return None


def check_search_path() -> Steps[None]:
    """Raise SchemaError if this user's search_path leads to no schema of PostgreSQL that can have tables."""
    ((found, path),) = yield Execute(
        "SELECT nullif(left(current_schema(), 3) = 'pg_', true), current_setting('search_path')", ()
    )
    if found is None:
        raise SchemaError(
            f"The search_path of this user is {shown(path)}, and it leads to no schema, so tables have no place.",
            remedy="Make the schema that it names (CREATE SCHEMA) and let this user use it (GRANT USAGE, CREATE ON "
            "SCHEMA), or set another search_path.",
        )


def stored_version(prefix: str) -> Steps[int | None]:
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

#: PostgreSQL: rows as one JSON text, an array of arrays.
JSON_ROWS = "json_array_elements(CAST(CAST(? AS text) AS json)) AS item"

#: The account of a posting, and what came to it, or went when negative; the braces take "" or an alias with its dot.
POSTING_ACCOUNT = "COALESCE({0}to_account, {0}from_account)"
POSTING_DELTA = "CASE WHEN {0}to_account IS NULL THEN -{0}amount_cents ELSE {0}amount_cents END"
