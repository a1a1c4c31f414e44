"""
The exchanges of a live log in a file, so that they survive a restart of the sandbox.

The file is SQLite's. It has what the pages show, signatures included, so only its owner can read it. It has no
private key.
"""

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.http import HeaderPairs

_VERSION: Final = 2
_TABLES: Final = f"""
    BEGIN;
    CREATE TABLE run (id TEXT NOT NULL);
    CREATE TABLE exchange (number INTEGER PRIMARY KEY, fields TEXT NOT NULL);
    PRAGMA user_version = {_VERSION};
    COMMIT;
"""
_BODIES: Final = ("request_body", "response_body")
_HEADERS: Final = ("request_headers", "response_headers")


class ExchangeFile:
    """
    The file at *path*, made if it is not there, for one sandbox at a time.

    Attributes:
        run: Distinguishes the numbers of this file from those of any other run.

    Raises:
        ConfigurationError: It cannot be used: another sandbox has it, or it is another file.
    """

    def __init__(self, path: Path) -> None:
        try:
            # Private from its first byte on.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            _check(path)
            # Before it is opened to write: SQLite gives its other files the same mode.
            path.chmod(0o600)
            self._database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                self.run: str = self._taken()
            except BaseException:
                self._database.close()
                raise
        except (OSError, sqlite3.Error) as failed:
            busy = getattr(failed, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            why = "another sandbox uses it" if busy else getattr(failed, "strerror", None) or str(failed)
            raise _unusable(path, why) from None

    def exchanges(self) -> Iterator[dict[str, Any]]:  # Any: fields of Exchange.
        """Yield the fields of each exchange, the oldest first."""
        for (fields,) in self._database.execute("SELECT fields FROM exchange ORDER BY number"):
            found = json.loads(fields)
            bodies = {name: found[name].encode("latin-1") for name in _BODIES}
            yield found | bodies | {name: _headers(found[name]) for name in _HEADERS}

    def write(self, exchange: Mapping[str, Any], *, oldest: int) -> None:
        """Append the fields of an *exchange*, and drop those before the number *oldest*."""
        # Bytes are written as text, each byte as one character.
        fields = json.dumps(exchange, default=lambda octets: octets.decode("latin-1"))
        self._database.execute("INSERT INTO exchange VALUES (?, ?)", (exchange["number"], fields))
        self._database.execute("DELETE FROM exchange WHERE number < ?", (oldest,))

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _taken(self) -> str:
        """Take the file for this sandbox alone, and return its run."""
        # Nothing is lost when the process dies, and nothing waits for the disk.
        for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL"):
            self._database.execute(f"PRAGMA {setting}")
        if not _version(self._database):
            self._database.executescript(_TABLES)
            self._database.execute("INSERT INTO run VALUES (?)", (secrets.token_hex(8),))
        # A write takes the lock, which is kept.
        self._database.execute("UPDATE run SET id = id")
        (run,) = self._database.execute("SELECT id FROM run").fetchone()
        return str(run)


def _check(path: Path) -> None:
    """Raise ConfigurationError if the file at *path* is the database of something else; it is left as it is."""
    with closing(sqlite3.connect(path, timeout=0)) as database:
        version, (tables,) = _version(database), database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if version != _VERSION and (version or tables):
        raise _unusable(path, "it is another database, or of another version")


def _version(database: sqlite3.Connection) -> int:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return int(version)


def _unusable(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"Calls cannot be recorded in {shown(str(path))}: {why}. Pass a new file, or one that a sandbox has recorded.",
        setting="record",
    )


def _headers(texts: list[list[str]]) -> HeaderPairs:
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in texts)
