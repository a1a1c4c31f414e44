"""
The page of one call: what it was about and what came of it, its deliveries, and both messages as they went.

Bodies may be a MiB long, and the page may not. So each part of a message has a bound, by its length on the page, and
the whole body is a download.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from markupsafe import escape

from game_operator import text
from game_operator.protocol.http import HeaderPairs
from game_operator_testkit.control_room.outcomes import ExchangeRow, hint, meaning, row
from game_operator_testkit.provider import message_text
from game_operator_testkit.provider.shell_lines import curl_line
from game_operator_testkit.sandbox.service.exchange_log import Exchange

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

#: Bytes on the page, of each: the JSON, the raw message, and the line for curl.
_SHOWN_BYTES: Final = 12 * 1024
_SHOWN_DELIVERIES: Final = 12
#: A string, an empty object or list, a sign, or any other value of JSON.
_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}\[\],:]|[^\s{}\[\],:"]+')
_STEP: Final = "  "
#: Beyond, a deep nest is not indented any more: each line would be longer than the one before.
_DEEPEST: Final = 20


@dataclass(frozen=True, slots=True)
class MessageSide:
    """
    A request or an answer, as the page shows it.

    Attributes:
        raw: All of it as text in which nothing hides.
        pretty: Its body with one value of JSON to a line; "" if it is too long or not JSON.
        length: The bytes of the body.
    """

    raw: str
    pretty: str
    length: int

    @classmethod
    def of_request(cls, exchange: Exchange) -> Self:
        """Return the request of *exchange*."""
        first = f"{exchange.method} {exchange.path} HTTP/1.1"
        return cls._of(first, exchange.request_headers, exchange.request_body)

    @classmethod
    def of_answer(cls, exchange: Exchange) -> Self:
        """Return the answer of *exchange*."""
        first = "no answer" if exchange.status is None else f"HTTP/1.1 {exchange.status}"
        return cls._of(first, exchange.response_headers, exchange.response_body)

    @classmethod
    def _of(cls, first: str, headers: HeaderPairs, body: bytes) -> Self:
        head = f"{text.clean(first[:_SHOWN_BYTES])}\n{message_text.headers(headers, longest=_SHOWN_BYTES)}".rstrip()
        pretty = laid_out(body) if len(body) <= _SHOWN_BYTES else ""
        return cls(
            raw=within(f"{head}\n\n{message_text.body(body, longest=_SHOWN_BYTES)}"),
            pretty=pretty if len(escape(pretty).encode()) <= _SHOWN_BYTES else "",
            length=len(body),
        )

    @property
    def lines(self) -> Sequence[str]:
        """The message line by line, its body laid out if it can be."""
        head, _, body = self.raw.partition("\n\n")
        return [*head.splitlines(), "", *(self.pretty or body).splitlines()]


def laid_out(body: bytes) -> str:
    """
    Return JSON with one value to a line; "" if it is not JSON.

    Only the space between values changes. Each value stays as it was sent, digit for digit, and a name that stands
    twice stays twice.
    """
    try:
        decoded = body.decode()
        # Numbers of any length, which int() would refuse.
        json.loads(decoded, parse_int=str, parse_float=str, parse_constant=_refused)
    except (ValueError, RecursionError):
        return ""
    lines, depth = [""], 0
    for part in _PART.findall(decoded):
        if part in "}]":
            depth -= 1
            lines.append(_STEP * min(depth, _DEEPEST))
        lines[-1] += ": " if part == ":" else text.visible(part.encode())
        if part in "{[,":
            depth += part != ","
            lines.append(_STEP * min(depth, _DEEPEST))
    return "\n".join(lines)


def _refused(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def within(message: str) -> str:
    """Return *message*, or as much of it as the page has room for."""
    kept = message[:_SHOWN_BYTES]
    while len(escape(kept).encode(errors="replace")) > _SHOWN_BYTES:
        kept = kept[: len(kept) * 3 // 4]
    return message if len(kept) == len(message) else f"{kept}\n… and more: download the body to see all of it"


def call_values(sandbox: "Sandbox", exchange: Exchange, *, host: str) -> dict[str, Any]:  # Any: of a template.
    """Return what the page of *exchange* shows; *host* is where the Operator API was asked."""
    log = sandbox.live
    url = exchange.url or f"http://{host}{exchange.path}"
    shown = row(exchange)
    return {
        "row": shown,
        "newer": log.exchange(exchange.number + 1),
        "older": log.exchange(exchange.number - 1),
        "hint": hint(exchange),
        "meaning": meaning(shown),
        "mistake": sandbox.service.balances.mistakes().get(exchange.number),
        "deliveries": deliveries(sandbox, exchange),
        "shown_deliveries": _SHOWN_DELIVERIES,
        "request_side": MessageSide.of_request(exchange),
        "response_side": MessageSide.of_answer(exchange),
        "curl": _curl(exchange, url),
    }


def deliveries(sandbox: "Sandbox", exchange: Exchange) -> list[ExchangeRow]:
    """Return all deliveries of *exchange*'s call in the live log, the oldest first."""
    found = (sandbox.live.exchange(number) for number in sandbox.live.deliveries(exchange))
    return [row(each) for each in found if each is not None]


def _curl(exchange: Exchange, url: str) -> str:
    line = curl_line(exchange.method, exchange.request_headers, exchange.request_body, url)
    return line if len(escape(line)) <= _SHOWN_BYTES else ""
