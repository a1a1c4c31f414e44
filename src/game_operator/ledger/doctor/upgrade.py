"""
A look at an installation before an upgrade: what this version would refuse of it. It only reads.

What the checks say stands in upgrade.toml.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from game_operator.errors import ConfigurationError, LedgerUnavailableError, SchemaError, shown
from game_operator.ledger.accounts.catalogue import look_at_table, table_update_hooks
from game_operator.ledger.accounts.choice import base_tables, is_marked, owner_of
from game_operator.ledger.api import TableAccounts
from game_operator.ledger.doctor.examined import DAY_MILLIS, in_the_future, ledgers_in, questions_for
from game_operator.ledger.engine.address import check_psycopg, is_postgres, path_of, unknown_database
from game_operator.ledger.engine.script import Execute, Kind, Rows, Script
from game_operator.ledger.engine.sources import Sources, sources_found
from game_operator.ledger.engine.tables import (
    ADDED_TABLES,
    BALANCE_TABLES,
    CLOCK,
    DENIED,
    FULL,
    VERSION,
    check_prefix,
    check_version,
    sql_texts,
    toml_texts,
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


def _check(name: str, case: str, *, outcome: str = "", **values: object) -> Check:
    """Return the check that upgrade.toml describes for *case*, with *values* in its texts."""
    text: dict[str, Any] = {"outcome": outcome, "todo": "", **toml_texts(__package__, "upgrade.toml")[name][case]}
    return Check(name, text["outcome"], *(text[each].format(**values) for each in ("found", "todo")))


_Checking: TypeAlias = Script[list[Check]]

_FOR_OTHERS = 0o077
_MOST_NAMED = 5


@dataclass(slots=True)
class _Installation:
    """What is examined, and what is known of it so far."""

    url: str
    prefix: str
    accounts: TableAccounts | None
    kind: Kind
    questions: dict[str, str]
    tables: frozenset[str] = frozenset()
    meta: dict[str, int] = field(default_factory=dict)
    #: Of the tables; 0 if there are none.
    version: int = 0

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
    table, balance = (accounts.quoted_table, f'owned."{accounts.balance}"') if accounts else ("", "")
    made = [BALANCE_TABLES, *(f"{check_prefix(prefix)}{name}" for name in ADDED_TABLES)]
    added = ", ".join(f"'{name}'" for name in made)
    questions = sql_texts(__package__, "upgrade.sql", prefix=prefix, table=table, balance=balance, added=added)
    examined = _Installation(url, prefix, accounts, kind, questions_for(prefix) | questions)
    first = examined.checked("tables", _tables)
    yield from first
    if first[0].outcome == "unreachable":
        return
    for name, script in _CHECKS.items():
        if 0 < examined.version <= VERSION or name in _WITHOUT_LEDGER:
            yield from examined.checked(name, script)
    if kind == "sqlite" and (file := Path(path_of(url))).exists():
        mode = file.stat().st_mode & 0o777
        yield _check("file", "open" if mode & _FOR_OTHERS else "private", file=file, mode=f"{mode:04o}")


def _tables(examined: _Installation) -> _Checking:
    """Look at the version, and remember what later checks need."""
    rows: Rows = yield Execute(examined.questions[f"tables_in_{examined.kind}"], ())
    examined.tables = frozenset(row[0] for row in rows)
    prefix = examined.prefix
    if not examined.tables >= {f"{prefix}meta", f"{prefix}calls"}:
        there = ", ".join(f"{each}*" for each in ledgers_in(examined.tables)) or "none"
        return [_check("tables", "missing", prefix=prefix, there=there)]
    rows = yield Execute(f"SELECT name, value FROM {prefix}meta", ())  # noqa: S608 - a checked prefix
    examined.meta = {row[0]: row[1] for row in rows}
    examined.version = examined.meta.get("version", 0)
    try:
        version = check_version(examined.version, prefix)
    except SchemaError as newer:
        return [_check("tables", "newer", problem=newer)]
    return [
        _check("tables", "ready" if version == VERSION else "older", prefix=prefix, version=version, needed=VERSION)
    ]


def _rights(examined: _Installation) -> _Checking:
    """Say whether this user can migrate, and whose rights will be missing after it."""
    if examined.kind == "sqlite":
        return []
    checks = []
    rows: Rows = yield Execute(examined.questions["rights"], ())
    user, schema, may_create, may_note, may_serve, owner, may_alter = rows[0]
    if examined.version < VERSION and not (may_create and may_note and may_alter):
        what = f"make tables in the schema {schema}" if may_note else f"write to {examined.prefix}meta"
        if may_create and may_note:
            what = f"add columns to the tables {examined.prefix}*"
        outcome = "problem" if may_serve else "advice"
        checks.append(_check("rights", "missing", outcome=outcome, user=user, what=what, owner=owner))
    when = "Run" if examined.version >= VERSION else "As soon as the tables are migrated, run"
    rows = yield Execute(examined.questions["grants"], ())
    for role, writes, names in rows:
        outcome, rights = ("problem", "SELECT, INSERT, UPDATE") if writes else ("advice", "SELECT")
        values = {"role": role, "prefix": examined.prefix, "names": names, "when": when, "rights": rights}
        checks.append(_check("rights", "others", outcome=outcome, **values)._replace(name=f"rights of {role}"))
    rows = yield Execute(examined.questions["day_functions"], ())
    for role, names in rows:
        checks.append(_check("rights", "functions", role=role, names=names)._replace(name=f"rights of {role}"))
    return checks or [_check("rights", "complete", user=user)]


def _begun(examined: _Installation) -> _Checking:
    """Look for what a migration has left that was not completed: calls will be in its way."""
    if examined.kind == "sqlite":
        return []
    rows: Rows = yield Execute(examined.questions["begun"], ())
    return [_check("begun", "ends", day=row[0], prefix=examined.prefix) for row in rows]


def _sources(examined: _Installation) -> _Checking:
    """Name the sources whose calls will be taken: any other is refused."""
    is_known = f"{examined.prefix}sources" in examined.tables
    names = (yield from Sources(examined.kind, examined.prefix).load()) if is_known else []
    if examined.version < VERSION or not names:
        names += [name for name in (yield from sources_found(examined.prefix)) if name not in names]
    listed = ", ".join(map(shown, names))
    if len(names) < 2:
        return [_check("sources", "one" if names else "none", listed=listed)]
    rows: Rows = yield Execute(examined.questions["taken_twice"], ())
    twice = f". The bet {shown(rows[0][0])} was taken from its player through more than one" if rows else ""
    return [_check("sources", "several", listed=listed, twice=twice)]


def _other_ledgers(examined: _Installation) -> _Checking:
    """Name the ledgers with other prefixes, and whose balances would be moved by two."""
    checks, elsewhere = [], []
    for prefix in ledgers_in(examined.tables):
        if prefix == examined.prefix:
            continue
        where = ""
        if (yield from is_marked(prefix)):
            elsewhere.append(prefix)
            where = ", with balances in a table of yours"
        checks.append(_check("other ledgers", "found", prefix=prefix, elsewhere=where))
    if not checks:
        return [_check("other ledgers", "none")]
    if examined.accounts is not None:
        checks += yield from _shared_balances(examined, examined.accounts, elsewhere)
    return checks


def _shared_balances(examined: _Installation, accounts: TableAccounts, elsewhere: list[str]) -> _Checking:
    checks = []
    # Ledgers of version 1 that have served from a table go on with a warning in the log.
    is_known = "balances_shared" in examined.meta or (
        examined.version < VERSION and "balances_elsewhere" in examined.meta
    )
    goes_on = is_known and examined.meta.get("balances_shared", 1) == 1
    outcome, what = ("advice", "is a warning in the log") if goes_on else ("problem", "with it is refused")
    for table in (yield from base_tables(examined.kind, accounts)):
        owner = (yield from owner_of(examined.kind, table)) if BALANCE_TABLES in examined.tables else None
        if owner == examined.prefix or accounts.shared:
            continue
        if owner is not None:
            checks.append(_check("shared balances", "owned", outcome=outcome, table=table.name, owner=owner, what=what))
        elif elsewhere:
            checks.append(_check("shared balances", "possible", prefixes=" or ".join(elsewhere), table=table.name))
    return checks


def _balances(examined: _Installation) -> _Checking:
    """Look at the operator's table as opening does, and at all of its rows."""
    accounts, name = examined.accounts, "table of balances"
    if accounts is None:
        if "balances_elsewhere" in examined.meta:
            return [_check(name, "unnamed")]
        return [_check(name, "own")] if examined.version else []
    problems = (yield from look_at_table(examined.kind, accounts)).problems
    if problems:
        return [_check(name, "refused", problem=problem) for problem in problems]
    unit = accounts.unit or "cents"
    column = {"table": accounts.table, "balance": accounts.balance, "unit": unit}
    # Opening looks at the first rows alone: a balance behind them is refused when it is met.
    rows: Rows = () if unit == "units" else (yield Execute(examined.questions[f"decimals_in_{examined.kind}"], ()))
    if rows:
        return [_check(name, "decimals", found=rows[0][0], **column)]
    hooks = yield from table_update_hooks(examined.kind, accounts)
    return [_check(name, "fits", **column), *(_check("updates", "changed", hook=hook, **column) for hook in hooks)]


def _commits(examined: _Installation) -> _Checking:
    """Look at what calls find that join the operator's own transactions."""
    if examined.kind == "sqlite":
        rows: Rows = yield Execute("PRAGMA main.journal_mode", ())
        default: Rows = yield Execute("PRAGMA main.synchronous", ())
        wal = "" if rows[0][0] == "wal" else ", and opening a ledger turns it to WAL"
        usual = "" if default[0][0] >= FULL else ", as this SQLite does by itself"
        return [_check("commits", "sqlite", mode=rows[0][0].upper(), wal=wal, usual=usual)]
    rows = yield Execute(examined.questions["commit_settings"], ())
    ((current,),) = yield Execute("SELECT current_setting('synchronous_commit')", ())
    if not rows and current not in ("off", "local"):
        return [_check("commits", "wait")]
    return [_check("commits", "raised", value=value, whom=whom) for whom, value in rows or [("this user", current)]]


def _sequences(examined: _Installation) -> _Checking:
    """Compare ids with their sequences, as connecting does."""
    if examined.kind == "sqlite":
        return []
    behind = yield from Identities(examined.prefix).behind()
    checks = [_check("sequences", "set" if is_set else "behind", message=message) for is_set, message in behind]
    return checks or [_check("sequences", "right")]


def _times(examined: _Installation) -> _Checking:
    """Look for accounts that a wrong clock has left in the future."""
    now_millis = time.time_ns() // 1_000_000
    if examined.kind == "postgres":
        now_millis = (yield Execute(f"SELECT {CLOCK}", ()))[0][0]
    rows = yield from in_the_future(examined.questions, now_millis + DAY_MILLIS, _MOST_NAMED + 1)
    if not rows:
        return [_check("times", "right")]
    named = ", ".join(shown(row[0]) for row in rows[:_MOST_NAMED]) + (", …" if len(rows) > _MOST_NAMED else "")
    days = (rows[0][1] - now_millis) // DAY_MILLIS
    return [_check("times", "ahead", days=days, named=named)]


_CHECKS: dict[str, Callable[[_Installation], _Checking]] = {
    "begun": _begun,
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
