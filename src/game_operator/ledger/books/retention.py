"""
Retention: the postings of old days, each summed up by account and dropped; and old bodies that nobody needs any more.

What distinguishes a known call from a new one stays for ever, with the bet's final state and the digest of its
withdraw: a captured claim would otherwise be paid again. A day goes whole or stays whole, with the reason: all of it
must be closed for totals, sealed, sound and without OPEN bets. All is done in small transactions, so that calls go on.

On PostgreSQL postings are partitioned by UTC day. Functions that the migration has made create and drop partitions, so
that a user without rights to tables can do it. Each gives up a lock after 300 ms, so that calls never wait long, and
does nothing then: run the script again. A posting whose day has no partition is in the default one; the next
``make_day`` of that day moves it.
"""

import csv
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from errno import EEXIST, EIO
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import mkstemp
from typing import Any, NamedTuple

from game_operator.errors import shown
from game_operator.ledger.books.slices import Slice, account_sums, add_sums, calls_digest, row_order, sealed
from game_operator.ledger.books.totals import DAY_MILLIS, day_text
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.steps import Execute, Rows, Steps

#: Services repeat calls for months, and a provider's look-ups reach back as far (spec §4.2).
LEAST_AGE = timedelta(days=90)
#: Between two transactions: longer than a process that waits for SQLite's one write lock sleeps before it looks again.
PAUSE_SECONDS = 0.02

#: How many days ahead are made unless more are asked for; 60 at most.
DAYS_AHEAD = 14

_MILLISECOND = timedelta(milliseconds=1)
_COLUMNS = ("id", "at_millis", "from_account", "to_account", "amount_cents", "source", "operation", "tx_id")


class DroppedDay(NamedTuple):
    """
    A day whose postings were dropped.

    Attributes:
        day: The UTC day, ``2026-11-23``.
        postings, cents: How many they were, and what they brought to players together.
        file: The file in the archive that has them; "" without an archive.
        sha256: The digest of that file, as ``sha256sum`` prints it.
    """

    day: str
    postings: int
    cents: int
    file: str = ""
    sha256: str = ""


class KeptDay(NamedTuple):
    """
    A day that is old enough, and whose postings stay.

    Attributes:
        day: The UTC day.
        reason: ``open bets``, ``findings``, ``damaged``, ``not sealed``, ``not closed``, or ``busy``: others have
            locked the tables, as a backup does.
    """

    day: str
    reason: str


def age_millis(drop_after: timedelta | int) -> int:
    """
    Return an age in milliseconds.

    Raises:
        TypeError: It is neither a timedelta nor an int of milliseconds.
        ValueError: It is under 90 days.
    """
    if isinstance(drop_after, bool) or not isinstance(drop_after, timedelta | int):
        raise TypeError(f"drop_after must be a timedelta, or an int of milliseconds, not {type(drop_after).__name__}")
    millis = drop_after // _MILLISECOND if isinstance(drop_after, timedelta) else drop_after
    if millis < LEAST_AGE // _MILLISECOND:
        raise ValueError(
            f"drop_after is {shown(str(drop_after))}, and nothing is dropped before 90 days: calls may come again for "
            "that long. Pass timedelta(days=90) or more."
        )
    return millis


def check_archive(archive: str | os.PathLike[str] | None, age: int | None) -> Path | None:
    """
    Return the folder that gets what is dropped, or None.

    Raises:
        ValueError: Nothing is to be dropped, or *archive* names no folder.
        NotADirectoryError: There is no such folder.
    """
    if archive is None:
        return None
    if age is None:
        raise ValueError("archive is for what is dropped, and nothing is without drop_after. Nothing was done.")
    if not os.fspath(archive) or not (folder := Path(archive)).is_dir():
        raise NotADirectoryError(f"archive is {shown(os.fspath(archive))}, which is no folder. Nothing was done.")
    return folder


def old_days(prefix: str, before_day: int) -> Steps[list[int]]:
    """Return the days before one that have sealed postings, counted since 1970."""
    return [row[0] for row in (yield Execute(_sql(prefix)["old_days"], (before_day,)))]


def why_kept(prefix: str, day: int) -> Steps[str]:
    """Return why the postings of a day must stay; "" if they may go."""
    start = day * DAY_MILLIS
    times = (start, start + DAY_MILLIS)
    return str((yield Execute(_sql(prefix)["why_kept"], (day, *times, day, *times, *times)))[0][0])


def fold_slice(dialect: SqlDialect, known: Slice) -> Steps[bool]:
    """
    Delete the postings of a slice and carry their sums; return False, and do nothing, if another run has.

    Raises:
        ChangedError: They are not what was sealed.
    """
    prefix = dialect.prefix
    sql = _sql(prefix)
    # Another run waits here, and then finds the slice folded.
    yield Execute(sql["unlock"], [(1,)], many=True)
    is_there = bool((yield Execute(sql["is_live"], known[:2])))
    if is_there:
        rows = sorted((yield Execute(sql["take"], known.bounds)), key=row_order)
        if sealed(known.day, known.last_id, known.first_id, rows) != known:
            raise ChangedError
        yield from add_sums(dialect.kind, prefix, "carried", account_sums(rows))
        yield from note_folded(dialect, [(known, calls_digest(rows))])
        yield Execute(sql["count_fold"], ())
    yield Execute(sql["unlock"], [(0,)], many=True)
    return is_there


class ChangedError(Exception):
    """Postings are not those that were read: nothing may be committed."""


def note_folded(dialect: SqlDialect, slices: Sequence[tuple[Slice, bytes]]) -> Steps[None]:
    """Note that the postings of *slices* are gone, with the digest of the calls that had made them."""
    now_millis = yield from dialect.now_millis()
    rows = [(now_millis, digest, *known[:2]) for known, digest in slices]
    yield Execute(_sql(dialect.prefix)["note_folded"], rows, many=True)


def drop_bodies(prefix: str, before: int) -> Steps[None]:
    """Drop the bodies of the claims, and of the resolved anomalies, that are older than a time."""
    sql = _sql(prefix)
    yield Execute(sql["drop_bodies"], (before,))
    yield Execute(sql["drop_bodies_of_anomalies"], (b"", before))


class DayFile:
    """
    A CSV file of a day's postings, which has its name once all of it is on the disk.

    Its name has the first and the last id that it may have: what is archived of that day later never replaces it.
    """

    def __init__(self, folder: Path, prefix: str, day: str, slices: Sequence[Slice]) -> None:
        self.path: Path = folder / f"{prefix}postings-{day}-{slices[0].first_id}-{slices[-1].last_id}.csv"
        with self._named():
            handle, part = mkstemp(".part", f"{self.path.name}-", folder)  # Two runs at once do not share it.
        self._part, self._file, self._digest = Path(part), os.fdopen(handle, "wb"), sha256()
        self.add([_COLUMNS])

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write *rows*, which have the columns of ``posting``."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        block = text.getvalue().encode()
        self._digest.update(block)
        with self._named():
            self._file.write(block)

    def keep(self) -> str:
        """
        Give the file its name and return its SHA-256.

        Raises:
            OSError: It cannot be written, another file has its name, or another content is read back.
        """
        with self._named():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            if self.path.exists() and not self._is_written():  # Another ledger's, which would be lost.
                raise OSError(EEXIST, "another file has that name. Give each ledger a separate folder")
            self._part.replace(self.path)
            if sys.platform != "win32":  # It opens no folders.
                folder = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            if not self._is_written():
                raise OSError(EIO, "what is read back is not what was written")
        return self._digest.hexdigest()

    def _is_written(self) -> bool:
        with self.path.open("rb") as file:
            return file_digest(file, "sha256").digest() == self._digest.digest()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as failed:
            failed.filename = str(self.path)  # A full disk names none.
            raise

    def close(self) -> None:
        """Close the file, and remove what has not got its name."""
        self._file.close()
        self._part.unlink(missing_ok=True)


class Folded(NamedTuple):
    """
    What folding a day has done.

    Attributes:
        reason: Why nothing was done; "" if the day is folded and its partition gone. ``not 90 days over``, ``missing``
            (it has no partition), ``not sealed``, ``findings``, ``damaged``, ``not closed`` or ``open bets``.
        postings: How many were folded.
    """

    reason: str
    postings: int


def missing_days(prefix: str, ahead: int = DAYS_AHEAD) -> Steps[list[str]]:
    """Return today and the days up to *ahead* that have no partition, as ``2026-11-23``."""
    return [row[0] for row in (yield from _asked(prefix, "missing", ahead))]


def partitioned_days(prefix: str) -> Steps[list[int]]:
    """Return the days that have a partition, counted since 1970."""
    return [row[0] for row in (yield from _asked(prefix, "partitioned"))]


def make_day(prefix: str, day: str) -> Steps[str]:
    """Make the partition of *day*: ``made``, ``there`` or ``out of range``."""
    return str((yield from _changed(prefix, "make", day))[0][0])


def fold_day(prefix: str, day: int) -> Steps[Folded]:
    """Carry the postings of *day* forward and drop its partition, in one transaction; the reason if it may not."""
    reason, postings = (yield from _changed(prefix, "fold", day_text(day)))[0]
    return Folded(reason, int(postings))


def _changed(prefix: str, name: str, day: str) -> Steps[Rows]:
    yield from _asked(prefix, "patient")
    return (yield from _asked(prefix, name, day))


def _asked(prefix: str, name: str, *parameters: object) -> Steps[Rows]:
    rows: Rows = yield Execute(_sql(prefix)[name], parameters)
    return rows


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(__package__, "retention.sql", prefix=prefix)
