"""
``game-operator ledger maintain`` in processes of its own, which die at a step that a test chooses.

A step is a statement or something done with a file. They are counted, so that a test can visit each. The process here
forks for each run: to import all anew would take most of the time.
"""

import contextlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import psycopg

from game_operator.cli import main
from game_operator.cli.app import run as run  # Imported before the first fork.
from game_operator.ledger import SqlLedger
from game_operator.ledger.books import maintain, retention, verify

__all__ = ["Ended", "Maintainer"]

_ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """
    How a run ended.

    Attributes:
        status: Its exit code, negative for a signal.
        steps: How many steps it took; None if it was killed.
        document: What it has printed; None if it was killed.
        steps_by_name: What it did how often.
    """

    status: int
    steps: int | None = None
    document: dict[str, Any] | None = None


class Maintainer:
    """Runs the command, one run at a time; each is a process of its own."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.support.maintain_process"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT)
        return self

    def __exit__(self, *_exc: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(100)
        self._process.stdout.close()

    def begin(self, url: str, archive: Path, **fate: Any) -> None:
        """
        Begin to maintain the ledger at *url*.

        Args:
            url: The database.
            archive: The folder for what leaves it.
            fate: ``die_at``, the number of the step before which to die; with ``delay``, so many seconds after it
                begins. ``tell_at``, the one at which ``told`` returns. ``seconds``, how long it may take.
        """
        assert self._process.stdin is not None
        order = {"url": url, "archive": str(archive), **fate}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def told(self) -> bool:
        """Wait until the run comes to its ``tell_at``; return False if it ended before."""
        self._heard = self._line()
        return "told" in self._heard

    def end(self) -> Ended:
        """Wait for the end of the run."""
        found: dict[str, Any] = {}
        while "status" not in found:
            found |= self.__dict__.pop("_heard", None) or self._line()
        return Ended(found["status"], found.get("steps"), found.get("document"))

    def run(self, url: str, archive: Path, **fate: Any) -> Ended:
        """``begin`` and ``end``."""
        self.begin(url, archive, **fate)
        return self.end()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line: dict[str, Any] = json.loads(self._process.stdout.readline())
        return line


# --- the process ------------------------------------------------------------------------------------------------------


class _Steps:
    """Counts steps, and does at one of them what it was asked for."""

    def __init__(self, say: Callable[[object], None], order: dict[str, Any]) -> None:
        self._say, self._order = say, order
        self.is_on = False
        self.count = 0

    def take(self) -> None:
        """Begin the next step."""
        if not self.is_on:
            return
        self.count += 1
        if self.count == self._order.get("tell_at"):
            self._say({"told": self.count})
        if self.count == self._order.get("die_at"):
            delay: float | None = self._order.get("delay")
            if delay is None:
                _die()
            else:
                threading.Timer(delay, _die).start()

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return *function* as a step."""

        def step(*arguments: Any, **options: Any) -> Any:
            self.take()
            return function(*arguments, **options)

        return step


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _watch(steps: _Steps) -> None:
    """Make a step of each statement, and of what is done with files; and let pages be small, so that there are more."""

    class Connection(sqlite3.Connection):
        execute = steps.before(sqlite3.Connection.execute)
        executemany = steps.before(sqlite3.Connection.executemany)

    connect, maintained, missing = sqlite3.connect, SqlLedger.maintain, retention.missing_days

    def maintain_in_steps(ledger: SqlLedger, **options: Any) -> Any:
        steps.is_on = True
        try:
            return maintained(ledger, **options)
        finally:
            steps.is_on = False

    changes: Any = {
        sqlite3: {"connect": lambda *given, **more: connect(*given, **more, factory=Connection)},
        psycopg.Cursor: {name: steps.before(getattr(psycopg.Cursor, name)) for name in ("execute",)},
        os: {"fsync": steps.before(os.fsync), "replace": steps.before(os.replace)},
        retention: {
            "mkstemp": steps.before(tempfile.mkstemp),
            "missing_days": lambda prefix: missing(prefix, 3),
        },
        retention.DayFile: {"add": steps.before(retention.DayFile.add)},
        SqlLedger: {"maintain": maintain_in_steps},
        maintain: {"WINDOW": 25, "_SLICES": 4},
        verify: {"_ACCOUNTS": 4, "_BETS": 20},
    }
    for place, named in changes.items():
        for name, value in named.items():
            setattr(place, name, value)


def _work(order: dict[str, Any], say: Callable[[object], None]) -> int:
    steps = _Steps(say, order)
    _watch(steps)
    options = ["--drop-after", "90", "--archive", order["archive"]]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        seconds = str(order.get("seconds", 60))
        code = main(["ledger", "maintain", "--database", order["url"], "--json", "--seconds", seconds, *options])
    say({"steps": steps.count, "document": json.loads(out.getvalue())})
    return code


def _serve(orders: Sequence[str] | Any) -> None:
    out = sys.stdout

    def say(what: object) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    for line in orders:
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                code = _work(json.loads(line), say)
            except BaseException:  # Nobody above writes it.
                traceback.print_exc()
            finally:
                os._exit(code)
        say({"status": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})


if __name__ == "__main__":
    _serve(sys.stdin)
