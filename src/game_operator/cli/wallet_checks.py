"""The doctor's look at a deployed wallet: what its server makes of a request that asks for an upgrade."""

from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from game_operator.cli.setup_checks import Check
from game_operator.errors import shown
from game_operator.transport.wire import default_ssl_context

_NAME: Final = "upgrade"
#: A proxy does not use each connection again, and some may lead to a sound server.
_ROUNDS: Final = 5
#: So much that a part of it comes behind the answer. A server that takes it for another request waits for the end of
#: its last line, and finds it in the next request, which it then cannot read. No path is called that way.
_BODY: Final = b"\r\n" * 300_000 + b"GET / HTTP/1.1\r\nContent-Length: "
_MOST_BYTES: Final = 1_048_576
_REMEDY: Final = (
    "Start uvicorn with --http game_operator.serve:SafeProtocol or --http h11, and let the proxy drop Upgrade "
    "(docs/how-to/go-live.md)."
)


def upgrade(url: str, deadline: float) -> Check:
    """Ask the root of *url* for an upgrade, and say whether the next call is understood; no money moves."""
    context = default_ssl_context(is_secure=url.startswith("https:"), trust_env=True)
    parts = urlsplit(url)
    assert parts.hostname is not None, "the address has been checked"
    secure = HTTPSConnection(parts.hostname, parts.port, timeout=deadline, context=context)
    connection = secure if parts.scheme == "https" else HTTPConnection(parts.hostname, parts.port, timeout=deadline)
    root = f"{parts.scheme}://{parts.netloc}/"
    try:
        usual = _status(connection)
        if usual == 400:
            return Check(_NAME, "skipped", f"{root} answers HTTP 400 to any request, and that is what would tell")
        for _ in range(_ROUNDS):
            if _asked(connection) == 413:
                return Check(_NAME, "skipped", f"{root} takes no body of {len(_BODY):,} bytes")
            found = _next_status(connection)
            if found != str(usual):
                return Check(_NAME, "problem", _lost(root, found, usual), _REMEDY)
    except (OSError, HTTPException) as failed:
        found = f"{root} cannot be reached: {type(failed).__name__} {shown(str(failed))}"
        return Check(_NAME, "unreachable", found, "Check the address, DNS, firewall and certificate (SSL_CERT_FILE).")
    finally:
        connection.close()
    found = f"behind a POST to {root} that asked for an upgrade, the next call was understood, {_ROUNDS} times"
    return Check(_NAME, "ok", found)


def _lost(root: str, found: str, usual: int) -> str:
    return (
        f"behind a POST to {root} that asked for an upgrade, the next call was answered {found} instead of {usual}: "
        "the server takes the body for another request. A stranger can so make the service's next withdraw or deposit "
        "end at another path, answered SUCCESS"
    )


def _status(connection: HTTPConnection) -> int:
    connection.request("GET", "/")
    return _answered(connection)


def _next_status(connection: HTTPConnection) -> str:
    try:
        return str(_status(connection))
    except (OSError, HTTPException) as failed:
        connection.close()
        return f"by {type(failed).__name__}"


def _asked(connection: HTTPConnection) -> int:
    """Post to the root and ask for an upgrade; return the status, or 0 from a server that hangs up on that."""
    try:
        connection.request("POST", "/", _BODY, {"Connection": "Upgrade", "Upgrade": "game-operator-doctor"})
        return _answered(connection)
    except (OSError, HTTPException):
        connection.close()
        return 0


def _answered(connection: HTTPConnection) -> int:
    answer = connection.getresponse()
    answer.read(_MOST_BYTES)
    if not answer.isclosed():
        connection.close()
    return answer.status
