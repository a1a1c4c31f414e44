"""The wallets by hand in other languages: what each needs on this machine, how it starts, and what staff do to it."""

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.documents import ROOT

__all__ = ["CACHE", "LANGUAGES", "WALLETS", "Language", "Running", "need"]

WALLETS = ROOT / "examples" / "wallets"
#: Where tools/install-languages.sh puts what Debian has no package for.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "game-operator-tests"
_TABLES = ("accounts", "bets", "calls", "postings")
_DAY_MILLIS = 86_400_000
_PATIENCE_SECONDS = 60


class Language(NamedTuple):
    """
    A language with a wallet.

    Attributes:
        file: Its wallet, in examples/wallets.
        tools: The programs that check and run it.
        driver: What is missing of the database driver; empty if nothing is.
        check: Returns the command that checks the file without running it; it may write into a folder.
        command: Makes the wallet ready in a folder, and returns the command to which its arguments are added.
    """

    file: str
    tools: Sequence[str]
    driver: Callable[[], str]
    check: Callable[[Path], Sequence[str]]
    command: Callable[[Path], Sequence[str]]

    @property
    def missing_tools(self) -> str:
        """Return what this machine lacks to check the file; empty if nothing."""
        tools = [tool for tool in self.tools if shutil.which(tool) is None]
        return f"{' and '.join(tools)} not installed" if tools else ""

    @property
    def missing(self) -> str:
        """Return what this machine lacks to run the wallet; empty if nothing."""
        return self.missing_tools or self.driver()


def need(missing: str) -> None:
    """Fail if something is *missing*."""
    if missing:
        pytest.fail(f"{missing}: `make languages` installs it", pytrace=False)


def _node(folder: Path) -> Sequence[str]:
    """Put the wallet beside its modules: Node looks for them in the file's folder and in those above it."""
    shutil.copy(WALLETS / "wallet.mjs", folder)
    (folder / "node_modules").symlink_to(CACHE / "node_modules")
    return "node", str(folder / "wallet.mjs")


@cache
def _php_driver() -> str:
    lacking = subprocess.run(
        ["php", "-r", 'echo implode(" ", array_diff(["pdo_sqlite", "openssl", "pcntl"], get_loaded_extensions()));'],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=True,
    ).stdout
    return f"PHP's extensions {lacking} not installed" if lacking else ""


def _lacking(path: Path) -> Callable[[], str]:
    return lambda: "" if path.exists() else f"{path} not installed"


LANGUAGES: Mapping[str, Language] = {
    "Node.js": Language(
        "wallet.mjs",
        ["node"],
        _lacking(CACHE / "node_modules" / "better-sqlite3"),
        lambda _: ("node", "--check", "wallet.mjs"),
        _node,
    ),
    "PHP": Language(
        "wallet.php",
        ["php"],
        _php_driver,
        lambda _: ("php", "-l", "wallet.php"),
        lambda _: ("php", str(WALLETS / "wallet.php")),
    ),
}


class Running:
    """
    A wallet's process on a database file.

    Args:
        command: What starts it.
        folder: Where its key file and its log are.
        keys: The service's public keys.
        database: The file, which processes share.
        players: Who has 100.00.
        instances: The operator's game instances.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        keys: Sequence[RSAPublicKey],
        *,
        database: Path,
        players: Sequence[str] = (),
        instances: str = "",
    ) -> None:
        self._command, self._folder, self._keys, self._database = command, folder, keys, database
        self._players, self._port = players, "0"
        self._environ = os.environ | {"DATABASE": str(database), "INSTANCES": instances}
        self._is_php = command[0] == "php"
        self.trust()

    @property
    def url(self) -> str:
        """Return the address, which stays the same."""
        return f"http://127.0.0.1:{self._port}"

    def _start(self) -> None:
        arguments = [str(self._folder / "service.pub.pem"), self._port, *self._players]
        with (self._folder / "wallet.log").open("a") as log:
            self._process = subprocess.Popen(
                [*self._command, *arguments], stdout=subprocess.PIPE, stderr=log, text=True, env=self._environ
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said.startswith("http://127.0.0.1:"), f"{said}{(self._folder / 'wallet.log').read_text()}"
        self._port = said.split()[0].rpartition(":")[2]

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the process by a signal."""
        self._process.send_signal(number)
        self._process.wait(timeout=_PATIENCE_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def restart(self) -> None:
        """Kill the process, and start it again. PHP's starter has to end its server's processes itself."""
        self.stop(signal.SIGTERM if self._is_php else signal.SIGKILL)
        self._start()

    def trust(self) -> None:
        """Start, or start again, with the service's keys."""
        self._trust(self._keys)

    def distrust(self) -> None:
        """Start again with a key that is not the service's."""
        self._trust([generate_private_key(65537, 2048).public_key()])

    def _trust(self, keys: Sequence[RSAPublicKey]) -> None:
        pem = b"".join(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for key in keys)
        (self._folder / "service.pub.pem").write_bytes(pem)
        if hasattr(self, "_process"):
            self.restart()
        else:
            self._start()

    # What staff do, on the wallet's own tables.

    def block(self, player_id: str) -> None:
        """Block a player."""
        self._write("UPDATE accounts SET blocked = 1 WHERE player_id = ?", player_id)

    def unblock(self, player_id: str) -> None:
        """Let a player bet again."""
        self._write("UPDATE accounts SET blocked = 0 WHERE player_id = ?", player_id)

    def open_account(self, player_id: str, cents: int) -> None:
        """Open an account."""
        self._write("INSERT INTO accounts VALUES (?, ?, 0, 0)", player_id, cents)

    def stored_cents(self, player_id: str) -> int:
        """Return what the table says."""
        with self._books() as books:
            (cents,) = books.execute("SELECT cents FROM accounts WHERE player_id = ?", (player_id,)).fetchone()
        return int(cents)

    def fail(self) -> None:
        """Take a table away: every statement about it fails."""
        self._write("ALTER TABLE accounts RENAME TO accounts_elsewhere")

    def recover(self) -> None:
        """Put the table back."""
        self._write("ALTER TABLE accounts_elsewhere RENAME TO accounts")

    def later(self, days: int) -> None:
        """Let all that is stored be older."""
        self._write("UPDATE accounts SET last_millis = max(0, last_millis - ?)", days * _DAY_MILLIS)
        self._write("UPDATE postings SET at_millis = at_millis - ?", days * _DAY_MILLIS)

    def begin_anew(self, opening: Mapping[str, int]) -> None:
        """Forget everything, and open these accounts."""
        for table in _TABLES:
            self._write(f"DELETE FROM {table}")
        for player_id, cents in opening.items():
            self.open_account(player_id, cents)

    def _write(self, statement: str, *values: object) -> None:
        with self._books() as books, books:
            books.execute(statement, values)

    @contextmanager
    def _books(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._database, timeout=30)) as books:
            yield books
