"""A report as a badge: one small picture that needs nothing else, with its words as text."""

from typing import Final

from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.summary import Summary

__all__ = ["badge"]

_LABEL: Final = "wallet"
#: Dark enough for white text.
_COLOURS: Final = {"Passed": "#1a7f37", "Failed": "#b3261e", "Stopped": "#57606a", "Not finished": "#57606a"}
_LABEL_COLOUR: Final = "#444c56"
#: In pixels: of a character on average, beside a text, and the height.
_CHARACTER, _MARGIN, _HEIGHT = 6.4, 7, 20
_BADGE: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" aria-label="{words}">
<title>{words}</title>
<rect width="{width}" height="{height}" rx="3" fill="{colour}"/>
<path d="M3 0h{left_end}v{height}H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="{label_colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">
<text x="{margin}" y="14" textLength="{label_width}">{label}</text>
<text x="{message_x}" y="14" textLength="{message_width}">{message}</text>
</g>
</svg>
"""


def badge(report: Report) -> str:
    """
    Return *report* as an SVG of less than 1 kB, such as ``wallet | certified · 58 passed``.

    Its words are ours and its numbers are counted: nothing that a wallet answers is in it.
    """
    summary = Summary(report)
    message = _message(summary)
    label_width, message_width = (round(len(text) * _CHARACTER) for text in (_LABEL, message))
    left = label_width + 2 * _MARGIN
    return _BADGE.format(
        width=left + message_width + 2 * _MARGIN,
        height=_HEIGHT,
        words=f"{_LABEL} {message}",
        colour=_COLOURS[summary.state],
        label_colour=_LABEL_COLOUR,
        left_end=left - 3,
        margin=_MARGIN,
        label=_LABEL,
        label_width=label_width,
        message=message,
        message_x=left + _MARGIN,
        message_width=message_width,
    )


def _message(summary: Summary) -> str:
    if summary.state == "Failed":
        return f"{len(summary.report.failures)} failed"
    if summary.is_fine:
        return f"certified · {summary.passed} passed"
    return summary.state.lower()
