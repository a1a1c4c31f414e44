"""
A report as JSON, for programs: docs/certify-report.md describes every field.

What is added later does not change ``format``; what is renamed, removed or means something else does.
"""

from base64 import b64encode
from typing import Final, TypeAlias

from game_operator.certify.report.again import call_of, curl_of
from game_operator.certify.report.report import Latency, Report
from game_operator.certify.report.summary import Summary
from game_operator.certify.report.verdicts import Exchange, Outcome, Verdict, Weight
from game_operator.protocol.http import HeaderPairs
from game_operator.provider.latency import MARKS_MS, above, histogram
from game_operator.provider.text import iso_time

__all__ = ["FORMAT", "document"]

FORMAT: Final = 1

_Fields: TypeAlias = dict[str, object]

_PERCENTS: Final = (50, 90, 95, 99)


def document(report: Report) -> dict[str, object]:
    r"""
    Return *report* as what ``json.dumps`` takes: dictionaries, lists, strings, numbers, booleans and None.

    Money is whole cents, durations are milliseconds or seconds as the name says, times are UTC. No string holds a lone
    surrogate: it stands as an escape, such as ``\ud800``.
    """
    return {
        "format": FORMAT,
        **_picked(report, "passed was_stopped url run_id version with_signatures"),
        "began": iso_time(report.began_millis),
        "seconds": round(report.seconds, 3),
        "calls": report.calls,
        "stages_seconds": {_text(name): round(seconds, 3) for name, seconds in report.stages_seconds.items()},
        "counts": _counts(Summary(report)),
        "causes": [
            {**_picked(each.verdict, "id weight reason"), **_picked(each, "ids title means mend")}
            for each in report.causes
        ],
        "verdicts": [_verdict(verdict, report.url) for verdict in report.verdicts],
        "latency": None if report.latency is None else _latency(report.latency),
        "moved": [_picked(each, "player_id before_cents after_cents difference_cents") for each in report.moved],
    }


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


def _verdict(verdict: Verdict, url: str) -> _Fields:
    return {
        **_picked(verdict, "id group title outcome weight failed is_advice is_unjudged is_undone is_stopped"),
        **_picked(verdict, "reason means mend rests_on is_assumed missing"),
        "duration_ms": round(verdict.duration_ms, 3),
        "notes": [_picked(note, "reason weight cause exchange") for note in verdict.notes],
        "decisive": verdict.notes[0].exchange if verdict.notes else None,
        "exchanges": [_exchange(exchange, url) for exchange in verdict.exchanges],
    }


def _exchange(exchange: Exchange, url: str) -> _Fields:
    return {
        "title": _text(exchange.title),
        "at": iso_time(exchange.at_millis),
        "elapsed_ms": round(exchange.elapsed_ms, 3),
        "request": {
            **_picked(exchange, "method path"),
            "headers": headers_in_json(exchange.request_headers),
            "body": body_in_json(exchange.request_body),
            "bytes": exchange.request_bytes,
            "manner": exchange.manner,
            "to": exchange.at,
            "signed_by": exchange.signed_by or None,
        },
        "answer": {
            "status": exchange.status,
            "headers": headers_in_json(exchange.answer_headers),
            "body": body_in_json(exchange.answer_body),
            "bytes": exchange.answer_bytes,
        },
        "reply": None if exchange.reply is None else _picked(exchange.reply, "type code balance_cents timestamp"),
        **_picked(exchange, "problem told"),
        "curl": _plain(curl_of(exchange, url)),
        "call": _plain(call_of(exchange, url)),
    }


def headers_in_json(headers: HeaderPairs) -> list[list[str]]:
    """Return header fields, each as its name and value."""
    # Any byte can stand in a header; Latin-1 has a character for each.
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


def body_in_json(body: bytes) -> _Fields:
    """Return a body as text, or in Base64 if it is not UTF-8, and which of the two it is."""
    try:
        return {"encoding": "utf-8", "data": body.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": b64encode(body).decode()}


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


def _text(text: str) -> str:
    # JSON could write a lone surrogate down, and hardly any program could read it.
    return text.encode(errors="backslashreplace").decode()
