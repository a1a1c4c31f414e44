"""What the sandbox does with HTTP itself: addresses, methods, sizes, connections (spec §4.2, §9)."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx
import pytest

from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.serving import MAX_BODY_BYTES
from testkit.tests.sandbox.support import NOW_MILLIS, outcome, terms
from tests.support.signed_http import BET, GAMES, GRANT, ROUND, RawCall, SignedHttp

pytestmark = pytest.mark.outside

NOWHERE = (404, {"error": "Not found"})
TOO_LARGE = (413, {"error": "Request body too large"})
INVALID = (400, {"error": "Invalid request"})


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


@pytest.mark.parametrize("path", [GAMES, BET + "b", ROUND, GRANT])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param("v0.1", id="an older version"),
        pytest.param("v0.3", id="a newer version"),
        pytest.param("v1", id="version 1"),
        pytest.param("", id="no version"),
    ],
)
def test_the_version_is_part_of_the_path(http: SignedHttp, path: str, change: str) -> None:
    """The Operator API lies under /api/v0.2, and nowhere else (spec §9)."""
    method = "POST" if path in {ROUND, GRANT} else "GET"
    elsewhere = path.replace("v0.2", change).replace("//", "/")
    assert outcome(http.call(RawCall(method, elsewhere, signed=b"acme"))) == NOWHERE


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v0.2",
        GAMES + "/",
        "/" + GAMES,
        GAMES.upper(),
        GAMES.replace("-", "%2D"),
        BET.rstrip("/"),
        BET,
        BET + "a/b",
        BET + "a/",
        ROUND + "/",
        GRANT.replace("/grant", ""),
        "/api/v0.2/../v0.2/fetch-games",
        "/wallet/withdraw",
        "/openapi.json/",
    ],
)
def test_there_is_nothing_beside_the_four_calls(http: SignedHttp, path: str) -> None:
    """Four methods and paths, matched as they stand on the request line (spec §4.2)."""
    assert outcome(http.call(RawCall("GET", path, signed=b"acme"))) == NOWHERE


@pytest.mark.parametrize(("path", "allowed"), [(GAMES, "GET"), (BET + "b", "GET"), (ROUND, "POST"), (GRANT, "POST")])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
def test_each_path_has_one_method(http: SignedHttp, path: str, allowed: str, method: str) -> None:
    """Another method is refused, and told which one there is (spec §4.2; assumed: docs/decisions/0017)."""
    response = http.send(RawCall(method, path, signed=b""), {})
    if method == allowed:
        assert outcome(response) == INVALID
    else:
        assert (*outcome(response), response.headers["allow"]) == (405, {"error": "Method not allowed"}, allowed)


def test_a_head_request_gets_no_body(http: SignedHttp) -> None:
    """HEAD is none of the methods of the API, and HTTP gives its answer no body (spec §4.2)."""
    response = http.send(RawCall("HEAD", GAMES, signed=b""), {})
    assert (response.status_code, response.headers["allow"], response.content) == (405, "GET", b"")


@pytest.mark.parametrize("query", ["?", "?page=2", "?a=/../b"])
def test_a_query_changes_nothing(http: SignedHttp, sandbox: Sandbox, query: str) -> None:
    """The specification knows no query; one is neither signed nor read (spec §4.2, §5)."""
    bet_id = sandbox.bet_ids["OPEN"]
    assert http.fetch_bet(bet_id, segment=bet_id + query).json()["reference_id"] == bet_id


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


def test_a_connection_serves_many_calls(sandbox: Sandbox, http: SignedHttp) -> None:
    """Keep-alive: the same connection, whatever the answers were (spec §4.2)."""
    address = urlsplit(sandbox.base_url)
    kept = HTTPConnection(address.hostname or "", address.port, timeout=10)
    kept.connect()
    first = kept.sock
    for call in (http.games_call(), http.bet_call("b"), RawCall("POST", GRANT, b"{}", b"{}"), http.games_call()):
        kept.request(call.method, call.path, call.body, http.credentials(call.signed))
        response = kept.getresponse()
        assert json.loads(response.read())
        assert kept.sock is first
    kept.close()


def test_an_answer_does_not_wait_for_acknowledgements(http: SignedHttp) -> None:
    """A kept connection answers in a few milliseconds: two packets held back by TCP would take 40 (spec §4.2)."""
    call = http.games_call()
    headers = http.credentials(call.signed)
    seconds = []
    for _ in range(20):
        begun = time.perf_counter()
        http.send(call, headers)
        seconds.append(time.perf_counter() - begun)
    assert min(seconds[10:]) < 0.035


def test_pipelined_calls_are_answered_in_order(sandbox: Sandbox, http: SignedHttp) -> None:
    """Two requests in one packet are two requests (spec §4.2)."""
    credentials = "".join(f"{name}: {value}\r\n" for name, value in http.credentials(b"acme:b").items())
    one = f"GET {BET}b HTTP/1.1\r\nHost: sandbox\r\n{credentials}\r\n"
    two = "GET /nowhere HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n\r\n"
    with connection(sandbox) as bare:
        bare.sendall((one + two).encode())
        received = read_all(bare)
    assert received.index(b'{"status":"NOT_FOUND"}') < received.index(b'{"error":"Not found"}')


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"POST /api", id="half a request line"),
        pytest.param(b"POST %s HTTP/1.1\r\nHost: sandbox\r\n" % GRANT.encode(), id="half the headers"),
        pytest.param(b"POST %s HTTP/1.1\r\nHost: s\r\nContent-Length: 9\r\n\r\n{" % GRANT.encode(), id="half the body"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS"),
        pytest.param(b"GET /\xff HTTP/1.1\r\nHost: sandbox\r\n\r\n", id="a path that is no ASCII"),
    ],
)
def test_who_hangs_up_harms_nobody(sandbox: Sandbox, http: SignedHttp, start: bytes) -> None:
    """A client that goes away in the middle leaves a service that answers the next (spec §4.2)."""
    with connection(sandbox) as bare:
        bare.sendall(start)
    assert http.fetch_games().status_code == 200


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
