"""The thread in which a sandbox serves, and does on its event loop what other threads ask for."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

import uvicorn
from starlette.types import ASGIApp

from game_operator.errors import ConfigurationError
from game_operator.sandbox.listening import url_of

T = TypeVar("T")

_START_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 10.0
_LAST_WORDS_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 1.0
_STOPPED: Final = "The sandbox was stopped meanwhile. Play within its `with` block."
_KEEP_ALIVE_SECONDS: Final = 75


class ServingThread:
    """The thread that serves, from its first moment to its last."""

    def __init__(self, listener: socket.socket, app: ASGIApp, end_streams: Callable[[], None]) -> None:
        self.base_url = url_of(listener)
        self._server = _Server(_config(app), end_streams)
        self._doing: set[Future[Any]] = set()
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
        if loop is _running_loop():
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
            return self._result_of(doing)
        except CancelledError:
            raise ConfigurationError(_STOPPED) from None
        finally:
            # Of somebody who would not wait any more: Ctrl-C.
            doing.cancel()
            self._doing.discard(doing)

    def _result_of(self, doing: Future[T]) -> T:
        while True:
            try:
                return doing.result(_LOOK_SECONDS)
            except TimeoutError:
                if doing.done():
                    raise
                if not self._thread.is_alive():
                    # The loop ended before it had begun with this.
                    raise ConfigurationError(_STOPPED) from None

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
                # Who waits for the start shall see it, whatever it is.
                if self._server.ready.done():
                    raise
                self._server.ready.set_exception(failed)


class _Server(uvicorn.Server):
    """uvicorn that says when it is ready, and does not wait for ever for clients that stopped talking."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
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


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _config(app: Any) -> uvicorn.Config:
    # uvicorn would set up logging for the whole process, and pick another parser or loop where one is installed.
    return uvicorn.Config(
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
