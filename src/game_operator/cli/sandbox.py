"""``game-operator sandbox``: the service, played on this machine until it is stopped."""

import os
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli._failures import ExitCode
from game_operator.cli._options import PASSPHRASE, AsJson
from game_operator.cli._output import say, show_details, write_document
from game_operator.cli._stopping import STOP_SIGNALS, on_signals, when_stdin_ends
from game_operator.cli._stream import lost_output
from game_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from game_operator.sandbox import Sandbox

__all__ = ["sandbox"]

_KEY_NAME = "operator.pem"


def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen on 127.0.0.1; 0 takes a free port.")] = 0,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same games, bets and rounds.")] = None,
    operator_id: Annotated[str, typer.Option(help="The operator that is registered.")] = "acme",
    directory: Annotated[
        Path | None,
        typer.Option(help="Where the operator's keys are, or are put; else a new one that goes with the sandbox."),
    ] = None,
    stop_with_stdin: Annotated[bool, typer.Option("--stop-with-stdin", hidden=True)] = False,
    as_json: AsJson = False,
) -> int:
    """
    Serve the Operator API on this machine, with made-up games and bets, until Ctrl-C or SIGTERM.

    Keys that lie in --directory are used again, so a client keeps working over a restart.
    """
    stopped = threading.Event()
    if stop_with_stdin:
        # Who started us holds the other end, and lets go of it even when it is killed.
        when_stdin_ends(stopped.set)
    with on_signals(STOP_SIGNALS, lambda *_: stopped.set()), _directory(directory) as place:
        private, public = _keys_in(place)
        with _sandbox(operator_id, public, port, seed) as running:
            _announce(running, private, public, as_json=as_json)
            if lost := lost_output():
                # Nobody was told where it serves.
                return ExitCode.READER_GONE if isinstance(lost, BrokenPipeError) else ExitCode.UNWRITABLE
            stopped.wait()
    if not as_json:
        say("The sandbox has stopped.", error=True)
    return ExitCode.FINE


def _sandbox(operator_id: str, public: Path, port: int, seed: int | None) -> "Sandbox":
    try:
        from game_operator.sandbox import Sandbox
    except ImportError as missing:
        problem = str(missing)
    else:
        return Sandbox(operator_id=operator_id, operator_public_key=public, port=port, seed=seed)
    raise ConfigurationError(problem)


@contextmanager
def _directory(given: Path | None) -> Iterator[Path]:
    if given is None:
        with TemporaryDirectory(prefix="game-operator-sandbox-") as made:
            yield Path(made)
        return
    try:
        given.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as failed:
        raise ConfigurationError(f"{given} cannot be used as a directory: {failed.strerror}.") from None
    yield given


def _keys_in(place: Path) -> tuple[Path, Path]:
    """Return the files of the operator's private and public key in *place*, made if they are not there yet."""
    from game_operator.cli._keys import public_path, write_pair, write_public_of

    private = place.absolute() / _KEY_NAME
    public = public_path(private)
    if not private.exists():
        write_pair(private, bits=2048)
    elif not public.exists():
        write_public_of(private, os.environ.get(PASSPHRASE))
    return private, public


def _announce(running: "Sandbox", private: Path, public: Path, *, as_json: bool) -> None:
    variables = {
        "GAME_OPERATOR_BASE_URL": running.base_url,
        "GAME_OPERATOR_ID": running.operator_id,
        "GAME_OPERATOR_PRIVATE_KEY_FILE": str(private),
    }
    if as_json:
        document = {
            "base_url": running.base_url,
            "operator_id": running.operator_id,
            "private_key_file": str(private),
            "public_key_file": str(public),
            "instance_id": running.instance_id,
            "bet_ids": dict(running.bet_ids),
            "round_id": running.round_id,
            "round_no": running.round_no,
            "environment": variables,
            "pid": os.getpid(),
        }
        write_document(document)
        return
    say(f"The sandbox serves at {running.base_url} until Ctrl-C. Paste this where your client runs:")
    for name, value in variables.items():
        say(f"export {name}={shlex.quote(value)}")
    known = [(f"bet {state}", bet_id) for state, bet_id in running.bet_ids.items()]
    rounds = [("round", running.round_id), ("its number", running.round_no)]
    say("What there is to ask about, besides the games:")
    show_details([("instance", running.instance_id), *known, *rounds, ("public key", public)])
