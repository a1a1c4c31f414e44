"""
PgBouncer before one of our PostgreSQL servers, on a Unix socket in a temporary folder.

PgBouncer refuses to run as root, so root runs it as ``nobody``. It does not outlive this process: a small shell stops
it and removes its folder when we close, or end in any other way.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlsplit

import psycopg

from tests.support.postgres import PostgresServer
from tests.support.postgres_binaries import give_to_server_user, server_user

_PATIENCE_SECONDS = 30.0
_PORT = 6432
# Debian installs it where a user's PATH may not lead.
_FOLDERS = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
_GUARD = """
"$1" -q "$2/pgbouncer.ini" & pid=$!
read -r word
kill -INT "$pid" 2>/dev/null
wait "$pid"
rm -rf "$2"
"""


class PgBouncer:
    """
    A PgBouncer that forwards to *server*; a ``with`` block starts it and closes it.

    Args:
        server: Where it forwards to.
        pool_mode: ``transaction`` or ``session``.
        pool_size: How many connections to the server it opens for each database.
        settings: Further settings, as in pgbouncer.ini.
    """

    def __init__(
        self,
        server: PostgresServer,
        *,
        pool_mode: str = "transaction",
        pool_size: int = 2,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._server = server
        self._settings = {"pool_mode": pool_mode, "default_pool_size": str(pool_size), **(settings or {})}
        self._folder = Path()
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def url(self, database_url: str) -> str:
        """Return the address through PgBouncer of the database that *database_url* names."""
        name = urlsplit(database_url).path.removeprefix("/")
        return f"postgresql:///{name}?host={quote(str(self._folder))}&port={_PORT}&user=postgres"

    def close(self) -> None:
        """Stop it, and remove everything."""
        if self._guard is not None:
            self._guard.communicate(b"close\n")
            self._guard = None

    def _start(self) -> None:
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path=_FOLDERS)
        if program is None:
            raise FileNotFoundError("PgBouncer is not installed: run `apt-get install pgbouncer`.")
        # In /tmp itself, for the path of a socket is limited to some hundred bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="game-operator-pb-", dir="/tmp"))
        self._write()
        give_to_server_user(self._folder)
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", program, str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **server_user(),
        )
        self._wait_until_ready()

    def _write(self) -> None:
        settings = {
            "listen_addr": "",
            "listen_port": str(_PORT),
            "unix_socket_dir": str(self._folder),
            "logfile": str(self._folder / "log"),
            "auth_type": "trust",
            "auth_file": str(self._folder / "users"),
            "admin_users": "postgres",
            **self._settings,
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        forwarded = f"* = host={self._server.folder} port=5432 user=postgres"
        (self._folder / "pgbouncer.ini").write_text("\n".join(["[databases]", forwarded, "[pgbouncer]", *lines, ""]))
        (self._folder / "users").write_text('"postgres" ""\n')
        for path in self._folder.iterdir():
            path.chmod(0o644)

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                psycopg.connect(self.url(self._server.url)).close()
            except psycopg.OperationalError as failed:
                if time.monotonic() > until:
                    raise RuntimeError("PgBouncer did not start; its log is above all in its folder") from failed
                time.sleep(0.02)
            else:
                return
