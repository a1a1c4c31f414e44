"""
Calls of the live log as a file: JSON lines, HAR (which the tools of browsers open) or CSV.

They are written one by one, so that the whole file is never in memory. A file leaves this machine more easily than a
page does, so it has no signatures unless they are asked for (docs/decisions/0030).
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from game_operator._version import __version__
from game_operator.backoffice.csv_text import csv_lines
from game_operator.money import amount_from_cents
from game_operator.protocol.http import REMOVED, HeaderPairs, without_echoes
from game_operator.text import iso_time
from game_operator_testkit.control_room.outcomes import ExchangeRow
from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: What the Operator API's signature is called, in lower case.
_API_SIGNATURE: Final = b"x-signature"
_COLUMNS: Final = (
    "number", "time", "direction", "operation", "method", "path", "player_id", "bet_id", "round_id", "tx_id",
    "amount", "balance", "signature", "fault", "note", "status", "answer", "lost", "latency_ms",
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


def as_json_lines(rows: Iterable[ExchangeRow]) -> Iterator[str]:
    """Yield each call as one line of JSON."""
    for row in rows:
        exchange = row.exchange
        fields = {
            **_facts(row),
            "amount_cents": exchange.amount_cents,
            "balance_cents": exchange.balance_cents,
            "url": exchange.url,
            "request_headers": _pairs(exchange.request_headers),
            "request": _text(exchange.request_body),
            "response_headers": _pairs(exchange.response_headers),
            "response": _text(exchange.response_body),
        }
        yield json.dumps(fields) + "\n"


def as_csv(rows: Iterable[ExchangeRow]) -> Iterator[str]:
    """Yield the calls as lines of CSV, without bodies and headers; amounts are in currency units."""
    yield from csv_lines([_COLUMNS])
    for row in rows:
        exchange = row.exchange
        cents = {"amount": exchange.amount_cents, "balance": exchange.balance_cents}
        units = {name: None if each is None else amount_from_cents(each) for name, each in cents.items()}
        facts = _facts(row) | units
        yield from csv_lines([[facts[name] for name in _COLUMNS]])


def as_har(rows: Iterable[ExchangeRow]) -> Iterator[str]:
    """Yield an HTTP archive (HAR 1.2), call by call."""
    creator = {"name": "game-operator", "version": __version__}
    yield f'{{"log":{{"version":"1.2","creator":{json.dumps(creator)},"entries":['
    before = ""
    for row in rows:
        yield before + json.dumps(_entry(row))
        before = ",\n"
    yield "]}}\n"


#: What writes each format, what it is, and the ending of its files.
FORMATS: Final[Mapping[str, tuple[Callable[[Iterable[ExchangeRow]], Iterator[str]], str, str]]] = {
    "jsonl": (as_json_lines, "application/x-ndjson", "jsonl"),
    "har": (as_har, "application/json", "har"),
    "csv": (as_csv, "text/csv; charset=utf-8", "csv"),
}


def _facts(row: ExchangeRow) -> dict[str, Any]:  # Any: values of JSON.
    exchange = row.exchange
    names = ("number", "direction", "operation", "method", "path", "player_id", "bet_id", "round_id", "tx_id")
    more = ("signature", "fault", "note", "status")
    return {
        **{name: getattr(exchange, name) for name in (*names, *more)},
        "time": iso_time(exchange.at_millis),
        "answer": row.answer,
        "lost": row.loss,
        "latency_ms": f"{exchange.elapsed_ms:.3f}",
    }


def _entry(row: ExchangeRow) -> dict[str, Any]:  # Any: values of JSON.
    exchange = row.exchange
    request: dict[str, Any] = {
        "method": exchange.method,
        "url": exchange.url or f"http://localhost{exchange.path}",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _named(exchange.request_headers),
        "queryString": [],
        "headersSize": -1,
        "bodySize": len(exchange.request_body),
    }
    if exchange.request_body:
        request["postData"] = {"mimeType": _type(exchange.request_headers), **_text(exchange.request_body)}
    # A status of 0 is how browsers write that there was no answer.
    status = exchange.status or 0
    response = {
        "status": status,
        "statusText": HTTPStatus(status).phrase if status in set(HTTPStatus) else "",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _named(exchange.response_headers),
        "content": {
            "size": len(exchange.response_body),
            "mimeType": _type(exchange.response_headers),
            **_text(exchange.response_body),
        },
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": len(exchange.response_body),
    }
    return {
        "startedDateTime": iso_time(exchange.at_millis),
        "time": exchange.elapsed_ms,
        "request": request,
        "response": response,
        "cache": {},
        "timings": {"send": 0, "wait": exchange.elapsed_ms, "receive": 0},
        "comment": "; ".join(filter(None, (row.answer, row.loss, exchange.fault, exchange.note))),
    }


def _text(body: bytes) -> dict[str, str]:
    """Return *body* as text, or in Base64 if it is not UTF-8."""
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"text": b64encode(body).decode(), "encoding": "base64"}


def _pairs(headers: HeaderPairs) -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


def _named(headers: HeaderPairs) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in _pairs(headers)]


def _type(headers: HeaderPairs) -> str:
    return next((value for name, value in _pairs(headers) if name.lower() == "content-type"), "")
