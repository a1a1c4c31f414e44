"""Two calls side by side: their requests and their answers, with the lines that differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Final

from game_operator_testkit.control_room.call_page import MessageSide
from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: Of each message. To compare takes as many steps as the product of both.
_MOST_LINES: Final = 300


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a message, and whether the other message lacks it."""

    text: str
    differs: bool


def compared(left: Exchange, right: Exchange) -> dict[str, tuple[Sequence[Line], Sequence[Line]]]:
    """Return the lines of the requests and of the answers of two calls, by the headings of the page."""
    return {
        "Request": _compared(MessageSide.of_request(left).lines, MessageSide.of_request(right).lines),
        "Answer": _compared(MessageSide.of_answer(left).lines, MessageSide.of_answer(right).lines),
    }


def _compared(left: Sequence[str], right: Sequence[str]) -> tuple[Sequence[Line], Sequence[Line]]:
    one, other = _first(left), _first(right)
    # Without its three lines of heading; of equal messages there is nothing.
    diff = list(unified_diff(one, other, n=len(one), lineterm=""))[3:] or [f" {line}" for line in one]
    return (
        [Line(line[1:], line[0] == "-") for line in diff if line[0] != "+"],
        [Line(line[1:], line[0] == "+") for line in diff if line[0] != "-"],
    )


def _first(lines: Sequence[str]) -> Sequence[str]:
    more = ["… and more: see the call"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *more]
