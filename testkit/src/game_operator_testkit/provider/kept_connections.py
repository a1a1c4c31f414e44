"""
Notices that a wallet closed a kept connection before one byte of an answer came.

The wallet may have closed it while the call was on its way, so the call is sent again, as a browser does
(RFC 9112 §9.3.1). httpcore reports such an end like one in the middle of the headers, so the bytes are watched here.
"""

import ssl
from typing import Any


class ClosedUnansweredError(Exception):
    """The other side closed a kept connection before one byte of an answer came."""


class _Stream:
    """httpcore's *stream*, and whether it has brought an answer before and one since the last write."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._has_answered = self._waits_on_kept = False
        self.get_extra_info = stream.get_extra_info

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        from httpcore import ReadError  # Here, because httpcore loads trio where that is installed.

        try:
            data: bytes = await self._stream.read(max_bytes, timeout)
        except ReadError:
            self._note_read(b"")
            raise
        self._note_read(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._waits_on_kept = self._has_answered
        await self._stream.write(buffer, timeout)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Stream":
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _note_read(self, data: bytes) -> None:
        if data:
            self._has_answered, self._waits_on_kept = True, False
        elif self._waits_on_kept:
            raise ClosedUnansweredError


class WatchingBackend:
    """Connects as httpcore's *backend* does. A read raises ClosedUnansweredError where that is what happened."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, *address: Any, **options: Any) -> _Stream:
        """Return a connection."""
        return _Stream(await self._backend.connect_tcp(*address, **options))
