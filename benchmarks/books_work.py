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
from typing import Any, Final

from game_operator.ledger import SqlLedger

#: Each returns a report with findings.
WORKS: Final[dict[str, Callable[[SqlLedger], Any]]] = {
    "verify-full": lambda ledger: ledger.verify(full=True),
    "verify": lambda ledger: ledger.verify(),
    "maintain": lambda ledger: ledger.maintain(seconds=86_400, drop_after=timedelta(days=90)),
}

if __name__ == "__main__":
    name, url = sys.argv[1:]
    with SqlLedger(url) as ledger:
        began = time.perf_counter()
        findings = WORKS[name](ledger).findings
        seconds = time.perf_counter() - began
    assert not findings, f"the books are damaged: {findings[:3]}"
    # What getrusage reports may be the parent's.
    (most,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(json.dumps({"seconds": seconds, "megabytes": int(most) * 1024 / 1_000_000}))
