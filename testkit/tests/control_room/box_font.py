"""
A font in which every character is the same box, so that a page looks alike on machines with other fonts.

What it has is what a browser asks of a font: the tables of a TrueType font with one glyph that is drawn, and an empty
one for blanks.
"""

import struct
from typing import Final

__all__ = ["box_font"]

_EM, _ASCENT, _DESCENT, _ADVANCE = 1_000, 800, -200, 520
_BOX: Final = (40, 0, 480, 520)
_BLANKS: Final = frozenset({0x20, 0xA0, 0x2009, 0x202F})
#: Characters that have a glyph: Latin, punctuation, arrows, signs. Others are drawn in a font of the machine.
_CHARACTERS: Final = (
    *(*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x2000, 0x2031), 0x2032, 0x20AC),
    *(*range(0x2190, 0x21A0), 0x2212, 0x2713, 0x2717),
)


def box_font() -> bytes:
    """Return the font as the bytes of a file."""
    box = _glyph(*_BOX)
    tables = {
        b"OS/2": _os2(),
        b"cmap": _cmap(),
        b"glyf": box + box,
        # Glyph 0 stands for what is missing, 1 for every character, 2 for blanks.
        b"head": struct.pack(">IIIIHHQQhhhhHHhhh", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, _EM, 0, 0, *_BOX, 0, 8, 2, 0, 0),
        b"hhea": struct.pack(
            ">IhhhHhhhhhhhhhhhH", 0x10000, _ASCENT, _DESCENT, 0, _ADVANCE, 0, 0, _BOX[2], *([1] + [0] * 7), 3
        ),
        b"hmtx": struct.pack(">HhHhHh", _ADVANCE, _BOX[0], _ADVANCE, _BOX[0], _ADVANCE, 0),
        b"loca": struct.pack(">4H", 0, len(box) // 2, len(box), len(box)),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x10000, 3, 4, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0),
        b"name": struct.pack(">HHH", 0, 0, 6),
        b"post": struct.pack(">IIhhIIIII", 0x30000, 0, -100, 50, 0, 0, 0, 0, 0),
    }
    return _file(tables)


def _glyph(left: int, bottom: int, right: int, top: int) -> bytes:
    """Return a box with four corners, each relative to the one before."""
    width, height = right - left, top - bottom
    outline = struct.pack(">hhhhhHH", 1, left, bottom, right, top, 3, 0) + b"\1\1\1\1"
    return outline + struct.pack(">8h", left, 0, width, 0, bottom, height, 0, -height) + b"\0\0"


def _cmap() -> bytes:
    """Return which glyph each character has; every character is a range of its own, because ranges count up."""
    groups = b"".join(struct.pack(">III", each, each, 2 if each in _BLANKS else 1) for each in _CHARACTERS)
    length = 16 + len(groups)
    return struct.pack(">HHHHI", 0, 1, 3, 10, 12) + struct.pack(">HHIII", 12, 0, length, 0, len(groups) // 12) + groups


def _os2() -> bytes:
    weights = struct.pack(">HhHHH", 4, _ADVANCE, 400, 5, 0)
    positions = struct.pack(">11h", *([500] * 10), 0)
    ranges = struct.pack(">10B4I4s", *([0] * 10), 0, 0, 0, 0, b"TEST")
    metrics = struct.pack(">HHHhhhHH", 0x40, 0x20, 0xFFFF, _ASCENT, _DESCENT, 0, _ASCENT, -_DESCENT)
    return weights + positions + ranges + metrics + struct.pack(">IIhhHHH", 1, 0, 520, 520, 0, 0x20, 1)


def _file(tables: dict[bytes, bytes]) -> bytes:
    count = len(tables)
    power = count.bit_length() - 1
    directory = struct.pack(">IHHHH", 0x10000, count, 16 << power, power, 16 * count - (16 << power))
    offset, body = 12 + 16 * count, b""
    for name, table in sorted(tables.items()):
        padded = table + b"\0" * (-len(table) % 4)
        checksum = sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF
        directory += name + struct.pack(">III", checksum, offset + len(body), len(table))
        body += padded
    return directory + body
