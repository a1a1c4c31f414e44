"""The findings as a table for people or as JSON for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.measure import Finding, Spread
from benchmarks.rates import RateFinding

__all__ = ["as_json", "as_table", "as_tables", "markdown_table", "ratio_of", "summary"]

_RATE_HEADINGS = ("what", "beside", "ratio of rates", "goal", "", "ours", "theirs")
_HEADINGS = ("what", "beside", "CPU ratio", "wall ratio", "goal", "", "ours", "theirs")


def as_table(findings: Sequence[Finding]) -> str:
    """Return a Markdown table: ratios are medians of the rounds, with the lowest and the highest round."""
    return markdown_table([_HEADINGS, *map(_row, findings)])


def as_tables(findings: Sequence[Finding | RateFinding]) -> str:
    """Return a table of costs and a table of rates, as far as there are any."""
    costs = [finding for finding in findings if isinstance(finding, Finding)]
    rates = [finding for finding in findings if isinstance(finding, RateFinding)]
    tables = [as_table(costs)] if costs else []
    if rates:
        tables.append(markdown_table([_RATE_HEADINGS, *map(_rate_row, rates)]))
    return "\n\n".join(tables)


def ratio_of(finding: Finding | RateFinding) -> Spread:
    """Return what is held against the goal."""
    return finding.cpu_ratio if isinstance(finding, Finding) else finding.ratio


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first row is its heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def summary(findings: Sequence[Finding | RateFinding]) -> str:
    """Return in a sentence whether the goals were met."""
    missed = [_named(finding) for finding in findings if finding.verdict == "MISSED"]
    if missed:
        return f"Missed: {'; '.join(missed)}."
    return "Every goal is met." if any(finding.verdict for finding in findings) else "Nothing here has a goal."


def _named(finding: Finding | RateFinding) -> str:
    # Rates are held against several peers, each with a goal of its own.
    return f"{finding.what}, beside {finding.peer}" if isinstance(finding, RateFinding) else finding.what


def as_json(findings: Sequence[Finding | RateFinding]) -> str:
    """Return the findings as one JSON document."""
    return json.dumps([asdict(finding) | {"verdict": finding.verdict} for finding in findings], indent=2)


def _row(finding: Finding) -> tuple[str, ...]:
    return (
        finding.what,
        finding.peer,
        _spread(finding.cpu_ratio),
        f"{finding.wall_ratio.median:.2f}",
        "" if finding.bar is None else f"<= {finding.bar:.2f}",
        finding.verdict,
        _seconds(finding.cpu_seconds),
        _seconds(finding.peer_cpu_seconds),
    )


def _rate_row(finding: RateFinding) -> tuple[str, ...]:
    return (
        finding.what,
        finding.peer,
        _spread(finding.ratio),
        "" if finding.at_least is None else f">= {finding.at_least:.2f}",
        finding.verdict,
        f"{finding.rate:,.0f}/s",
        f"{finding.peer_rate:,.0f}/s",
    )


def _spread(ratio: Spread) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds >= 0.01 else f"{seconds * 1e6:.0f} µs"
