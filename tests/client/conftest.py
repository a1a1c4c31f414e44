"""What tests of the clients share: a client of each flavour, and that no socket stays open behind it."""

import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tests.support.flavours import FLAVOURS, Perform, run

_DESCRIPTORS = Path("/proc/self/fd")


@dataclass(frozen=True)
class Authority:
    """A certificate authority, and TLS settings for both sides of a connection."""

    ca: trustme.CA

    def server(self, *names: str) -> ssl.SSLContext:
        """Return the settings of a server called *names*."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        return context

    def client(self) -> ssl.SSLContext:
        """Return the settings of a client that trusts this authority."""
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        return context


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Whom clients may trust."""
    return Authority(trustme.CA())


@pytest.fixture(autouse=True)
def _no_socket_is_left_open() -> Iterator[None]:
    before = _open_sockets()
    yield
    give_up = time.monotonic() + 3.0
    while _open_sockets() > before and time.monotonic() < give_up:
        time.sleep(0.01)  # A server's thread may still be at its last line.
    assert _open_sockets() <= before, "a socket is still open"


@pytest.fixture
def no_proxy_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable names a proxy, nor what CGI would make of a header."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> str:
    """Each kind of client, where a test does not name some."""
    return str(request.param)


@pytest.fixture
def perform(flavour: str, private_key: RSAPrivateKey) -> Perform:
    """Run a scenario with a client of the test's flavour, and the operator's key."""
    return partial(run, flavour, private_key=private_key)


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
