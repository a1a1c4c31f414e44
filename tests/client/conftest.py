"""What all tests of the clients watch over: that no socket stays open behind them."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_DESCRIPTORS = Path("/proc/self/fd")


@pytest.fixture(autouse=True)
def _no_socket_is_left_open() -> Iterator[None]:
    before = _open_sockets()
    yield
    give_up = time.monotonic() + 3.0
    while _open_sockets() > before and time.monotonic() < give_up:
        time.sleep(0.01)  # A server's thread may still be at its last line.
    assert _open_sockets() <= before, "a socket is still open"


def _open_sockets() -> int:
    if sys.platform != "linux":
        return 0
    count = 0
    for descriptor in _DESCRIPTORS.iterdir():
        try:
            count += str(descriptor.readlink()).startswith("socket:")
        except OSError:
            continue  # The directory itself was open while it was listed.
    return count
