"""A look at an installation before an upgrade: what this version would refuse of it. It only reads."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from game_operator.errors import ConfigurationError, LedgerUnavailableError, SchemaError, shown
from game_operator.ledger.accounts.catalogue import look_at_table, table_update_hooks
from game_operator.ledger.accounts.choice import base_tables, is_marked, owner_of
from game_operator.ledger.api import TableAccounts
from game_operator.ledger.engine.address import check_psycopg, is_postgres, path_of, unknown_database
from game_operator.ledger.engine.script import Execute, Kind, Rows, Script
from game_operator.ledger.engine.sources import sources_found
from game_operator.ledger.engine.tables import (
    BALANCE_TABLES,
    CLOCK,
    DENIED,
    FULL,
    VERSION,
    check_prefix,
    check_version,
    sql_texts,
)
from game_operator.ledger.postgres.hazards import Identities
from game_operator.ledger.staff.queries import has_own_snapshot, survey


class Check(NamedTuple):
    """
    What one check found.

    Attributes:
        name: What was checked.
        outcome: "unreachable" and "problem" are findings; "advice" need not be followed.
        found: What was found.
        todo: What to do about it; "" if nothing.
    """

    name: str
    outcome: Literal["ok", "problem", "unreachable", "advice"]
    found: str
    todo: str = ""


_Checking: TypeAlias = Script[list[Check]]

_DAY_MILLIS = 86_400_000
_FOR_OTHERS = 0o077
_MOST_NAMED = 5


@dataclass(slots=True)
class _Installation:
    """What is examined, and what is known of it so far."""

    url: str
    prefix: str
    accounts: TableAccounts | None
    kind: Kind
    tables: frozenset[str] = frozenset()
    meta: dict[str, int] = field(default_factory=dict)

    @property
    def questions(self) -> dict[str, str]:
        """The statements of upgrade.sql."""
        return sql_texts(__package__, "upgrade.sql", prefix=self.prefix)

    @property
    def version(self) -> int:
        """The version of the tables; 0 if there are none."""
        return self.meta.get("version", 0)

    @property
    def balances_elsewhere(self) -> bool:
        """Whether a wallet has served here from a table of the operator's."""
        return "balances_elsewhere" in self.meta

    def checked(self, name: str, script: Callable[["_Installation"], _Checking]) -> list[Check]:
        """Return what *script* finds from one snapshot; a check called *name* if it could not look."""
        try:
            return survey(self.url, lambda: script(self))
        except LedgerUnavailableError as failed:
            if getattr(failed.__cause__, "sqlstate", None) == DENIED:
                todo = "Grant this user SELECT on it, or run the doctor as the wallet's user."
                return [Check(name, "problem", str(failed), todo)]
            if getattr(failed.__cause__, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
                return [Check(name, "problem", str(failed), "Name a table of this file, without a schema.")]
            where = "network and password" if self.kind == "postgres" else "the file and its mode"
            return [Check(name, "unreachable", str(failed), f"Check the address, {where}.")]


def upgrade_examination(url: str, prefix: str, accounts: TableAccounts | None) -> Iterator[Check]:
    """
    Yield what this version would refuse of the ledger at *url*, whose tables may have any version.

    Raises:
        ConfigurationError: *url* or *prefix* is invalid.
    """
    if url.startswith("sqlite:///"):
        if not has_own_snapshot(url):
            raise ConfigurationError("A database in memory ends with its process: there is nothing to upgrade.")
    elif is_postgres(url):
        check_psycopg()
    else:
        raise unknown_database(url)
    kind: Kind = "postgres" if is_postgres(url) else "sqlite"
    examined = _Installation(url, check_prefix(prefix), accounts, kind)
    first = examined.checked("tables", _tables)
    yield from first
    if first[0].outcome == "unreachable":
        return
    for name, script in _CHECKS.items():
        if 0 < examined.version <= VERSION or name in _WITHOUT_LEDGER:
            yield from examined.checked(name, script)
    if kind == "sqlite" and (file := Path(path_of(url))).exists():
        mode = file.stat().st_mode & 0o777
        found = f"{file} has mode {mode:04o}"
        if mode & _FOR_OTHERS:
            found += ": others than its owner can use it, and the upgrade leaves that"
            todo = f"All players and balances are in it. While nothing has it open, run: chmod 600 {file}"
            yield Check("file", "advice", found, todo)
        else:
            yield Check("file", "ok", found)


def _tables(examined: _Installation) -> _Checking:
    """Look at the version, and remember what later checks need."""
    rows: Rows = yield Execute(examined.questions[f"tables_in_{examined.kind}"], ())
    examined.tables = frozenset(row[0] for row in rows)
    prefix = examined.prefix
    if not examined.tables >= {f"{prefix}meta", f"{prefix}calls"}:
        there = ", ".join(f"{each}*" for each in _ledgers_in(examined.tables)) or "none"
        todo = f"Check --database and --table-prefix. Ledgers in this database: {there}."
        return [Check("tables", "problem", f"there are no tables {prefix}*", todo)]
    rows = yield Execute(f"SELECT name, value FROM {prefix}meta", ())  # noqa: S608 - a checked prefix
    examined.meta = {row[0]: row[1] for row in rows}
    try:
        version = check_version(examined.version, prefix)
    except SchemaError as newer:
        return [Check("tables", "problem", str(newer), "Upgrade this program before you start it.")]
    if version == VERSION:
        return [Check("tables", "ok", f"{prefix}* have version {version}, which this program needs")]
    found = (
        f"{prefix}* have version {version}. The first process of this program migrates them to version {VERSION}, "
        f"which only adds tables; with migrate=False they are refused until then. Processes of version {version} that "
        "run go on, and cannot be started any more"
    )
    todo = (
        "Before the deploy, make sure that no supervisor starts old processes after the first new one. The way back is "
        "`game-operator ledger migrate --back`."
    )
    return [Check("tables", "advice", found, todo)]


def _rights(examined: _Installation) -> _Checking:
    """Say whether this user can migrate, and whose rights will be missing after it."""
    if examined.kind == "sqlite":
        return []
    checks = []
    rows: Rows = yield Execute(examined.questions["rights"], ())
    user, schema, may_create, may_note, may_serve, owner = rows[0]
    if examined.version < VERSION and not (may_create and may_note):
        what = f"make tables in the schema {schema}" if may_note else f"write to {examined.prefix}meta"
        found = f"{user} may not {what}: until somebody has migrated the tables, opening the ledger is refused"
        todo = f"Let {owner}, who owns the tables, run `game-operator ledger migrate`."
        checks.append(Check("rights", "problem" if may_serve else "advice", found, todo))
    rows = yield Execute(examined.questions["grants"], ())
    for role, writes, names in rows:
        found = f"{role} has rights on {examined.prefix}calls and not on {names}: opening the ledger is refused"
        when = "Run" if examined.version >= VERSION else "As soon as the tables are migrated, run"
        todo = f"{when}: GRANT SELECT{', INSERT, UPDATE' if writes else ''} ON {names} TO {role}"
        checks.append(Check(f"rights of {role}", "problem" if writes else "advice", found, todo))
    return checks or [Check("rights", "ok", f"{user} and those who share the tables need no others")]


def _sources(examined: _Installation) -> _Checking:
    """Name the sources whose calls will be taken: any other is refused."""
    names: list[str] = []
    if f"{examined.prefix}sources" in examined.tables:
        rows: Rows = yield Execute(f"SELECT name FROM {examined.prefix}sources ORDER BY at_millis, name", ())  # noqa: S608
        names = [row[0] for row in rows]
    if examined.version < VERSION or not names:
        names += [name for name in (yield from sources_found(examined.prefix)) if name not in names]
    if not names:
        return [Check("sources", "ok", "none yet: the first withdraw, deposit or rollback registers its own")]
    listed = ", ".join(map(shown, names))
    found = f"calls of {listed} are taken, and those of any other source are refused"
    if len(names) == 1:
        return [Check("sources", "ok", found, "Check that each process passes this source=.")]
    rows = yield Execute(examined.questions["taken_twice"], ())
    twice = f". The bet {shown(rows[0][0])} was taken from its player through more than one" if rows else ""
    todo = (
        "Check that each is a service or environment, and that no process names one by mistake: a call that comes "
        "through another source debits again."
    )
    return [Check("sources", "advice", f"{found}{twice}", todo)]


def _other_ledgers(examined: _Installation) -> _Checking:
    """Name the ledgers with other prefixes, and whose balances would be moved by two."""
    checks, elsewhere = [], []
    for prefix in _ledgers_in(examined.tables):
        if prefix == examined.prefix:
            continue
        found = f"the tables {prefix}* are another ledger"
        if (yield from is_marked(prefix)):
            elsewhere.append(prefix)
            found += ", with balances in a table of yours"
        todo = f"Check that each process has the right table_prefix: a call through {prefix} too moves money again."
        checks.append(Check("other ledgers", "advice", found, todo))
    if not checks:
        return [Check("other ledgers", "ok", "there is none in this database")]
    if examined.accounts is not None:
        checks += yield from _shared_balances(examined, examined.accounts, elsewhere)
    return checks


def _shared_balances(examined: _Installation, accounts: TableAccounts, elsewhere: list[str]) -> _Checking:
    checks = []
    # Ledgers of version 1 that have served from a table go on with a warning in the log.
    is_known = "balances_shared" in examined.meta or (examined.version < VERSION and examined.balances_elsewhere)
    for table in (yield from base_tables(examined.kind, accounts)):
        owner = (yield from owner_of(examined.kind, table)) if BALANCE_TABLES in examined.tables else None
        if owner == examined.prefix or accounts.shared:
            continue
        if owner is None:
            if elsewhere:
                found = f"{' or '.join(elsewhere)} may move {table.name}, too. The first ledger that opens owns it"
                todo = "If two ledgers really share it, pass TableAccounts(shared=True) to both."
                checks.append(Check("shared balances", "advice", found, todo))
            continue
        goes_on = is_known and examined.meta.get("balances_shared", 1) == 1
        what = "is a warning in the log" if goes_on else "with it is refused"
        found = f"{table.name} belongs to the ledger {owner}: opening this one {what}"
        todo = (
            f"Pass table_prefix={owner!r}; or TableAccounts(shared=True) if two services really share these balances."
        )
        checks.append(Check("shared balances", "advice" if goes_on else "problem", found, todo))
    return checks


def _balances(examined: _Installation) -> _Checking:
    """Look at the operator's table as opening does, and at all of its rows."""
    accounts, name = examined.accounts, "table of balances"
    if accounts is None:
        if not examined.balances_elsewhere:
            return [Check(name, "ok", "balances are in the ledger's own")] if examined.version else []
        found = "balances are in a table of yours, and it was not examined"
        return [Check(name, "advice", found, "Pass --accounts-table, --accounts-key and --accounts-balance.")]
    problems = (yield from look_at_table(examined.kind, accounts)).problems
    if not problems:
        problems = yield from _decimals(examined.kind, accounts)
    if problems:
        todo = "Do so before the upgrade, or correct --accounts-…: this version refuses it."
        return [Check(name, "problem", problem, todo) for problem in problems]
    unit = accounts.unit or "cents"
    todo = f"Compare one balance with what you know: nothing but you can tell that {accounts.balance} counts {unit}."
    checks = [Check(name, "ok", f"{accounts.table}.{accounts.balance} can hold {unit}", todo)]
    todo = (
        f"Check that it leaves {accounts.balance} as the ledger writes it: else calls are errors and move nothing. "
        "What a DEFERRED trigger does is not noticed."
    )
    meddlers = yield from _meddlers(examined.kind, accounts)
    return checks + [Check("updates", "advice", f"{each} applies to the ledger's updates", todo) for each in meddlers]


def _meddlers(kind: Kind, accounts: TableAccounts) -> Script[list[str]]:
    """Return what could change updates, of a view's base tables too."""
    meddlers = yield from table_update_hooks(kind, accounts)
    if kind == "postgres":
        ((own,),) = yield Execute("SELECT CAST(CAST(to_regclass(?) AS oid) AS bigint)", (accounts.quoted_table,))
        for table in (yield from base_tables(kind, accounts)):
            if table.id == own:
                continue
            try:
                base = replace(accounts, table=table.name.replace('"', ""))
            except ConfigurationError:
                meddlers.append(f"what {table.name} may have of triggers, rules and policies, which was not examined,")
            else:
                meddlers += yield from table_update_hooks(kind, base)
    return meddlers


def _decimals(kind: Kind, accounts: TableAccounts) -> Script[list[str]]:
    """Return why a balance behind the rows that opening looks at is refused when it is met."""
    if accounts.unit == "units":
        return []
    column = f'owned."{accounts.balance}"'
    has_decimals = f"scale(CAST({column} AS numeric)) > 0"
    if kind == "sqlite":
        has_decimals = (
            f"(typeof({column}) = 'real' AND {column} <> round({column})) "
            f"OR (typeof({column}) = 'text' AND instr({column}, '.') > 0)"
        )
    rows: Rows = yield Execute(
        f"SELECT CAST({column} AS text) FROM {accounts.quoted_table} AS owned WHERE {has_decimals} LIMIT 1",  # noqa: S608
        (),
    )
    unit = accounts.unit or "cents"
    return [
        f"A balance in {accounts.table}.{accounts.balance} is {row[0]}, and {unit} have no decimals: each call of its "
        'player would be an error. Fix the row; if all balances are in units, say unit="units".'
        for row in rows
    ]


def _commits(examined: _Installation) -> _Checking:
    """Look at what calls find that join the operator's own transactions."""
    name = "commits"
    if examined.kind == "sqlite":
        rows: Rows = yield Execute("PRAGMA main.journal_mode", ())
        default: Rows = yield Execute("PRAGMA main.synchronous", ())
        found = f"the file is in {rows[0][0].upper()} mode"
        if rows[0][0] != "wal":
            found += ", and opening a ledger turns it to WAL"
        usual = "" if default[0][0] >= FULL else ", as this SQLite does by itself"
        found += f". A call that joins a connection with PRAGMA synchronous below FULL{usual} is refused"
        todo = 'Where calls join your connections, set it on each: connection.execute("PRAGMA synchronous = FULL")'
        return [Check(name, "advice", found, todo)]
    rows = yield Execute(examined.questions["commit_settings"], ())
    ((current,),) = yield Execute("SELECT current_setting('synchronous_commit')", ())
    if not rows and current not in ("off", "local"):
        return [Check(name, "ok", "synchronous_commit is neither off nor local")]
    todo = "Expect longer commits there. Nothing has to be changed."
    return [
        Check(name, "advice", f"synchronous_commit is {value} for {whom}: a call that joins raises it to on", todo)
        for whom, value in rows or [("this user", current)]
    ]


def _sequences(examined: _Installation) -> _Checking:
    """Compare ids with their sequences, as connecting does."""
    if examined.kind == "sqlite":
        return []
    checks = []
    for is_set, message in (yield from Identities(examined.prefix).behind()):
        todo = "Nothing: the ledger sets it when it connects." if is_set else "Run what is said there."
        checks.append(Check("sequences", "advice" if is_set else "problem", message, todo))
    return checks or [Check("sequences", "ok", "none that this user may look at is behind its ids")]


def _times(examined: _Installation) -> _Checking:
    """Look for accounts that a wrong clock has left in the future."""
    now_millis = time.time_ns() // 1_000_000
    if examined.kind == "postgres":
        now_millis = (yield Execute(f"SELECT {CLOCK}", ()))[0][0]
    parameters = (now_millis + _DAY_MILLIS, _MOST_NAMED + 1)
    rows: Rows = yield Execute(examined.questions["in_the_future"], parameters)
    if not rows:
        return [Check("times", "ok", "no account has moved in the future")]
    named = ", ".join(shown(row[0]) for row in rows[:_MOST_NAMED]) + (", …" if len(rows) > _MOST_NAMED else "")
    days = (rows[0][1] - now_millis) // _DAY_MILLIS
    found = f"accounts have moved up to {days} days in the future, so `ledger prune` is refused: {named}"
    todo = "Set the clocks right. After the upgrade bring each back with `game-operator ledger correct-time ACCOUNT`."
    return [Check("times", "problem", found, todo)]


def _ledgers_in(tables: frozenset[str]) -> list[str]:
    """Return the prefixes that look like those of ledgers."""
    found = []
    for prefix in sorted(name.removesuffix("meta") for name in tables if name.endswith("meta")):
        try:
            check_prefix(prefix)
        except ConfigurationError:
            continue
        if tables >= {f"{prefix}calls", f"{prefix}postings"}:
            found.append(prefix)
    return found


_CHECKS: dict[str, Callable[[_Installation], _Checking]] = {
    "rights": _rights,
    "sources": _sources,
    "other ledgers": _other_ledgers,
    "table of balances": _balances,
    "commits": _commits,
    "sequences": _sequences,
    "times": _times,
}
#: What can be said where the ledger has no tables.
_WITHOUT_LEDGER = frozenset({"table of balances", "commits"})
