"""
The control room as one application: the Operator API as it is, and the pages beside it.

Only the person at this machine may see and use it, and no page of another site in their browser. A name that somebody
points at 127.0.0.1 is refused by its Host header. A form of another site is refused by ``Sec-Fetch-Site``, ``Origin``
and the token of our forms (``page_context.py``). No page can be framed.
"""

import mimetypes
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from game_operator_testkit.control_room.bets import BetsPage
from game_operator_testkit.control_room.faults import FaultsPage
from game_operator_testkit.control_room.free_bets import FreeBetsPage
from game_operator_testkit.control_room.keys import KeysPage
from game_operator_testkit.control_room.live import LivePage
from game_operator_testkit.control_room.lobby import LobbyPage
from game_operator_testkit.control_room.page_context import PageContext
from game_operator_testkit.control_room.runs import RunsPage
from game_operator_testkit.control_room.wallet import WalletPage

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

#: The pages, in the order of the navigation.
PAGES: Final = (
    LobbyPage,
    LivePage,
    BetsPage,
    FreeBetsPage,
    FaultsPage,
    WalletPage,
    RunsPage,
    KeysPage,
)
_STATIC: Final = Path(__file__).with_name("static")
#: What every answer of the control room carries, unless it says otherwise itself.
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_HTTP_PORT: Final = 80


class ControlRoom:
    """
    An ASGI application: *api* for what begins with ``/api/`` and for ``/openapi.json``, the pages for all else.

    Args:
        sandbox: What the pages show and use.
        api: The Operator API; what it is asked by a name of this machine reaches it untouched.
        service_key: The file with the service's private key, which the page "Test runs" hands over to the command line.
            ``functools.partial(ControlRoom, service_key=path)`` passes it. None leaves that page with advice alone.
    """

    def __init__(self, sandbox: "Sandbox", api: ASGIApp, *, service_key: Path | None = None) -> None:
        self._api = api
        self._host = sandbox._host
        self._context = PageContext(sandbox, PAGES, service_key)
        self._pages = [page(self._context) for page in PAGES]
        routes = [Route("/status", self._status), *(route for page in self._pages for route in page.routes())]
        # Windows may know the suffix as plain text, which no browser runs.
        mimetypes.add_type("text/javascript", ".js")
        self._router = Router([Mount("/static", StaticFiles(directory=_STATIC)), *routes], redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, if it asks for this machine."""
        # The Host first: a request for another name learns nothing. The API too: a page of another site, whose name
        # leads here, could else use up the faults that wait for the next call.
        if advice := _advice_to_another_host(Request(scope), self._host):
            plain = PlainTextResponse(advice, HTTPStatus.MISDIRECTED_REQUEST, {"connection": "close"})
            await plain(scope, receive, _locked_down(send))
            return
        path: str = scope.get("path", "")
        is_for_the_api = path.startswith("/api/") or path == "/openapi.json"
        await (self._api if is_for_the_api else self._serve_page)(scope, receive, send)

    def stop(self) -> None:
        """End the streams of events, which would else outlast the server, and the test run that is at work."""
        self._context.is_stopped = True
        for page in self._pages:
            page.stop()

    async def _status(self, _request: Request) -> Response:
        """Send the status bar alone, which asks for itself again and again."""
        return HTMLResponse(self._context.fragment("_status.html"))

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        # With an application in its scope, Starlette raises what it refuses.
        request, send = Request({**scope, "app": self}, receive), _locked_down(send)
        try:
            _check_origin(request)
            await self._router(request.scope, receive, send)
        except HTTPException as refusal:
            response = self._context.page(request, "refused.html", status=refusal.status_code, refusal=refusal)
            # A body that was not read to its end would be taken for the next request.
            response.headers.update(dict(refusal.headers or {}) | {"connection": "close"})
            await response(scope, receive, send)
        except ClientDisconnect:
            return


def _advice_to_another_host(request: Request, bound: str) -> str:
    """Return "" if the request asks for an address here or for *bound*, the sandbox's host; else how to ask."""
    # Where the connection came in, as the socket says it: with a listener on all addresses, the one that was called.
    host, port = request.scope["server"]
    address = _in_url(host)
    names = {address, _in_url(bound.lower()), *_LOCAL_NAMES}
    admitted = {f"{name}:{port}" for name in names} | (names if port == _HTTP_PORT else set())
    if request.headers.get("host", "").lower() in admitted:
        return ""
    here = f"http://localhost:{port}/"
    advice = f"Ask for {here} ."
    if address not in _LOCAL_NAMES:
        # Any name can be pointed at this machine, so no name is believed.
        advice = f"Ask for it by its address, http://{address}:{port}/ ; at the machine itself, {here} will do too."
    return f"This is a control room for the person at this machine. {advice}\n"


def _check_origin(request: Request) -> None:
    """
    Raise if the request changes something and another site has sent it. Its Host must be ours.

    Raises:
        HTTPException: With 403.
    """
    if request.method in {"GET", "HEAD"}:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    own = f"http://{request.headers['host'].lower()}"
    # Browsers send "null" with the forms of a page whose referrer policy is no-referrer, as ours are. A foreign page
    # could have it sent as well, but not together with "same-origin".
    admitted = {None, own, "null"} if site == "same-origin" else {None, own}
    if site not in {None, "same-origin", "none"} or origin not in admitted:
        raise HTTPException(
            403, "This form was sent by a page of another site, and nothing was done. Use the one in here."
        )


def _locked_down(send: Send) -> Send:
    """Return *send* such that every answer forbids what no page of ours needs."""

    async def sends(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sends


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
