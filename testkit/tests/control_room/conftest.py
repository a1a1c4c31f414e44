"""A sandbox with its control room, a wallet for it to call, and Chromium; one of each for all these tests."""

from collections.abc import Iterator
from decimal import Decimal
from threading import Event

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from playwright.sync_api import Browser
from wallet_by_hand import Case, PlainWallet

from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.running import Room, room_over, room_with
from testkit.tests.control_room.support import EVIL
from tests.support.browser import chromium
from tests.support.servers import asgi_server


@pytest.fixture(scope="package")
def ledger() -> MemoryLedger:
    """The wallet's ledger: two players have money, and one of them an evil name."""
    ledger = MemoryLedger()
    for player_id in ("p1", EVIL):
        ledger.open_account(player_id, Decimal(1_000_000))
    ledger.open_account("poor", Decimal(1))
    return ledger


@pytest.fixture(scope="package")
def wallet_url(ledger: MemoryLedger, public_key: RSAPublicKey) -> Iterator[str]:
    """Where the wallet listens."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key))
    with asgi_server(asgi_app(receiver, Wallet(ledger), prefix="/wallet")) as port:
        yield f"http://127.0.0.1:{port}/wallet"


@pytest.fixture(scope="package")
def sandbox(wallet_url: str, private_key: RSAPrivateKey, public_key: RSAPublicKey) -> Iterator[Sandbox]:
    """A sandbox with a control room and a wallet."""
    with Sandbox(
        operator_public_key=public_key, wallet_url=wallet_url, service_private_key=private_key, control_room=ControlRoom
    ) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def http(sandbox: Sandbox) -> Iterator[httpx.Client]:
    """A client that is no browser: it sends no Origin, and follows no redirect."""
    with httpx.Client(base_url=sandbox.base_url, trust_env=False, verify=False, timeout=20) as http:
        yield http


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium. Tests beside these must run no event loop in their own thread."""
    with chromium() as browser:
        yield browser


class Gate:
    """Lets the wallet of ``waiting`` answer once it is open; it is reached by the first call that waits."""

    def __init__(self) -> None:
        self.reached, self.opened = Event(), Event()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def waiting(private_key: RSAPrivateKey, gate: Gate) -> Iterator[Room]:
    """A control room over a wallet whose withdraws wait for the gate."""

    class Waits(PlainWallet):
        def _withdraw(self, case: Case) -> str:
            gate.reached.set()
            gate.opened.wait(20)
            return super()._withdraw(case)

    with room_over(Waits, private_key) as room:
        yield room


@pytest.fixture
def home(private_key: RSAPrivateKey) -> Iterator[Room]:
    """A control room whose log has nothing but what a test puts there."""
    with room_with(private_key) as room:
        yield room


@pytest.fixture
def own(home: Room) -> Sandbox:
    """The sandbox of ``home``."""
    return home.sandbox


@pytest.fixture
def at_home(home: Room) -> httpx.Client:
    """The client of ``home``."""
    return home.http
