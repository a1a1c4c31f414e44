"""What ``game-operator demo`` plays: a wallet, a service beside it, and commands against both."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

from game_operator.cli.output import say
from game_operator.errors import GameOperatorError
from game_operator.ledger import SqlLedger
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, WebhookRequest, asgi_app
from game_operator_testkit.cli.key_directory import key_directory
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.serving import ServingThread, listening_socket

_PLAYERS: Final = ("player-1", "tester-1", "tester-2")
#: Wager and win in cents of bets of which the last call is lost; None for a cancelled bet.
_LOST: Final = ((1_000, 2_500), (500, 0), (400, None))
#: The looks of a real reconciliation are a minute apart.
_REPAIR: Final = (
    "reconcile run --min-age 0s --second-look 1s --sample 1 --repair --max-bets 10 --max-total 100.00 --actor demo "
    "--reason 'an outage'"
)
_SHOWN_LINES: Final = 12
#: Variables of another service, and proxies, which do not reach this machine.
_IS_OTHERS: Final = re.compile("GAME_OPERATOR_|.*_proxy$", re.IGNORECASE)


class DemoWallet:
    """The ready wallet over an SQLite file, served at *url*, for the service that *sandbox* plays."""

    url: str
    sandbox: Sandbox

    def __init__(self, ledger: SqlLedger) -> None:
        self.ledger: SqlLedger = ledger

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        """Return if the service's key, or the next one, signed the body; else raise WebhookSignatureError."""
        # The keys of now: else every call would be refused after a switch on the page "Keys".
        public_pems = self.sandbox.service_public_key_pem, self.sandbox.prepared_service_key_pem
        RsaSignature([pem for pem in public_pems if pem]).authenticate(request, profile)


@contextmanager
def demo_service(place: Path, **settings: Any) -> Iterator[tuple[DemoWallet, Sandbox]]:  # Any: those of a Sandbox.
    """Serve a wallet whose ledger is in *place*, and a service with these *settings* that plays against it."""
    with key_directory(place) as keys, SqlLedger(f"sqlite:///{place / 'wallet.db'}") as ledger:
        wallet = DemoWallet(ledger)
        application = asgi_app(WebhookReceiver(authenticator=wallet), Wallet(ledger))
        server = ServingThread(listening_socket("127.0.0.1", 0, allow_remote=False), application, lambda: None)
        wallet.url = server.base_url
        try:
            with Sandbox(
                operator_public_key=keys.public,
                wallet_url=wallet.url,
                service_private_key=keys.service_private,
                key_keeper=keys,
                **settings,
            ) as wallet.sandbox:
                yield wallet, wallet.sandbox
        finally:
            server.stop()


def tour(place: Path) -> None:
    """
    Take all steps; the keys and the wallet's ledger are in *place*.

    Raises:
        GameOperatorError: A step went wrong.
    """
    with demo_service(place) as (wallet, sandbox):
        for player_id in _PLAYERS:
            wallet.ledger.open_account(player_id, Decimal("100.00"))
        run = partial(run_command, place, _environment_of(sandbox))
        instance = f"--instance {sandbox.instance_id}"
        run("The games of the service, which is simulated on this machine", "games")
        run("A bet", f"bet {sandbox.bet_ids['CLOSED']}")
        run("A round", f"round {instance} --id {sandbox.round_id}")
        grant = f"grant {instance} --player player-1 --count 5 --wager-cents 100 --expire-millis 86400000 --reference w"
        run("Free bets", grant)
        run("The same free bets once more, which the service refuses", grant, code=1)
        for wager_cents, won_cents in _LOST:
            sandbox.play_round(
                player_id="player-1",
                wager_cents=wager_cents,
                won_cents=won_cents,
                cancel=won_cents is None,
                settlement="lose",
            )
        run("Three bets of which the last call is lost, repaired", _REPAIR)
        at = f"{wallet.url} --service-private-key service.pem"
        run("50 rounds with every fault there is", f"storm --url {at} --players 20 --bets 141 --seed 4")
        run(
            "Groups A, B and C of the certifier", f"certify {at} --player tester-1 --other-player tester-2 --only A,B,C"
        )
        run("The books", "ledger verify")


def _environment_of(sandbox: Sandbox) -> dict[str, str]:
    """Return the environment of a command for the operator that *sandbox* knows, next to key and ledger."""
    inherited = {name: value for name, value in os.environ.items() if not _IS_OTHERS.match(name)}
    return inherited | {
        "GAME_OPERATOR_BASE_URL": sandbox.base_url,
        "GAME_OPERATOR_ID": sandbox.operator_id,
        "GAME_OPERATOR_PRIVATE_KEY_FILE": "operator.pem",
        "GAME_OPERATOR_DATABASE_URL": "sqlite:///wallet.db",
        "COLUMNS": str(shutil.get_terminal_size().columns - 3),
    }


def run_command(place: Path, environ: Mapping[str, str], title: str, line: str, *, code: int = 0) -> None:
    """Run ``game-operator`` in *place*, and show how its output begins; raise unless it ends with *code*."""
    say(title, style="bold")
    say(f"   $ game-operator {line}")
    words = [sys.executable, "-m", "game_operator.cli", *shlex.split(line)]
    ended = subprocess.run(  # noqa: S603 - the lines are ours
        words, cwd=place, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    lines = (ended.stdout + ended.stderr).splitlines()
    for each in lines[:_SHOWN_LINES]:
        say(f"   {each}")
    if lines[_SHOWN_LINES:]:
        say("   …")
    if ended.returncode != code:
        raise GameOperatorError(f"The command ended with exit code {ended.returncode}, not {code}.")
