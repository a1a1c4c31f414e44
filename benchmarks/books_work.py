"""
One piece of work on the books, in a process for itself, so that its memory is its own.

``python -m benchmarks.books_work WORK URL`` prints what it took as JSON. The books must be sound.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from game_operator.ledger import SqlLedger

__all__ = ["WORKS", "main"]

_DAY_MILLIS: Final = 86_400_000


def main() -> None:
    """Do the work that the command line names."""
    name, url = sys.argv[1:]
    with SqlLedger(url) as ledger:
        began = time.perf_counter()
        rows = WORKS[name](ledger)
        seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "rows": rows, "megabytes": _most_megabytes()}))


def _verify(ledger: SqlLedger, *, full: bool = False) -> int:
    report = ledger.verify(full=full)
    _check(report.findings)
    return report.accounts + report.calls + report.postings + sum(report.bets.values())


def _maintain(ledger: SqlLedger) -> int:
    report = ledger.maintain(seconds=86_400, drop_after=timedelta(days=90))
    _check(report.findings)
    return sum(report.read.values())


def _totals(ledger: SqlLedger, *, days_ago: int) -> int:
    midnight = time.time_ns() // 1_000_000 // _DAY_MILLIS * _DAY_MILLIS - days_ago * _DAY_MILLIS
    return len(ledger.totals(since_millis=midnight, until_millis=midnight + _DAY_MILLIS).rows)


def _check(findings: tuple[object, ...]) -> None:
    if findings:
        raise SystemExit(f"the books are damaged: {findings[:3]}")


def _most_megabytes() -> float:
    """Return the most memory that this process has had; what ``getrusage`` reports may be its parent's."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / 1_000_000


#: What it does, by name; each returns how many rows it met.
WORKS: Final[dict[str, Callable[[SqlLedger], int]]] = {
    "verify-full": lambda ledger: _verify(ledger, full=True),
    "verify": _verify,
    "maintain": _maintain,
    "totals-yesterday": lambda ledger: _totals(ledger, days_ago=1),
    "totals-today": lambda ledger: _totals(ledger, days_ago=0),
}

if __name__ == "__main__":
    main()
