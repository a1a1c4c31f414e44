"""The control room as one application: the Operator API as it is, and the pages beside it."""

from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from game_operator.control_room.desk import Desk, Place
from game_operator.control_room.guard import check_host, check_origin, locked_down
from game_operator.control_room.pages import PAGES
from game_operator.control_room.refusal import NotServedError
from game_operator.control_room.static_files import static_file
from game_operator.control_room.streams import Streams

if TYPE_CHECKING:
    from game_operator.sandbox.server import Sandbox

__all__ = ["ControlRoom"]

_API_PREFIX: Final = "/api/"
_DOCUMENT_PATH: Final = "/openapi.json"


class ControlRoom:
    """
    An ASGI application: *api* for what begins with ``/api/`` and for ``/openapi.json``, the pages for all else.

    Args:
        sandbox: What the pages show and use.
        api: The Operator API; what it is asked by a name of this machine reaches it untouched.
    """

    def __init__(self, sandbox: "Sandbox", api: ASGIApp) -> None:
        self._api = api
        self._host = sandbox._host
        self._streams = Streams(sandbox.live)
        self._desk = Desk(sandbox, [Place(page.PATH, page.TITLE) for page in PAGES])
        routes = [Route("/static/{name}", static_file)]
        for page in PAGES:
            routes += page.routes(self._desk, self._streams)
        self._pages = Router(routes, default=_nowhere, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, if it asks for this machine."""
        try:
            # The Host first: what another name asks for is told nothing, not even that it is not there. The API too:
            # a page of another site, whose name leads here, could else use up the faults that wait for the next call.
            check_host(Request(scope), self._host)
        except NotServedError as refusal:
            await _plain(refusal)(scope, receive, locked_down(send))
            return
        serve = self._api if _is_for_the_api(scope) else self._serve_page
        await serve(scope, receive, send)

    def stop(self) -> None:
        """End the streams of events, which would else outlast the server. Call it in the server's event loop."""
        self._streams.stop()

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, send = Request(scope, receive), locked_down(send)
        try:
            check_origin(request)
            await self._pages(scope, receive, send)
        except NotServedError as refusal:
            await self._told(request, refusal)(scope, receive, send)
        except ClientDisconnect:
            return

    def _told(self, request: Request, refusal: NotServedError) -> Response:
        response = self._desk.page(request, "refused.html", status=refusal.status, refusal=refusal)
        # A body that was not read to its end would be taken for the next request.
        response.headers["connection"] = "close"
        return response


async def _nowhere(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise NotServedError(404, "There is no such page in the control room.")


def _is_for_the_api(scope: Scope) -> bool:
    path: str = scope.get("path", "")
    return path.startswith(_API_PREFIX) or path == _DOCUMENT_PATH


def _plain(refusal: NotServedError) -> Response:
    return PlainTextResponse(refusal.sentence + "\n", refusal.status, {"connection": "close"})
