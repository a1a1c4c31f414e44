"""
The page of one call: what it was about and what came of it, its deliveries, and both messages as they went.

Bodies may be a MiB long, and the page may not. So each part of a message has a bound, by its length on the page, and
the whole body is a download.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from markupsafe import escape

from game_operator.codes import WebhookErrorCode
from game_operator.protocol.http import HeaderPairs
from game_operator.text import money, visible
from game_operator_testkit.control_room.outcomes import ExchangeRow, hint, raw_message, row
from game_operator_testkit.control_room.wrong_balances import begun_with, carried_out_again, moved_wrongly
from game_operator_testkit.provider.shell_lines import curl_line
from game_operator_testkit.sandbox.dealing.balances import ReportedBalance
from game_operator_testkit.sandbox.service.exchange_log import Exchange

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

#: Bytes on the page, of each: the JSON, the raw message, and the line for curl.
_SHOWN_BYTES: Final = 12 * 1024
_SHOWN_DELIVERIES: Final = 12
#: A string, an empty object or list, a sign, or any other value of JSON.
_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}\[\],:]|[^\s{}\[\],:"]+')
_STEP: Final = "  "
#: A longer body makes no line that fits.
_LONGEST_FOR_CURL: Final = 8 * 1024

_LOSSES: Final = {
    "request lost": "This delivery was lost on its way: the wallet never received it.",
    "reply lost": (
        "The answer to this delivery was lost on its way back. The wallet has received the call and answered it, as "
        "you see below; the service knows nothing of that."
    ),
    "no answer": "The service received no answer to this delivery, so the wallet may have carried the call out or not.",
}

#: What the codes of a wallet mean, in a sentence.
_MEANINGS: Final[Mapping[str, str]] = {
    WebhookErrorCode.INSUFFICIENT_BALANCE: "The player has less than the wager, so no money moved.",
    WebhookErrorCode.PLAYER_NOT_FOUND: "The wallet does not know this player, so no money moved.",
    WebhookErrorCode.BET_NOT_FOUND: "The wallet has not seen this bet, so no money moved.",
    WebhookErrorCode.BET_ALREADY_CLOSED: "For the wallet the bet is settled, so this call moved nothing more.",
    WebhookErrorCode.BET_ROLLED_BACK: "For the wallet the bet is cancelled, so no money moved.",
    WebhookErrorCode.DUPLICATE_TRANSACTION: "The wallet has had another call with this tx_id, so no money moved.",
    WebhookErrorCode.PLAYER_BLOCKED: "The player may not play, so no money moved.",
    WebhookErrorCode.LIMIT_EXCEEDED: "The wager is above a limit of the player, so no money moved.",
    WebhookErrorCode.INVALID_REQUEST: "The wallet cannot use this call, so no money moved.",
    WebhookErrorCode.INVALID_SIGNATURE: "The wallet does not accept the signature of this call, so no money moved.",
    WebhookErrorCode.SYSTEM_ERROR: "The wallet failed. It may have moved the money or not, and the call is sent again.",
}
_MOVED: Final = {"withdraw": "took {0}", "deposit": "paid {0}", "rollback": "gave {0} back"}


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
        pretty = laid_out(body, longest=_SHOWN_BYTES)
        return cls(
            raw=within(raw_message(first, headers, body, longest=_SHOWN_BYTES), _SHOWN_BYTES),
            pretty=pretty if len(escape(pretty).encode()) <= _SHOWN_BYTES else "",
            length=len(body),
        )

    @property
    def lines(self) -> Sequence[str]:
        """The message line by line, its body laid out if it can be."""
        head, _, body = self.raw.partition("\n\n")
        return [*head.splitlines(), "", *(self.pretty or body).splitlines()]


def laid_out(body: bytes, *, longest: int) -> str:
    """
    Return JSON with one value to a line, in at most *longest* characters; "" if it takes more, or is not JSON.

    Only the space between values changes. Each value stays as it was sent, digit for digit, and a name that stands
    twice stays twice.
    """
    try:
        text = body.decode()
        # Numbers of any length, which int() would refuse.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refused)
    except (ValueError, RecursionError):
        return ""
    lines, depth, length = [""], 0, 0
    for part in _PART.findall(text):
        if part in "}]":
            depth -= 1
            lines.append(_STEP * depth)
        lines[-1] += ": " if part == ":" else visible(part.encode())
        if part in "{[,":
            depth += part != ","
            length += len(lines[-1]) + 1
            lines.append(_STEP * depth)
        # Before the next one: each line of a deep nest is longer than the one before.
        if length > longest:
            return ""
    shown = "\n".join(lines)
    return shown if len(shown) <= longest else ""


def _refused(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def within(text: str, most: int) -> str:
    """Return *text*, or as much of it as takes *most* bytes of HTML, and how much is missing."""
    kept = text[:most]
    while kept and len(escape(kept).encode(errors="replace")) > most:
        kept = kept[: len(kept) * 3 // 4]
    return text if len(kept) == len(text) else f"{kept}\n… and more: download the body to see all of it"


def call_values(
    sandbox: "Sandbox", exchange: Exchange, wrong: Mapping[int, ReportedBalance], *, host: str
) -> dict[str, Any]:  # Any: values of a template.
    """Return what the page of *exchange* shows; *host* is where the Operator API was asked."""
    url = exchange.url or f"http://{host}{exchange.path}"
    shown = row(exchange)
    return {
        "row": shown,
        "hint": hint(exchange, sandbox.service.key_history, sandbox.service.profile),
        "meaning": meaning(shown),
        "loss": _loss(sandbox, shown),
        "again": carried_out_again(sandbox, exchange) if exchange.number in wrong else "",
        "wrong": wrong.get(exchange.number),
        "right": _last_right(sandbox, exchange) if exchange.number in wrong else 0,
        "begun": begun_with(sandbox, exchange) if exchange.number in wrong else 0,
        "moved": moved_wrongly(sandbox, exchange) if exchange.number in wrong else "",
        "deliveries": deliveries(sandbox, exchange),
        "shown_deliveries": _SHOWN_DELIVERIES,
        "request_side": MessageSide.of_request(exchange),
        "response_side": MessageSide.of_answer(exchange),
        "curl": _curl(exchange, url),
    }


def meaning(answered: ExchangeRow) -> str:
    """Return what a wallet's answer means, in a sentence; "" if it has no reply, or an unusual code."""
    exchange = answered.exchange
    if exchange.code == WebhookErrorCode.INVALID_SIGNATURE and exchange.signature != "valid":
        return "The wallet refuses the wrong signature of this call, as it must, so no money moved."
    if exchange.code != "SUCCESS":
        return _MEANINGS.get(exchange.code or "", "")
    if answered.answer != exchange.code:
        return "The wallet accepted a call that it must refuse: it may have moved money for anybody."
    moved = _MOVED.get(exchange.operation, "") if exchange.amount_cents is not None else ""
    if not moved or exchange.balance_cents is None:
        return ""
    done = moved.format(money(exchange.amount_cents or 0))
    balance = f"that the player now has {money(exchange.balance_cents)}"
    return f"By this answer the wallet {done}, now or at an earlier delivery. It says {balance}."


def deliveries(sandbox: "Sandbox", exchange: Exchange) -> list[ExchangeRow]:
    """Return all deliveries of *exchange*'s call in the live log, the oldest first."""
    found = (sandbox.live.exchange(number) for number in sandbox.live.deliveries(exchange))
    return [row(each) for each in found if each is not None]


def _loss(sandbox: "Sandbox", lost: ExchangeRow) -> str:
    """Return what the loss of a delivery means, and which delivery made up for it; "" if nothing was lost."""
    if not lost.loss:
        return ""
    later = (each for each in deliveries(sandbox, lost.exchange) if each.exchange.number > lost.exchange.number)
    again = next((each for each in later if not each.loss), None)
    if again is None:
        return f"{_LOSSES[lost.loss]} No later delivery of this call in the log was answered."
    return f"{_LOSSES[lost.loss]} The same call was delivered again as number {again.exchange.number}: {again.answer}."


def _last_right(sandbox: "Sandbox", exchange: Exchange) -> int:
    """Return the number of the last call with a right balance of the same player before *exchange*; 0 if unknown."""
    points = sandbox.service.balances.series(exchange.player_id)
    return max((each.number for each in points if each.agrees and each.number < exchange.number), default=0)


def _curl(exchange: Exchange, url: str) -> str:
    if len(exchange.request_body) > _LONGEST_FOR_CURL:
        return ""
    line = curl_line(exchange.method, exchange.request_headers, exchange.request_body, url)
    return line if len(escape(line)) <= _SHOWN_BYTES else ""
