"""The receiver as a WSGI application (PEP 3333), without any dependency."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from game_operator.webhooks.authenticators import LOST
from game_operator.webhooks.gate import READ_AWAY, UnreadBodyError, normal_prefix, path_below
from game_operator.webhooks.handlers import WebhookHandler, is_async
from game_operator.webhooks.receiver import WebhookReceiver

if TYPE_CHECKING:
    from wsgiref.types import InputStream, StartResponse, WSGIApplication, WSGIEnvironment


_PIECE: Final = 65_536


def wsgi_app(
    receiver: WebhookReceiver, handler: WebhookHandler, *, prefix: str = "", threads: bool = True
) -> "WSGIApplication":
    """
    Return a WSGI application that answers the webhooks below *prefix* with *handler*.

    It runs under gunicorn, waitress, uWSGI or mod_wsgi, alone or mounted beside Flask or Django. It keeps no more of a
    body than the profile allows. How long a body may take is the server's: WSGI cannot give up on a read.

    Args:
        receiver: The receiver.
        handler: A WebhookHandler.
        prefix: Where the four paths stand, such as ``/wallet``.
        threads: Whether *handler* runs in one of the receiver's threads, so that the reply leaves at the time budget.
            With False it runs in the server's own thread, which nothing can interrupt: for a handler whose connection
            belongs to the thread that the server opened it in, as that of Django's ORM does. (In a thread of ours the
            ORM would open a second connection, outside the request's transaction, which nobody closes.)

    Raises:
        TypeError: The handler is async, or lacks a method.
    """
    if is_async(handler):
        raise TypeError(f"the handler {type(handler).__name__} is async, and WSGI cannot await it: use asgi_app")
    prefix = normal_prefix(prefix)

    def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        mounted_at = environ.get("SCRIPT_NAME", "").rstrip("/")
        path = path_below(mounted_at + environ.get("PATH_INFO", ""), mounted_at, prefix)
        method, peer = environ["REQUEST_METHOD"], environ.get("REMOTE_ADDR")
        try:
            body = _body(environ, receiver, path)
        except UnreadBodyError as unread:
            reply = receiver.refuse(path, str(unread), method=method, peer=peer)
        else:
            # A header that is there twice comes as one, joined by a comma, which no signature has.
            headers = [(key[5:].replace("_", "-"), value) for key, value in environ.items() if key.startswith("HTTP_")]
            if length := environ.get("CONTENT_LENGTH"):
                headers.append(("Content-Length", length))
            reply = receiver.handle(path, headers, body, handler, method=method, peer=peer, in_thread=threads)
        start_response(f"{reply.status} {HTTPStatus(reply.status).phrase}", list(reply.headers.items()))
        return [] if method == "HEAD" else [reply.body]

    return application


def _body(environ: "WSGIEnvironment", receiver: WebhookReceiver, path: str) -> bytes:
    """Return the body; of one that is too long the adapter keeps no more than the limit."""
    limit = receiver.max_bytes_at(path)
    stream: InputStream = environ["wsgi.input"]
    length = None if environ.get("wsgi.input_terminated") else _length_of(environ)
    kept, seen = bytearray(), 0
    while length is None or seen < length:
        try:
            piece = stream.read(_PIECE if length is None else min(_PIECE, length - seen))
        except Exception as broken:  # Every server has its own errors for a client that is gone or sends nonsense.
            raise UnreadBodyError(f"its body cannot be read: {type(broken).__name__}. {LOST}") from None
        if not piece:
            break
        seen += len(piece)
        if seen <= limit:
            kept += piece
        elif seen > limit + READ_AWAY:
            raise UnreadBodyError(receiver.too_long_at(path, f"more than {seen}"))
    if length is not None and seen < length:
        raise UnreadBodyError(f"its body ended after {seen} of {length} bytes. {LOST}")
    if seen > limit:
        raise UnreadBodyError(receiver.too_long_at(path, seen))
    return bytes(kept)


def _length_of(environ: "WSGIEnvironment") -> int:
    text = environ.get("CONTENT_LENGTH") or ""
    # Not int() alone, which takes -5, +5, 1_0 and digits of other scripts.
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise UnreadBodyError("its Content-Length is not a number")
    if not text and environ.get("HTTP_TRANSFER_ENCODING"):
        # Where the body ends is unknown, and a read too many would wait for ever.
        raise UnreadBodyError("it came in chunks, which this server does not hand on; let the proxy give it a length")
    return int(text or 0)
