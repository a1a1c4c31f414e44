"""The port of this machine that a sandbox listens on."""

import errno
import socket
from typing import Final

from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.http import is_loopback

_BACKLOG: Final = 128
_LARGEST_PORT: Final = 65_535
_LOOPBACK_OF: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - looked for, and bound only if it is asked for


def loopback(host: str) -> str:
    """Return *host*; raise ConfigurationError if other machines reach it."""
    if not is_loopback(host):
        raise ConfigurationError(
            f"host {shown(host)} is not this machine alone, and the sandbox must not be reached from others. "
            "Pass 127.0.0.1, ::1 or localhost; or allow it by allow_remote=True (--allow-remote)."
        )
    return host


def tcp_port(port: int) -> int:
    """Return *port*; raise ConfigurationError if it is none."""
    if not 0 <= port <= _LARGEST_PORT:
        raise ConfigurationError(
            f"Port {port} is invalid.", setting="port", remedy=f"Pass 1 to {_LARGEST_PORT}, or 0 to take a free one."
        )
    return port


def listening_socket(host: str, port: int, *, allow_remote: bool) -> socket.socket:
    """Return a socket that listens; raise ConfigurationError, which says what to do, if that cannot be."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not allow_remote:
            loopback(str(address[0]))
        listener = socket.create_server((str(address[0]), port), family=family, backlog=_BACKLOG)
    except OSError as failed:
        if failed.errno == errno.EADDRNOTAVAIL or isinstance(failed, socket.gaierror):
            raise ConfigurationError(
                f"The sandbox cannot listen on {shown(host)}, which is not an address of this machine. "
                "Pass one that is, such as 127.0.0.1, or 0.0.0.0 for all."
            ) from failed
        raise ConfigurationError(
            f"The sandbox cannot listen on port {port} of {shown(host)}: {failed.strerror or failed}. "
            "Stop what uses the port, or pass port 0 to take a free one."
        ) from failed
    # asyncio sets this on the connections of listeners it made itself, and not on those of this one. Without it every
    # answer but the first few would wait 40 ms for the client to acknowledge the headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket) -> str:
    """Return where *listener* is reached from this machine."""
    host, port = listener.getsockname()[:2]
    # Nobody is at the address that stands for all of them: at this machine, one of them is loopback's.
    host = _LOOPBACK_OF.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
