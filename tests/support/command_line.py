"""What the tests of the command line share: runs of it, and a service that answers whatever a test says."""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

from tests.support.forked import COMMAND, Forked, clean_environment
from tests.support.hostile_server import Connection, HostileServer, response_bytes

__all__ = ["COMMAND", "Forked", "clean_environment"]


@dataclass(frozen=True)
class Told:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout, and that there is nothing else anywhere."""
        assert (self.out.count("\n"), self.out[-1:], self.err) == (1, "\n", ""), self
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error in the document, which tells the exit code too."""
        error = self.document["error"]
        assert error["exit_code"] == self.code
        assert isinstance(error, dict)
        return error


#: Runs a command line in this process.
Run = Callable[..., Told]


def command(*args: str, **environ: str) -> Told:
    """Run ``game-operator`` with *args* in a process of its own, whose settings are *environ* alone."""
    with started(*args, **environ) as process:
        out, err = process.communicate(timeout=50)
    return Told(process.wait(), out, err)


def started(*args: str, **environ: str) -> Forked:
    """Start ``game-operator`` with *args* in a process of its own."""
    return Forked(args, environ=environ)


@contextmanager
def serving(*args: object, open_files: int | None = None, **environ: str) -> Iterator[tuple[str, Forked]]:
    """Start ``game-operator serve`` on a free port, and yield where it answers."""
    options = ["--port", "0", "--json", *map(str, args)]
    with Forked(["serve", *options], environ=environ, open_files=open_files) as process:
        try:
            assert process.stdout is not None
            document = json.loads(process.stdout.readline())
            assert document.keys() == {"url", "pid"}, document
            assert document["pid"] == process.pid
            yield document["url"], process
        finally:
            process.kill()


def stopped(process: "Forked | subprocess.Popen[str]", number: int) -> Told:
    """Send the signal *number* to *process* and return how it ended."""
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return Told(process.wait(), out, err)


def ran(*words: str, **environ: str) -> Told:
    """Run a program, such as a shell or an interpreter, whose settings are *environ* alone."""
    done = subprocess.run(
        words, capture_output=True, text=True, env=clean_environment(environ), timeout=50, check=False
    )
    return Told(done.returncode, done.stdout, done.stderr)


def said(text: str) -> dict[str, str]:
    """Return the names and values of a listing, a line each."""
    pairs = (line.partition("  ") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs if value.strip()}


def rows(text: str) -> list[list[str]]:
    """Return the rows of the tables in a text, without their headings."""
    lines = [line for line in text.splitlines() if line.startswith("│")]
    return [[each.strip() for each in line.strip("│").split("│")] for line in lines]


@dataclass(frozen=True)
class Reply:
    """What the canned service answers; None as *body* hangs up without a word."""

    status: int = 200
    body: bytes | None = b"{}"
    content_type: str = "application/json"
    retry_after: str = ""
    date: bool = True


class CannedService(HostileServer):
    """A service that gives its replies in turn, the last one for ever."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        super().__init__(self._answer)
        self._replies = list(replies)

    @property
    def paths(self) -> list[str]:
        """What was asked for."""
        return [request.split()[1].decode() for request in self.requests]

    def _answer(self, connection: Connection) -> None:
        while connection.read_request():
            reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
            if reply.body is None:
                connection.close()
                return
            headers = [f"Content-Type: {reply.content_type}"]
            headers += [f"Date: {formatdate(usegmt=True)}"] if reply.date else []
            headers += [f"Retry-After: {reply.retry_after}"] if reply.retry_after else []
            connection.send(response_bytes(reply.status, reply.body, *(each.encode() for each in headers)))


def mode_of(path: Path) -> int:
    """Return the permission bits of *path*."""
    return path.stat().st_mode & 0o777
