"""``game-operator demo``: a tour of the service, a wallet and the commands; or an open control room to play in."""

import logging
import shlex
import signal
import sys
import threading
import time
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from game_operator.cli.errors import STOP_SIGNALS, ExitCode, lost_output, on_signals
from game_operator.cli.output import answer, remark, say, show_details
from game_operator_testkit.cli import command

_WEB_PLAYERS: Final = ("ann", "bob", "cleo")
#: What is on the pages from the start: player, wager and win in cents; None for a cancelled bet.
_WEB_ROUNDS: Final = (("ann", 500, 1250), ("bob", 1000, 0), ("cleo", 250, 700), ("ann", 300, None), ("bob", 400, 0))


@command
def demo(web: bool = False) -> int:
    """
    Show what the client can do, lost settlements that are repaired, 50 rounds with faults that end in agreement, and
    groups A, B and C of the certifier.

    Sandbox and wallet listen on this machine alone, every call goes over HTTP, and both stop with the demo. The exit
    code is 1 if a step went wrong.
    """
    # Refused calls are part of the story: without a handler their warnings would go to stderr.
    logging.getLogger("game_operator").addHandler(logging.NullHandler())
    with TemporaryDirectory(prefix="game-operator-demo-") as made:
        if web:
            return _keep_open(Path(made))
        # As Ctrl-C: through every ``finally``.
        with on_signals([signal.SIGTERM], lambda number, _: sys.exit(128 + number)):
            return _tour(Path(made))


def _tour(place: Path) -> int:
    from game_operator_testkit.cli import demo_tour

    started = time.monotonic()
    demo_tour.tour(place)
    seconds = time.monotonic() - started
    answer({"seconds": round(seconds, 2)})
    say(f"All of it worked, in {seconds:.1f} s. Sandbox and wallet have stopped, their keys are gone.", style="green")
    return ExitCode.FINE


def _keep_open(place: Path) -> int:
    """Serve the control room, with a wallet to play against, until Ctrl-C or SIGTERM."""
    from game_operator_testkit.cli.demo_tour import demo_service
    from game_operator_testkit.control_room import ControlRoom

    stopped = threading.Event()
    room_of = partial(ControlRoom, service_key=place / "service.pem")
    with (
        on_signals(STOP_SIGNALS, lambda *_: stopped.set()),
        demo_service(place, control_room=room_of) as (wallet, sandbox),
    ):
        for player_id in _WEB_PLAYERS:
            wallet.ledger.open_account(player_id, Decimal("1000.00"))
        for player_id, wager, won in _WEB_ROUNDS:
            sandbox.play_round(player_id=player_id, wager_cents=wager, won_cents=won, cancel=won is None)
        addresses = {"control_room": f"{sandbox.base_url}/", "wallet": wallet.url}
        variables = {
            "GAME_OPERATOR_BASE_URL": sandbox.base_url,
            "GAME_OPERATOR_ID": sandbox.operator_id,
            "GAME_OPERATOR_PRIVATE_KEY_FILE": str(place / "operator.pem"),
            "GAME_OPERATOR_DATABASE_URL": f"sqlite:///{place / 'wallet.db'}",
        }
        answer({**addresses, "players": list(_WEB_PLAYERS), "environment": variables})
        say("The control room is open until Ctrl-C.", style="bold")
        say(f"The players {', '.join(_WEB_PLAYERS)} were given 1000.00 each.")
        show_details((name.replace("_", " "), value) for name, value in addresses.items())
        say("For other commands, such as game-operator reconcile, paste this into another terminal:")
        for name, value in variables.items():
            say(f"export {name}={shlex.quote(value)}")
        if lost := lost_output():
            return lost
        stopped.wait()
    remark("Control room and wallet have stopped, their keys are gone.")
    return ExitCode.FINE
