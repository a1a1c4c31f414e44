"""
A report as JSON, for programs: docs/reference/certify-report.md describes every field.

What is added later does not change ``format``; what is renamed, removed or means something else does. No report is
longer than 300 kB: ``extent`` says what is left out of a longer one.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Final, TypeAlias

from game_operator.protocol.http import HeaderPairs
from game_operator.text import iso_time
from game_operator_testkit.certifier.report.again import call_of, curl_of
from game_operator_testkit.certifier.report.comparison import Change, Comparison
from game_operator_testkit.certifier.report.extent import Extent, Shown, fitting, shown_exchanges, shown_notes
from game_operator_testkit.certifier.report.report import Cause, Latency, Report
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import Outcome, Verdict, Weight
from game_operator_testkit.provider.latency import MARKS_MS, above, histogram

__all__ = ["FORMAT", "document", "written"]

FORMAT: Final = 1
"""The version of the format, in each report; docs/certify-report.md describes it."""

_Fields: TypeAlias = dict[str, object]

_PERCENTS: Final = (50, 90, 95, 99)
#: Beside the exchanges that show what is wrong, of which a reader needs the whole line.
_LONGEST_LINE: Final = 2_000
#: How many levels of a document begin a new line: an exchange has one line.
_DEPTH: Final = 4


def document(report: Report, comparison: Comparison | None = None) -> dict[str, object]:
    r"""
    Return *report*, with its *comparison* if there is one, as what ``json.dumps`` takes.

    These are dictionaries, lists, strings, numbers, booleans and None.

    Money is whole cents, durations are milliseconds or seconds as the name says, times are UTC. No string holds a lone
    surrogate: it stands as an escape, such as ``\ud800``.
    """
    extent, _ = fitting(lambda extent: _laid_out(_document(report, comparison, extent)))
    return _document(report, comparison, extent)


def written(report: Report, comparison: Comparison | None = None) -> str:
    """Return *report*, with its *comparison* if there is one, as the content of a file: an exchange is on one line."""
    return fitting(lambda extent: _laid_out(_document(report, comparison, extent)) + "\n")[1]


def _laid_out(value: object, depth: int = 0) -> str:
    indent = " " * depth
    match value:
        case dict() if value and depth < _DEPTH:
            items = [f"{json.dumps(name)}: {_laid_out(each, depth + 1)}" for name, each in value.items()]
            return "{\n" + ",\n".join(f"{indent} {item}" for item in items) + f"\n{indent}}}"
        case list() if value and depth < _DEPTH:
            items = [_laid_out(each, depth + 1) for each in value]
            return "[\n" + ",\n".join(f"{indent} {item}" for item in items) + f"\n{indent}]"
        case _:
            return json.dumps(value)


def _document(report: Report, comparison: Comparison | None, extent: Extent) -> dict[str, object]:
    return {
        "format": FORMAT,
        **_picked(report, "passed was_stopped url run_id version with_signatures"),
        "began": iso_time(report.began_millis),
        "seconds": round(report.seconds, 3),
        "calls": report.calls,
        "stages_seconds": {_text(name): round(seconds, 3) for name, seconds in report.stages_seconds.items()},
        "profile": {name: _cut(value, extent) for name, value in report.profile.items()},
        "summary_line": Summary(report).line,
        "counts": _counts(Summary(report)),
        "causes": [_cause(cause, extent, is_whole=place < extent.causes) for place, cause in enumerate(report.causes)],
        "verdicts": [_verdict(verdict, report.url, extent) for verdict in report.verdicts],
        "latency": None if report.latency is None else _latency(report.latency),
        "moved": [_picked(each, "player_id before_cents after_cents difference_cents") for each in report.moved],
        "comparison": None if comparison is None else _comparison(comparison, extent),
    }


def _comparison(comparison: Comparison, extent: Extent) -> _Fields:
    def changes(found: tuple[Change, ...]) -> list[_Fields]:
        return [_change(each, extent) for each in found]

    return {
        **_picked(comparison, "passed headline summary_line remarks"),
        "fixed": changes(comparison.fixed),
        "new": changes(comparison.new),
        "costs_more": changes(comparison.costs_more),
        "still_failing": changes(comparison.still_failing),
        "not_compared": changes(comparison.not_compared),
    }


def _change(change: Change, extent: Extent) -> _Fields:
    words = {name: _cut(getattr(change, name), extent) for name in ("title", "reason")}
    return {**_picked(change, "id weight weight_before was now"), **words}


def _counts(summary: Summary) -> _Fields:
    verdicts = summary.report.verdicts
    failed = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAILED]
    return {
        "outcomes": {each.value: sum(verdict.outcome is each for verdict in verdicts) for each in Outcome},
        "failed_without_advice": len(summary.report.failures),
        "unjudged": len(summary.report.unjudged),
        "undone": len(summary.undone),
        "failed_by_weight": {each.value: sum(verdict.weight is each for verdict in failed) for each in Weight},
    }


def _cause(cause: Cause, extent: Extent, *, is_whole: bool) -> _Fields:
    # What the scenario says too is said once where there are very many.
    words = {name: _cut(text, extent) if is_whole else "" for name, text in _words(cause).items()}
    return {**_picked(cause.verdict, "id weight"), "ids": _plain(cause.ids), **words}


def _words(cause: Cause) -> dict[str, str]:
    return {"reason": cause.verdict.reason, "title": cause.title, "means": cause.means, "fix": cause.fix}


def _verdict(verdict: Verdict, url: str, extent: Extent) -> _Fields:
    shown, notes = shown_exchanges(verdict, extent), shown_notes(verdict, extent)
    places = {each.number - 1: place for place, each in enumerate(shown)}
    return {
        **_picked(verdict, "id group title outcome weight failed is_advice is_unjudged is_undone is_stopped"),
        **{name: _cut(getattr(verdict, name), extent) for name in ("reason", "means", "fix")},
        **_picked(verdict, "rests_on is_assumed missing"),
        "duration_ms": round(verdict.duration_ms, 3),
        "notes": [
            {
                "reason": _cut(note.reason, extent),
                **_picked(note, "weight cause"),
                "exchange": None if note.exchange is None else places.get(note.exchange),
            }
            for note in notes
        ],
        "notes_left_out": len(verdict.notes) - len(notes),
        "decisive": next((place for place, each in enumerate(shown) if each.decided), None),
        "exchanges": [_exchange(each, url, extent) for each in shown],
        "exchanges_left_out": len(verdict.exchanges) - sum(each.times for each in shown),
    }


def _exchange(shown: Shown, url: str, extent: Extent) -> _Fields:
    exchange = shown.exchange
    longest = extent.line if shown.shows_what_is_wrong else min(extent.line, _LONGEST_LINE)
    lines = {"curl": curl_of(exchange, url), "call": call_of(exchange, url)}
    return {
        "number": shown.number,
        "times": shown.times,
        "title": _text(exchange.title),
        "at": iso_time(exchange.at_millis),
        "elapsed_ms": round(exchange.elapsed_ms, 3),
        "request": {
            **_picked(exchange, "method path"),
            "headers": headers_in_json(exchange.request_headers, extent),
            "body": body_in_json(exchange.request_body, extent.body_bytes),
            "bytes": exchange.request_bytes,
            "manner": exchange.manner,
            "to": exchange.at,
            "signed_by": exchange.signed_by or None,
        },
        "answer": {
            "status": exchange.status,
            "headers": headers_in_json(exchange.answer_headers, extent),
            "body": body_in_json(exchange.answer_body, extent.body_bytes),
            "bytes": exchange.answer_bytes,
        },
        "reply": None if exchange.reply is None else _picked(exchange.reply, "type code balance_cents timestamp"),
        "problem": _cut(exchange.problem, extent),
        "told": _cut(exchange.told, extent),
        **{name: line if line and len(line) <= longest else None for name, line in lines.items()},
    }


def headers_in_json(headers: HeaderPairs, extent: Extent | None = None) -> list[list[str]]:
    """Return header fields, each as its name and value; of many or long ones as much as *extent* says."""
    if extent is not None:
        headers = tuple(_shortened(headers, extent))
    # Any byte can stand in a header; Latin-1 has a character for each.
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


def _shortened(headers: HeaderPairs, extent: Extent) -> Iterator[tuple[bytes, bytes]]:
    longest = extent.header_bytes
    for name, value in headers[: extent.headers]:
        more = f"... ({len(value)} bytes)".encode() if len(value) > longest else b""
        yield name[:longest] or b"...", value[:longest] + more
    if len(headers) > extent.headers:
        yield b"...", f"and {len(headers) - extent.headers} more".encode()


def body_in_json(body: bytes, longest: int | None = None) -> _Fields:
    """Return a body as text, or in Base64 if it is not UTF-8, and which of the two it is; only its beginning."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": b64encode(body[:longest]).decode()}
    # Not in the middle of a character.
    return {"encoding": "utf-8", "data": text if longest is None else body[:longest].decode(errors="ignore")}


def _latency(latency: Latency) -> _Fields:
    samples = latency.samples_ms
    return {
        "calls": len(samples),
        "seconds": round(latency.seconds, 3),
        "concurrency": latency.concurrency,
        "percentiles_ms": {str(percent): round(latency.percentile_ms(percent), 3) for percent in _PERCENTS},
        "max_ms": round(max(samples, default=0.0), 3),
        "above": {str(mark): above(samples, mark) for mark in MARKS_MS},
        "histogram": [_picked(bucket, "from_ms to_ms count") for bucket in histogram(samples)],
    }


def _picked(value: object, names: str) -> _Fields:
    """Return the attributes of *value* with these names, with a space between them."""
    return {name: _plain(getattr(value, name)) for name in names.split()}


def _plain(value: object) -> object:
    if isinstance(value, str):
        return _text(value)
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _cut(text: str, extent: Extent) -> str:
    return _text(text if len(text) <= extent.text else f"{text[: extent.text]}…")


def _text(text: str) -> str:
    # JSON could write a lone surrogate down, and hardly any program could read it.
    return text.encode(errors="backslashreplace").decode()
