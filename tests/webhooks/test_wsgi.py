"""The WSGI application (PEP 3333) under real servers and on its own (spec §4.1)."""

import io
import socketserver
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any
from wsgiref.simple_server import WSGIServer
from wsgiref.validate import validator

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import Profile
from game_operator.webhooks import IpAllowList, Reply, RsaSignature, WebhookCall, WebhookReceiver, success, wsgi_app
from tests.support.servers import reply_to, request_bytes, wsgi_server
from tests.support.webhooks import GENUINE, WITHDRAW, AsyncHandler, Handler, encoded, read_reply, signed, told
from tests.webhooks.conftest import wsgi_environ, wsgi_reply

_BODY = encoded(WITHDRAW)


class _Threaded(socketserver.ThreadingMixIn, WSGIServer):
    """A thread for each connection, as gunicorn's gthread and waitress have."""


@pytest.fixture
def served(receiver: WebhookReceiver) -> Iterator[tuple[int, Handler]]:
    """A running server, which sees to the rules of WSGI, and its handler."""
    handler = Handler()
    with wsgi_server(validator(wsgi_app(receiver, handler, prefix="/wallet")), _Threaded) as port:
        yield port, handler


def test_the_four_calls_over_http(served: tuple[int, Handler], private_key: RSAPrivateKey) -> None:
    """HTTP 200 with the reply of spec §2.1, below the prefix; unsigned ones are refused, other paths not found."""
    port, handler = served
    for path, call in GENUINE.items():
        body = encoded(call)
        assert told(reply_to(port, request_bytes(f"/wallet{path}", body, signed(private_key, body)))) == (200, None)
        assert told(reply_to(port, request_bytes(f"/wallet{path}", body, {}))) == (200, "INVALID_SIGNATURE")
        assert told(reply_to(port, request_bytes(path, body, {})))[0] == 404
    assert [call.operation for call in handler.calls] == [path[1:] for path in GENUINE]


def test_other_methods(served: tuple[int, Handler]) -> None:
    """F10: 405 with a JSON body."""
    reply = reply_to(served[0], request_bytes("/wallet/withdraw", b"", {}, method="GET"))
    assert (told(reply), reply[1]["allow"]) == ((405, "INVALID_REQUEST"), "POST")


def test_a_header_sent_twice_is_refused(served: tuple[int, Handler], private_key: RSAPrivateKey) -> None:
    """E05: servers join the two by a comma, which no signature has."""
    good = signed(private_key, _BODY)
    twice = {**good, "SIGNATURE": good["Signature"]}
    assert told(reply_to(served[0], request_bytes("/wallet/withdraw", _BODY, twice))) == (200, "INVALID_SIGNATURE")


_environ = partial(wsgi_environ, _BODY)


def test_head_is_sent_no_body(receiver: WebhookReceiver) -> None:
    """Not every server takes it away."""
    status, headers, body = wsgi_reply(wsgi_app(receiver, Handler()), _environ(REQUEST_METHOD="HEAD"))
    assert (status, body) == ("405 Method Not Allowed", b"")
    assert int(headers["content-length"]) > 0


def _code(app: Any, environ: dict[str, Any]) -> str | None:
    status, _, body = wsgi_reply(app, environ)
    assert status == "200 OK"
    return read_reply(body).code


class _Body(io.BytesIO):
    """Remembers how much of it was asked for."""

    asked = 0

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert 0 <= size <= 65_536, "an unbounded read"
        self.asked += size
        return super().read(size)


@pytest.mark.parametrize(
    ("length", "code"),
    [
        pytest.param("", "INVALID_SIGNATURE", id="empty"),
        pytest.param("1_0", "SYSTEM_ERROR", id="with an underscore"),
        pytest.param("٥", "SYSTEM_ERROR", id="digits of another script"),
        pytest.param(str(len(_BODY) + 1), "SYSTEM_ERROR", id="more than comes"),
        pytest.param(str(len(_BODY) - 1), "INVALID_SIGNATURE", id="less than comes"),
        pytest.param(str(len(_BODY)), None, id="the truth"),
        pytest.param(f"000{len(_BODY)}", None, id="the truth, with zeros before it"),
    ],
)
def test_what_a_content_length_may_claim(
    length: str | None, code: str | None, receiver: WebhookReceiver, private_key: RSAPrivateKey
) -> None:
    """Absent, garbage, negative, a lie: answered, and never read beyond."""
    stream = _Body(_BODY)
    app = wsgi_app(receiver, Handler())
    headers = {"HTTP_SIGNATURE": signed(private_key, _BODY)["Signature"]}
    assert _code(app, _environ(CONTENT_LENGTH=length, **{"wsgi.input": stream}, **headers)) == code
    assert code == "SYSTEM_ERROR" or stream.tell() <= int(length or 0)


def test_chunks_are_read_where_the_server_ends_them(receiver: WebhookReceiver, private_key: RSAPrivateKey) -> None:
    """With ``wsgi.input_terminated`` a body needs no length; without, nobody knows where it ends."""
    headers = {
        "HTTP_SIGNATURE": signed(private_key, _BODY)["Signature"],
        "HTTP_TRANSFER_ENCODING": "chunked",
        "CONTENT_LENGTH": None,
    }
    app = wsgi_app(receiver, Handler())
    assert _code(app, _environ(**headers, **{"wsgi.input": _Body(_BODY), "wsgi.input_terminated": True})) is None
    stream = _Body(_BODY)
    assert _code(app, _environ(**headers, **{"wsgi.input": stream})) == "SYSTEM_ERROR"
    assert stream.asked == 0


@pytest.mark.parametrize(
    ("script", "path", "status"),
    [
        pytest.param("", "/withdraw", "200 OK", id="alone"),
        pytest.param("/wallet", "/withdraw", "200 OK", id="mounted"),
        pytest.param("/wallet", None, "404 Not Found", id="no path at all"),
        pytest.param("", "/\xff\x00\n", "404 Not Found", id="any bytes"),
    ],
)
def test_where_it_is_mounted(script: str, path: str | None, status: str, receiver: WebhookReceiver) -> None:
    """SCRIPT_NAME and PATH_INFO, as servers and dispatchers split them."""
    environ = _environ(SCRIPT_NAME=script)
    environ["PATH_INFO"] = path
    if path is None:
        del environ["PATH_INFO"]
    assert wsgi_reply(wsgi_app(receiver, Handler()), environ)[0] == status


def test_the_peer_is_who_connected(private_key: RSAPrivateKey) -> None:
    """E10: REMOTE_ADDR, and no header."""
    receiver = WebhookReceiver(authenticator=IpAllowList(["192.0.2.7"]))
    app = wsgi_app(receiver, Handler())
    assert _code(app, _environ(REMOTE_ADDR="192.0.2.7")) is None
    assert _code(app, _environ(REMOTE_ADDR="192.0.2.8", HTTP_X_FORWARDED_FOR="192.0.2.7")) == "INVALID_SIGNATURE"
    assert _code(app, _environ(REMOTE_ADDR=None)) == "INVALID_SIGNATURE"


def _where(seen: list[str]) -> Handler:
    def look(call: WebhookCall) -> Reply:
        seen.append(threading.current_thread().name)
        return success(balance_cents=1)

    return Handler(look)


def test_the_handler_runs_in_a_thread_of_ours_or_in_the_servers(
    receiver: WebhookReceiver, private_key: RSAPrivateKey
) -> None:
    """``threads=False`` is for connections that belong to the thread, as Django's do."""
    headers = {"HTTP_SIGNATURE": signed(private_key, _BODY)["Signature"]}
    for threads, expected in ((True, "game-operator-webhook_0"), (False, threading.current_thread().name)):
        seen: list[str] = []
        assert _code(wsgi_app(receiver, _where(seen), threads=threads), _environ(**headers)) is None
        assert seen == [expected]


def test_async_handlers_are_refused(receiver: WebhookReceiver) -> None:
    """When the application is built."""
    handler: Any = AsyncHandler()
    with pytest.raises(TypeError, match="use asgi_app"):
        wsgi_app(receiver, handler)
    nothing: Any = object()
    with pytest.raises(TypeError, match="no method withdraw"):
        wsgi_app(receiver, nothing)


def test_401_by_the_profile(public_key: RSAPublicKey) -> None:
    """E01: the status line has its phrase."""
    profile = Profile(unauthenticated_status=401)
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), profile=profile)
    assert wsgi_reply(wsgi_app(receiver, Handler()), _environ())[0] == "401 Unauthorized"
