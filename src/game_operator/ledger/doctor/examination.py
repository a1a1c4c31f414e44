"""
The examination of a ledger's place: every check, each with what it found, why that matters and what to do.

It only reads, from one snapshot, over a connection beside the ledger's. What the checks say stands in doctor.toml.
"""

import sqlite3
import time
from collections.abc import Generator
from functools import partial

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger.doctor.examined import Case, Check, DoctorCheck, DoctorReport, Examined, case, questions_for
from game_operator.ledger.doctor.ledger_checks import LEDGER_CHECKS, tables
from game_operator.ledger.doctor.place_checks import FILE_CHECKS, MEMORY_CHECKS, SERVER_CHECKS, TABLE_CHECKS, server
from game_operator.ledger.engine.address import check_psycopg, is_postgres, unknown_database
from game_operator.ledger.engine.tables import DENIED, FIRST_VERSION, VERSION, check_prefix, toml_texts
from game_operator.ledger.staff.queries import has_own_snapshot, survey
from game_operator.ledger.steps import Execute, Kind, Steps

#: Also what a service that runs PostgreSQL for others leaves out, and a table that somebody has locked.
_HIDDEN = frozenset({DENIED, "0A000", "42883", "55P03"})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_WAIT = "SET LOCAL lock_timeout = '2s'"
_SAVE, _BACK = "SAVEPOINT game_operator_check", "ROLLBACK TO SAVEPOINT game_operator_check"

_ASK_ANOTHER = "Run the doctor as the wallet's user, or as one with the role pg_monitor and SELECT on the tables."


def doctor_script(url: str, prefix: str, *, only: str | None = None) -> Steps[DoctorReport]:
    """
    Examine the ledger at *url*.

    Args:
        url: Where the ledger is.
        prefix: How the names of its tables begin.
        only: The one check to do, beside those that it rests on.

    Raises:
        ConfigurationError: The prefix is invalid.
    """
    kind: Kind = "postgres" if is_postgres(url) else "sqlite"
    return _examination(Examined(url, check_prefix(prefix), kind, questions_for(prefix)), only)


def doctor_report(url: str, prefix: str) -> DoctorReport:
    """
    Return the report on a ledger that need not be opened, and may have tables of any version.

    Raises:
        ConfigurationError: *url* or *prefix* is invalid.
        LedgerUnavailableError: The database cannot be reached.
    """
    if is_postgres(url):
        check_psycopg()
    elif not url.startswith("sqlite:///"):
        raise unknown_database(url)
    try:
        return survey(url, partial(doctor_script, url, prefix))
    except LedgerUnavailableError as failed:
        if not _is_damage(failed.__cause__):
            raise
        return DoctorReport((_said("can be read", case("damaged", problem=failed)),))


def _examination(examined: Examined, only: str | None) -> Steps[DoctorReport]:
    checks: list[DoctorCheck] = []
    first: dict[str, Check] = {"tables": tables}
    place, of_tables = FILE_CHECKS if has_own_snapshot(examined.url) else MEMORY_CHECKS, LEDGER_CHECKS
    if examined.kind == "postgres":
        yield Execute(_WAIT, ())
        first = {"server": server, **first}
        place, of_tables = SERVER_CHECKS, TABLE_CHECKS | LEDGER_CHECKS
    else:
        examined.now_millis = time.time_ns() // 1_000_000
    for name, check in first.items():
        checks += yield from _checked(examined, name, check)
    has_tables = FIRST_VERSION <= examined.version <= VERSION
    for name, check in (place | of_tables if has_tables else place).items():
        if only in (None, name):
            checks += yield from _checked(examined, name, check)
    return DoctorReport(tuple(dict.fromkeys(checks)))


def _checked(examined: Examined, name: str, check: Check) -> Steps[list[DoctorCheck]]:
    """Return what *check* finds, or that this user may not see it."""
    if examined.kind == "postgres":
        yield Execute(_SAVE, ())
    try:
        found = check(examined)
        cases = (yield from found) if isinstance(found, Generator) else found
    except OSError as failed:
        return [_hidden(name, failed)]
    except Exception as failed:  # Any driver's: it is known by its code.
        if _is_damage(failed):
            return [_said("can be read", case("damaged", problem=failed))]
        if getattr(failed, "sqlstate", None) not in _HIDDEN:
            raise
        yield Execute(_BACK, ())
        if name == "tables":  # Without these nothing is known of the ledger.
            return [_said(name, case("unreadable", prefix=examined.prefix, problem=_first_line(failed)))]
        return [_hidden(name, failed)]
    return [_said(name, each) for each in cases]


def _is_damage(failed: BaseException | None) -> bool:
    return getattr(failed, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _said(name: str, found: Case) -> DoctorCheck:
    """Return what doctor.toml says of a case."""
    check = toml_texts(__package__, "doctor.toml")[name]
    text = check[found.name]
    said = text["found"].format(**found.values)
    if text["verdict"] == "fine":
        return DoctorCheck(name, "fine", said)
    todo = text["todo"].format(**found.values) if "todo" in text else check["todo"]
    return DoctorCheck(name, text["verdict"], said, check["why"], todo)


def _hidden(name: str, failed: Exception) -> DoctorCheck:
    why = toml_texts(__package__, "doctor.toml")[name]["why"]
    return DoctorCheck(name, "not visible", f"not visible to this user: {_first_line(failed)}", why, _ASK_ANOTHER)


def _first_line(failed: Exception) -> str:
    return str(failed).splitlines()[0]
