"""HAProxy in front of a server: it names the caller in X-Forwarded-For, and lets trailers through."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.servers import PATIENCE_SECONDS

__all__ = ["haproxy", "needs_haproxy"]

# Debian puts it where only root looks.
_PROGRAM = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
needs_haproxy = pytest.mark.skipif(_PROGRAM is None, reason="haproxy is not installed")

_CONFIGURATION = """
defaults
  mode http
  option forwardfor
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend outside
  bind 127.0.0.1:{port}
  default_backend wallet
backend wallet
  server one 127.0.0.1:{wallet}
"""


@contextmanager
def haproxy(wallet: int, folder: Path) -> Iterator[int]:
    """Start HAProxy in front of the port *wallet*, and yield its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = folder / "haproxy.cfg"
    file.write_text(_CONFIGURATION.format(port=port, wallet=wallet))
    with subprocess.Popen([str(_PROGRAM), "-db", "-q", "-f", str(file)], stderr=subprocess.PIPE, text=True) as process:
        try:
            _wait_for(port, process)
            yield port
        finally:
            process.kill()


def _wait_for(port: int, process: "subprocess.Popen[str]") -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up:
        assert process.poll() is None, process.stderr and process.stderr.read()
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError("haproxy does not listen")
