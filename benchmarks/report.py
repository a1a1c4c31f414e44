"""The findings as a table for people or as JSON for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.measure import Finding, Spread

__all__ = ["as_json", "as_table", "summary"]

_HEADINGS = ("what", "beside", "CPU ratio", "wall ratio", "goal", "", "ours", "theirs")


def as_table(findings: Sequence[Finding]) -> str:
    """Return a Markdown table: ratios are medians of the rounds, with the lowest and the highest round."""
    rows = [_HEADINGS, *map(_row, findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def summary(findings: Sequence[Finding]) -> str:
    """Return in a sentence whether the goals were met."""
    missed = [finding.what for finding in findings if finding.verdict == "MISSED"]
    if missed:
        return f"Missed: {', '.join(missed)}."
    return "Every goal is met." if any(finding.verdict for finding in findings) else "Nothing here has a goal."


def as_json(findings: Sequence[Finding]) -> str:
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


def _spread(ratio: Spread) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds >= 0.01 else f"{seconds * 1e6:.0f} µs"
