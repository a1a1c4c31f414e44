"""
``game-operator ledger maintain`` in processes, which die at a step that a test chooses.

A step is a statement or something done with a file. They are counted, so that a test can visit each.
"""

import contextlib
import io
import json
import os
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from game_operator.cli import main
from game_operator.ledger import SqlLedger
from game_operator.ledger.books import maintain, retention, verify
from tests.support.crowds import worker_context


class Ended(NamedTuple):
    """
    How a run ended.

    Attributes:
        status: Its exit code, negative for a signal.
        steps: How many steps it took; None if it was killed.
        document: What it has printed; None if it was killed.
    """

    status: int
    steps: int | None = None
    document: dict[str, Any] | None = None


class Maintainer:
    """Runs the command, one run at a time."""

    def begin(self, url: str, archive: Path, **fate: Any) -> None:
        """
        Begin to maintain the ledger at *url*.

        Args:
            url: The database.
            archive: The folder for what leaves it.
            fate: ``die_at``, the number of the step before which to die; with ``delay``, so many seconds after it
                begins. ``tell_at``, the one at which ``told`` returns.
        """
        context = worker_context(__name__)
        self._heard, says = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(says, url, str(archive), fate), daemon=True)
        self._process.start()
        says.close()
        self._found: list[Any] | None = None

    def told(self) -> bool:
        """Wait until the run comes to its ``tell_at``; return False if it ended before."""
        try:
            self._found = self._heard.recv()
        except EOFError:
            return False
        return self._found is None

    def end(self) -> Ended:
        """Wait for the end of the run."""
        with self._heard, contextlib.suppress(EOFError):
            while self._found is None:
                self._found = self._heard.recv()
        self._process.join()
        assert self._process.exitcode is not None
        return Ended(self._process.exitcode, *(self._found or ()))

    def run(self, url: str, archive: Path, **fate: Any) -> Ended:
        """``begin`` and ``end``."""
        self.begin(url, archive, **fate)
        return self.end()


# --- the process ------------------------------------------------------------------------------------------------------


class _Steps:
    """Counts steps, and does at one of them what it was asked for."""

    def __init__(self, tell: Callable[[], None], fate: dict[str, Any]) -> None:
        self._tell, self._fate = tell, fate
        self.is_on = False
        self.count = 0

    def take(self) -> None:
        """Begin the next step."""
        if not self.is_on:
            return
        self.count += 1
        if self.count == self._fate.get("tell_at"):
            self._tell()
        if self.count == self._fate.get("die_at"):
            delay: float | None = self._fate.get("delay")
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
        psycopg.Cursor: {"execute": steps.before(psycopg.Cursor.execute)},
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


def _work(says: Connection, url: str, archive: str, fate: dict[str, Any]) -> None:
    steps = _Steps(lambda: says.send(None), fate)
    _watch(steps)
    command = ["ledger", "maintain", "--database", url, "--json", "--seconds", "60", "--drop-after", "90"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main([*command, "--archive", archive])
    says.send([steps.count, json.loads(out.getvalue())])
    sys.exit(code)
