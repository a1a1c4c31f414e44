"""An ASGI application behind a port of this machine, served by uvicorn in a thread for as long as a block lasts."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

__all__ = ["served"]

_PATIENCE_SECONDS = 20.0


@contextmanager
def served(application: Any) -> Iterator[str]:  # Any: uvicorn's type of an application is its own.
    """Serve *application* on a free port of 127.0.0.1 and yield its base URL."""
    config = uvicorn.Config(
        application, loop="asyncio", http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            _wait_for(server)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            server.force_exit = True
            thread.join(_PATIENCE_SECONDS)


def _wait_for(server: uvicorn.Server) -> None:
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while not server.started:
        assert time.monotonic() < give_up, "uvicorn did not start"
        time.sleep(0.005)
