"""
What the pictures of games show: a motif for each genre, of simple shapes on a ground of 160 by 100.

What shall reach the edges of a picture is drawn 9 wider on either side.
A motif takes the colours and a digest of the game's id, and draws two games of one genre a little differently.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import cos, pi, sin
from types import MappingProxyType
from typing import Final, TypeAlias

from game_operator.codes import Genre

__all__ = ["MOTIFS", "Colours", "Motif", "generic"]

_RED: Final = "#d3394a"
_BLACK: Final = "#23212c"
_GREEN: Final = "#2c9c69"
_GOLD: Final = "#f2b632"
_DARK_GOLD: Final = "#b87d12"


@dataclass(frozen=True, slots=True)
class Colours:
    """
    The palette of a picture.

    Attributes:
        ground, depth: The background, from bright to dark.
        soft: The ground's colour, but brighter: for what stays behind.
        accent: What stands out.
        light, ink: Nearly white, nearly black.
    """

    ground: str
    depth: str
    soft: str
    accent: str
    light: str
    ink: str


#: Draws onto the ground: the palette and 32 bytes of the game's own in, SVG elements out.
Motif: TypeAlias = Callable[[Colours, bytes], str]


def _crash(colours: Colours, digest: bytes) -> str:
    stars = "".join(_disc(8 + part * 144 / 255, 6 + other * 0.16, 0.9, colours.light) for part, other in _pairs(digest))
    grid = "".join(_line(16, y, 148, y, colours.soft, 0.7, opacity=0.35) for y in (26, 46, 66))
    axes = _line(16, 84, 148, 84, colours.soft, 1.5) + _line(16, 14, 16, 84, colours.soft, 1.5)
    curve = "M16 84 C 62 83, 98 74, 124 26"
    tail = "M132 22 Q112 38 92 64 Q104 36 122 17 Z"
    return (
        f'{stars}{grid}{axes}<path d="{curve} L124 84 Z" fill="{colours.accent}" opacity=".25"/>'
        f'<path d="{curve}" fill="none" stroke="{colours.accent}" stroke-width="4" stroke-linecap="round"/>'
        f'<path d="{tail}" fill="{_GOLD}" opacity=".75"/>{_disc(127, 20, 8, _GOLD)}{_disc(129, 18, 4.5, colours.light)}'
    )


def _mine(colours: Colours, digest: bytes) -> str:
    mine, gems = digest[2] % 12, {digest[3] % 12, digest[4] % 12, digest[5] % 12}
    tiles = []
    for number in range(12):
        x, y = 33 + number % 4 * 24, 15 + number // 4 * 24
        opened = number == mine or number in gems
        tiles.append(_box(x, y, 21, 21, colours.depth if opened else colours.soft, 4))
        if number == mine:
            tiles.append(_bomb(x + 10.5, y + 11, colours))
        elif opened:
            tiles.append(_gem(x + 10.5, y + 10.5, colours.accent))
    return "".join(tiles)


def _bomb(x: float, y: float, colours: Colours) -> str:
    spikes = "".join(
        _line(x - 8.5 * cos(turn), y - 8.5 * sin(turn), x + 8.5 * cos(turn), y + 8.5 * sin(turn), colours.light, 2)
        for turn in (0, pi / 4, pi / 2, 3 * pi / 4)
    )
    return (
        f"{spikes}{_disc(x, y, 6, colours.light)}{_disc(x, y, 4.6, _RED)}{_disc(x - 1.5, y - 1.5, 1.3, colours.light)}"
    )


def _gem(x: float, y: float, colour: str) -> str:
    return _poly([(x - 7, y - 2), (x - 4, y - 6), (x + 4, y - 6), (x + 7, y - 2), (x, y + 7)], colour) + _poly(
        [(x - 7, y - 2), (x + 7, y - 2), (x, y + 7)], "#ffffff", opacity=0.25
    )


def _plinko(colours: Colours, digest: bytes) -> str:
    pegs = "".join(
        _disc(80 + (column - row / 2) * 17, 20 + row * 13, 2.4, colours.light)
        for row in range(5)
        for column in range(row + 1)
    )
    heights = (2, 1, 0, 1, 2)
    bins = "".join(
        _box(80 - 44 + number * 18, 84 - height * 2, 16, 10 + height * 2, colours.accent if height else colours.soft, 2)
        for number, height in enumerate(heights)
    )
    side = 1 if digest[2] % 2 else -1
    steps = [(80, 8), (80 + side * 6, 26), (80 - side * 1, 39), (80 + side * 9, 52), (80 + side * 18, 66)]
    trail = "".join(_disc(x, y, 3 + number * 0.3, _GOLD, opacity=0.25) for number, (x, y) in enumerate(steps[:-1]))
    x, y = steps[-1]
    return f"{bins}{pegs}{trail}{_disc(x, y, 5.5, _GOLD)}{_disc(x - 1.6, y - 1.8, 1.5, colours.light)}"


_PIPS: Final = {
    1: ((0, 0),),
    2: ((-1, -1), (1, 1)),
    3: ((-1, -1), (0, 0), (1, 1)),
    4: ((-1, -1), (1, -1), (-1, 1), (1, 1)),
    5: ((-1, -1), (1, -1), (0, 0), (-1, 1), (1, 1)),
    6: ((-1, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (1, 1)),
}


def _die(x: float, y: float, size: float, face: int, turn: float, fill: str, pip: str) -> str:
    dots = "".join(_disc(dx * size * 0.27, dy * size * 0.27, size * 0.085, pip) for dx, dy in _PIPS[face])
    half = size / 2
    shadow = _box(-half + 2, -half + 3, size, size, "#000000", size * 0.2, opacity=0.25)
    return (
        f'<g transform="translate({_n(x)} {_n(y)}) rotate({_n(turn)})">'
        f"{shadow}{_box(-half, -half, size, size, fill, size * 0.2)}{dots}</g>"
    )


def _dice(colours: Colours, digest: bytes) -> str:
    first, second = digest[2] % 6 + 1, digest[3] % 6 + 1
    return _die(60, 55, 42, first, -14, colours.light, colours.ink) + _die(
        107, 44, 38, second, 17, colours.accent, colours.ink
    )


def _craps(colours: Colours, digest: bytes) -> str:
    felt = (
        f'<rect x="12" y="12" width="136" height="76" rx="34" fill="none" stroke="{colours.soft}" stroke-width="3"/>'
        f'<rect x="22" y="22" width="116" height="56" rx="25" fill="none" stroke="{colours.soft}" stroke-width="1.2"/>'
    )
    first, second = digest[2] % 6 + 1, digest[3] % 6 + 1
    return felt + _die(66, 53, 28, first, -18, _RED, colours.light) + _die(98, 45, 28, second, 12, _RED, colours.light)


def _sic_bo(colours: Colours, digest: bytes) -> str:
    dome = (
        f'<path d="M30 78 A50 58 0 0 1 130 78 Z" fill="{colours.soft}" opacity=".35"/>'
        f'<path d="M46 56 A38 40 0 0 1 70 28" fill="none" stroke="{colours.light}" stroke-width="3" '
        f'stroke-linecap="round" opacity=".6"/>'
        f"{_disc(80, 18, 5, colours.accent)}{_box(24, 78, 112, 9, colours.accent, 4)}"
    )
    faces = [part % 6 + 1 for part in digest[2:5]]
    dice = (
        _die(58, 64, 24, faces[0], -8, colours.light, colours.ink)
        + _die(102, 64, 24, faces[1], 9, colours.light, colours.ink)
        + _die(80, 48, 24, faces[2], 22, colours.light, _RED)
    )
    return dome + dice


def _keno(colours: Colours, digest: bytes) -> str:
    numbers = sorted({part % 80 + 1 for part in digest[2:14]})[:8]
    balls = []
    for place, number in enumerate(numbers):
        x, y = 34 + place % 4 * 31, 33 + place // 4 * 35
        drawn = digest[20 + place] % 2 == 0 or place == 1
        balls.append(_ball(x, y, 13.5, str(number), colours.accent if drawn else colours.light, colours))
    return "".join(balls)


def _ball(x: float, y: float, radius: float, label: str, colour: str, colours: Colours) -> str:
    return (
        f"{_disc(x + 1.5, y + 2.5, radius, '#000000', opacity=0.25)}{_disc(x, y, radius, colour)}"
        f"{_disc(x, y, radius * 0.66, '#ffffff')}{_text(x, y, label, colours.ink, radius * 0.82)}"
    )


def _bingo(colours: Colours, digest: bytes) -> str:
    card = [
        _box(28, 10, 82, 82, colours.light, 6),
        _box(28, 10, 82, 18, colours.accent, 6),
        _box(28, 20, 82, 8, colours.accent),
    ]
    for column, letter in enumerate("BINGO"):
        x = 37 + column * 16
        card.append(_text(x, 19.5, letter, colours.ink, 12))
        for row in range(4):
            number = column * 15 + (digest[2 + column] + row * 4) % 15 + 1
            y = 36 + row * 15
            if digest[8 + column] % 4 == row:
                card.append(_disc(x, y, 6.8, colours.accent))
            card.append(_text(x, y, str(number), colours.ink, 8.5))
    return "".join(card) + _ball(128, 64, 17, str(digest[3] % 75 + 1), _RED, colours)


_WHEEL_ORDER: Final = 18


def _roulette(colours: Colours, digest: bytes) -> str:
    sectors = []
    for number in range(_WHEEL_ORDER):
        colour = _GREEN if number == 0 else (_RED if number % 2 else _BLACK)
        sectors.append(_sector(80, 50, 20, 38, number * 20 + digest[2] % 20, 20, colour))
    turn = (digest[3] / 256) * 2 * pi
    spokes = "".join(
        _line(80, 50, 80 + 14 * cos(turn + k * pi / 2), 50 + 14 * sin(turn + k * pi / 2), _GOLD, 3) for k in range(4)
    )
    knobs = "".join(
        _disc(80 + 14 * cos(turn + k * pi / 2), 50 + 14 * sin(turn + k * pi / 2), 2.6, _GOLD) for k in range(4)
    )
    ball = _disc(80 + 33 * cos(turn + 0.9), 50 + 33 * sin(turn + 0.9), 4, colours.light)
    return (
        f"{_disc(80, 50, 43, _DARK_GOLD)}{_disc(80, 50, 40, _GOLD)}{''.join(sectors)}"
        f"{_disc(80, 50, 20, _DARK_GOLD)}{_disc(80, 50, 18, colours.depth)}"
        f"{spokes}{knobs}{_disc(80, 50, 5, _GOLD)}{ball}"
    )


def _sector(x: float, y: float, inner: float, outer: float, start: float, width: float, colour: str) -> str:
    begin, stop = start * pi / 180, (start + width) * pi / 180
    points = [
        (x + radius * cos(turn), y + radius * sin(turn))
        for radius, turn in ((inner, begin), (outer, begin), (outer, stop), (inner, stop))
    ]
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = points
    return (
        f'<path d="M{_n(ax)} {_n(ay)} L{_n(bx)} {_n(by)} A{_n(outer)} {_n(outer)} 0 0 1 {_n(cx)} {_n(cy)} '
        f'L{_n(dx)} {_n(dy)} A{_n(inner)} {_n(inner)} 0 0 0 {_n(ax)} {_n(ay)} Z" fill="{colour}"/>'
    )


def _wheel(colours: Colours, digest: bytes) -> str:
    fills = (colours.accent, colours.light, colours.soft, _GOLD)
    sectors = "".join(
        _sector(80, 53, 0.1, 37, number * 30 + digest[2] % 30, 30, fills[number % 4]) for number in range(12)
    )
    lights = "".join(
        _disc(80 + 40 * cos(number * pi / 8), 53 + 40 * sin(number * pi / 8), 1.8, colours.light)
        for number in range(16)
    )
    pointer = _poly([(72, 3), (88, 3), (80, 21)], _RED) + _disc(80, 6, 2, colours.light)
    hub = _disc(80, 53, 9, colours.ink) + _disc(80, 53, 5, _GOLD)
    return f"{_disc(80, 53, 43, colours.ink)}{sectors}{lights}{hub}{pointer}"


def _slots(colours: Colours, digest: bytes) -> str:
    reels = "".join(_reel(26 + reel * 37, digest[2] + digest[3 + reel] % 2 * reel, colours) for reel in range(3))
    line = _poly([(16, 44), (16, 56), (23, 50)], _GOLD) + _poly([(144, 44), (144, 56), (137, 50)], _GOLD)
    case = _box(12, 12, 136, 76, colours.ink, 10) + _box(15, 15, 130, 70, colours.accent, 8)
    return f"{case}{_box(20, 18, 120, 64, colours.ink, 7)}{reels}{line}"


def _reel(x: float, symbol: int, colours: Colours) -> str:
    shades = "".join(_box(x, y, 34, 9, colours.ink, 5, opacity=0.14) for y in (22, 69))
    return _box(x, 22, 34, 56, colours.light, 5) + shades + _SYMBOLS[symbol % len(_SYMBOLS)](x + 17, 50)


def _seven(x: float, y: float) -> str:
    return (
        f'<path d="M{_n(x - 11)} {_n(y - 14)} h22 v6 q-11 12 -12 22 h-8 q1 -12 11 -21 h-13 Z" '
        f'fill="{_RED}" stroke="{_GOLD}" stroke-width="1.5" stroke-linejoin="round"/>'
    )


def _cherry(x: float, y: float) -> str:
    stalks = "M-6 5 Q-3 -9 6 -14 Q5 -4 7 4"
    return (
        f'<g transform="translate({_n(x)} {_n(y)})">'
        f'<path d="{stalks}" fill="none" stroke="{_GREEN}" stroke-width="2.4"/>'
        f'<path d="M5 -13 q-9 -5 -14 2 q8 5 14 -2" fill="{_GREEN}"/>{_disc(-6.5, 8, 7, _RED)}{_disc(7.5, 7, 7, _RED)}'
        f"{_disc(-8.5, 5.5, 1.8, '#ffffff', opacity=0.7)}{_disc(5.5, 4.5, 1.8, '#ffffff', opacity=0.7)}</g>"
    )


def _bar(x: float, y: float) -> str:
    return (
        _box(x - 14, y - 9, 28, 18, _BLACK, 3) + _box(x - 12, y - 7, 24, 14, _GOLD, 2) + _text(x, y, "BAR", _BLACK, 10)
    )


def _bell(x: float, y: float) -> str:
    return (
        f'<path d="M{_n(x - 13)} {_n(y + 9)} Q{_n(x - 8)} {_n(y + 4)} {_n(x - 8)} {_n(y - 4)} '
        f'A8 8.5 0 0 1 {_n(x + 8)} {_n(y - 4)} Q{_n(x + 8)} {_n(y + 4)} {_n(x + 13)} {_n(y + 9)} Z" '
        f'fill="{_GOLD}" stroke="{_DARK_GOLD}" stroke-width="1.5" stroke-linejoin="round"/>'
        f"{_disc(x, y + 11, 3.4, _DARK_GOLD)}"
    )


_SYMBOLS: Final = (_seven, _cherry, _bar, _bell)


def _heart(x: float, y: float, size: float, colour: str) -> str:
    return _shape(
        "M0 9 C-14 -1 -9 -10 -4.5 -9 C-2 -8.6 -.6 -7 0 -5 C.6 -7 2 -8.6 4.5 -9 C9 -10 14 -1 0 9 Z", x, y, size, colour
    )


def _diamond(x: float, y: float, size: float, colour: str) -> str:
    return _shape("M0 -10 L7 0 L0 10 L-7 0 Z", x, y, size, colour)


def _spade(x: float, y: float, size: float, colour: str) -> str:
    path = "M0 -10 C12 0 9 7 5 7 C3 7 1.4 6 .8 4.6 L2.6 10 L-2.6 10 L-.8 4.6 C-1.4 6 -3 7 -5 7 C-9 7 -12 0 0 -10 Z"
    return _shape(path, x, y, size, colour)


def _club(x: float, y: float, size: float, colour: str) -> str:
    path = (
        "M0 -10 A4.4 4.4 0 0 1 3.6 -3 A4.4 4.4 0 1 1 1 4 L2.6 10 L-2.6 10 L-1 4 A4.4 4.4 0 1 1 -3.6 -3 "
        "A4.4 4.4 0 0 1 0 -10 Z"
    )
    return _shape(path, x, y, size, colour)


_SUITS: Final = ((_spade, _BLACK), (_heart, _RED), (_club, _BLACK), (_diamond, _RED))


def _shape(path: str, x: float, y: float, size: float, colour: str) -> str:
    return f'<path d="{path}" transform="translate({_n(x)} {_n(y)}) scale({_n(size / 20)})" fill="{colour}"/>'


def _card(x: float, y: float, turn: float, rank: str, suit: int, colours: Colours, *, height: float = 58) -> str:
    """A card around its middle; without a *rank* it lies face down."""
    width = height * 0.7
    frame = _box(-width / 2 + 1.5, -height / 2 + 2.5, width, height, "#000000", 5, opacity=0.3)
    if rank:
        draw, colour = _SUITS[suit % 4]
        face = (
            _box(-width / 2, -height / 2, width, height, colours.light, 5)
            + _text(
                -width / 2 + height * 0.16,
                -height / 2 + height * 0.17,
                rank,
                colour,
                height * (0.25 if len(rank) < 2 else 0.2),
            )
            + draw(0, height * 0.1, height * 0.46, colour)
        )
    else:
        face = (
            _box(-width / 2, -height / 2, width, height, colours.light, 5)
            + _box(-width / 2 + 3, -height / 2 + 3, width - 6, height - 6, colours.accent, 3)
            + _shape("M0 -10 L7 0 L0 10 L-7 0 Z", 0, 0, height * 0.5, colours.depth)
        )
    return f'<g transform="translate({_n(x)} {_n(y)}) rotate({_n(turn)})">{frame}{face}</g>'


def _blackjack(colours: Colours, digest: bytes) -> str:
    other = ("K", "Q", "J", "10")[digest[2] % 4]
    return (
        f'<path d="M-9 99 Q80 56 169 99" fill="none" stroke="{colours.soft}" stroke-width="2" opacity=".6"/>'
        f"{_card(66, 49, -11, other, digest[3], colours)}{_card(94, 51, 8, 'A', 0, colours)}"
    )


def _baccarat(colours: Colours, digest: bytes) -> str:
    player, banker = (str(part % 8 + 2) for part in digest[2:4])
    hands = (
        (34, 46, -7, player, digest[4]),
        (56, 48, 6, "A", 1),
        (104, 48, -6, banker, digest[5]),
        (127, 46, 7, "K", 2),
    )
    cards = "".join(_card(x, y, turn, rank, suit, colours, height=46) for x, y, turn, rank, suit in hands)
    words = _text(45, 86, "PLAYER", colours.light, 9) + _text(115, 86, "BANKER", colours.light, 9)
    return _line(80, 14, 80, 86, colours.soft, 1.2) + cards + words


def _andar_bahar(colours: Colours, digest: bytes) -> str:
    rank = ("J", "Q", "K", "7")[digest[2] % 4]
    left = _card(30, 54, -8, str(digest[4] % 5 + 2), digest[5], colours, height=44)
    right = _card(130, 54, 8, rank, digest[3] + 1, colours, height=44)
    words = _text(30, 89, "ANDAR", colours.light, 9) + _text(130, 89, "BAHAR", colours.light, 9)
    return _card(80, 38, 0, rank, digest[3], colours, height=50) + left + right + words


def _dragon_tiger(colours: Colours, digest: bytes) -> str:
    left = _card(52, 45, -6, ("K", "Q", "J")[digest[2] % 3], 1, colours)
    right = _card(108, 45, 6, ("9", "8", "10")[digest[3] % 3], 0, colours)
    words = _text(48, 89, "DRAGON", colours.light, 9) + _text(112, 89, "TIGER", colours.light, 9)
    return left + right + _disc(80, 48, 13, _GOLD) + _text(80, 48, "VS", colours.ink, 12) + words


def _poker(colours: Colours, digest: bytes) -> str:
    ranks = ("10", "J", "Q", "K", "A")
    suit = digest[2]
    return "".join(
        _card(44 + place * 18, 54 + abs(place - 2) ** 2 * 1.8, (place - 2) * 11, rank, suit, colours, height=54)
        for place, rank in enumerate(ranks)
    )


def _video_poker(colours: Colours, digest: bytes) -> str:
    ranks = ("A", "K", "9", "A", "4")
    cards = "".join(
        _card(32 + place * 24, 46, 0, rank, digest[2 + place], colours, height=31) for place, rank in enumerate(ranks)
    )
    held = "".join(_box(22 + place * 24, 67, 20, 8, colours.accent, 2) for place in (0, 3))
    rest = "".join(_box(22 + place * 24, 67, 20, 8, colours.soft, 2, opacity=0.5) for place in (1, 2, 4))
    screen = _box(10, 10, 140, 80, colours.ink, 8) + _box(14, 14, 132, 72, colours.depth, 6)
    return screen + _box(22, 19, 116, 6, _GOLD, 3) + cards + held + rest


def _hi_lo(colours: Colours, digest: bytes) -> str:
    rank = ("7", "8", "6", "9")[digest[2] % 4]
    up = _disc(135, 32, 14, colours.light) + _poly([(126, 37), (144, 37), (135, 23)], _GREEN)
    down = _disc(135, 68, 14, colours.light) + _poly([(126, 63), (144, 63), (135, 77)], _RED)
    return _card(38, 50, -5, "", 0, colours) + _card(84, 50, 3, rank, digest[3], colours, height=64) + up + down


def _sette_e_mezzo(colours: Colours, digest: bytes) -> str:
    coin = _disc(0, 0, 16, _GOLD) + _disc(0, 0, 13, _DARK_GOLD) + _disc(0, 0, 11.5, _GOLD)
    half = (
        f'<g transform="translate(106 51) rotate(9)">{_box(-21, -29, 45, 64, "#000000", 5, opacity=0.3)}'
        f"{_box(-22.5, -32, 45, 64, colours.light, 5)}{coin}{_text(0, 0, '½', colours.ink, 17)}</g>"
    )
    return _card(58, 50, -9, "7", digest[2], colours, height=64) + half


def _coin(x: float, y: float, radius: float, mark: str = "") -> str:
    return (
        f"{_disc(x + 1.5, y + 3, radius, '#000000', opacity=0.3)}"
        f"{_disc(x, y, radius, _DARK_GOLD)}{_disc(x, y, radius * 0.92, _GOLD)}"
        f"{_ring(x, y, radius * 0.74, _DARK_GOLD, radius * 0.07)}"
        f"{_text(x, y, mark, _DARK_GOLD, radius * 0.95) if mark else ''}"
    )


def _heads_or_tails(colours: Colours, digest: bytes) -> str:
    crown = "M-12 9 L-14 -8 L-6 -1 L0 -12 L6 -1 L14 -8 L12 9 Z"
    swing = "".join(
        f'<path d="M{20 + k * 8} {30 - k * 7} q6 -10 16 -12" fill="none" stroke="{colours.accent}" stroke-width="2.5" '
        f'stroke-linecap="round" opacity="{_n(0.8 - k * 0.4)}"/>'
        for k in range(2)
    )
    tails = _coin(108, 56, 26, str(digest[2] % 5 + 1))
    return f"{swing}{tails}{_coin(58, 50, 31)}{_shape(crown, 58, 50, 20, _DARK_GOLD)}"


def _coin_dozer(colours: Colours, digest: bytes) -> str:
    rows = ((80, 5, 24), (70, 4, 26), (60, 3, 26))
    heap = []
    for number, (y, count, step) in enumerate(rows):
        for place in range(count):
            x = 80 + (place - (count - 1) / 2) * step + (digest[2 + number * 5 + place] % 7 - 3)
            heap.append(_flat_coin(x, y))
    return (
        f"{_poly([(36, 18), (124, 18), (134, 44), (26, 44)], colours.soft)}{_box(26, 44, 108, 13, colours.accent, 2)}"
        f"{_poly([(26, 57), (134, 57), (150, 92), (10, 92)], colours.ink, opacity=0.45)}"
        f"{''.join(reversed(heap))}{_coin(80, 28, 10)}"
    )


def _flat_coin(x: float, y: float) -> str:
    return (
        f'<ellipse cx="{_n(x)}" cy="{_n(y + 3)}" rx="13" ry="6.5" fill="{_DARK_GOLD}"/>'
        f'<ellipse cx="{_n(x)}" cy="{_n(y)}" rx="13" ry="6.5" fill="{_GOLD}"/>'
        f'<ellipse cx="{_n(x)}" cy="{_n(y)}" rx="8.5" ry="4" fill="none" stroke="{_DARK_GOLD}" stroke-width="1.2"/>'
    )


def _scratch(colours: Colours, digest: bytes) -> str:
    prize = ("5", "50", "2", "100", "10")[digest[2] % 5]
    ticket = _box(24, 14, 116, 76, "#000000", 6, opacity=0.3) + _box(22, 11, 116, 76, colours.light, 6)
    head = _box(22, 11, 116, 17, colours.accent, 6) + _box(22, 21, 116, 7, colours.accent)
    holes = "".join(_disc(34 + k * 15.3, 19.5, 3, colours.light) for k in range(7))
    scratched = (
        '<path d="M36 64 L52 42 L58 68 L74 41 L82 70 L96 42 L104 66" fill="none" stroke="#fffdf5" stroke-width="15" '
        'stroke-linejoin="round" stroke-linecap="round"/>'
    )
    field = _box(31, 36, 98, 42, "#b9bcc6", 4) + scratched + _text(70, 57, prize, _RED, 24)
    return f'<g transform="rotate(-5 80 50)">{ticket}{head}{holes}{field}</g>{_coin(130, 74, 14)}'


def _match_and_win(colours: Colours, digest: bytes) -> str:
    symbols = ("gem", "star", "heart")
    tiles = []
    for number in range(6):
        x, y = 44 + number % 3 * 36, 31 + number // 3 * 38
        symbol = symbols[0] if number in (0, 2, 4) else symbols[1 + (digest[2 + number] % 2)]
        tiles.append(_box(x - 16, y - 16, 32, 32, _GOLD if symbol == "gem" else colours.soft, 6))
        tiles.append(_box(x - 13.5, y - 13.5, 27, 27, colours.light, 5))
        if symbol == "gem":
            tiles.append(f'<g transform="translate({x} {y}) scale(1.4)">{_gem(0, 0, colours.accent)}</g>')
        else:
            tiles.append(_star(x, y, 10, _GOLD) if symbol == "star" else _heart(x, y, 19, _RED))
    return "".join(tiles)


def _star(x: float, y: float, radius: float, colour: str) -> str:
    points = [
        (
            x + (radius if k % 2 == 0 else radius * 0.45) * sin(k * pi / 5),
            y - (radius if k % 2 == 0 else radius * 0.45) * cos(k * pi / 5),
        )
        for k in range(10)
    ]
    return _poly(points, colour)


def _instant_win(colours: Colours, digest: bytes) -> str:
    rays = "".join(_sector(80, 50, 8, 100, number * 30 + digest[2] % 30, 13, colours.soft) for number in range(12))
    bolt: list[tuple[float, float]] = [(88, 12), (58, 56), (78, 56), (70, 90), (104, 42), (83, 42)]
    shadow = _poly([(x + 2.5, y + 3) for x, y in bolt], "#000000", opacity=0.3)
    gleam = _poly([(88, 12), (58, 56), (68, 56)], "#ffffff", opacity=0.35)
    return f'<g opacity=".35">{rays}</g>{shadow}{_poly(bolt, colours.accent)}{gleam}'


def _ladder(colours: Colours, digest: bytes) -> str:
    rungs = "".join(_line(66 + k * 1.6, 80 - k * 13, 103 - k * 1.6, 80 - k * 13, colours.light, 4) for k in range(6))
    rails = _line(62, 94, 74, 6, colours.light, 5) + _line(107, 94, 95, 6, colours.light, 5)
    level = digest[2] % 4 + 1
    y = 80 - level * 13
    climber = _disc(84.5, y - 9, 8, colours.accent) + _disc(82, y - 11.5, 2.4, colours.light)
    return rails + rungs + climber + _star(128, 22, 11, _GOLD) + _star(34, 40, 6, _GOLD)


def _shooting(colours: Colours, digest: bytes) -> str:
    fills = (colours.light, _RED)
    rings = "".join(_disc(80, 50, 40 - number * 8, fills[number % 2]) for number in range(5))
    holes = "".join(
        _disc(80 + part / 255 * 44 - 22, 50 + other / 255 * 44 - 22, 3, colours.ink)
        for part, other in _pairs(digest)[:3]
    )
    ends = ((80, 2, 80, 24), (80, 76, 80, 98), (32, 50, 54, 50), (106, 50, 128, 50))
    cross = "".join(_line(x1, y1, x2, y2, colours.ink, 2.2) for x1, y1, x2, y2 in ends)
    return rings + holes + _ring(80, 50, 27, colours.ink, 2.2) + cross


_CURTAIN: Final = "#a52536"


def _show(colours: Colours, digest: bytes) -> str:
    folds = "".join(
        f'<path d="M{k * 9} 0 h9 q2 50 -{1 + k * 3} 88 h-9 q{2 + k} -40 0 -88 Z" fill="{_RED if k % 2 else _CURTAIN}"/>'
        for k in range(4)
    )
    sides = f'<g transform="translate(-9 0)">{folds}</g><g transform="translate(169 0) scale(-1 1)">{folds}</g>'
    valance = _box(-9, 0, 178, 11, _CURTAIN) + "".join(_disc(-8 + k * 16, 11, 8, _CURTAIN) for k in range(12))
    beam = _poly([(74, 0), (86, 0), (116, 86), (44, 86)], "#fff6cf", opacity=0.35)
    spot = '<ellipse cx="80" cy="86" rx="37" ry="6" fill="#fff6cf" opacity=".7"/>'
    stage = _box(-9, 0, 178, 100, colours.ink, opacity=0.35) + beam + spot + _star(80, 58, 21 + digest[2] % 4, _GOLD)
    return stage + sides + valance + _box(-9, 88, 178, 12, colours.depth)


def _board(colours: Colours, digest: bytes) -> str:
    squares = (
        [(26 + k * 18, 20) for k in range(7)]
        + [(134, 20 + k * 18) for k in range(1, 4)]
        + [(134 - k * 18, 74) for k in range(1, 7)]
    )
    fills = (colours.light, colours.soft, colours.accent)
    path = "".join(_box(x - 8, y - 8, 16, 16, fills[(k + digest[2]) % 3], 3) for k, (x, y) in enumerate(squares))
    die = _die(64, 48, 24, digest[3] % 6 + 1, -12, colours.light, colours.ink)
    return path + _pawn(44, 20, _RED) + _pawn(116, 74, _GOLD) + die


def _pawn(x: float, y: float, colour: str) -> str:
    body = _shape("M-7 5 Q0 -2 -2 -9 h4 Q0 -2 7 5 Z", x, y, 20, colour)
    return (
        _shape("M-8.4 6.2 Q-1 -3 -3 -10 h6 Q1 -3 8.4 6.2 Z", x, y, 20, _BLACK)
        + _disc(x, y - 12, 5.6, _BLACK)
        + (body + _disc(x, y - 12, 4.6, colour))
    )


def _lobby(colours: Colours, digest: bytes) -> str:
    fills = (colours.accent, colours.light, colours.soft, _GOLD)
    tiles = "".join(
        _box(27 + k % 4 * 28, 22 + k // 4 * 31, 23, 26, fills[(digest[2 + k] + k) % 4], 4) for k in range(8)
    )
    return f"{_box(16, 11, 128, 78, colours.ink, 8, opacity=0.5)}{tiles}"


def generic(colours: Colours, digest: bytes) -> str:
    """For all that has no motif of its own: overlapping rings and a star, placed by the game's id."""
    strokes = (colours.soft, colours.accent, colours.light)
    rings = "".join(
        _ring(20 + part / 255 * 120, 10 + other / 255 * 80, 14 + number * 6, strokes[number % 3], 4 - number * 0.5)
        for number, (part, other) in enumerate(_pairs(digest)[:4])
    )
    star = _disc(80, 50, 27, colours.accent) + _disc(80, 50, 23, colours.depth) + _star(80, 51, 19, colours.light)
    return f'<g opacity=".45">{rings}</g>{star}'


def _live(motif: Motif, colours: Colours, digest: bytes) -> str:
    badge = f"{_box(120, 7, 34, 14, _RED, 7)}{_disc(128, 14, 2.6, '#ffffff')}{_text(140.5, 14, 'LIVE', '#ffffff', 8.5)}"
    return motif(colours, digest) + badge


#: The motif of each genre (spec §2.5).
MOTIFS: Final[Mapping[str, Motif]] = MappingProxyType(
    {
        Genre.ANDAR_BAHAR: _andar_bahar,
        Genre.BACCARAT: _baccarat,
        Genre.BINGO: _bingo,
        Genre.BLACKJACK: _blackjack,
        Genre.BOARD_GAME: _board,
        Genre.COIN_DOZER: _coin_dozer,
        Genre.CRAPS: _craps,
        Genre.CRASH: _crash,
        Genre.DICE: _dice,
        Genre.DRAGON_TIGER: _dragon_tiger,
        Genre.HEADS_OR_TAILS: _heads_or_tails,
        Genre.HI_LO: _hi_lo,
        Genre.INSTANT_WIN: _instant_win,
        Genre.KENO: _keno,
        Genre.LIVE_BLACKJACK: partial(_live, _blackjack),
        Genre.LIVE_ROULETTE: partial(_live, _roulette),
        Genre.LADDER: _ladder,
        Genre.LOBBY: _lobby,
        Genre.MATCH_AND_WIN: _match_and_win,
        Genre.MINE: _mine,
        Genre.PLINKO: _plinko,
        Genre.POKER: _poker,
        Genre.ROULETTE: _roulette,
        Genre.SCRATCH_CARDS: _scratch,
        Genre.SETTE_E_MEZZO: _sette_e_mezzo,
        Genre.SHOOTING: _shooting,
        Genre.SHOW: _show,
        Genre.SIC_BO: _sic_bo,
        Genre.SLOTS: _slots,
        Genre.VIDEO_POKER: _video_poker,
        Genre.WHEEL: _wheel,
        Genre.OTHER: generic,
    }
)


def _pairs(digest: bytes) -> list[tuple[int, int]]:
    return list(zip(digest[2::2], digest[3::2], strict=True))


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _disc(x: float, y: float, radius: float, colour: str, *, opacity: float = 1) -> str:
    return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" fill="{colour}"{_faint(opacity)}/>'


def _box(x: float, y: float, width: float, height: float, colour: str, corner: float = 0, *, opacity: float = 1) -> str:
    rounded = f' rx="{_n(corner)}"' if corner else ""
    size = f'width="{_n(width)}" height="{_n(height)}"'
    return f'<rect x="{_n(x)}" y="{_n(y)}" {size}{rounded} fill="{colour}"{_faint(opacity)}/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float, *, opacity: float = 1) -> str:
    return (
        f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" stroke="{colour}" stroke-width="{_n(width)}" '
        f'stroke-linecap="round"{_faint(opacity)}/>'
    )


def _poly(points: list[tuple[float, float]], colour: str, *, opacity: float = 1) -> str:
    corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    return f'<polygon points="{corners}" fill="{colour}"{_faint(opacity)}/>'


def _text(x: float, y: float, text: str, colour: str, size: float) -> str:
    # dominant-baseline is drawn at other heights by other browsers; a third of the size down is the middle everywhere.
    return (
        f'<text x="{_n(x)}" y="{_n(y + size * 0.35)}" font-family="sans-serif" font-weight="700" '
        f'font-size="{_n(size)}" text-anchor="middle" fill="{colour}">{text}</text>'
    )


def _ring(x: float, y: float, radius: float, colour: str, width: float) -> str:
    return (
        f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" fill="none" stroke="{colour}" stroke-width="{_n(width)}"/>'
    )


def _faint(opacity: float) -> str:
    return "" if opacity == 1 else f' opacity="{_n(opacity)}"'
