"""The commands that a demo starts in processes of their own, and stops again."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import IO, Any

from game_operator.cli.output import waiting
from game_operator.errors import ConfigurationError

__all__ = ["running", "wallet_running"]

_START_SECONDS = 20.0
_STOP_SECONDS = 5.0
_CALLED = {"sandbox": "the sandbox", "serve": "the wallet"}


@contextmanager
def wallet_running(place: Path, name: str, *service_keys: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Run a wallet over an SQLite file in *place*, and yield what it says about itself, and its database."""
    database, log = f"sqlite:///{place / name}.db", place / f"{name}.log"
    known = [word for key in service_keys for word in ("--service-key", str(key))]
    options = ("--port", "0", "--database", database, *known)
    with log.open("wb") as standard_error, running("serve", *options, log=standard_error) as wallet:
        yield wallet, database


@contextmanager
def running(name: str, *options: str, log: IO[bytes] | None = None) -> Iterator[dict[str, Any]]:
    """Run the command *name*, which serves until it is stopped, and yield what it says about itself."""
    command = [sys.executable, "-m", "game_operator.cli", name, "--json", *options]
    # Our end of its stdin closes however we end, even killed, and that stops it.
    child = subprocess.Popen(  # noqa: S603 - our own command, and paths that we have just made
        [*command, "--stop-with-stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    )
    try:
        with waiting(f"Starting {_CALLED[name]} …"):
            service = _announced(name, child)
        yield service | {"pid": child.pid}
    finally:
        _end_child(child)


def _announced(name: str, child: "subprocess.Popen[str]") -> dict[str, Any]:
    too_late = Timer(_START_SECONDS, child.kill)
    too_late.start()
    assert child.stdout is not None
    line = child.stdout.readline()
    too_late.cancel()
    problem = f"{_CALLED[name].capitalize()} did not start"
    if not line:
        raise ConfigurationError(f"{problem}. Run `game-operator {name}` to see why.")
    document: dict[str, Any] = json.loads(line)
    if "error" in document:
        raise ConfigurationError(f"{problem}: {document['error']['message']}")
    return document


def _end_child(child: "subprocess.Popen[str]") -> None:
    child.terminate()
    try:
        child.communicate(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
