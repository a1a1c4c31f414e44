"""HTTP as `serve` answers it: each request is measured. Frameworks have instrumentations for that."""

import time
from collections.abc import Iterable
from typing import Any, Final

from game_operator.telemetry.recorder import Recorder

__all__ = ["measured"]

_METHODS: Final = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})


def measured(recorder: Recorder, application: Any, routes: Iterable[str]) -> Any:
    """Return the ASGI *application* of a server of ours, whose requests are measured by their *routes*."""
    instruments, known = recorder.instruments, frozenset(routes)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        method, path, began = scope["method"], scope["path"], time.perf_counter()
        attributes: dict[str, str | int] = {
            "http.request.method": method if method in _METHODS else "_OTHER",
            "url.scheme": scope.get("scheme", "http"),
        }
        if path in known:
            attributes["http.route"] = path

        async def noted(message: Any) -> None:
            if message["type"] == "http.response.start":
                attributes["http.response.status_code"] = status = message["status"]
                if status >= 500:
                    attributes["error.type"] = str(status)
            await send(message)

        try:
            await application(scope, receive, noted)
        except BaseException as failed:
            attributes["error.type"] = type(failed).__qualname__
            raise
        finally:
            instruments.later(instruments.server_seconds.record, time.perf_counter() - began, attributes)

    return answer
