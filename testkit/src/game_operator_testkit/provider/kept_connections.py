"""
Notices that a wallet closed a kept connection before one byte of an answer came.

The wallet may have closed it while the call was on its way, so the call is sent again, as a browser does
(RFC 9112 §9.3.1). httpcore reports such an end like one in the middle of the headers, so the bytes are watched here.
"""

import ssl
import time
from typing import Any


class ClosedUnansweredError(Exception):
    """
    The other side closed a kept connection before one byte of an answer came.

    It had brought so many *answers*, and was idle for *idle_ms* before the call.
    """

    def __init__(self, answers: int, idle_ms: float) -> None:
        super().__init__(answers, idle_ms)
        self.answers: int = answers
        self.idle_ms: float = idle_ms


class _Stream:
    """httpcore's *stream*, how many answers it has brought, and whether one is due."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._answers, self._is_asked = 0, False
        self._heard_at = self._idle_seconds = 0.0
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
        if not self._is_asked:
            self._is_asked, self._idle_seconds = True, time.monotonic() - self._heard_at
        await self._stream.write(buffer, timeout)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Stream":
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _note_read(self, data: bytes) -> None:
        if data:
            self._answers += self._is_asked
            self._is_asked, self._heard_at = False, time.monotonic()
        elif self._is_asked and self._answers:
            raise ClosedUnansweredError(self._answers, self._idle_seconds * 1_000)


class WatchingBackend:
    """Connects as httpcore's *backend* does. A read raises ClosedUnansweredError where that is what happened."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, *address: Any, **options: Any) -> _Stream:
        """Return a connection."""
        return _Stream(await self._backend.connect_tcp(*address, **options))
