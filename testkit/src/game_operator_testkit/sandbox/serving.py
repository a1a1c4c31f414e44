"""The web application of the Operator API, the port that it listens on, and the thread that serves it."""

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from email.utils import formatdate
from importlib.resources import files
from typing import Any, Final, TypeVar

import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.http import HttpReply, HttpRequest, is_loopback

T = TypeVar("T")

#: Where the OpenAPI 3.1 document of the four calls is; it needs no signature.
DOCUMENT_PATH: Final = "/openapi.json"

#: A longer request body is refused with 413; the specification names no limit (docs/decisions/0017).
MAX_BODY_BYTES: Final = 1024 * 1024
#: Without "close" the server would go on reading what is refused.
_TOO_LARGE: Final = HttpReply(
    413,
    {"content-type": "application/json", "connection": "close"},
    b'{"error":"Request body too large"}',
)
_START_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 10.0
_LAST_WORDS_SECONDS: Final = 0.5
_STOPPED: Final = "The sandbox was stopped meanwhile. Play within its `with` block."
_KEEP_ALIVE_SECONDS: Final = 75
_BACKLOG: Final = 128
_LARGEST_PORT: Final = 65_535
_LOOPBACK_OF: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - looked for, and bound only if it is asked for


def application(respond: Callable[[HttpRequest, int], HttpReply], clock: Callable[[], int]) -> ASGIApp:
    """Return the Operator API as an ASGI application; *respond* makes the response to a request at a time."""

    async def everything(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = await _read(Request(scope, receive))
        except ClientDisconnect:
            return
        now_millis = clock()
        response = request if isinstance(request, HttpReply) else respond(request, now_millis)
        # The service's clock, not the machine's: a client may measure its skew by it.
        headers = {**response.headers, "date": formatdate(now_millis / 1000, usegmt=True)}
        await Response(response.body, response.status, headers)(scope, receive, send)

    async def document(_request: Request) -> Response:
        # It describes exactly what the sandbox sends: every field of an answer is required, and no other is allowed. A
        # real service may add fields; the clients accept them (spec §2, §4.2, §5, §7).
        openapi = files(__package__).joinpath("service/openapi.json").read_bytes()
        return Response(openapi, media_type="application/json")

    # As the default it meets every path. A pattern would not: "." in one does not match the line break that an
    # escaped bet id may hold, and the router matches unescaped paths, where a%2Fb is two segments.
    return Router([Route(DOCUMENT_PATH, document)], default=everything, redirect_slashes=False)


async def _read(request: Request) -> HttpRequest | HttpReply:
    if int(request.headers.get("content-length", 0)) > MAX_BODY_BYTES:
        return _TOO_LARGE
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return _TOO_LARGE
    query = request.scope["query_string"]
    target = request.scope["raw_path"] + (b"?" + query if query else b"")
    return HttpRequest(request.method, target.decode("latin-1"), tuple(request.headers.raw), bytes(body))


class ServingThread:
    """The thread that serves, from its first moment to its last."""

    def __init__(self, listener: socket.socket, app: ASGIApp, end_streams: Callable[[], None]) -> None:
        self.base_url: str = url_of(listener)
        self._server = _Server(app, end_streams)
        self._doing: set[Future[Any]] = set()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._serve, args=(listener,), name=f"game-operator sandbox {self.base_url}", daemon=True
        )
        self._thread.start()
        try:
            failure = self._server.ready.exception(_START_SECONDS)
        except TimeoutError as late:
            failure = late
        except BaseException:
            self.stop()
            raise
        if failure is not None:
            self.stop()
            raise ConfigurationError(f"The sandbox did not start: {failure!r}.") from failure

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* on the event loop of the server, for as long as it takes, and return what comes of it."""
        loop = self._server.loop
        assert loop is not None
        if threading.current_thread() is self._thread:
            work.close()
            raise ConfigurationError("Rounds cannot be played from within the sandbox's own event loop.")
        try:
            doing = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:
            work.close()
            raise ConfigurationError(_STOPPED) from None
        self._doing.add(doing)
        try:
            if self._server.should_exit:
                # `stop` may have looked already at what is to be ended.
                doing.cancel()
            either: set[Future[Any]] = {doing, self._ended}
            if doing not in wait(either, return_when=FIRST_COMPLETED).done:
                # The loop ended before it had begun with this.
                raise ConfigurationError(_STOPPED)
            return doing.result()
        except CancelledError:
            raise ConfigurationError(_STOPPED) from None
        finally:
            # Of somebody who would not wait any more: Ctrl-C.
            doing.cancel()
            self._doing.discard(doing)

    def stop(self) -> None:
        """End what is under way, and the thread."""
        self._server.should_exit = True
        # Else the server would wait for pages that wait for a wallet.
        for doing in tuple(self._doing):
            doing.cancel()
        self._thread.join(_STOP_SECONDS)

    def _serve(self, listener: socket.socket) -> None:
        with listener:
            try:
                self._server.run([listener])
            except BaseException as failed:
                # The thread that waits for the start raises it.
                if self._server.ready.done():
                    raise
                self._server.ready.set_exception(failed)
            finally:
                self._ended.set_result(None)


class _Server(uvicorn.Server):
    """uvicorn that says when it is ready, and does not wait for ever for clients that stopped talking."""

    def __init__(self, app: ASGIApp, end_streams: Callable[[], None]) -> None:
        # uvicorn would set up logging for the whole process, and choose another parser or loop where one is installed.
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
        super().__init__(config)
        self._end_streams = end_streams
        self.ready: Future[None] = Future()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.loop = asyncio.get_running_loop()
        self.ready.set_result(None)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        asyncio.get_running_loop().call_later(_LAST_WORDS_SECONDS, self._hang_up)
        await super().shutdown(sockets=sockets)

    def _hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def loopback(host: str) -> str:
    """Return *host*; raise ConfigurationError if other machines reach it."""
    if not is_loopback(host):
        raise ConfigurationError(
            f"host {shown(host)} is not this machine alone, and the sandbox must not be reached from others.",
            setting="allow_remote",
            remedy="Pass 127.0.0.1, ::1 or localhost; or allow it by allow_remote=True.",
        )
    return host


def tcp_port(port: int) -> int:
    """Return *port*; raise ConfigurationError if it is invalid."""
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
