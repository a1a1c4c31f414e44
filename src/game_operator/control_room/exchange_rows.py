"""Exchanges as the pages show them: who asked whom, what came of it, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final
from urllib.parse import urlsplit

from game_operator.codes import WebhookErrorCode
from game_operator.errors import MalformedCallError, TransportError
from game_operator.protocol.http import HeaderPairs
from game_operator.provider import text
from game_operator.provider.text import visible
from game_operator.sandbox.dealing.accepted_mistakes import MUST_BE_REFUSED
from game_operator.sandbox.service.exchange_log import Exchange

#: Of a body on a page; a longer one would make the page useless.
_SHOWN_BYTES: Final = 64 * 1024
#: What the log notes on a post that a correct wallet refuses, sent again by hand too.
_MUST_BE_REFUSED: Final = "must be refused"
#: Signatures that a correct wallet refuses.
_WRONGLY_SIGNED: Final = frozenset({"forged", "old key", "other bytes"})
#: Verdicts on a signature, by how they are coloured; all others are a warning.
_SIGNATURE_TONES: Final = {"valid": "good", "not needed": ""}
#: HTTP statuses of a server that has nothing at this address.
_NOT_THERE: Final = frozenset({404, 405})
#: A wallet of one casino rightly refuses the sandbox's made-up games.
_OTHER_INSTANCES: Final = (
    "A receiver that was given instances= refuses all game instances but its own: leave that out in a wallet under "
    "test, or give it the sandbox’s ids."
)


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """
    A line of the list.

    Attributes:
        exchange: What is shown.
        answer: The code of a webhook's reply, the status of another answer, or that there was none. ``accepted`` is a
            SUCCESS to what had to be refused.
        tone: How it is coloured: ``good``, ``bad``, ``warn`` (refused by the rules, which is an answer too).
        signature_tone: The same for the verdict on the signature.
        hint: What the answer may mean, and what to do about it; "" if it speaks for itself.
    """

    exchange: Exchange
    answer: str
    tone: str
    signature_tone: str
    hint: str


def row(exchange: Exchange) -> ExchangeRow:
    """Return *exchange* as a line of the list."""
    answer, tone = _answer(exchange)
    return ExchangeRow(exchange, answer, tone, _SIGNATURE_TONES.get(exchange.signature, "warn"), hint(exchange))


def folded(exchanges: Iterable[Exchange]) -> list[tuple[ExchangeRow, int]]:
    """Return *exchanges* as rows, of equal ones in a row only the first, each with their number."""
    alike = groupby(map(row, exchanges), lambda row: (row.exchange.path, row.answer, row.exchange.fault))
    groups = [list(group) for _, group in alike]
    return [(group[0], len(group)) for group in groups]


def must_be_refused(exchange: Exchange) -> bool:
    """Return whether *exchange* was sent beside a call, and no correct wallet accepts it."""
    # Sent again by hand, it has the same signature, and no fault any more.
    if _MUST_BE_REFUSED in exchange.note.split("; ") or exchange.signature in _WRONGLY_SIGNED:
        return True
    return not MUST_BE_REFUSED.isdisjoint(exchange.fault.split(", "))


def hint(exchange: Exchange) -> str:
    """Return what *exchange*'s answer may mean, in a sentence or two; "" if it speaks for itself."""
    if exchange.direction != "webhook" or exchange.status is None:
        return ""
    try:
        code = exchange.reply().code
    except MalformedCallError:
        return why_no_reply(exchange)
    if code != WebhookErrorCode.INVALID_REQUEST:
        return ""
    # Our receiver replies to calls at unknown addresses, too.
    return _by_status(exchange, "") if exchange.status in _NOT_THERE else _OTHER_INSTANCES


def why_no_reply(exchange: Exchange) -> str:
    """Return why an answer is not a reply, and what to do; "" if it is one (spec §2.1)."""
    try:
        exchange.reply()
    except MalformedCallError as malformed:
        return _by_status(exchange, str(malformed))
    return ""


def unreachable_wallet(url: str, error: TransportError) -> str:
    """Return what to say of the wallet at *url*, which gave no answer but *error*."""
    if "connection refused" in str(error).lower():
        return f"Nobody answers at {urlsplit(url).netloc} (connection refused). Is the wallet running?"
    return f"The wallet cannot be reached. {error}"


def raw_request(exchange: Exchange) -> str:
    """Return the request as it went over the wire, as text in which nothing hides."""
    return _message(f"{exchange.method} {exchange.path} HTTP/1.1", exchange.request_headers, exchange.request_body)


def raw_response(exchange: Exchange) -> str:
    """Return the answer likewise, or "" if there was none."""
    if exchange.status is None:
        return ""
    return _message(f"HTTP/1.1 {exchange.status}", exchange.response_headers, exchange.response_body)


def _by_status(exchange: Exchange, reason: str) -> str:
    status = exchange.status or 0
    if status in _NOT_THERE:
        return (
            f"The wallet’s address must be the one that {exchange.path} is below; is a prefix such as /wallet missing?"
        )
    if status >= 500:
        return "Your wallet failed: look into its log."
    if 300 <= status < 400:
        return "The service follows no redirect: give it the address that the wallet itself answers at."
    return f"The body cannot be read as a reply: {reason}."


def _answer(exchange: Exchange) -> tuple[str, str]:
    if exchange.status is None:
        return "no answer", "bad"
    if exchange.status >= 400:
        return str(exchange.status), "bad"
    if exchange.direction == "api":
        return str(exchange.status), "good"
    try:
        code = exchange.reply().code
    except MalformedCallError:
        return f"{exchange.status}, unreadable", "bad"
    if code is not None:
        return code, "bad" if code == WebhookErrorCode.SYSTEM_ERROR else "warn"
    return ("accepted", "bad") if must_be_refused(exchange) else ("SUCCESS", "good")


def _message(first: str, headers: HeaderPairs, body: bytes) -> str:
    lines = [text.clean(first), *(visible(name + b": " + value) for name, value in headers)]
    return "\n".join([*lines, "", text.body(body, longest=_SHOWN_BYTES)])
