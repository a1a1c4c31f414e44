"""Who may use the control room: the person at this machine, and no page of another site in their browser."""

from contextlib import closing
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import OperatorClient
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.control_room.forms import MAX_FORM_BYTES
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import PATHS, form_token, post
from tests.support.servers import reply_to
from tests.support.signed_http import SignedHttp

pytestmark = pytest.mark.outside

FORM = "application/x-www-form-urlencoded"


def port_of(sandbox: Sandbox) -> int:
    return urlsplit(sandbox.base_url).port or 0


def raw(sandbox: Sandbox, head: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """Send a request line and headers as they stand here, "{port}" replaced, and return the reply."""
    lines = head.replace("{port}", str(port_of(sandbox))).split("\n")
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return reply_to(port_of(sandbox), ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("127.0.0.1:{port}", 200, id="the address it is bound to"),
        pytest.param("localhost:{port}", 200, id="localhost"),
        pytest.param("LocalHost:{port}", 200, id="localhost in capitals"),
        pytest.param("[::1]:{port}", 200, id="IPv6 loopback"),
        pytest.param("localhost", 421, id="another port, 80"),
        pytest.param("127.0.0.2:{port}", 421, id="another address of this machine"),
        pytest.param("rebound.example:{port}", 421, id="a name that somebody points here"),
        pytest.param("localhost.rebound.example:{port}", 421, id="a name that begins like ours"),
        pytest.param("localhost:{port}.rebound.example", 421, id="a name that holds ours"),
        pytest.param("localhost.:{port}", 421, id="with a final dot"),
    ],
)
def test_only_this_machine_is_asked_for(sandbox: Sandbox, host: str, status: int) -> None:
    """A Host that is not ours is refused on every page, before anything else (DNS rebinding)."""
    own = ("GET /", "GET /live", "GET /static/style.css", "GET /nowhere", "POST /play")
    for request in (*own, "GET /openapi.json", "GET /api/v0.2/fetch-games", "POST /api/v0.2/free-bet/grant"):
        answered, headers, body = raw(sandbox, f"{request} HTTP/1.1\nHost: {host}\nConnection: close")
        assert (answered == 421) == (status == 421)
        if status == 421:
            assert b"http://localhost:" in body
            assert headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("host", "base_url"),
    [
        pytest.param("0.0.0.0", "http://127.0.0.1:{port}", id="IPv4"),
        pytest.param("::", "http://[::1]:{port}", id="IPv6"),
    ],
)
def test_bound_to_all_addresses(public_key: RSAPublicKey, host: str, base_url: str) -> None:
    """The address that is told is served, and so is the one that was bound; a name is told what to use."""
    with Sandbox(operator_public_key=public_key, host=host, allow_remote=True, control_room=ControlRoom) as sandbox:
        port = port_of(sandbox)
        assert sandbox.base_url == base_url.format(port=port)
        bound = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        with httpx.Client(trust_env=False, verify=False) as http:
            for asked, status in ((f"localhost:{port}", 200), (bound, 200), (f"machine.example:{port}", 421)):
                assert http.get(f"{sandbox.base_url}/keys", headers={"Host": asked}).status_code == status
            assert http.get(f"{sandbox.base_url}/keys").status_code == 200
            if host == "::":
                return
            called = f"http://127.0.0.2:{port}/"
            assert http.get(f"{called}keys").status_code == 200
            refused = http.get(f"{called}keys", headers={"Host": f"machine.example:{port}"})
            assert (refused.status_code, f"by its address, {called} ;" in refused.text) == (421, True)


def test_a_request_without_a_host_is_refused(sandbox: Sandbox) -> None:
    """HTTP/1.0 may leave it out; we do not."""
    assert raw(sandbox, "GET / HTTP/1.0")[0] == 421


@pytest.mark.parametrize(
    ("host", "allow_remote", "names"),
    [
        pytest.param("127.0.0.1", False, ["127.0.0.1", "localhost"], id="this machine"),
        pytest.param("0.0.0.0", True, ["127.0.0.1", "127.0.0.2", "localhost"], id="all addresses"),
        pytest.param("127.1", True, ["127.0.0.1", "127.1", "localhost"], id="the name that it was told"),
    ],
)
def test_clients_reach_the_api_by_the_names_of_this_machine(
    private_key: RSAPrivateKey, host: str, allow_remote: bool, names: list[str]
) -> None:
    """And by no other, by which a page of another site could ask; that one strikes nothing and is not logged."""
    with Sandbox(
        operator_public_key=private_key.public_key(), host=host, allow_remote=allow_remote, control_room=ControlRoom
    ) as sandbox:
        sandbox.faults.set_nth("api-500", 1)
        foreign = {"host": f"rebound.example:{port_of(sandbox)}", "sec-fetch-site": "cross-site"}
        for path in ("/api/v0.2/fetch-games", "/openapi.json"):
            refused = httpx.get(f"{sandbox.base_url}{path}", headers=foreign, trust_env=False, verify=False)
            assert (refused.status_code, "control room" in refused.text) == (421, True)
        assert (sandbox.faults.plan.nth, sandbox.live.recent()) == ({"api-500": 1}, [])
        sandbox.faults.clear()
        for name in names:
            base_url = f"http://{name}:{port_of(sandbox)}"
            client = OperatorClient(base_url, "acme", private_key, allow_insecure_http=True, trust_env=False)
            with closing(client):
                assert client.fetch_games()
            assert httpx.get(f"{base_url}/openapi.json", trust_env=False, verify=False).status_code == 200


def test_without_a_control_room_the_api_asks_no_host(public_key: RSAPublicKey) -> None:
    """A back end in a test network reaches it by whatever name it has there (spec §4.2)."""
    with Sandbox(operator_public_key=public_key) as plain:
        assert raw(plain, "GET /openapi.json HTTP/1.1\nHost: sandbox.example")[0] == 200
        assert raw(plain, "GET /api/v0.2/fetch-games HTTP/1.1\nHost: sandbox.example")[0] == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param("", 303, id="no browser at all"),
        pytest.param("Origin: http://localhost:{port}\nSec-Fetch-Site: same-origin", 303, id="our own page"),
        pytest.param("Origin: null\nSec-Fetch-Site: same-origin", 303, id="our own page, which sends no referrer"),
        pytest.param("Sec-Fetch-Site: none", 303, id="typed by the person"),
        pytest.param("Origin: null", 403, id="a page without an origin"),
        pytest.param("Origin: null\nSec-Fetch-Site: cross-site", 403, id="a sandboxed frame"),
        pytest.param("Origin: http://evil.example\nSec-Fetch-Site: cross-site", 403, id="another site"),
        pytest.param("Origin: http://localhost:1\nSec-Fetch-Site: same-site", 403, id="another port of this machine"),
        pytest.param("Origin: http://127.0.0.1:{port}", 403, id="this machine by another name"),
        pytest.param("Origin: https://localhost:{port}", 403, id="another scheme"),
        pytest.param("Sec-Fetch-Site: same-site", 403, id="same site is not same origin"),
        pytest.param("Sec-Fetch-Site: nonsense", 403, id="a word that browsers do not say"),
    ],
)
def test_forms_of_other_sites_are_refused(sandbox: Sandbox, http: httpx.Client, headers: str, status: int) -> None:
    """Even with the right token, a form counts only if our own page has sent it."""
    fields = {"form_token": form_token(http), "player_id": "p1", "wager": "1", "outcome": "loss"}
    fields["instance_id"] = sandbox.instance_id
    before = sandbox.live.count
    lines = f"POST /play HTTP/1.1\nHost: localhost:{{port}}\nContent-Type: {FORM}\n{headers}".rstrip("\n")
    assert raw(sandbox, lines, urlencode(fields).encode())[0] == status
    assert (sandbox.live.count > before) == (status == 303)


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(None, id="none"),
        pytest.param("ü", id="not ASCII"),
    ],
)
@pytest.mark.parametrize("path", ["/play", "/live/1/again"])
def test_forms_need_the_token(http: httpx.Client, path: str, token: str | None) -> None:
    """A form without the token of this run does nothing."""
    fields = {"player_id": "p1"} | ({} if token is None else {"form_token": token})
    response = http.post(path, data=fields)
    assert response.status_code == 403
    assert "earlier run" in response.text
    assert "reload the page" in response.text


def test_each_run_has_a_token_of_its_own(http: httpx.Client, at_home: httpx.Client) -> None:
    """The token cannot be known from another sandbox."""
    assert form_token(at_home) == form_token(at_home) != form_token(http)
    assert http.post("/play", data={"form_token": form_token(at_home)}).status_code == 403


def test_forms_are_bounded(http: httpx.Client) -> None:
    """64 KiB are read, and a byte more is not."""
    start = urlencode({"form_token": form_token(http), "player_id": ""}).encode()
    for size, status in ((MAX_FORM_BYTES, 422), (MAX_FORM_BYTES + 1, 413)):
        body = start + b"x" * (size - len(start))
        assert http.post("/play", content=body, headers={"content-type": FORM}).status_code == status


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        pytest.param("application/json", b"{}", 415, id="JSON"),
        pytest.param("text/plain", b"a=b", 415, id="text, which other sites may send"),
        pytest.param("multipart/form-data; boundary=x", b"--x--", 415, id="multipart"),
        pytest.param(FORM, b"player_id=%ff", 400, id="not UTF-8, escaped"),
        pytest.param(FORM, b"player_id=\xff", 400, id="not UTF-8"),
        pytest.param(FORM, b"a=b&" * 501, 400, id="more fields than any form has"),
    ],
)
def test_only_forms_are_read(http: httpx.Client, content_type: str, body: bytes, status: int) -> None:
    """What is not a form of ours is refused with a sentence."""
    response = http.post("/play", content=body, headers={"content-type": content_type})
    assert response.status_code == status
    assert "<h1>Refused</h1>" in response.text


@pytest.mark.parametrize(
    "path",
    [*PATHS, "/nowhere", "/play", "/thumbnails/comet-crash.svg", "/static/style.css", "/static/htmx.min.js"],
)
def test_every_answer_is_locked_down(http: httpx.Client, path: str) -> None:
    """Nothing is loaded from elsewhere, nothing runs inline, nobody frames us, nothing is told to other sites."""
    headers = http.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "frame-src": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == ("max-age=300" if path.startswith("/thumbnails/") else "no-store")


def test_the_operator_api_is_untouched(sandbox: Sandbox, private_key: RSAPrivateKey, public_key: RSAPublicKey) -> None:
    """With a control room beside it the API answers byte for byte as without one (spec §4.2)."""
    clock = lambda: 1_700_000_000_000  # noqa: E731 - both have the same time
    with (
        Sandbox(operator_public_key=public_key, clock=clock) as plain,
        Sandbox(operator_public_key=public_key, clock=clock, control_room=ControlRoom) as with_room,
    ):
        answers = [_answers(each, private_key) for each in (plain, with_room)]
    assert answers[0] == answers[1]
    assert [status for status, *_ in answers[0]] == [200, 200, 404, 400, 404, 405, 200]


def _answers(sandbox: Sandbox, key: RSAPrivateKey) -> list[tuple[int, list[tuple[bytes, bytes]], bytes]]:
    with SignedHttp(sandbox.base_url, sandbox.operator_id, key) as operator:
        responses = [
            operator.fetch_games(),
            operator.fetch_bet(sandbox.bet_ids["CLOSED"]),
            operator.fetch_bet("<b>", segment="%3Cb%3E/x"),
            operator.http.get("/api/v0.2/fetch-games"),
            operator.http.get("/api/v0.2/"),
            operator.http.post("/api/v0.2/fetch-games"),
            operator.http.get("/openapi.json"),
        ]
        return [(each.status_code, each.headers.raw, each.content) for each in responses]


def test_a_form_that_is_refused_leaves_a_usable_connection(http: httpx.Client) -> None:
    """After a refusal the client goes on; what was not read is not taken for the next request."""
    assert http.post("/play", content=b"x" * 300_000, headers={"content-type": "text/plain"}).status_code == 415
    assert post(http, "/nowhere").status_code == 404
