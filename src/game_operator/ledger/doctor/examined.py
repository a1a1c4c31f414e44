"""What a doctor examines, how a check says what it found, and what it returns."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from game_operator.ledger.engine.address import path_of
from game_operator.ledger.engine.tables import PREFIX, sql_texts
from game_operator.ledger.steps import Execute, Kind, Rows, Steps

DAY_MILLIS = 86_400_000
#: Less free space than this, or than this share, is too little.
_LEAST_BYTES, _LEAST_SHARE = 1_000_000_000, 0.05


Verdict = Literal["fine", "advice", "finding", "not visible"]


class DoctorCheck(NamedTuple):
    """
    What one check found.

    Attributes:
        name: What was checked.
        verdict: ``finding`` is wrong and ``advice`` may be; ``not visible`` is what this user or this machine
            cannot see, so that it may be wrong, too.
        found: What was found.
        why: Why it matters; "" if it is fine.
        todo: What to do about it; "" if it is fine.
    """

    name: str
    verdict: Verdict
    found: str
    why: str = ""
    todo: str = ""


class DoctorReport(NamedTuple):
    """
    What ``doctor`` found.

    Attributes:
        checks: All checks; one that found several things is there several times.
    """

    checks: tuple[DoctorCheck, ...]

    @property
    def findings(self) -> tuple[DoctorCheck, ...]:
        """What is wrong."""
        return tuple(check for check in self.checks if check.verdict == "finding")

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong, as far as is visible."""
        return not self.findings


class Case(NamedTuple):
    """What a check found: a case of it in doctor.toml, and the values in its texts."""

    name: str
    values: dict[str, Any]


def case(name: str, /, **values: Any) -> Case:
    """Return the case called *name*."""
    return Case(name, values)


@dataclass(slots=True)
class Examined:
    """
    A ledger's place, and what is known of it so far.

    Attributes:
        url, prefix, kind: Where the ledger is.
        questions: The statements of doctor.sql.
        tables: The names of all tables.
        meta: The rows of the table ``meta``.
        version: The version of the tables; 0 if there are none.
        now_millis: The time by the clock that calls get theirs from.
        settings: The settings of a PostgreSQL server that this user may see.
    """

    url: str
    prefix: str
    kind: Kind
    questions: dict[str, str]
    tables: frozenset[str] = frozenset()
    meta: dict[str, int] = field(default_factory=dict)
    version: int = 0
    now_millis: int = 0
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The file of SQLite."""
        return path_of(self.url)

    def has(self, table: str) -> bool:
        """Return whether the ledger has this table."""
        return f"{self.prefix}{table}" in self.tables

    def asked(self, question: str, *parameters: object) -> Steps[Rows]:
        """Return the rows that answer a question of doctor.sql."""
        rows: Rows = yield Execute(self.questions[question], parameters)
        return rows

    def has_rows(self, table: str) -> Steps[bool]:
        """Return whether a table, by a name that the database has quoted, has a row."""
        return bool((yield Execute(f"SELECT 1 FROM {table} LIMIT 1", ())))  # noqa: S608 - the database's own name


#: A check of what is known; or one that asks the database.
Check: TypeAlias = Callable[[Examined], "list[Case] | Steps[list[Case]]"]


def questions_for(prefix: str) -> dict[str, str]:
    """Return the statements of doctor.sql for the tables with *prefix*."""
    return sql_texts(__package__, "doctor.sql", prefix=prefix)


def ledgers_in(tables: frozenset[str]) -> list[str]:
    """Return the prefixes that look like those of ledgers."""
    prefixes = (name.removesuffix("meta") for name in sorted(tables) if name.endswith("meta"))
    return [each for each in prefixes if PREFIX.fullmatch(each) and tables >= {f"{each}calls", f"{each}postings"}]


def in_the_future(questions: dict[str, str], after_millis: int, most: int) -> Steps[Rows]:
    """Return at most *most* accounts that have moved later than a time, the latest first, with their times."""
    rows: Rows = yield Execute(questions["in_the_future"], (after_millis, most))
    return rows


def bytes_text(count: int) -> str:
    """Return a number of bytes for people."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"


def space_case(place: str, size: str) -> Case:
    """Return the case of the disk that the file or folder *place* is on; *size* says how much the database takes."""
    whole, _, free = shutil.disk_usage(place)
    name = "full" if free < max(_LEAST_BYTES, whole * _LEAST_SHARE) else "room"
    return case(name, free=bytes_text(free), whole=bytes_text(whole), place=place, size=size)
