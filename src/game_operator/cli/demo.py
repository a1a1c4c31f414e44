"""``game-operator demo``: client, wallet, and both under fire by the service, told as three short stories."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from game_operator.cli._failures import ExitCode
from game_operator.cli._options import AsJson
from game_operator.cli._output import say, waiting, write_document
from game_operator.cli._stopping import on_signals
from game_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from game_operator.cli._chapters import Chapter

__all__ = ["demo", "wallet_running"]

_START_SECONDS = 20.0
_STOP_SECONDS = 5.0
_CALLED = {"sandbox": "the sandbox", "serve": "the wallet"}


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
    Show what the client can do, what a wallet withstands, and 50 rounds with faults that end in agreement.

    Sandbox and wallet run in processes of their own, started for it and stopped afterwards, so every call goes over
    HTTP. The exit code is 1 if a step went wrong.
    """
    if web:
        from game_operator.cli._demo_web import keep_open

        return keep_open(port, as_json=as_json)
    started = time.monotonic()
    chapters: list[Chapter] = []
    with (
        # As Ctrl-C: through every ``finally``.
        on_signals([signal.SIGTERM], lambda number, _: sys.exit(128 + number)),
        TemporaryDirectory(prefix="game-operator-demo-") as made,
        closing(_stories(Path(made))) as stories,
    ):
        for chapter in stories:
            chapters.append(chapter)
            if not as_json:
                _tell(len(chapters), chapter)
    return _end(chapters, time.monotonic() - started, as_json=as_json)


def _stories(place: Path) -> "Generator[Chapter]":
    """Yield the chapters of all stories, up to the first one with a problem."""
    for story in (_client_story, _wallet_story, _rounds_story):
        for chapter in story(place):
            yield chapter
            if chapter.problem:
                return


def _client_story(place: Path) -> "Iterator[Chapter]":
    from game_operator.cli._keys import write_pair
    from game_operator.cli._story import told

    keys = write_pair(place / "operator.pem", bits=2048)
    with _running("sandbox", "--directory", str(place)) as service:
        yield from told(keys, service)


def _wallet_story(place: Path) -> "Iterator[Chapter]":
    from game_operator.cli._keys import write_pair
    from game_operator.cli._wallet_story import told_of_wallet

    keys = write_pair(place / "provider.pem", bits=2048)
    with wallet_running(place, "wallet", keys.public) as (wallet, database):
        yield from told_of_wallet(keys, wallet, database, place / "wallet.log")


def _rounds_story(place: Path) -> "Iterator[Chapter]":
    from game_operator.cli._keys import write_pair
    from game_operator.cli._rounds_story import told_of_rounds

    keys = write_pair(place / "dealer.pem", bits=2048)
    with wallet_running(place, "casino", keys.public) as (wallet, database):
        yield from told_of_rounds(keys.private, wallet, database)


@contextmanager
def wallet_running(place: Path, name: str, *service_keys: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Run a wallet over an SQLite file in *place*, and yield what it says about itself, and its database."""
    database, log = f"sqlite:///{place / name}.db", place / f"{name}.log"
    known = [word for key in service_keys for word in ("--service-key", str(key))]
    options = ("--port", "0", "--database", database, *known)
    with log.open("wb") as standard_error, _running("serve", *options, log=standard_error) as wallet:
        yield wallet, database


@contextmanager
def _running(name: str, *options: str, log: IO[bytes] | None = None) -> Iterator[dict[str, Any]]:
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


def _tell(number: int, chapter: "Chapter") -> None:
    say(f"{number}. {chapter.title}", style="bold")
    for line in chapter.lines:
        say(f"   {line}")
    if chapter.problem:
        say(f"   ✗ {chapter.problem}", style="red")


def _end(chapters: "list[Chapter]", seconds: float, *, as_json: bool) -> ExitCode:
    fine = not any(chapter.problem for chapter in chapters)
    if as_json:
        steps = [{"title": chapter.title, "lines": chapter.lines, "problem": chapter.problem} for chapter in chapters]
        write_document({"ok": fine, "seconds": round(seconds, 2), "steps": steps})
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
