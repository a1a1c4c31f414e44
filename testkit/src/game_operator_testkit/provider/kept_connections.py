"""
Notices that a wallet closed a kept connection before one byte of an answer came.

The wallet may have closed it while the call was on its way, so the call is sent again, as a browser does
(RFC 9112 §9.3.1). httpcore reports such an end like one in the middle of the headers, so the bytes are watched here.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ClosedUnansweredError(Exception):
    """The other side closed a kept connection before one byte of an answer came."""


class _Watched:
    """httpcore's *stream*, and whether it has brought an answer before and one since the last write."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._has_answered = self._waits_on_kept = False
        self.get_extra_info = stream.get_extra_info

    def _note_write(self) -> None:
        self._waits_on_kept = self._has_answered

    def _note_read(self, data: bytes) -> bytes:
        if data:
            self._has_answered, self._waits_on_kept = True, False
        elif self._waits_on_kept:
            raise ClosedUnansweredError
        return data

    @contextmanager
    def _noting_reset(self) -> Iterator[None]:
        from httpcore import ReadError  # Here, because httpcore loads trio where that is installed.

        try:
            yield
        except ReadError:
            self._note_read(b"")
            raise


class _Stream(_Watched):
    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._noting_reset():
            return self._note_read(self._stream.read(max_bytes, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._note_write()
        self._stream.write(buffer, timeout)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Stream":
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, timeout))

    def close(self) -> None:
        self._stream.close()


class _AsyncStream(_Watched):
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._noting_reset():
            return self._note_read(await self._stream.read(max_bytes, timeout))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._note_write()
        await self._stream.write(buffer, timeout)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_AsyncStream":
        return _AsyncStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    async def aclose(self) -> None:
        await self._stream.aclose()


class WatchingBackend:
    """Connects as httpcore's *backend* does. A read raises ClosedUnansweredError where that is what happened."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def connect_tcp(self, *address: Any, **options: Any) -> _Stream:
        """Return a connection."""
        return _Stream(self._backend.connect_tcp(*address, **options))


class AsyncWatchingBackend:
    """The same without blocking."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, *address: Any, **options: Any) -> _AsyncStream:
        """Return a connection."""
        return _AsyncStream(await self._backend.connect_tcp(*address, **options))
