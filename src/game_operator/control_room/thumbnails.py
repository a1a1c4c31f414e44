"""A small picture for each game, drawn from its genre and id: the same game looks the same everywhere."""

from colorsys import hls_to_rgb
from functools import lru_cache
from hashlib import sha256
from html import escape
from typing import Final

from game_operator.control_room.motifs import MOTIFS, Colours, Motif, generic
from game_operator.models import GameInfo

__all__ = ["HEIGHT", "WIDTH", "thumbnail_svg"]

#: The size of a picture in its own units; it scales to any other.
WIDTH: Final = 160
HEIGHT: Final = 90

#: Motifs are drawn on a ground of 160 by 100; so they lie in the middle of this one.
_FITTED: Final = "translate(8 0) scale(.9)"

_KEPT: Final = 512


def thumbnail_svg(game: GameInfo) -> str:
    """
    Return the picture of *game* as an SVG element.

    It refers to nothing outside itself, holds no script and no style, and can stand in a page or be a file.
    """
    return _drawn(game.id, game.name, str(game.genre))


@lru_cache(maxsize=_KEPT)
def _drawn(game_id: str, name: str, genre: str) -> str:
    digest = sha256(game_id.encode("utf-8", "surrogatepass")).digest()
    colours = _colours(digest)
    # Many pictures share a page, and their gradients its one space of ids.
    shade = f"shade-{digest.hex()[:12]}"
    motif: Motif = MOTIFS.get(genre, generic)
    title = escape(_drawable(f"{name} ({genre})"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="thumbnail" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{title}</title>"
        f'<defs><linearGradient id="{shade}" x1="0" y1="0" x2="1" y2="1">'
        f'<stop offset="0" stop-color="{colours.ground}"/><stop offset="1" stop-color="{colours.depth}"/>'
        "</linearGradient></defs>"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="url(#{shade})"/>'
        f'<g transform="{_FITTED}">{motif(colours, digest)}</g></svg>'
    )


def _colours(digest: bytes) -> Colours:
    # Neither brown nor olive: of the circle, what lies between is left out.
    hue = 0.25 + digest[29] / 256 * 0.8
    # The accent stands off from the ground: across the circle, give or take an eighth.
    accent = hue + 0.5 + (digest[1] - 128) / 1024
    return Colours(
        ground=_hex(hue, 0.36, 0.5),
        depth=_hex(hue + 0.07, 0.16, 0.55),
        soft=_hex(hue, 0.62, 0.45),
        accent=_hex(accent, 0.62, 0.75),
        light="#f7f4ec",
        ink="#1d1b26",
    )


def _hex(hue: float, lightness: float, saturation: float) -> str:
    return "#" + "".join(f"{round(part * 255):02x}" for part in hls_to_rgb(hue % 1, lightness, saturation))


def _drawable(text: str) -> str:
    # What XML cannot carry would make the whole picture unreadable where it is a file.
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
