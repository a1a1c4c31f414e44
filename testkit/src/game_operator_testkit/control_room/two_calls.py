"""Two calls side by side: their requests and their answers, with the lines that differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from markupsafe import escape

from game_operator_testkit.control_room.call_page import MessageSide
from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: Of each message. To compare takes as many steps as the product of both.
_MOST_LINES: Final = 300
#: Of HTML, so that the page does not become heavy.
_MOST_BYTES: Final = 18 * 1024
_MORE: Final = "… and more: see the call"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a message, and whether the other message lacks it."""

    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class ComparedMessages:
    """Two requests, or two answers: the lines of each, and how many of them differ."""

    left: Sequence[Line]
    right: Sequence[Line]

    @property
    def difference(self) -> int:
        """How many lines differ, on the side that has more of them."""
        return max(sum(line.differs for line in side) for side in (self.left, self.right))


def compared(left: Exchange, right: Exchange) -> dict[str, ComparedMessages]:
    """Return the requests and the answers of two calls, by the headings of the page."""
    return {
        "Request": _compared(MessageSide.of_request(left), MessageSide.of_request(right)),
        "Answer": _compared(MessageSide.of_answer(left), MessageSide.of_answer(right)),
    }


def _compared(left: MessageSide, right: MessageSide) -> ComparedMessages:
    both = _first(left.lines), _first(right.lines)
    same = SequenceMatcher(None, *both, autojunk=False).get_matching_blocks()
    shared = (
        {block.a + place for block in same for place in range(block.size)},
        {block.b + place for block in same for place in range(block.size)},
    )
    return ComparedMessages(
        *(
            [Line(text, place not in equal) for place, text in enumerate(side)]
            for side, equal in zip(both, shared, strict=True)
        )
    )


def _first(lines: Sequence[str]) -> Sequence[str]:
    """Return as many *lines* as the page has room for."""
    room = _MOST_BYTES
    for place, line in enumerate(lines):
        room -= len(escape(line).encode(errors="replace"))
        if room < 0 or place == _MOST_LINES:
            return [*lines[:place], _MORE]
    return lines
