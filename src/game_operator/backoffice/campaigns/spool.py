"""
The grants of a plan on the disk: a million of them take no memory.

A database holds more rows than memory does, finds duplicates and sorts, and SQLite is in the standard library. This is
one without a name, which is gone when it is closed.
"""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from itertools import islice
from typing import Final

from game_operator.backoffice.campaigns.grants import Grant, grant_of

_TABLE: Final = """CREATE TABLE planned (
    key TEXT PRIMARY KEY, line INTEGER, count INTEGER, cents INTEGER, millis INTEGER
) WITHOUT ROWID"""
_INSERT: Final = "INSERT INTO planned VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_COLUMNS: Final = "SELECT key, count, cents, millis FROM planned"
_PAGE: Final = 5_000
#: Changes when the digest of the same grants would.
_FORMAT: Final = b"game-operator campaign 1\n"


class Spool(AbstractContextManager["Spool"]):
    """All grants of a plan, each once; closed at the end of its ``with`` block."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -32768", "temp_store = FILE"):
            self._file.execute(f"PRAGMA {pragma}")
        self._file.execute(_TABLE)

    def __exit__(self, *_exc: object) -> None:
        self._file.close()

    def add(self, grants: Sequence[tuple[int, Grant]]) -> list[tuple[int, int]]:
        """Add grants with their lines; return the lines of those that are there already, each with the first one's."""
        rows = [(grant.key, line, *grant.terms) for line, grant in grants]
        self._file.execute("BEGIN")
        added = self._file.executemany(_INSERT, rows).rowcount
        self._file.execute("COMMIT")
        if added == len(rows):
            return []
        pairs = ((line, self._line_of(key)) for key, line, *_ in rows)
        return [(line, first) for line, first in pairs if first != line]

    def _line_of(self, key: str) -> int:
        return int(self._file.execute("SELECT line FROM planned WHERE key = ?", (key,)).fetchone()[0])

    def digest(self) -> str:
        """Return the SHA-256 of all grants in hexadecimal: of the same grants in any order it is the same."""
        running = sha256(_FORMAT)
        for key, count, cents, millis in self._file.execute(f"{_COLUMNS} ORDER BY key"):
            running.update(f"{key}\n{count} {cents} {millis}\n".encode())
        return running.hexdigest()

    def first(self, number: int) -> list[Grant]:
        """Return the grants of the first lines."""
        rows = self._file.execute(f"{_COLUMNS} ORDER BY line LIMIT ?", (number,))
        return [grant_of(key, terms) for key, *terms in rows]

    def pages(self, *, but: Collection[Grant]) -> Iterator[list[Grant]]:
        """Yield all other grants by their keys, some at a time: in that order a database stores them quickest."""
        rows = self._file.execute(f"{_COLUMNS} ORDER BY key")
        while page := [grant_of(key, terms) for key, *terms in islice(rows, _PAGE)]:
            yield [grant for grant in page if grant not in but]
