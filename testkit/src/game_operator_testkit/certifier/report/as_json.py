"""
A report as JSON, for programs: docs/how-to/certify.md describes every field.

What is added later does not change ``format``; what is renamed, removed or means something else does.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Final, TypeAlias

from game_operator.protocol.http import HeaderPairs
from game_operator.text import iso_time
from game_operator_testkit.certifier.report.again import call_of
from game_operator_testkit.certifier.report.comparison import Comparison
from game_operator_testkit.certifier.report.report import Cause, Report
from game_operator_testkit.certifier.report.shown import (
    BODY_BYTES,
    HEADER_BYTES,
    HEADERS,
    Shown,
    cut,
    shown_exchanges,
    shown_notes,
)
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import Verdict
from game_operator_testkit.provider.latency import MARKS_MS, above, percentile

__all__ = ["document", "written"]

_Fields: TypeAlias = dict[str, object]

_PERCENTS: Final = (50, 90, 95, 99)


def document(report: Report, comparison: Comparison | None = None) -> dict[str, object]:
    r"""
    Return *report*, with its *comparison* if there is one, as what ``json.dumps`` takes.

    Money is whole cents, durations are milliseconds or seconds as the name says, times are UTC. No string holds a lone
    surrogate: it stands as an escape, such as ``\ud800``.
    """
    summary = Summary(report)
    return {
        "format": 1,
        **_picked(report, "passed was_stopped url run_id version"),
        "began": iso_time(report.began_millis),
        "seconds": round(report.seconds, 3),
        "calls": report.calls,
        "profile": {name: _cut(value) for name, value in report.profile.items()},
        "summary_line": summary.line,
        "counts": {
            **{name.replace(" ", "_"): count for name, count in summary.counts.items()},
            "unjudged": len(report.unjudged),
            "undone": len(summary.undone),
        },
        "causes": [_cause(cause) for cause in report.causes],
        "verdicts": [_verdict(verdict, report.url) for verdict in report.verdicts],
        "latency": _latency(sorted(report.load_ms)) if report.load_ms else None,
        "moved": [_picked(each, "player_id before_cents after_cents difference_cents") for each in report.moved],
        "comparison": None if comparison is None else _comparison(comparison),
    }


def written(report: Report, comparison: Comparison | None = None) -> str:
    """Return *report*, with its *comparison* if there is one, as the content of a file."""
    return json.dumps(document(report, comparison), indent=1) + "\n"


def _comparison(comparison: Comparison) -> _Fields:
    changes = [_picked(each, "kind id title before now") for each in comparison.changes]
    return {**_picked(comparison, "passed summary_line remarks"), "changes": changes}


def _cause(cause: Cause) -> _Fields:
    words = {"reason": cause.verdict.reason, "title": cause.title, "means": cause.means, "fix": cause.fix}
    return {**_picked(cause.verdict, "id weight"), "ids": _plain(cause.ids)} | {
        name: _cut(text) for name, text in words.items()
    }


def _verdict(verdict: Verdict, url: str) -> _Fields:
    shown, notes = shown_exchanges(verdict), shown_notes(verdict)
    places = {each.number - 1: place for place, each in enumerate(shown)}
    return {
        **_picked(verdict, "id group title outcome weight failed is_advice is_unjudged is_undone is_stopped"),
        **{name: _cut(getattr(verdict, name)) for name in ("reason", "means", "fix")},
        **_picked(verdict, "rests_on is_assumed missing"),
        "duration_ms": round(verdict.duration_ms, 3),
        "notes": [
            {
                "reason": _cut(note.reason),
                **_picked(note, "weight cause"),
                "exchange": None if note.exchange is None else places.get(note.exchange),
            }
            for note in notes
        ],
        "notes_left_out": len(verdict.notes) - len(notes),
        "decisive": next((place for place, each in enumerate(shown) if each.decided), None),
        "exchanges": [_exchange(each, url) for each in shown],
        "exchanges_left_out": len(verdict.exchanges) - len(shown),
    }


def _exchange(shown: Shown, url: str) -> _Fields:
    exchange = shown.exchange
    return {
        "number": shown.number,
        "title": _cut(exchange.title),
        "at": iso_time(exchange.at_millis),
        "elapsed_ms": round(exchange.elapsed_ms, 3),
        "request": {
            "method": _text(exchange.method),
            "path": _cut(exchange.path),
            "headers": _headers(exchange.request_headers),
            "body": body_in_json(exchange.request_body, BODY_BYTES),
            "bytes": exchange.request_bytes,
            "manner": exchange.manner,
            "to": exchange.at,
            "signed_by": exchange.signed_by or None,
        },
        "answer": {
            "status": exchange.status,
            "headers": _headers(exchange.answer_headers),
            "body": body_in_json(exchange.answer_body, BODY_BYTES),
            "bytes": exchange.answer_bytes,
        },
        "reply": None if exchange.reply is None else _picked(exchange.reply, "type code balance_cents timestamp"),
        "problem": _cut(exchange.problem),
        "told": _cut(exchange.told),
        "call": call_of(exchange, url),
    }


def _headers(headers: HeaderPairs) -> list[list[str]]:
    """Return the first header fields, and of each the beginning."""
    return headers_in_json(tuple((name[:HEADER_BYTES], value[:HEADER_BYTES]) for name, value in headers[:HEADERS]))


def headers_in_json(headers: HeaderPairs) -> list[list[str]]:
    """Return header fields, each as its name and value."""
    # Any byte can stand in a header; Latin-1 has a character for each.
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


def body_in_json(body: bytes, longest: int | None = None) -> _Fields:
    """Return a body as text, or in Base64 if it is not UTF-8, and which of the two it is; only its beginning."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": b64encode(body[:longest]).decode()}
    # Not in the middle of a character.
    return {"encoding": "utf-8", "data": text if longest is None else body[:longest].decode(errors="ignore")}


def _latency(ordered: Sequence[float]) -> _Fields:
    return {
        "calls": len(ordered),
        "percentiles_ms": {str(percent): round(percentile(ordered, percent), 3) for percent in _PERCENTS},
        "max_ms": round(ordered[-1], 3),
        "above": {str(mark): above(ordered, mark) for mark in MARKS_MS},
    }


def _picked(value: object, names: str) -> _Fields:
    """Return the attributes of *value* with these names, with a space between them."""
    return {name: _plain(getattr(value, name)) for name in names.split()}


def _plain(value: object) -> object:
    if isinstance(value, str):
        return _text(value)
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _cut(text: str) -> str:
    return _text(cut(text))


def _text(text: str) -> str:
    # JSON could write a lone surrogate down, and hardly any program could read it.
    return text.encode(errors="backslashreplace").decode()
