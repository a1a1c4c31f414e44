"""The web application: one route for all calls, which hands each request, as raw as it came, to the service."""

from collections.abc import Callable
from email.utils import formatdate
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from game_operator.protocol.http import HttpRequest, HttpResponse

#: Where the OpenAPI document is; it needs no signature.
DOCUMENT_PATH: Final = "/openapi.json"

#: A longer request body is refused with 413; the specification names no limit (docs/decisions/0009).
MAX_BODY_BYTES: Final = 1024 * 1024

#: Returns the time as Unix milliseconds.
Clock = Callable[[], int]


def application(respond: Callable[[HttpRequest, int], HttpResponse], clock: Clock) -> ASGIApp:
    """Return the Operator API as an ASGI application; *respond* makes the response to a request at a time."""

    async def everything(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = await _read(Request(scope, receive))
        except ClientDisconnect:
            return
        now_millis = clock()
        response = request if isinstance(request, HttpResponse) else respond(request, now_millis)
        await _written(response, now_millis)(scope, receive, send)

    async def document(_request: Request) -> Response:
        return Response(document_json(), media_type="application/json")

    # As the default it meets every path. A pattern would not: "." in one does not match the line break that an
    # escaped bet id may hold, and the router matches unescaped paths, where a%2Fb is two segments.
    return Router([Route(DOCUMENT_PATH, document)], default=everything, redirect_slashes=False)


@cache
def document_json() -> bytes:
    """
    Return the OpenAPI 3.1 document of the four calls (spec §2, §4.2, §5, §7).

    It describes exactly what the sandbox sends: every field of an answer is required, and no other is allowed. A real
    service may add fields; the clients accept them.
    """
    return files(__package__).joinpath("openapi.json").read_bytes()


async def _read(request: Request) -> HttpRequest | HttpResponse:
    if int(request.headers.get("content-length", 0)) > MAX_BODY_BYTES:
        return _too_large()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return _too_large()
    query = request.scope["query_string"]
    target = request.scope["raw_path"] + (b"?" + query if query else b"")
    return HttpRequest(request.method, target.decode("latin-1"), tuple(request.headers.raw), bytes(body))


def _too_large() -> HttpResponse:
    # Without "close" the server would go on reading what is refused.
    headers = ((b"content-type", b"application/json"), (b"connection", b"close"))
    return HttpResponse(413, headers, b'{"error":"Request body too large"}')


def _written(response: HttpResponse, now_millis: int) -> Response:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
    # The service's clock, not the machine's: a client may measure its skew by it.
    headers["date"] = formatdate(now_millis / 1000, usegmt=True)
    return Response(response.body, response.status, headers)
