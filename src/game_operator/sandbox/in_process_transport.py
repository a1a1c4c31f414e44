"""The Operator API as a transport of httpx: requests are answered in this process, with no socket in between."""

from collections.abc import Callable
from email.utils import formatdate

import httpx

from game_operator.protocol.http import HttpRequest
from game_operator.sandbox.service.api_faults import answered
from game_operator.sandbox.service.state import House


class InProcessTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """
    Hands requests to the service as raw as they would stand on the wire; for ``httpx.Client`` and ``AsyncClient``.

    Args:
        house: The service.
        clock: Its time, in Unix milliseconds.
    """

    def __init__(self, house: House, clock: Callable[[], int]) -> None:
        self._house = house
        self._clock = clock

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer *request*."""
        return self._answer(request, request.read())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer *request*."""
        return self._answer(request, await request.aread())

    def _answer(self, request: httpx.Request, body: bytes) -> httpx.Response:
        now_millis = self._clock()
        # Servers hand over header names in lower case.
        headers = tuple((name.lower(), value) for name, value in request.headers.raw)
        path = request.url.raw_path.decode("ascii")
        response = answered(self._house, HttpRequest(request.method, path, headers, body), now_millis)
        date = (b"date", formatdate(now_millis // 1_000, usegmt=True).encode())
        return httpx.Response(response.status, headers=[*response.headers, date], content=response.body)
