"""``game-operator demo``: client, wallet, both with faults between them, and a certification, in four parts."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from game_operator.cli.errors import ExitCode, lost_output
from game_operator.cli.options import AsJson
from game_operator.cli.output import say, show_details, waiting, write_document
from game_operator.cli.process import STOP_SIGNALS, on_signals
from game_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from game_operator.cli.commands.demo_parts import Show

_START_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 5.0
_SERVERS: Final = {"sandbox": "the sandbox", "serve": "the wallet"}

_WEB_PLAYERS: Final = ("ann", "bob", "cleo")
#: What is on the pages from the start: player, wager and win in cents; None for a cancelled bet.
_WEB_ROUNDS: Final = (("ann", 500, 1250), ("bob", 1000, 0), ("cleo", 250, 700), ("ann", 300, None), ("bob", 400, 0))


def demo(
    web: Annotated[
        bool, typer.Option("--web", help="Keep the control room open in the browser, with a wallet to play against.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --web: where the control room listens; 0 takes a free port.")
    ] = 0,
    as_json: AsJson = False,
) -> int:
    """
    Show what the client can do, what a wallet withstands, 50 rounds with faults that end in agreement, and a wallet
    that is certified.

    Sandbox and wallet run in their own processes, which stop with the demo, so every call goes over HTTP. The exit
    code is 1 if a step went wrong.
    """
    if web:
        return _keep_open(port, as_json=as_json)
    if port:
        raise typer.BadParameter("--port is where the control room listens. Pass --web as well.")
    from game_operator.cli.commands.demo_parts import Show

    started = time.monotonic()
    show = Show(silent=as_json)
    with (
        # As Ctrl-C: through every ``finally``.
        on_signals([signal.SIGTERM], lambda number, _: sys.exit(128 + number)),
        TemporaryDirectory(prefix="game-operator-demo-") as made,
    ):
        fine = _play(show, Path(made))
    seconds = time.monotonic() - started
    if as_json:
        write_document({"ok": fine, "seconds": round(seconds, 2), "steps": show.steps})
    elif fine:
        say(
            f"All of it worked, in {seconds:.1f} s. Sandbox and wallet have stopped, their keys are gone.",
            style="green",
        )
        if (command := Path(sys.argv[0])).name == "game-operator" and not shutil.which("game-operator"):
            say(f"The command is {command}.")
    else:
        say("The demo went wrong at the step marked with ✗.", style="red", error=True)
    return ExitCode.FINE if fine else ExitCode.SAID_NO


def _play(show: "Show", place: Path) -> bool:
    """Play the four parts, up to the first one that goes wrong; return whether none did."""
    from game_operator.cli.commands import demo_parts as parts
    from game_operator.cli.keys import write_pair

    keys = write_pair(place / "operator.pem", bits=2048)
    with running("sandbox", "--directory", str(place)) as service:
        if not show.play(parts.play_client, keys, service):
            return False
    keys = write_pair(place / "provider.pem", bits=2048)
    with wallet_running(place, keys.public) as (wallet, database):
        return (
            show.play(parts.play_wallet, keys, wallet, database, place / "wallet.log")
            and show.play(parts.play_rounds, keys, wallet, database)
            and show.play(parts.play_certification, keys, wallet, database)
        )


@contextmanager
def wallet_running(place: Path, *service_keys: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Run a wallet over an SQLite file in *place*, and yield what it prints about itself, and its database."""
    database = f"sqlite:///{place / 'wallet'}.db"
    known = [word for key in service_keys for word in ("--service-key", str(key))]
    with (
        (place / "wallet.log").open("wb") as log,
        running("serve", "--port", "0", "--database", database, *known, log=log) as wallet,
    ):
        yield wallet, database


@contextmanager
def running(name: str, *options: str, log: IO[bytes] | None = None) -> Iterator[dict[str, Any]]:
    """Run the command *name*, which serves until it is stopped, and yield what it prints about itself."""
    # Our end of its stdin closes however we end, even killed, and that stops it.
    command = [sys.executable, "-m", "game_operator.cli", name, "--json", *options, "--stop-with-stdin"]
    child = subprocess.Popen(  # noqa: S603 - our own command, and paths that we have just made
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    )
    try:
        with waiting(f"Starting {_SERVERS[name]} …"):
            service = _announced(name, child)
        yield service | {"pid": child.pid}
    finally:
        child.terminate()
        try:
            child.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()


def _announced(name: str, child: "subprocess.Popen[str]") -> dict[str, Any]:
    too_late = threading.Timer(_START_SECONDS, child.kill)
    too_late.start()
    assert child.stdout is not None
    line = child.stdout.readline()
    too_late.cancel()
    problem = f"{_SERVERS[name].capitalize()} did not start"
    if not line:
        raise ConfigurationError(f"{problem}. Run `game-operator {name}` to see why.")
    document: dict[str, Any] = json.loads(line)
    if "error" in document:
        raise ConfigurationError(f"{problem}: {document['error']['message']}")
    return document


def _keep_open(port: int, *, as_json: bool) -> int:
    """Serve the control room at *port*, with a wallet to play against, until Ctrl-C or SIGTERM."""
    from game_operator.cli.files import PUBLIC_MODE, write_new
    from game_operator.cli.keys import write_pair
    from game_operator.control_room import ControlRoom
    from game_operator.ledger import SqlLedger
    from game_operator.provider.keys import ServiceKeys, new_key
    from game_operator.sandbox import Sandbox

    stopped = threading.Event()
    with (
        on_signals(STOP_SIGNALS, lambda *_: stopped.set()),
        TemporaryDirectory(prefix="game-operator-demo-") as made,
    ):
        keys = write_pair(Path(made) / "service.pem", bits=2048)
        # The wallet knows the next key from the start, so that the key can be rotated once.
        following = new_key()
        next_public = Path(made) / "service-new.pub.pem"
        write_new(next_public, ServiceKeys(following).current.public_key_pem(), PUBLIC_MODE)
        with wallet_running(Path(made), keys.public, next_public) as (wallet, database):
            with SqlLedger(database) as ledger:
                for player_id in _WEB_PLAYERS:
                    ledger.open_account(player_id, Decimal("1000.00"))
            with Sandbox(
                wallet_url=wallet["url"],
                service_private_key=keys.private,
                next_service_key=following,
                port=port,
                control_room=ControlRoom,
            ) as sandbox:
                for player_id, wager, won in _WEB_ROUNDS:
                    sandbox.play_round(player_id=player_id, wager_cents=wager, won_cents=won, cancel=won is None)
                room = f"{sandbox.base_url}/"
                if as_json:
                    write_document({"control_room": room, "wallet": wallet["url"], "players": list(_WEB_PLAYERS)})
                else:
                    say(f"The control room is open at {room} until Ctrl-C.", style="bold")
                    players = ", ".join(f"{player_id} with 1000.00" for player_id in _WEB_PLAYERS)
                    show_details([("wallet", wallet["url"]), ("players", players)])
                if lost := lost_output():
                    return lost
                stopped.wait()
    if not as_json:
        say("Control room and wallet have stopped, their keys are gone.", error=True)
    return ExitCode.FINE
