"""A sandbox with something on every page, furnished always in the same way."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import httpx

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
from testkit.tests.control_room.running import CERTIFICATION, Room

_NAVIGATION: Final = {each.TITLE.lower().replace(" ", "-"): each.PATH for each in PAGES}
#: The pages of the navigation, and those that they lead to.
NAMES: Final = (
    *_NAVIGATION,
    *("open-bet", "bet", "round", "exchange", "two-calls", "refused"),
)
#: An id that turns the text behind it around, unless it is isolated.
TURNING: Final = "evil\u202enalp"
#: 2026-01-05, 10:00 UTC: the service's clock stands still.
_NOW_MILLIS: Final = 1_767_607_200_000


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
