"""A process that reconciles with repair until it ends or is killed; it says so once it begins."""

import sys
from datetime import timedelta
from typing import Any

from game_operator.backoffice.reconcile.reconciler import Reconciler
from tests.support.reconcile_factory import make

__all__ = ["SETTINGS"]

#: A second's lease, and looks that are slow enough to be killed in.
SETTINGS: dict[str, Any] = {
    "min_age": timedelta(0),
    "second_look": timedelta(milliseconds=300),
    "rate_per_second": 60.0,
    "sample": 1.0,
    "lease": timedelta(seconds=1),
}
_REPAIR: dict[str, Any] = {
    "repair": True,
    "max_bets": 1_000,
    "max_total_cents": 10_000_000,
    "actor": "ann",
    "reason": "deposits were lost",
}


if __name__ == "__main__":
    reconciler = Reconciler(*make(), **SETTINGS)
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    reconciler.run(**_REPAIR)
