"""
A real PostgreSQL server of our own, on a Unix socket in a temporary folder: for tests and benchmarks.

PostgreSQL refuses to run as root, so root runs it as ``nobody``. Nothing outlives this process: a small shell, the
guard, stops the server and removes its folder as soon as we close, or end in whatever way.
"""

import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from tests.support.postgres_binaries import find_binaries, give_to_server_user, server_user, within_reach

_PATIENCE_SECONDS = 60.0
_PORT = 5432
#: The longest folder whose socket's path the kernel takes: 108 bytes on Linux and 104 elsewhere, less name and end.
_LONGEST_FOLDER = 104 - len(f"/.s.PGSQL.{_PORT}.lock") - 1

# Nothing is left running between tests, and no plan is compiled for a handful of rows.
_QUICK = {"autovacuum_naptime": "1d", "jit": "off", "shared_buffers": "8MB"}
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", **_QUICK}
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
if sys.platform == "linux":
    # Recovery after a kill would otherwise sync some thousand files one by one, which takes seconds on a busy disk.
    _DURABLE["recovery_init_sync_method"] = "syncfs"

# Its input names the process to stop, a line at each start and an empty one at each stop, and says when we close; its
# end is our end. (Its end alone would not do to close: a forked child of ours holds it open.)
_GUARD = """
while read -r line && [ "$line" != close ]; do pid=$line; done
if [ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null; then
    tries=0
    # A dead process keeps its pid until somebody buries it; the file tells sooner.
    while [ -e "$1/data/postmaster.pid" ] && kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ "$tries" -lt 100 ] || kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"
"""


class PostgresServer:
    """
    One PostgreSQL cluster and the server that runs it; the superuser is ``postgres`` and needs no password.

    A ``with`` block starts it and closes it.

    Args:
        durable: Commit to the disk, as in production: for benchmarks and for tests that kill the server. Otherwise
            nothing waits for the disk, and what a killed server leaves behind is worth nothing.
        settings: Further server settings, as in postgresql.conf.
    """

    def __init__(self, *, durable: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self.durable = durable
        self._programs = Path()
        self._settings = {**(_DURABLE if durable else _FAST), **(settings or {})}
        self._names = count(1)
        self._folder: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._administrator: psycopg.Connection | None = None
        self._all_gone = -1

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Where the cluster, the socket and the log are, from the first start until ``close``."""
        if self._folder is None:
            raise RuntimeError("this PostgreSQL server has no folder: call start() first")
        return self._folder

    @property
    def url(self) -> str:
        """The server's own database ``postgres``, for libpq, psycopg, asyncpg and SQLAlchemy."""
        return self._url("postgres")

    @property
    def pid(self) -> int:
        """The server's first process."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the server runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """
        Start, or start again after ``stop`` or ``kill``; return when the server takes connections.

        Raises:
            FileNotFoundError: There are no binaries; the message says what to install.
            RuntimeError: The server runs already, or did not start; the message ends with its log.
        """
        if self.is_running:
            raise RuntimeError(f"the PostgreSQL server in {self.folder} runs already")
        if self._folder is None:
            self._prepare()
        self._launch()
        self._wait_until_ready()
        self._administering()

    def stop(self, *, immediate: bool = False) -> None:
        """Stop, if it runs, and cut all connections; *immediate* writes nothing, and the next start recovers."""
        if self._process is not None:
            # An exited process has no pid any more; send_signal knows.
            self._process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
            self._wait_until_gone()

    def kill(self) -> None:
        """Kill every process of the server at once, as a power failure would; return when all are gone."""
        pid = self._running().pid
        # A stopped parent starts no child and buries none: no pid in the list can come to mean another process.
        os.kill(pid, signal.SIGSTOP)
        for child in _children(pid):
            os.kill(child, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        self._wait_until_gone()
        self._release_shared_memory()

    def close(self) -> None:
        """Stop, if it runs, and remove everything; a later ``start`` begins with a new cluster."""
        try:
            self.stop(immediate=True)
        finally:
            if self._guard is not None:
                self._tell_guard("close")
                self._guard.communicate()
                self._guard = self._folder = None

    def create_database(self, *, template: str | None = None) -> str:
        """Return the URL of a fresh database: empty, or a copy of the database with the URL *template*."""
        name = f"test_{next(self._names)}"
        original = sql.Identifier("template1" if template is None else _database(template))
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), original)
        connection = self._administering()
        # The other strategy, new in PostgreSQL 15, takes twice the processor time.
        has_choice = connection.info.server_version >= 150_000
        connection.execute(create + sql.SQL(" STRATEGY file_copy") if has_choice else create)
        return self._url(name)

    @contextmanager
    def lent_database(self, *, template: str | None = None) -> Iterator[str]:
        """Create a database as ``create_database`` does, for one block."""
        url = self.create_database(template=template)
        yield url
        self.drop_database(url)

    def drop_database(self, url: str) -> None:
        """Drop the database with this URL, if it is there, and cut its connections."""
        name = sql.Identifier(_database(url))
        self._administering().execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of PostgreSQL's, such as pg_dump, in ``folder`` as the server's user; return its output."""
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=_environment(),
            **server_user(),
        )
        if done.returncode:
            raise RuntimeError(f"{program} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def log(self) -> str:
        """Return what the server has said so far."""
        return (self.folder / "log").read_text(errors="replace")

    def _url(self, database: str) -> str:
        # The port only names the socket; said here, for the environment may say another.
        return f"postgresql:///{database}?host={quote(str(self.folder))}&port={_PORT}&user=postgres"

    def _administering(self) -> psycopg.Connection:
        """Return a connection that stays open: a new one costs half as much as a new database."""
        idle = TransactionStatus.IDLE  # Any other status: it was cut, or a signal interrupted a statement.
        if self._administrator is None or self._administrator.info.transaction_status != idle:
            self._forget_administrator()
            self._administrator = psycopg.connect(self.url, autocommit=True)
        return self._administrator

    def _forget_administrator(self) -> None:
        if self._administrator is not None:
            self._administrator.close()
            self._administrator = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or not self.is_running:
            raise RuntimeError("the PostgreSQL server does not run: call start() first")
        return self._process

    def _prepare(self) -> None:
        """Make the folder, the guard who will remove it, and the cluster."""
        binaries = find_binaries()
        self._folder = _make_folder()
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self._folder)], stdin=subprocess.PIPE, start_new_session=True
        )
        self._programs = within_reach(binaries, self._folder)
        with (self._folder / "log").open("wb") as log:
            options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
            self._spawn(log, "initdb", "--pgdata", str(self._folder / "data"), *options).wait()
        if not (self._folder / "data" / "global" / "pg_control").exists():
            raise RuntimeError(f"initdb of {binaries} made no cluster:\n{self.log()}")

    def _launch(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "port": str(_PORT),
            # Files in the cluster: those that a killed server leaves behind are removed with it.
            "dynamic_shared_memory_type": "mmap",
            **self._settings,
        }
        options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        # Each process of the server inherits the writing end: we read its end when the last of them is gone.
        self._all_gone, alive = os.pipe()
        try:
            with (self.folder / "log").open("ab") as log:
                self._process = self._spawn(log, "postgres", "-D", str(self.folder / "data"), *options, inherited=alive)
        finally:
            os.close(alive)
        self._tell_guard(str(self._process.pid))

    def _spawn(
        self, log: IO[bytes], program: str, *arguments: str, inherited: int | None = None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(self._programs / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=_environment(),
            pass_fds=() if inherited is None else (inherited,),
            # Ctrl-C at a terminal is for us alone.
            start_new_session=True,
            **server_user(),
        )

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        process = self._process
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self._says_ready(process.pid):
            if process.poll() is not None or time.monotonic() > until:
                process.send_signal(signal.SIGQUIT)
                self._wait_until_gone()
                raise RuntimeError(f"the PostgreSQL server did not start; its log ends:\n{self.log()[-2000:]}")
            time.sleep(0.01)

    def _says_ready(self, pid: int) -> bool:
        # A killed server leaves a file that says ready, with its own pid.
        said = self._pid_file()
        return len(said) > 7 and said[0] == str(pid) and said[7].strip() == "ready"

    def _pid_file(self) -> list[str]:
        try:
            return (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _wait_until_gone(self) -> None:
        self._forget_administrator()
        assert self._process is not None
        self._process.wait(_PATIENCE_SECONDS)
        if not select.select([self._all_gone], [], [], _PATIENCE_SECONDS)[0]:
            raise RuntimeError(f"processes of the PostgreSQL server in {self.folder} are still there after its end")
        os.close(self._all_gone)
        self._process = None
        self._tell_guard("")

    def _tell_guard(self, word: str) -> None:
        assert self._guard is not None
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{word}\n".encode())
        self._guard.stdin.flush()

    def _release_shared_memory(self) -> None:
        """Give back the one System V segment of a killed server, which only its next start would."""
        said = self._pid_file()
        if len(said) > 6 and said[6].strip():
            subprocess.run(["ipcrm", "-m", said[6].split()[1]], capture_output=True, check=False)


def _make_folder() -> Path:
    """Make a folder for the server's user in the system's temporary folder, or in /tmp where that one will not do."""
    folder = Path(tempfile.mkdtemp(prefix="game-operator-pg-"))
    unreachable = server_user() and not all(parent.stat().st_mode & stat.S_IXOTH for parent in folder.parents)
    if unreachable or len(str(folder)) > _LONGEST_FOLDER:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="game-operator-pg-", dir="/tmp"))
    give_to_server_user(folder)
    return folder


def _environment() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    # With TZ said, initdb need not guess it by reading every zone.
    return {**ours, "LC_ALL": "C", "TZ": "UTC"}


def _children(pid: int) -> list[int]:
    """Return the children of *pid*; none where the system does not tell: they end by themselves, a little later."""
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except FileNotFoundError:
        return []


def _database(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")
