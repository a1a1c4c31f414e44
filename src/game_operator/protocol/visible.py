"""Bytes that may be anything, as text for people."""

import re
import unicodedata
from typing import Final

__all__ = ["visible"]

#: Unassigned, private and control characters, lone surrogates, and those that turn the direction of the text around.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
#: What is looked at more closely: a page of megabytes is mostly ASCII.
_DOUBTFUL: Final = re.compile(r"[^\n\t -~]")


def visible(data: bytes) -> str:
    r"""
    Return *data* as text in which nothing hides.

    What is not UTF-8 is shown as ``\xff``, and so is every character that would be invisible, move the cursor or turn
    the text around. Line ends and tabs stay.
    """
    text = data.decode("utf-8", errors="backslashreplace").replace("\r\n", "\n")
    return _DOUBTFUL.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    return character.encode("unicode_escape").decode() if unicodedata.category(character) in _HIDDEN else character
