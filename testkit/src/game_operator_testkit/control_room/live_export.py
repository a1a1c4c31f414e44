"""
Calls of the live log for programs: JSON lines, and one JSON document.

They are written one by one, so that the whole file is never in memory. A file leaves this machine more easily than a
page does, so it has no signatures unless they are asked for (docs/decisions/0030).
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from game_operator.protocol.http import REMOVED, HeaderPairs, without_echoes
from game_operator.text import iso_time
from game_operator_testkit.control_room.outcomes import ExchangeRow
from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: What the Operator API's signature is called, in lower case.
_API_SIGNATURE: Final = b"x-signature"
#: What a call has of an exchange as it is.
_FACTS: Final = (
    "number", "direction", "operation", "method", "path", "url", "player_id", "bet_id", "round_id", "tx_id",
    "amount_cents", "balance_cents", "signature", "fault", "note", "status",
)  # fmt: skip


def without_signatures(exchange: Exchange, header: str) -> Exchange:
    """Return *exchange* with its signature, in the header called *header*, cut out, also where the wallet quotes it."""
    names = {header.lower().encode(), _API_SIGNATURE}
    secrets = {value for name, value in exchange.request_headers if name.lower() in names and value}
    headers = tuple((name, REMOVED if name.lower() in names else value) for name, value in exchange.request_headers)
    answered, body, note = exchange.response_headers, exchange.response_body, exchange.note.encode(errors="replace")
    for secret in secrets:
        answered = tuple((name, without_echoes(value, secret)) for name, value in answered)
        body, note = without_echoes(body, secret), without_echoes(note, secret)
    return replace(exchange, request_headers=headers, response_headers=answered, response_body=body, note=note.decode())


def json_lines(rows: Iterable[ExchangeRow]) -> Iterator[str]:
    """Yield each call as one line of JSON."""
    for row in rows:
        yield json.dumps(_call(row)) + "\n"


def json_document(rows: Iterable[ExchangeRow]) -> Iterator[str]:
    """Yield a JSON document with the calls in a list, call by call."""
    yield '{"calls": ['
    before = "\n"
    for row in rows:
        yield before + json.dumps(_call(row))
        before = ",\n"
    yield "\n]}\n"


def _call(row: ExchangeRow) -> dict[str, Any]:  # Any: values of JSON.
    exchange = row.exchange
    return {
        **{name: getattr(exchange, name) for name in _FACTS},
        "time": iso_time(exchange.at_millis),
        "answer": row.answer,
        "lost": row.loss,
        "latency_ms": f"{exchange.elapsed_ms:.3f}",
        "request_headers": _pairs(exchange.request_headers),
        "request": _text(exchange.request_body),
        "response_headers": _pairs(exchange.response_headers),
        "response": _text(exchange.response_body),
    }


def _text(body: bytes) -> dict[str, str]:
    """Return *body* as text, or in Base64 if it is not UTF-8."""
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"text": b64encode(body).decode(), "encoding": "base64"}


def _pairs(headers: HeaderPairs) -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]
