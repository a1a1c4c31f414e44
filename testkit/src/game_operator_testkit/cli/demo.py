"""
``game-operator demo``: a tour of client, wallet, faults, certification and the day after; or an open control room to
play in.
"""

import logging
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from game_operator.cli.errors import STOP_SIGNALS, ExitCode, lost_output, on_signals
from game_operator.cli.output import SECRET_MODE, answer, remark, say, show_details
from game_operator.errors import GameOperatorError
from game_operator_testkit.cli import command

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_WEB_PLAYERS: Final = ("ann", "bob", "cleo")
#: What is on the pages from the start: player, wager and win in cents; None for a cancelled bet.
_WEB_ROUNDS: Final = (("ann", 500, 1250), ("bob", 1000, 0), ("cleo", 250, 700), ("ann", 300, None), ("bob", 400, 0))


@command
def demo(web: bool = False, port: Annotated[int, typer.Option(min=0, max=65535)] = 0) -> int:
    """
    Show what the client can do, what a wallet withstands, 50 rounds with faults that end in agreement, a wallet that
    is certified, lost settlements that are repaired, and a campaign that is interrupted.

    Sandbox and wallet listen on this machine alone, every call goes over HTTP, and both stop with the demo. The exit
    code is 1 if a step went wrong.
    """
    if port and not web:
        raise typer.BadParameter("--port is where the control room listens. Pass --web as well.")
    # Refused calls are part of the story: without a handler their warnings would go to stderr.
    logging.getLogger("game_operator").addHandler(logging.NullHandler())
    with TemporaryDirectory(prefix="game-operator-demo-") as made:
        if web:
            return _keep_open(Path(made), port)
        # As Ctrl-C: through every ``finally``.
        with on_signals([signal.SIGTERM], lambda number, _: sys.exit(128 + number)):
            return _tour(Path(made))


def _tour(place: Path) -> int:
    """Take all steps, up to the first one that goes wrong."""
    from game_operator_testkit.cli import demo_tour

    started = time.monotonic()
    with closing(demo_tour.tour(place)) as lines:
        steps = shown_steps(lines)
    fine, seconds = not steps[-1]["problem"], time.monotonic() - started
    answer({"ok": fine, "seconds": round(seconds, 2), "steps": steps})
    if fine:
        say(
            f"All of it worked, in {seconds:.1f} s. Sandbox and wallet have stopped, their keys are gone.",
            style="green",
        )
        if (command := Path(sys.argv[0])).name == "game-operator" and not shutil.which("game-operator"):
            say(f"The command is {command}.")
    else:
        remark("The demo went wrong at the step marked with ✗.", style="red")
    return ExitCode.FINE if fine else ExitCode.SAID_NO


def shown_steps(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Print *lines* as they come, and return the steps; only the last one may have a problem."""
    steps: list[dict[str, Any]] = []
    try:
        for line in lines:
            if line.startswith(" "):
                steps[-1]["lines"].append(line.strip())
                say(f"   {line.strip()}")
            else:
                steps.append({"title": line, "lines": [], "problem": ""})
                say(f"{len(steps)}. {line}", style="bold")
    except GameOperatorError as wrong:
        steps[-1]["problem"] = str(wrong)
        say(f"   ✗ {wrong}", style="red")
    return steps


def _keep_open(place: Path, port: int) -> int:
    """Serve the control room at *port*, with a wallet to play against, until Ctrl-C or SIGTERM."""
    from game_operator_testkit.cli.demo_tour import wallet_server
    from game_operator_testkit.cli.key_directory import key_directory
    from game_operator_testkit.control_room import ControlRoom
    from game_operator_testkit.sandbox import Sandbox

    stopped = threading.Event()
    with (
        on_signals(STOP_SIGNALS, lambda *_: stopped.set()),
        wallet_server(place) as wallet,
        key_directory(_with_key(place, wallet.service_key)) as keys,
        Sandbox(
            operator_public_key=keys.public,
            wallet_url=wallet.url,
            service_private_key=keys.service_private,
            key_keeper=keys,
            # Else the wallet would refuse every call after a rotation on the page "Keys".
            teach_wallet=wallet.teach,
            port=port,
            control_room=partial(ControlRoom, service_key=keys.service_private),
        ) as sandbox,
    ):
        for player_id in _WEB_PLAYERS:
            wallet.ledger.open_account(player_id, Decimal("1000.00"))
        for player_id, wager, won in _WEB_ROUNDS:
            sandbox.play_round(player_id=player_id, wager_cents=wager, won_cents=won, cancel=won is None)
        room = f"{sandbox.base_url}/"
        files = {"database": wallet.database, "private_key_file": str(keys.private)}
        answer({"control_room": room, "wallet": wallet.url, "players": list(_WEB_PLAYERS), **files})
        say(f"The control room is open at {room} until Ctrl-C.", style="bold")
        players = ", ".join(f"{player_id} with 1000.00" for player_id in _WEB_PLAYERS)
        ledger = [("wallet's ledger (for reconcile)", wallet.database), ("operator's private key", keys.private)]
        show_details([("wallet", wallet.url), ("players", players), *ledger])
        if lost := lost_output():
            return lost
        stopped.wait()
    remark("Control room and wallet have stopped, their keys are gone.")
    return ExitCode.FINE


def _with_key(place: Path, service_key: "RSAPrivateKey") -> Path:
    """Return a directory of keys in *place* in which the service has *service_key*."""
    from game_operator.cli.keys import write_new
    from game_operator_testkit.provider.keys import private_pem

    write_new(place / "service.pem", private_pem(service_key), SECRET_MODE)
    return place
