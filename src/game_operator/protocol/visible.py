"""Bytes that may be anything, as text for people."""

import unicodedata
from typing import Final

__all__ = ["visible"]

#: Control characters that lay text out, and do no more.
_LAYOUT: Final = frozenset("\n\t")
#: Unassigned, private and control characters, lone surrogates, and those that turn the direction of the text around.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


def visible(data: bytes) -> str:
    r"""
    Return *data* as text in which nothing hides.

    What is not UTF-8 is shown as ``\xff``, and so is every character that would be invisible, move the cursor or turn
    the text around. Line ends and tabs stay.
    """
    text = data.decode("utf-8", errors="backslashreplace").replace("\r\n", "\n")
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in _LAYOUT or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()
