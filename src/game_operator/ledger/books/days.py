"""
Partitions of postings by UTC day on PostgreSQL: made ahead of time, folded and dropped after 90 days.

All is done by functions that the migration has made, so a user without rights to tables can do it. Each gives up a lock
after 300 ms, so that calls never wait for long, and does nothing then: run the script again. A posting whose day has no
partition is in the default one. Nothing is lost there: the next ``make_day`` of that day moves it.
"""

from typing import NamedTuple

from game_operator.ledger.books.totals import day_text
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.steps import Execute, Rows, Steps

#: How many days ahead are made unless more are asked for; 60 at most.
DAYS_AHEAD = 14


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
    return sql_texts(__package__, "days.sql", prefix=prefix)
