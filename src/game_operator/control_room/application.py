"""The control room as one application: the Operator API as it is, and the pages beside it."""

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from game_operator.control_room.guard import check_host, check_origin, locked_down
from game_operator.control_room.page_context import PageContext
from game_operator.control_room.pages import PAGES

if TYPE_CHECKING:
    from game_operator.sandbox.server import Sandbox

_STATIC: Final = Path(__file__).with_name("static")


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
        self._context = PageContext(sandbox, PAGES)
        self._pages = [page(self._context) for page in PAGES]
        routes = [route for page in self._pages for route in page.routes()]
        self._router = Router([Mount("/static", _StaticFiles(directory=_STATIC)), *routes], redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, if it asks for this machine."""
        try:
            # The Host first: a request for another name learns nothing. The API too: a page of another site, whose name
            # leads here, could else use up the faults that wait for the next call.
            check_host(Request(scope), self._host)
        except HTTPException as refusal:
            plain = PlainTextResponse(f"{refusal.detail}\n", refusal.status_code, {"connection": "close"})
            await plain(scope, receive, locked_down(send))
            return
        path: str = scope.get("path", "")
        is_for_the_api = path.startswith("/api/") or path == "/openapi.json"
        await (self._api if is_for_the_api else self._serve_page)(scope, receive, send)

    def stop(self) -> None:
        """End the streams of events, which would else outlast the server. Call it in the server's event loop."""
        for page in self._pages:
            page.stop()

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        # With an application in its scope, Starlette raises what it refuses.
        request, send = Request({**scope, "app": self}, receive), locked_down(send)
        try:
            check_origin(request)
            await self._router(request.scope, receive, send)
        except HTTPException as refusal:
            await self._refused(request, refusal)(scope, receive, send)
        except ClientDisconnect:
            return

    def _refused(self, request: Request, refusal: HTTPException) -> Response:
        status, sentence = refusal.status_code, refusal.detail
        if sentence == HTTPStatus.NOT_FOUND.phrase:
            sentence = "There is no such page in the control room."
        response = self._context.page(request, "refused.html", status=status, is_missing=status == 404, said=sentence)
        # A body that was not read to its end would be taken for the next request.
        response.headers.update(dict(refusal.headers or {}) | {"connection": "close"})
        return response


class _StaticFiles(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        # Asked for again each time, and sent again only when it has changed, as it does with another version.
        response.headers["cache-control"] = "no-cache"
        if path.endswith(".js"):
            # Windows may know the suffix as plain text, which no browser runs.
            response.headers["content-type"] = "text/javascript; charset=utf-8"
        return response
