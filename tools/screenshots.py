"""
Take pictures of the control room in the system's Chromium, over a wallet on loopback.

    python tools/screenshots.py      draws those in docs/images
"""

import sys
from base64 import b64decode, b64encode
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import httpx
from playwright.sync_api import Page
from wallet_by_hand import serve

from game_operator.ledger import SqlLedger
from game_operator.signers.keys import load_public_key
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, wsgi_app
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.provider.keys import new_key, private_pem
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.certifier.wrong_wallets.repeats import DebitsEachTime
from testkit.tests.control_room.running import CERTIFICATION, Room
from tests.support.browser import chromium
from tests.support.servers import wsgi_server

_FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
_WIDTH, _HEIGHT = 1280, 800
#: Name of the picture, page, and light or dark.
_PICTURES = (
    ("lobby", "", "light"),
    ("live", "live", "dark"),
    ("bets", "bets", "light"),
    ("faults", "faults", "light"),
    ("wallet", "wallet", "light"),
    ("runs", "runs", "light"),
)


#: Draws a picture and returns it as WebP in Base64: a page with five of them stays below 500 kB.
_DRAW = """
async (png) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", 0.7).split(",")[1];
}
"""


def _play(sandbox: Sandbox, ledger: SqlLedger) -> None:
    """Fill the pages: wins and losses, a cancelled bet, faults, and a balance that somebody changed behind our back."""
    for player_id in ("ann", "bob", "cleo"):
        ledger.open_account(player_id, Decimal("100.00"))
    for player_id, wager_cents, won_cents in (("ann", 500, 1250), ("bob", 1000, 0), ("cleo", 250, 700)) * 2:
        sandbox.play_round(player_id=player_id, wager_cents=wager_cents, won_cents=won_cents)
    sandbox.play_round(player_id="bob", wager_cents=300, cancel=True)
    sandbox.faults.set_nth("reply-lost", 1)
    sandbox.faults.set_nth("forged", 2)
    sandbox.play_round(player_id="ann", wager_cents=400, won_cents=900)
    sandbox.play_round(player_id="bob", wager_cents=10_000)
    ledger.adjust("cleo", Decimal("7.00"), reference="by hand")
    sandbox.play_round(player_id="cleo", wager_cents=200, won_cents=0)
    sandbox.faults.set("duplicate", 0.1)
    sandbox.faults.set("slow", 0.05)


def _certify(sandbox: Sandbox) -> None:
    """Certify a wallet that is wrong, by the form of the page."""
    wallet = DebitsEachTime([load_public_key(sandbox.service_public_key_pem)])
    for player_id in ("ann", "bob"):
        wallet.open_account(player_id, 10_000)
    server = serve(wallet)
    url, sandbox.wallet_url = sandbox.wallet_url, f"http://127.0.0.1:{server.server_port}"
    with httpx.Client(base_url=sandbox.base_url, trust_env=False) as http:
        Room(sandbox, http).run(CERTIFICATION | {"only": "A,B"})
    sandbox.wallet_url = url
    server.shutdown()
    server.server_close()


def _as_webp(view: Page, picture: bytes) -> bytes:
    """Return *picture*, a PNG file, as WebP; an empty page draws it, because the control room's own forbid that."""
    view.goto("about:blank")
    return b64decode(view.evaluate(_DRAW, b64encode(picture).decode()))


def main() -> None:
    """Write the pictures of the docs."""
    _FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        key = Path(folder) / "service.pem"
        key.write_bytes(private_pem(new_key()))
        _draw(Path(folder), key)


def _draw(folder: Path, key: Path) -> None:
    with (
        SqlLedger(f"sqlite:///{folder}/wallet.db") as ledger,
        Sandbox(service_private_key=key, control_room=partial(ControlRoom, service_key=key)) as sandbox,
        chromium() as browser,
    ):
        receiver = WebhookReceiver(authenticator=RsaSignature(sandbox.service_public_key_pem))
        with wsgi_server(wsgi_app(receiver, Wallet(ledger))) as port:
            sandbox.wallet_url = f"http://127.0.0.1:{port}"
            _play(sandbox, ledger)
            _certify(sandbox)
            for name, page, scheme in _PICTURES:
                view = browser.new_page(
                    color_scheme="dark" if scheme == "dark" else "light",
                    viewport={"width": _WIDTH, "height": _HEIGHT},
                    reduced_motion="reduce",
                )
                view.goto(f"{sandbox.base_url}/{page}")
                view.wait_for_timeout(500)
                picture = view.screenshot()
                (_FOLDER / f"control-room-{name}.webp").write_bytes(_as_webp(view, picture))
                view.close()


if __name__ == "__main__":
    main()
