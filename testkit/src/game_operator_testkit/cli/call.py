"""``game-operator call``: one webhook, signed as the service signs it, and what the wallet answers."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.errors import ExitCode
from game_operator.cli.options import ProfileFile, read_profile
from game_operator.cli.output import answer, remark, say
from game_operator_testkit.cli import command
from game_operator_testkit.cli.certify_options import RouteOptions, key_in

if TYPE_CHECKING:
    from game_operator.protocol.http import HeaderPairs
    from game_operator_testkit.provider.caller import Delivery

_REPLY = ("type", "code", "balance_cents", "timestamp")


@command
def call(
    *,
    path: Annotated[str, typer.Argument()],
    url: str,
    body: str,
    service_private_key: Path,
    route: RouteOptions,
    profile: ProfileFile = None,
    timeout: Annotated[float, typer.Option(min=0.01)] = 10.0,
    with_signature: bool = False,
) -> int:
    """
    Sign one body, post it to a wallet, and print the exchange.

    For example, a bet of 5.00: game-operator call /withdraw --url http://127.0.0.1:8000
    --service-private-key service.pem --body '{"player_id":"p1","amount":500,"action":"BET","action_id":"b1"}'

    The reports of `certify` have such a line for each call. It moves money as the service's own call does. Exit code 0
    for SUCCESS, 1 for any other answer.
    """
    from game_operator_testkit.certifier.report.again import without_signatures
    from game_operator_testkit.provider.caller import WebhookCaller, check_moves_money
    from game_operator_testkit.provider.delivery import delivered, pairs_of
    from game_operator_testkit.provider.requests import Request

    assumed = read_profile(profile)
    check_moves_money(url, "a call", moves_money=route.moves_money, name="--url")
    headers = route.headers(assumed)
    posted = sys.stdin.buffer.read() if body == "-" else body.encode("utf-8", "surrogateescape")
    with WebhookCaller(
        url,
        key_in("--service-private-key", service_private_key),
        profile=assumed,
        timeout=timeout,
        allow_insecure_http=route.allow_insecure_http,
    ) as caller:
        carried = caller.carry(Request("", path, posted, headers=tuple(headers)))
    if not with_signature:
        carried = without_signatures(carried, assumed.signature_header.encode())
    delivery = delivered(carried)
    answer(_document(url, carried.headers, delivery))
    _say_message(">", f"POST {carried.url}", carried.headers, delivery.posted)
    say("")
    answered = f"HTTP {delivery.status}, {delivery.elapsed_seconds * 1_000:.0f} ms"
    _say_message("<", answered, pairs_of(delivery.headers), delivery.body)
    if delivery.problem:
        remark(f"This is not a reply of the service's form: {delivery.problem}")
    return ExitCode.FINE if delivery.reply is not None and delivery.code is None else ExitCode.SAID_NO


def _say_message(mark: str, first: str, headers: "HeaderPairs", body: bytes) -> None:
    lines = [first, *(f"{name.decode('latin-1')}: {value.decode('latin-1')}" for name, value in headers)]
    lines += ["", *body.decode(errors="backslashreplace").splitlines()]
    for line in lines:
        say(f"{mark} {line}".rstrip())


def _document(url: str, headers: "HeaderPairs", delivery: "Delivery") -> dict[str, object]:
    from game_operator_testkit.certifier.report.as_json import body_in_json, headers_in_json
    from game_operator_testkit.provider.delivery import pairs_of

    reply = delivery.reply
    answered = {"headers": headers_in_json(pairs_of(delivery.headers)), "body": body_in_json(delivery.body)}
    return {
        "url": url,
        "path": delivery.path,
        "request": {"headers": headers_in_json(headers), "body": body_in_json(delivery.posted)},
        "answer": {"status": delivery.status} | answered,
        "reply": reply and {name: getattr(reply, name) for name in _REPLY},
        "problem": delivery.problem,
        "elapsed_ms": round(delivery.elapsed_seconds * 1_000, 3),
    }
