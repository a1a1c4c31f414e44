"""Control rooms over wallets behind real HTTP, and a client that is no browser."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from wallet_by_hand import PlainWallet

from game_operator.webhooks import RsaSignature, WebhookHandler, WebhookReceiver, asgi_app
from game_operator.webhooks.authenticators import Authenticator
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.provider.keys import private_pem
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.certifier.serving import served
from testkit.tests.control_room.support import EVIL, Html, page, post
from tests.support.servers import asgi_server

PAGE = "/runs"
OPENING_CENTS = 100_000
#: The forms of two quick runs.
CERTIFICATION = {"kind": "certification", "player_id": "ann", "other_player_id": "bob", "only": "A02,B01"}
STORM = {"kind": "storm", "bets": "30", "players": "ann\r\nbob", "faults": "none"}


def polled(html: Html) -> list[str]:
    """Return what a page asks for again and again, beside the status bar of every page."""
    return [place for place in html.values("hx-get") if not place.startswith("/status")]


@dataclass
class Room:
    """A sandbox with its pages, and a client that is no browser."""

    sandbox: Sandbox
    http: httpx.Client

    def begin(self, form: dict[str, str]) -> None:
        """Begin a run."""
        response = post(self.http, f"{PAGE}/begin", **form)
        assert response.status_code == 303, response.text

    def ended(self) -> Html:
        """Return the page once the run is over."""
        for _ in range(600):
            html = page(self.http, PAGE)
            if polled(html) == []:
                return html
            time.sleep(0.05)
        raise AssertionError(html.text)

    def run(self, form: dict[str, str]) -> Html:
        """Begin a run, and return the page once it is over."""
        self.begin(form)
        return self.ended()


@contextmanager
def room_with(
    key: RSAPrivateKey, wallet: WebhookHandler | None = None, knows: Authenticator | None = None, **options: Any
) -> Iterator[Room]:  # Any: arguments of Sandbox.
    """Serve a control room whose operator and service have *key*, and *wallet*, which takes calls that it *knows*."""
    usual: dict[str, Any] = {"control_room": ControlRoom}
    with (
        Sandbox(operator_public_key=key.public_key(), service_private_key=key, **usual | options) as sandbox,
        httpx.Client(base_url=sandbox.base_url, trust_env=False, verify=False, timeout=20) as http,
        ExitStack() as stack,
    ):
        if wallet is not None:
            receiver = WebhookReceiver(authenticator=knows or RsaSignature(key.public_key()))
            port = stack.enter_context(asgi_server(asgi_app(receiver, wallet)))
            sandbox.wallet_url = f"http://127.0.0.1:{port}"
        yield Room(sandbox, http)


@contextmanager
def room_at(url: str | None, key: RSAPrivateKey) -> Iterator[Room]:
    """Serve a control room with the wallet at *url*, and the service's *key* in a file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "service.pem"
        file.write_bytes(private_pem(key))
        with room_with(key, wallet_url=url, control_room=partial(ControlRoom, service_key=file)) as room:
            yield room


@contextmanager
def room_over(kind: type[PlainWallet], key: RSAPrivateKey) -> Iterator[Room]:
    """Serve a wallet by hand of this *kind* with four players, who have reported what they have, and a control room."""
    wallet = kind([key.public_key()])
    for player_id in ("ann", "bob", "cleo", EVIL):
        wallet.open_account(player_id, OPENING_CENTS)
    wallet.open_account("poor", 500)
    with served(wallet) as url, room_at(url, key) as room:
        yield room
