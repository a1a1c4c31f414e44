"""Caddy, HAProxy and nginx in front of a server, and a stranger who comes through one."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.servers import PATIENCE_SECONDS, RawClient, request_bytes, wait_until_it_listens

# Debian puts some where only root looks.
_FOLDERS = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"

#: What nginx needs to let an upgrade through; the others do by themselves.
WEBSOCKETS = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;"
#: For each its command, and its configuration, in which a test has {lines} of its own.
PROXIES: dict[str, tuple[list[str], str]] = {
    "caddy": (
        ["caddy", "run", "--adapter", "caddyfile", "--config"],
        """
{{
    admin off
    auto_https off
}}
http://:{port} {{
    bind 127.0.0.1
    {lines}
    reverse_proxy 127.0.0.1:{wallet}
}}
""",
    ),
    # It names the caller in X-Forwarded-For, and lets trailers through.
    "haproxy": (
        ["haproxy", "-db", "-q", "-f"],
        """
defaults
  mode http
  option forwardfor
  http-reuse always
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend outside
  bind 127.0.0.1:{port}
  {lines}
  default_backend wallet
backend wallet
  server one 127.0.0.1:{wallet}
""",
    ),
    "nginx": (
        ["nginx", "-c"],
        """
daemon off;
user root;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    upstream wallet {{ server 127.0.0.1:{wallet}; keepalive 8; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://wallet;
            proxy_http_version 1.1;
            {lines}
        }}
    }}
}}
""",
    ),
}


def needs(name: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where the proxy *name* is not installed."""
    return pytest.mark.skipif(shutil.which(name, path=_FOLDERS) is None, reason=f"{name} is not installed")


@contextmanager
def behind(name: str, wallet: int, folder: Path, lines: str = "") -> Iterator[int]:
    """Start the proxy *name* in front of the port *wallet*, with *lines* of its configuration, and yield its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command, configuration = PROXIES[name]
    file = folder / f"{name}.conf"
    file.write_text(configuration.format(port=port, wallet=wallet, folder=folder, lines=lines))
    program = str(shutil.which(command[0], path=_FOLDERS))
    log = folder / f"{name}.out"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [program, *command[1:], str(file)], stdout=out, stderr=out, env={**os.environ, "HOME": str(folder)}
        )
    try:
        wait_until_it_listens(port, process, log)
        yield port
    finally:
        process.terminate()  # Not a kill, which nginx's workers would survive.
        process.wait(PATIENCE_SECONDS)


def leave_a_request(port: int, path: str, begun: str, *, blank_lines: int) -> None:
    """Ask *path* for an upgrade, with the beginning of a POST to the path *begun* as body, in one packet or in many."""
    left = b"\r\n" * blank_lines + f"POST {begun} HTTP/1.1\r\nHost: x\r\nX: ".encode()  # The next request is its rest.
    with RawClient(port) as client:
        client.send(request_bytes(path, left, {"Connection": "Upgrade", "Upgrade": "foo"}))
        client.reply()
