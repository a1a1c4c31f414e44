"""Wallets by hand behind real sockets: served as they are, or by a server that turns hostile."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wallet_by_hand import PlainWallet, Webhooks, serve

from game_operator_testkit.certifier import Report, certify
from testkit.tests.certifier.harness import given
from tests.support.hostile_server import Connection, Script, response_bytes

__all__ = ["RIGHT", "answering", "by_turns", "certified_at", "say", "served", "turning"]


#: A reply.
RIGHT = b'{"type":"SUCCESS","balance":1000.00,"timestamp":1750000000000}'


@contextmanager
def served(wallet: PlainWallet, handler: type[Webhooks] = Webhooks) -> Iterator[str]:
    """Serve *wallet*, yield its address, and close it in the end."""
    server = serve(wallet)
    server.RequestHandlerClass = handler
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        wallet.close()


def answering(
    wallet: PlainWallet,
    *,
    read: Callable[[Connection], bytes] = Connection.read_request,
    send: Callable[[Connection, bytes], bool] = Connection.send,
) -> Script:
    """Return a script that answers as *wallet* does to what *read* returns, until *send* says that nobody is there."""

    def script(connection: Connection) -> None:
        while request := read(connection):
            if not send(connection, _answer(wallet, request)):
                return

    return script


def by_turns(*wallets: PlainWallet) -> Script:
    """Return a script that serves each connection by the next of *wallets*, as processes behind one address do."""
    turns = itertools.cycle(map(answering, wallets))
    return lambda connection: next(turns)(connection)


def turning(wallet: PlainWallet, calls: int, into: Callable[[Connection], object]) -> Script:
    """Return a script that answers as *wallet* does; once it was asked *calls* times, it does *into* instead."""
    asked = itertools.count(1)

    def read(connection: Connection) -> bytes:
        while (request := connection.read_request()) and next(asked) > calls:
            into(connection)
        return request

    return answering(wallet, read=read)


def say(data: bytes) -> Script:
    """Return a script that sends *data*, once."""

    def script(connection: Connection) -> None:
        connection.send(data)

    return script


def _answer(wallet: PlainWallet, request: bytes) -> bytes:
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    status, _, reply = wallet.handle(method, path, headers, body)
    return response_bytes(status, reply, b"Content-Type: application/json")


def certified_at(url: str, **settings: Any) -> Report:  # Any: those of ``certify``
    """Certify the wallet at *url*, which has the service's key and both players."""
    return certify(url, **given(**settings))
