"""``maintain(drop_after=…)`` as if it were another time, so that what a test has just played is old enough."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path

import pytest

from game_operator.ledger import MaintainReport, SqlLedger
from game_operator.ledger.books import retention, totals
from tests.support.raw_sql import DEFAULT_PREFIX, damage, rows, run

DAY_MILLIS = 86_400_000
QUARTER = timedelta(days=90)
_NUMBERS = count()


@contextmanager
def at_time(url: str, now_millis: int, prefix: str = DEFAULT_PREFIX) -> Iterator[None]:
    """
    Let ``maintain`` take *now_millis* for the time during the block.

    No partition is made meanwhile, because PostgreSQL folds those by its own clock. What was noted of the time is set
    back in the end.
    """
    begun = totals.close_begun
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(totals, "close_begun", lambda prefix, day, _, dialect: begun(prefix, day, now_millis, dialect))
        patch.setattr(retention.missing_days, "__defaults__", (-1,))
        patch.setattr(retention, "PAUSE_SECONDS", 0.0)
        yield
    calls = (row[0] for row in rows(url, f"SELECT at_millis FROM {prefix}calls"))
    ahead = now_millis - max(calls, default=now_millis)
    meta = f"UPDATE {prefix}meta SET value = value - ? WHERE name LIKE ? AND value >= ?"
    run(url, meta, ahead, "%_millis", now_millis)


def dropping(
    ledger: SqlLedger, now_millis: int | None = None, *, archive: Path | None = None, age: timedelta | int = QUARTER
) -> MaintainReport:
    """Return the report of a run that drops what is 90 days old at a time: 91 days after the last call."""
    if now_millis is None:
        newest = rows(ledger._url, f"SELECT MAX(at_millis) FROM {ledger._prefix}calls WHERE player_id < 'young-'")
        now_millis = (newest[0][0] or time.time_ns() // 1_000_000) + 91 * DAY_MILLIS
    with at_time(ledger._url, now_millis, ledger._prefix):
        return ledger.maintain(seconds=3_600, drop_after=age, archive=archive)


def keep_one(ledger: SqlLedger) -> None:
    """Let the newest posting be young for long, as it is in truth: else SQLite would give the ids of all again."""
    account = f"young-{next(_NUMBERS)}"
    ledger.open_account(account, Decimal(0))
    ledger.adjust(account, Decimal(1), reference=account)
    later, where = f"SET at_millis = at_millis + {60 * DAY_MILLIS}", f"WHERE account = '{account}'"
    posting = f"UPDATE {{p}}postings {later} WHERE to_account = '{account}'"
    damage(ledger._url, [posting, *(f"UPDATE {{p}}{table} {later} {where}" for table in ("calls", "accounts"))])


def drop(ledger: SqlLedger, now_millis: int | None = None) -> int:
    """Return how many postings such a run has dropped."""
    return sum(day.postings for day in dropping(ledger, now_millis).dropped)
