"""What the tests of the command line share: runs of it, and a service that answers whatever a test says."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.support.forked import COMMAND, Forked, clean_environment

__all__ = [
    "COMMAND",
    "CannedService",
    "Forked",
    "Reply",
    "Run",
    "Told",
    "clean_environment",
    "command",
    "mode_of",
    "rows",
    "said",
    "serving",
    "started",
    "stopped",
]


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
def serving(*args: object, **environ: str) -> Iterator[tuple[str, Forked]]:
    """Start ``game-operator serve`` on a free port, and yield where it answers."""
    with started("serve", "--port", "0", "--json", *map(str, args), **environ) as process:
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


class CannedService:
    """A service that gives its replies in turn, the last one for ever."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)
        self.paths: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.answer(self)

            do_POST = do_GET  # noqa: N815 - the library's name

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None: ...

        self.server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.server.server_port

    @property
    def base_url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def answer_with(self, reply: Reply) -> None:
        """Give *reply* from now on."""
        self._replies = [reply]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Give the next reply."""
        handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.paths.append(handler.path)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if reply.body is None:
            handler.close_connection = True
            return
        handler.send_response_only(reply.status)
        if reply.date:
            handler.send_header("Date", handler.date_time_string())
        handler.send_header("Content-Type", reply.content_type)
        handler.send_header("Content-Length", str(len(reply.body)))
        if reply.retry_after:
            handler.send_header("Retry-After", reply.retry_after)
        handler.end_headers()
        handler.wfile.write(reply.body)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


def mode_of(path: Path) -> int:
    """Return the permission bits of *path*."""
    return path.stat().st_mode & 0o777
