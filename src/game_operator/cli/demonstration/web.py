"""``game-operator demo --web``: the control room over a wallet with players, until it is stopped."""

import threading
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from game_operator.cli.errors import ExitCode
from game_operator.cli.output import say, show_details, write_document
from game_operator.cli.running import wallet_running
from game_operator.cli.stopping import STOP_SIGNALS, on_signals
from game_operator.cli.streams import lost_output

__all__ = ["keep_open"]

_PLAYERS: Final = ("ann", "bob", "cleo")
#: What is on the pages from the start: player, wager and win in cents; None for a cancelled bet.
_PLAYED: Final = (("ann", 500, 1250), ("bob", 1000, 0), ("cleo", 250, 700), ("ann", 300, None), ("bob", 400, 0))


def keep_open(port: int, *, as_json: bool) -> int:
    """Serve the control room at *port* until Ctrl-C or SIGTERM, and return the exit code."""
    from game_operator.cli.keys import PUBLIC_MODE, write_new, write_pair
    from game_operator.control_room import ControlRoom
    from game_operator.ledger.sql import SqlLedger
    from game_operator.provider.keys import ServiceKeys, new_key
    from game_operator.sandbox.server import Sandbox

    stopped = threading.Event()
    with (
        on_signals(STOP_SIGNALS, lambda *_: stopped.set()),
        TemporaryDirectory(prefix="game-operator-demo-") as made,
    ):
        keys = write_pair(Path(made) / "service.pem", bits=2048)
        # The wallet knows it from the start, so that the key can be rotated once.
        following = new_key()
        next_public = Path(made) / "service-new.pub.pem"
        write_new(next_public, ServiceKeys(following).current.public_key_pem(), PUBLIC_MODE)
        with wallet_running(Path(made), "wallet", keys.public, next_public) as (wallet, database):
            with SqlLedger(database) as ledger:
                for player_id in _PLAYERS:
                    ledger.open_account(player_id, Decimal("1000.00"))
            with Sandbox(
                wallet_url=wallet["url"],
                service_private_key=keys.private,
                next_service_key=following,
                port=port,
                control_room=ControlRoom,
            ) as sandbox:
                for player_id, wager_cents, won_cents in _PLAYED:
                    sandbox.play_round(
                        player_id=player_id, wager_cents=wager_cents, won_cents=won_cents, cancel=won_cents is None
                    )
                _announce(f"{sandbox.base_url}/", wallet["url"], as_json=as_json)
                if lost := lost_output():
                    return ExitCode.READER_GONE if isinstance(lost, BrokenPipeError) else ExitCode.UNWRITABLE
                stopped.wait()
    if not as_json:
        say("Control room and wallet have stopped, their keys are gone.", error=True)
    return ExitCode.FINE


def _announce(room: str, wallet: str, *, as_json: bool) -> None:
    if as_json:
        write_document({"control_room": room, "wallet": wallet, "players": list(_PLAYERS)})
        return
    say(f"The control room is open at {room} until Ctrl-C.", style="bold")
    show_details([("wallet", wallet), ("players", ", ".join(f"{player_id} with 1000.00" for player_id in _PLAYERS))])
