"""Exchanges as the pages show them: who asked whom, and what came of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from game_operator.control_room.hints import hint
from game_operator.control_room.words import visible
from game_operator.errors import GameOperatorError
from game_operator.protocol.http import HeaderPairs
from game_operator.sandbox.dealing.accepted_mistakes import MUST_BE_REFUSED
from game_operator.sandbox.service.exchange_log import Exchange

__all__ = ["ExchangeRow", "folded", "must_be_refused", "raw_request", "raw_response", "row"]

#: Of a body on a page; a longer one would make the page useless.
_SHOWN_BYTES: Final = 64 * 1024
_FIRST_FAILURE: Final = 400
#: What the log notes on a post that a sound wallet refuses, sent again by hand too.
_MUST_BE_REFUSED: Final = "must be refused"
#: Signatures that a sound wallet refuses.
_WRONGLY_SIGNED: Final = frozenset({"forged", "old key", "other bytes"})
#: Verdicts on a signature, by how they are coloured; all others are a warning.
_VERDICTS: Final = {"valid": "good", "not needed": ""}


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
    return ExchangeRow(exchange, answer, tone, _VERDICTS.get(exchange.signature, "warn"), hint(exchange))


def folded(rows: Iterable[ExchangeRow]) -> list[tuple[ExchangeRow, int]]:
    """Return *rows*, of those in a row that tell the same only the first, each with their number."""
    groups = [
        list(group) for _, group in groupby(rows, lambda row: (row.exchange.path, row.answer, row.exchange.fault))
    ]
    return [(group[0], len(group)) for group in groups]


def must_be_refused(exchange: Exchange) -> bool:
    """Return whether *exchange* was sent beside a call, and no sound wallet accepts it."""
    # Sent again by hand, it has the same signature, and no fault any more.
    if _MUST_BE_REFUSED in exchange.note.split("; ") or exchange.signature in _WRONGLY_SIGNED:
        return True
    return not MUST_BE_REFUSED.isdisjoint(exchange.fault.split(", "))


def raw_request(exchange: Exchange) -> str:
    """Return the request as it went over the wire, as text in which nothing hides."""
    return _message(f"{exchange.method} {exchange.path} HTTP/1.1", exchange.request_headers, exchange.request_body)


def raw_response(exchange: Exchange) -> str:
    """Return the answer likewise, or "" if there was none."""
    if exchange.status is None:
        return ""
    return _message(f"HTTP/1.1 {exchange.status}", exchange.response_headers, exchange.response_body)


def _answer(exchange: Exchange) -> tuple[str, str]:
    if exchange.status is None:
        return "no answer", "bad"
    if exchange.status >= _FIRST_FAILURE:
        return str(exchange.status), "bad"
    if exchange.direction == "api":
        return str(exchange.status), "good"
    try:
        reply = exchange.reply()
    except (GameOperatorError, ValueError):
        return f"{exchange.status}, unreadable", "bad"
    if reply.code is not None:
        return reply.code, "bad" if reply.code == "SYSTEM_ERROR" else "warn"
    return ("accepted", "bad") if must_be_refused(exchange) else ("SUCCESS", "good")


def _message(first: str, headers: HeaderPairs, body: bytes) -> str:
    head = "\n".join(
        [visible(first.encode(errors="backslashreplace")), *(visible(name + b": " + value) for name, value in headers)]
    )
    more = f"\n… and {len(body) - _SHOWN_BYTES} more bytes" if len(body) > _SHOWN_BYTES else ""
    return f"{head}\n\n{visible(body[:_SHOWN_BYTES])}{more}"
