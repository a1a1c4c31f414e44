"""``game-operator sandbox``: the service, played on this machine until it is stopped."""

import os
import shlex
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.errors import STOP_SIGNALS, ExitCode, lost_output, on_signals
from game_operator.cli.options import ProfileFile, read_profile
from game_operator.cli.output import answer, remark, say, show_details
from game_operator_testkit.cli import command

if TYPE_CHECKING:
    from game_operator_testkit.cli.key_directory import KeyDirectory
    from game_operator_testkit.sandbox import Sandbox


@command
def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0,
    seed: int | None = None,
    url: str | None = None,
    operator_id: str = "acme",
    directory: Path | None = None,
    host: str = "127.0.0.1",
    allow_remote: bool = False,
    profile: ProfileFile = None,
    record: Path | None = None,
    public_key: Path | None = None,
) -> int:
    """
    Play the service on this machine until Ctrl-C or SIGTERM: the Operator API, and a control room in the browser.

    Games, bets and rounds are made up. With --url, rounds are played against your wallet. With --directory and --port,
    keys and address stay the same over a restart, so client and wallet keep working. With --public-key your client
    signs with a private key that the sandbox never sees.
    """
    from game_operator.client.settings import base_url_of
    from game_operator_testkit.cli.key_directory import key_directory
    from game_operator_testkit.control_room import ControlRoom
    from game_operator_testkit.sandbox import Sandbox

    stopped = threading.Event()
    with (
        on_signals(STOP_SIGNALS, lambda *_: stopped.set()),
        key_directory(directory, service_alone=public_key is not None) as keys,
    ):
        if url is not None:  # Better now than at the first round.
            url = base_url_of(url, allow_insecure_http=False, name="--url", example="http://127.0.0.1:8000/wallet")
        with Sandbox(
            operator_id,
            public_key or keys.public,
            url,
            service_private_key=keys.service_private,
            old_service_key=keys.service_old,
            key_keeper=keys,
            profile=read_profile(profile),
            control_room=partial(ControlRoom, service_key=keys.service_private),
            host=host,
            port=port,
            seed=seed,
            allow_remote=allow_remote,
            record=record,
        ) as running:
            _announce(running, keys, public_key)
            if lost := lost_output():
                return lost  # The address could not be printed.
            stopped.wait()
    remark("The sandbox has stopped.")
    return ExitCode.FINE


def _announce(running: "Sandbox", keys: "KeyDirectory", public_key: Path | None) -> None:
    private = None if public_key else str(keys.private)
    variables = {"GAME_OPERATOR_BASE_URL": running.base_url, "GAME_OPERATOR_ID": running.operator_id}
    variables |= {"GAME_OPERATOR_PRIVATE_KEY_FILE": private} if private else {}
    document: dict[str, object] = {
        "base_url": running.base_url,
        "operator_id": running.operator_id,
        "control_room": f"{running.base_url}/",
        "wallet": running.wallet_url,
        "private_key_file": private,
        "public_key_file": str(public_key or keys.public),
        "service_private_key_file": str(keys.service_private),
        "service_public_key_file": str(keys.service_public),
        "instance_id": running.instance_id,
        "bet_ids": dict(running.bet_ids),
        "round_id": running.round_id,
        "round_no": running.round_no,
        "environment": variables,
        "pid": os.getpid(),
    }
    answer(document)
    say(f"The sandbox serves at {running.base_url} until Ctrl-C. Paste this where your client runs:")
    for name, value in variables.items():
        say(f"export {name}={shlex.quote(value)}")
    if public_key:
        say(f"Set GAME_OPERATOR_PRIVATE_KEY_FILE to your private key: its public half is {public_key}.")
    say("")
    say("What there is to try:", style="bold")
    facts = [(name.replace("_", " "), value) for name, value in document.items() if isinstance(value, str | int)]
    show_details([*facts, *((f"bet {state}", bet_id) for state, bet_id in running.bet_ids.items())])
