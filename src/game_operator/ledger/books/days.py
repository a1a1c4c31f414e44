"""
Partitions of postings by UTC day on PostgreSQL: made ahead of time, folded after 90 days, exported and dropped.

All is done by functions that the migration has made, so a user without rights to tables can do it. Each gives up a lock
after 300 ms, so that calls never wait for long, and does nothing then: run the script again. A posting whose day has no
partition is in the default one. Nothing is lost there: the next ``make_day`` of that day moves it.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger.engine.address import address_of, limits_of, sentences
from game_operator.ledger.engine.script import Execute, Rows, Script
from game_operator.ledger.engine.tables import sql_texts

#: How many days ahead are made unless more are asked for; 60 at most.
DAYS_AHEAD = 14
_PATIENCE_SECONDS = 5.0


class Folded(NamedTuple):
    """
    What folding a day has done.

    Attributes:
        reason: Why nothing was done; "" if the day is folded. ``not 90 days over``, ``missing``, ``detached`` (it was
            folded before), ``not sealed``, ``findings``, ``damaged``, ``not closed`` or ``open bets``.
        postings: How many were folded.
    """

    reason: str
    postings: int


def missing_days(prefix: str, ahead: int = DAYS_AHEAD) -> Script[list[str]]:
    """Return today and the days up to *ahead* that have no partition, as ``2026-11-23``."""
    return _texts((yield from _asked(prefix, "missing", ahead)))


def attached_days(prefix: str) -> Script[set[int]]:
    """Return the days that have a partition which is not folded, counted since 1970."""
    return {row[0] for row in (yield from _asked(prefix, "attached"))}


def foldable_days(prefix: str) -> Script[list[str]]:
    """Return the days that may be folded, the oldest first. ``fold_day`` looks closer."""
    return _texts((yield from _asked(prefix, "foldable")))


def detached_days(prefix: str) -> Script[list[str]]:
    """Return the days that are folded and not dropped yet, the oldest first."""
    return _texts((yield from _asked(prefix, "detached")))


def make_day(prefix: str, day: str) -> Script[str]:
    """Make the partition of *day*: ``made``, ``there`` or ``out of range``."""
    return str((yield from _changed(prefix, "make", day))[0][0])


def fold_day(prefix: str, day: str) -> Script[Folded]:
    """Carry the postings of *day* forward and detach its partition, in one transaction; the reason if it may not."""
    reason, postings = (yield from _changed(prefix, "fold", day))[0]
    return Folded(reason, int(postings))


def drop_day(prefix: str, day: str) -> Script[str]:
    """Drop the partition of a folded *day*: ``dropped``, ``missing``, ``attached`` or ``not folded``."""
    return str((yield from _changed(prefix, "drop", day))[0][0])


def export_day(url: str, prefix: str, day: str, path: Path) -> bool:
    """
    Write the postings of a folded *day* to the CSV file *path*, which appears once all of it is on the disk.

    One that was interrupted is begun again, and an earlier export of the day is replaced. Return False if another run
    is exporting, or has dropped the day.

    Raises:
        LedgerUnavailableError: The day cannot be read.
        OSError: The file cannot be written.
    """
    import psycopg  # An extra.

    sql = _sql(prefix)
    try:
        options = limits_of(url, _PATIENCE_SECONDS)
        with (
            psycopg.connect(address_of(url), client_encoding="utf8", **options) as connection,
            connection.cursor() as cursor,
        ):
            if cursor.execute(sql["export_alone"].encode()).fetchone() != (True,):
                return False
            with cursor.copy(sql["export"].format(day=day.replace("-", "")).encode()) as blocks:
                _store(path, map(bytes, blocks))
    except psycopg.errors.UndefinedTable:
        return False
    except psycopg.Error as failed:
        raise LedgerUnavailableError(f"The day cannot be exported: {sentences(failed, url)}") from failed
    return True


def _store(path: Path, blocks: Iterable[bytes]) -> None:
    part = path.with_name(f"{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.writelines(blocks)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    if sys.platform == "win32":  # It opens no folders.
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _changed(prefix: str, name: str, day: str) -> Script[Rows]:
    yield from _asked(prefix, "patient")
    return (yield from _asked(prefix, name, day))


def _asked(prefix: str, name: str, *parameters: object) -> Script[Rows]:
    rows: Rows = yield Execute(_sql(prefix)[name], parameters)
    return rows


def _texts(rows: Rows) -> list[str]:
    return [row[0] for row in rows]


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(__package__, "days.sql", prefix=prefix)
