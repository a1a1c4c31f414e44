"""The copyable curl line, run by a real shell: what arrives is what was sent, byte for byte."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from game_operator.protocol.http import HeaderPairs, HttpRequest
from game_operator_testkit.provider.shell_lines import curl_line
from tests.support.shell import needs_curl, run_in_shell

pytestmark = pytest.mark.outside

#: What a header may hold and no terminal may be given: all below the blank but NUL and line ends, and DEL.
LOW = bytes(byte for byte in [*range(1, 32), 127] if byte not in b"\r\n")


class Arrived:
    """What a server was asked last."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes


@pytest.fixture(scope="module")
def echo() -> Iterator[tuple[str, Arrived]]:
    """A server that remembers what it was asked."""
    arrived = Arrived()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            """Say nothing."""

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65_537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            arrived.method, arrived.path = self.command, self.path
            arrived.headers = list(self.headers.items())
            arrived.body = self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", arrived
        server.shutdown()
        thread.join(20)


def request(method: str = "POST", path: str = "/withdraw", body: bytes = b"", headers: HeaderPairs = ()) -> HttpRequest:
    return HttpRequest(method, path, headers, body)


def line_of(sent: HttpRequest, url: str) -> str:
    return curl_line(sent.method, sent.headers, sent.body, url)


@needs_curl
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(request(body=b'{"player_id":"p1"}', headers=((b"Signature", b"a-_b"),)), id="as usual"),
        pytest.param(request(body=b'it\'s "quoted" $HOME `ls` \\ !x; & | > %s'), id="what a shell would read"),
        pytest.param(request(body=b"@/etc/passwd"), id="what curl would read as a file"),
        pytest.param(request(body=bytes(range(256))), id="every byte"),
        pytest.param(request(body=b"x" * 300_000), id="longer than an argument may be"),
        pytest.param(request("GET", "/api/v0.2/fetch-games", headers=((b"X-Signature", b"s"),)), id="nothing to send"),
        pytest.param(request("GET", "/x", b"{}"), id="a GET with a body"),
        pytest.param(request("GET", "/a/../b/./c"), id="a path that curl would shorten"),
        pytest.param(request("GET", "/a[1-3]{b,c}?x=[1]&y='$z'"), id="a path that curl would expand"),
        pytest.param(
            request(headers=((b"X-Empty", b""), (b"X-Quote", b"it's"), (b"X-At", b"@x"), (b"X-Twice", b"1"))),
            id="odd headers",
        ),
        pytest.param(request(headers=((b"X-Low", b"<" + LOW + b">"),)), id="all control characters in a header"),
        pytest.param(request(headers=((b"X-Octal", b"\x011\x7f7 \\1 %d it's !!"),)), id="digits behind them"),
        pytest.param(request(body=b"\x1b[201~\x15touch x #\x0f\x7f!\n"), id="keys in a body"),
        pytest.param(request(headers=((b"X-Bytes", b"\xff\xfe 100% '\\n' \"$x\" `y`"),)), id="headers not ASCII"),
    ],
)
def test_the_line_sends_the_same_bytes(echo: tuple[str, Arrived], sent: HttpRequest) -> None:
    """Pasted into a shell, with the headers that were sent and no content type that was not (spec §5)."""
    base_url, arrived = echo
    line = line_of(sent, f"{base_url}{sent.path}")
    assert line.isprintable()
    run_in_shell(line + " --silent --noproxy '*'")
    assert (arrived.method, arrived.path, arrived.body) == (sent.method, sent.path, sent.body)
    told = {name.lower(): value.encode("latin-1") for name, value in arrived.headers}
    for name, value in sent.headers:
        assert told[name.decode().lower()] == value
    assert "content-type" not in told


@pytest.mark.parametrize("key", [0x03, 0x04, 0x0F, 0x15, 0x1B, 0x7F, 0x85, 0x9B])
def test_no_key_is_pressed_by_pasting(key: int) -> None:
    """Wherever a stranger puts it: in the method, the address, a header's name or value, or the body."""
    raw = bytes([key])
    whole = request(f"GET{key:c}", f"/x{key:c}", raw, ((b"X" + raw, b"1" + raw),))
    assert line_of(whole, f"http://127.0.0.1/x{key:c}").isprintable()


@needs_curl
def test_a_content_type_that_was_sent_stays(echo: tuple[str, Arrived]) -> None:
    """Host, length and connection are curl's own."""
    base_url, arrived = echo
    headers = ((b"Host", b"elsewhere"), (b"Content-Length", b"999"), (b"Content-Type", b"application/json"))
    run_in_shell(line_of(request(body=b"{}", headers=headers), f"{base_url}/x") + " --silent --noproxy '*'")
    told = dict(arrived.headers)
    assert (told["Content-Type"], told["Content-Length"]) == ("application/json", "2")
    assert told["Host"] in base_url
