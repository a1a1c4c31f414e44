"""What the sandbox does with HTTP itself: addresses, methods, sizes, connections (spec §4.2, §9)."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx
import pytest

from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.serving import MAX_BODY_BYTES
from testkit.tests.sandbox.support import NOW_MILLIS, outcome, terms
from tests.support.signed_http import BET, GAMES, GRANT, ROUND, SignedHttp

pytestmark = pytest.mark.outside

TOO_LARGE = (413, {"error": "Request body too large"})


@contextmanager
def connection(sandbox: Sandbox) -> Iterator[socket.socket]:
    """Open a bare connection to the sandbox."""
    address = urlsplit(sandbox.base_url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as bare:
        yield bare


def read_all(bare: socket.socket) -> bytes:
    """Return what comes until the other side closes; a reset closes too."""
    received = b""
    try:
        while piece := bare.recv(65_536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def padded_grant(sandbox: Sandbox, size: int) -> bytes:
    """Return a sound grant of *size* bytes."""
    body = json.dumps(terms(sandbox.instance_id, note="")).encode()
    return body[:-2] + b"x" * (size - len(body)) + body[-2:]


@pytest.mark.parametrize("path", [GRANT, ROUND])
@pytest.mark.parametrize("chunked", [False, True], ids=["with its length announced", "in chunks"])
def test_a_body_has_a_limit(sandbox: Sandbox, http: SignedHttp, path: str, chunked: bool) -> None:
    """1 MiB is read and a byte more is not; the specification names no limit (spec §8; docs/decisions/0017)."""
    for size, is_read in ((MAX_BODY_BYTES, True), (MAX_BODY_BYTES + 1, False)):
        body = padded_grant(sandbox, size)
        assert len(body) == size
        pieces = (body[start : start + 100_000] for start in range(0, size, 100_000))
        response = http.http.post(path, headers=http.credentials(body), content=pieces if chunked else body)
        assert (outcome(response) == TOO_LARGE, response.status_code == 413) == (not is_read, not is_read)


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"Content-Length: 1000000000\r\n\r\n", id="announced"),
        pytest.param(b"Content-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n", id="asked for first"),
        pytest.param(
            b"Transfer-Encoding: chunked\r\n\r\n200000\r\n" + b"x" * (MAX_BODY_BYTES + 70_000),
            id="in one endless chunk",
        ),
    ],
)
def test_a_body_over_the_limit_is_not_read_to_its_end(sandbox: Sandbox, start: bytes) -> None:
    """The refusal comes at once, and then the connection ends (docs/decisions/0017)."""
    with connection(sandbox) as bare:
        bare.sendall(b"POST %s HTTP/1.1\r\nHost: sandbox\r\n%s" % (GRANT.encode(), start))
        head, _, body = read_all(bare).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head
    assert json.loads(body) == TOO_LARGE[1]


def test_the_date_is_the_services(own_sandbox: Sandbox) -> None:
    """The Date header follows the service's clock, so that a client may measure its skew (docs/decisions/0017)."""
    response = httpx.get(own_sandbox.base_url, trust_env=False, verify=False)
    assert parsedate_to_datetime(response.headers["date"]).timestamp() * 1000 == NOW_MILLIS


def test_the_document_is_served(sandbox: Sandbox) -> None:
    """The OpenAPI document is there for everybody, and names the four calls (spec §4.2, §9)."""
    status, document = outcome(httpx.get(f"{sandbox.base_url}/openapi.json", trust_env=False, verify=False))
    assert (status, document["openapi"], document["info"]["version"]) == (200, "3.1.0", "0.2")
    methods = {(path, method) for path, item in document["paths"].items() for method in item.keys() & {"get", "post"}}
    assert methods == {(GAMES, "get"), (f"{BET}{{bet_id}}", "get"), (ROUND, "post"), (GRANT, "post")}
