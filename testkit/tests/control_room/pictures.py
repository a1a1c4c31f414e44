"""
Pictures of every page, small enough to be kept, and how much two of them differ.

A sandbox is furnished always in the same way. Its pages are drawn by Chromium in a font of boxes, because machines have
different fonts. Then they are made small, and compared in blocks of a few pixels: a block is as bright as what is on
it. Another version of Chromium changes no block much. A lost column, a page without its style or the wrong colours do.

    python tools/screenshots.py --tests      draws the pictures in testkit/tests/control_room/screens anew
"""

import base64
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlencode

import httpx
from playwright.sync_api import Browser, Page

from game_operator.ledger import SqlLedger
from game_operator.signers.keys import load_public_key
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.control_room.application import PAGES
from game_operator_testkit.provider.keys import new_key, private_pem
from game_operator_testkit.sandbox import FaultPlan, Sandbox
from game_operator_testkit.sandbox.serving import ServingThread, listening_socket
from testkit.tests.certifier.serving import served
from testkit.tests.certifier.wrong_wallets.repeats import PaysEachTime
from testkit.tests.control_room.box_font import box_font
from testkit.tests.control_room.running import CERTIFICATION, Room

__all__ = [
    *("FOLDER", "LOOKS", "NAMES", "TURNING", "Difference", "Furnished", "Look"),
    *("difference", "draw_all", "furnished", "settle", "small", "taken"),
]

FOLDER: Final = Path(__file__).with_name("screens")
_NAVIGATION: Final = {each.TITLE.lower().replace(" ", "-"): each.PATH for each in PAGES}
#: The pages that pictures are taken of: those of the navigation, and those that they lead to.
NAMES: Final = (
    *_NAVIGATION,
    *("open-bet", "bet", "round", "exchange", "two-calls", "refused"),
)
#: An id that turns the text behind it around, unless it is isolated.
TURNING: Final = "evil\u202enalp"
#: 2026-01-05, 10:00 UTC: the service's clock stands still.
_NOW_MILLIS: Final = 1_767_607_200_000
#: What differs each time: the time and the wallet's latency decide how a report looks, and a command has the names of
#: folders. The style is not a part of the page, whose own rules about what may be loaded stay.
_MASKED: Final = """
iframe, #command { visibility: hidden !important; }
#command { height: 6rem; }
:root { scrollbar-width: none; }
.raw { line-break: anywhere !important; }
*, *::before, *::after { font-family: boxes !important; font-style: normal !important; }
"""
#: Edge of a block, in pixels of the small picture.
_BLOCK: Final = 8
_COLOURS: Final = 128

#: Gives every duration the same length, because a busy machine has longer ones, which would break lines elsewhere.
_SAME_DURATIONS: Final = """
() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (/[0-9] (ms|s|min)\\b/.test(text.data)) text.data = text.data.replace(/[0-9.]+ (ms|s|min)\\b/g, "1.00 ms");
  }
}
"""

#: Makes the font known to a page. It is not fetched, so that the page's own rules about what may be loaded stay.
_FONT: Final = """
async (text) => {
  const font = new FontFace("boxes", Uint8Array.from(atob(text), (each) => each.charCodeAt(0)));
  document.fonts.add(await font.load());
}
"""

_MASK: Final = """
(text) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets = [sheet];
}
"""

#: Returns the pixels of a picture, made small, as the text of their red, green and blue bytes in Base64.
_PIXELS: Final = """
async ([url, width, height]) => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  let text = "";
  for (let at = 0; at < data.length; at += 4) text += String.fromCharCode(data[at], data[at + 1], data[at + 2]);
  return btoa(text);
}
"""
#: Returns how much a small picture differs from a large one: each block is as bright as its pixels are on average.
_DIFFERENCE: Final = """
async ([large, small, width, height, edge]) => {
  const blocks = async (url) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, height);
    const { data } = context.getImageData(0, 0, width, height);
    const across = Math.ceil(width / edge);
    const sums = new Float64Array(across * Math.ceil(height / edge) * 4);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const from = (y * width + x) * 4, to = (Math.floor(y / edge) * across + Math.floor(x / edge)) * 4;
        for (let colour = 0; colour < 3; colour++) sums[to + colour] += data[from + colour];
        sums[to + 3] += 1;
      }
    }
    return sums;
  };
  const [one, two] = [await blocks(large), await blocks(small)];
  const differences = [];
  for (let at = 0; at < one.length; at += 4) {
    const of = (colour) => Math.abs(one[at + colour] / one[at + 3] - two[at + colour] / two[at + 3]);
    differences.push((of(0) + of(1) + of(2)) / 3);
  }
  differences.sort((a, b) => b - a);
  const worst = differences.slice(0, Math.max(1, Math.round(differences.length / 50)));
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return [mean(differences), mean(worst)];
}
"""


@dataclass(frozen=True)
class Look:
    """How a page is looked at, and how small its picture is."""

    width: int
    scheme: Literal["light", "dark"]
    small_width: int
    height: int = 1_200

    @property
    def name(self) -> str:
        """What a picture's name ends with."""
        return f"{self.width}-{self.scheme}"

    @property
    def small(self) -> tuple[int, int]:
        """Width and height of the small picture."""
        return self.small_width, self.height * self.small_width // self.width


#: How pictures are taken: each width and each scheme once.
LOOKS: Final = (Look(1280, "light", 320), Look(400, "dark", 160))


@dataclass(frozen=True)
class Difference:
    """
    How much two pictures differ, in steps of 256 per colour.

    Attributes:
        mean: Of all blocks.
        worst: Of the fiftieth part of the blocks that differs most.
    """

    mean: float
    worst: float


@dataclass(frozen=True)
class Furnished:
    """A sandbox with something on every page, and the pages by their names."""

    sandbox: Sandbox
    ledger: SqlLedger
    pages: Mapping[str, str]


@contextmanager
def furnished(place: Path) -> Iterator[Furnished]:
    """Furnish a sandbox with a wallet over a file in *place*, always in the same way."""
    key = place / "service.pem"
    key.write_bytes(private_pem(new_key()))
    with (
        SqlLedger(f"sqlite:///{place}/wallet.db") as ledger,
        Sandbox(
            service_private_key=key,
            control_room=partial(ControlRoom, service_key=key),
            clock=lambda: _NOW_MILLIS,
        ) as sandbox,
    ):
        receiver = WebhookReceiver(authenticator=RsaSignature(sandbox.service_public_key_pem))
        server = ServingThread(
            listening_socket("127.0.0.1", 0, allow_remote=False), asgi_app(receiver, Wallet(ledger)), lambda: None
        )
        try:
            _run(sandbox)
            sandbox.wallet_url = server.base_url
            yield Furnished(sandbox, ledger, _played(sandbox, ledger))
        finally:
            server.stop()


def _run(sandbox: Sandbox) -> None:
    """Certify a wallet that pays repeats."""
    wallet = PaysEachTime([load_public_key(sandbox.service_public_key_pem)])
    for player_id in ("dan", "eve"):
        wallet.open_account(player_id, 100_000)
    with (
        served(wallet) as url,
        httpx.Client(base_url=sandbox.base_url, trust_env=False, verify=False, timeout=20) as http,
    ):
        sandbox.wallet_url = url
        Room(sandbox, http).run(CERTIFICATION | {"player_id": "dan", "other_player_id": "eve", "only": "A02,B02"})


def _played(sandbox: Sandbox, ledger: SqlLedger) -> dict[str, str]:
    """Play, and return the pages."""
    for player_id in ("ann", "bob", TURNING, "cleo"):
        ledger.open_account(player_id, Decimal("100.00"))
    for player_id, wager_cents, won_cents in (("ann", 500, 1250), ("bob", 1000, 0), (TURNING, 250, 700)) * 2:
        won = sandbox.play_round(player_id=player_id, wager_cents=wager_cents, won_cents=won_cents)
    sandbox.play_round(player_id="bob", wager_cents=300, cancel=True)
    sandbox.play_round(player_id="cleo", wager_cents=500, won_cents=900, settlement="hold")
    ledger.adjust("ann", Decimal("7.00"), reference="by hand")
    sandbox.faults.set_nth("forged", 1)
    sandbox.play_round(player_id="ann", wager_cents=400, won_cents=900)
    with sandbox.client() as client:
        client.fetch_games()
        client.grant_free_bet(
            player_id="ann",
            instance_id=sandbox.instance_id,
            count=5,
            wager_amount_cents=100,
            expire_duration_millis=86_400_000,
            reference_id="welcome-7",
        )
    sandbox.faults.plan = FaultPlan.parse("bad-network")
    sandbox.prepare_service_key()
    a_round = {"instance_id": sandbox.instance_id, "round_id": won.round_id}
    pages = _NAVIGATION | {
        "open-bet": f"/bets?{urlencode({'id': sandbox.bet_ids['OPEN']})}",
        "bet": f"/bets?{urlencode({'id': won.bet_ids[0]})}",
        "round": f"/bets?{urlencode(a_round)}",
        "exchange": "/live/1",
        "two-calls": "/live/compare?call=1&call=2",
        "refused": "/nowhere",
    }
    assert tuple(pages) == NAMES
    return pages


def settle(page: Page, look: Look) -> None:
    """Show *page* as *look* says, at rest, and without what differs each time."""
    page.emulate_media(color_scheme=look.scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": look.width, "height": look.height})
    page.evaluate(_SAME_DURATIONS)
    page.evaluate(_MASK, _MASKED)
    page.evaluate(_FONT, base64.b64encode(box_font()).decode())


def taken(page: Page) -> bytes:
    """Return a picture of *page*, as a PNG file."""
    return page.screenshot(animations="disabled", caret="hide")


def small(canvas: Page, picture: bytes, look: Look) -> bytes:
    """Return *picture* made small, as a PNG file; *canvas* is an empty page, which does it."""
    rgb: str = canvas.evaluate(_PIXELS, [_url(picture), *look.small])
    return _png(base64.b64decode(rgb), look.small)


def draw_all(browser: Browser, place: Path) -> Iterator[str]:
    """Draw every picture anew, with a wallet in *place*; yield the name of each."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.png"):
        old.unlink()
    with furnished(place) as room, browser.new_context(base_url=room.sandbox.base_url) as context:
        page, canvas = context.new_page(), context.new_page()
        for name, path in room.pages.items():
            page.goto(path)
            for look in LOOKS:
                settle(page, look)
                file = FOLDER / f"{name}-{look.name}.png"
                file.write_bytes(small(canvas, taken(page), look))
                yield file.name


def difference(canvas: Page, picture: bytes, kept: bytes, look: Look) -> Difference:
    """Return how much *picture* differs from a small one that was *kept*, both PNG files."""
    found: list[Any] = canvas.evaluate(_DIFFERENCE, [_url(picture), _url(kept), *look.small, _BLOCK])  # Any: of JSON
    return Difference(*found)


def _png(rgb: bytes, size: tuple[int, int]) -> bytes:
    """Return a PNG of *size*, with the most frequent colours alone: a page has few, and so it stays small."""
    width, height = size
    colours: dict[bytes, int] = {}
    triples = [rgb[at : at + 3] for at in range(0, len(rgb), 3)]
    for triple in triples:
        # Of colours that are nearly alike, the first is taken for all.
        key = bytes(part & 0xF8 for part in triple)
        colours[key] = colours.get(key, 0) + 1
    frequent = sorted(colours, key=lambda each: -colours[each])[:_COLOURS]
    nearest = {each: _nearest(each, frequent) for each in colours}
    places = [nearest[bytes(part & 0xF8 for part in triple)] for triple in triples]
    palette = [
        _mean([triple for triple, place in zip(triples, places, strict=True) if place == at])
        for at in range(len(frequent))
    ]
    rows = b"".join(b"\0" + bytes(places[at : at + width]) for at in range(0, width * height, width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _nearest(colour: bytes, others: list[bytes]) -> int:
    return min(range(len(others)), key=lambda at: sum((a - b) ** 2 for a, b in zip(colour, others[at], strict=True)))


def _mean(colours: list[bytes]) -> bytes:
    return bytes(sum(each[at] for each in colours) // len(colours) for at in range(3))


def _url(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"
