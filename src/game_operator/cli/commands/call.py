"""``game-operator call``: one webhook, signed as the service signs it, and what the wallet answers."""

import sys
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from game_operator.cli.errors import ExitCode
from game_operator.cli.options import AsJson, ProfileFile, read_profile
from game_operator.cli.output import say, write_document
from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.http import is_loopback

if TYPE_CHECKING:
    from game_operator.protocol.http import HeaderPairs
    from game_operator.provider.caller import Delivery

__all__ = ["call"]

_MOST_BYTES = 16_777_216


def call(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Such as /withdraw.")],
    url: Annotated[str, typer.Option(metavar="URL", help="The wallet: what /withdraw and the others are below.")],
    body: Annotated[str, typer.Option(metavar="TEXT", help="The body, sent as it is; - reads standard input.")],
    service_key: Annotated[
        Path, typer.Option(metavar="FILE", help="The service's private key, whose public half the wallet has.")
    ],
    header: Annotated[
        list[str] | None, typer.Option(metavar="'NAME: VALUE'", help="One more header; more than once for more.")
    ] = None,
    profile: ProfileFile = None,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds to wait for the answer.")] = 10.0,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Over https: the authority to trust, and no other.")
    ] = None,
    allow_insecure_http: Annotated[
        bool, typer.Option("--allow-insecure-http", help="Plain http to another machine.")
    ] = False,
    moves_money: Annotated[
        bool, typer.Option("--moves-money", help="Needed for a wallet on another machine: a call moves money.")
    ] = False,
    with_signature: Annotated[
        bool, typer.Option("--with-signature", help="Show the signature, with which anybody can send the call.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """
    Sign one body, post it to a wallet, and print the exchange.

    The reports of `certify` have such a line for each call. It moves money as the service's own call does. Exit code 0
    for SUCCESS, 1 for any other answer.
    """
    from game_operator.cli.certifying.options import headers_of, key_in, trusting
    from game_operator.provider.caller import WebhookCaller

    assumed = read_profile(profile)
    _check_address(url, moves_money=moves_money)
    headers = headers_of(header or [], assumed)
    posted = _standard_input() if body == "-" else body.encode("utf-8", "surrogateescape")
    with WebhookCaller(
        url,
        key_in(service_key),
        profile=assumed,
        timeout=timeout,
        allow_insecure_http=allow_insecure_http,
        ssl_context=trusting(ca),
    ) as caller:
        delivery = caller.post(path, posted, headers)
        signature = bytes(caller.signature(posted))
    sent = [("Content-Type", "application/json"), *headers, (assumed.signature_header, signature.decode())]
    pairs = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in sent)
    if not with_signature:
        pairs, delivery = _without(signature, pairs, delivery)
    tell = _write if as_json else _say
    tell(url, pairs, delivery)
    return ExitCode.FINE if delivery.reply is not None and delivery.code is None else ExitCode.SAID_NO


def _check_address(url: str, *, moves_money: bool) -> None:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    if not host:
        raise ConfigurationError(
            f"--url {shown(url)} is not a valid address. Pass one like http://127.0.0.1:8000/wallet."
        )
    if not is_loopback(host) and not moves_money:
        raise ConfigurationError(
            f"{shown(host)} is another machine, and a call moves its players' money. Pass --moves-money if that is "
            "what you want."
        )


def _standard_input() -> bytes:
    read = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(read) > _MOST_BYTES:
        raise ConfigurationError(f"The body on standard input has more than {_MOST_BYTES:,} bytes.")
    return read


def _without(signature: bytes, headers: "HeaderPairs", delivery: "Delivery") -> "tuple[HeaderPairs, Delivery]":
    from dataclasses import replace

    from game_operator.certify.report.again import left_out

    answered = tuple((name, left_out(value, signature)) for name, value in delivery.headers)
    cut = replace(
        delivery,
        headers=answered,
        body=left_out(delivery.body, signature),
        problem=left_out(delivery.problem.encode(errors="backslashreplace"), signature).decode(),
    )
    return tuple((name, left_out(value, signature)) for name, value in headers), cut


def _say(url: str, headers: "HeaderPairs", delivery: "Delivery") -> None:
    _say_message(">", f"POST {url.rstrip('/')}{delivery.path}", headers, delivery.posted)
    say("")
    answered = f"HTTP {delivery.status}, {delivery.elapsed_seconds * 1_000:.0f} ms"
    _say_message("<", answered, delivery.headers, delivery.body)
    if delivery.problem:
        say(f"This is not a reply of the service's form: {delivery.problem}", error=True)


def _say_message(mark: str, first: str, headers: "HeaderPairs", body: bytes) -> None:
    lines = [first, *(f"{name.decode('latin-1')}: {value.decode('latin-1')}" for name, value in headers)]
    lines += ["", *body.decode(errors="backslashreplace").splitlines()]
    for line in lines:
        say(f"{mark} {line}".rstrip())


def _write(url: str, headers: "HeaderPairs", delivery: "Delivery") -> None:
    reply = delivery.reply
    write_document(
        {
            "url": url,
            "path": delivery.path,
            "request": {"headers": _listed(headers), "body": _body(delivery.posted)},
            "answer": {
                "status": delivery.status,
                "headers": _listed(delivery.headers),
                "body": _body(delivery.body),
            },
            "reply": None
            if reply is None
            else {
                "type": reply.type,
                "code": reply.code,
                "balance_cents": reply.balance_cents,
                "timestamp": reply.timestamp,
            },
            "problem": delivery.problem,
            "elapsed_ms": round(delivery.elapsed_seconds * 1_000, 3),
        }
    )


def _listed(headers: "Iterable[tuple[bytes, bytes]]") -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"encoding": "utf-8", "data": body.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": b64encode(body).decode()}
