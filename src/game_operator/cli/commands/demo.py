"""``game-operator demo``: client, wallet, both under fire by the service, and certified, told as four short stories."""

import shutil
import signal
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.errors import ExitCode
from game_operator.cli.options import AsJson
from game_operator.cli.output import say, write_document
from game_operator.cli.running import running, wallet_running
from game_operator.cli.stopping import on_signals

if TYPE_CHECKING:
    from game_operator.cli.demonstration.chapters import Chapter

__all__ = ["demo"]


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

    Sandbox and wallet run in processes of their own, started for it and stopped afterwards, so every call goes over
    HTTP. The exit code is 1 if a step went wrong.
    """
    if web:
        from game_operator.cli.demonstration.web import keep_open

        return keep_open(port, as_json=as_json)
    if port:
        raise typer.BadParameter("--port is where the control room listens. Pass --web as well.")
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
    for story in (_client_story, _wallet_story, _rounds_story, _certify_story):
        for chapter in story(place):
            yield chapter
            if chapter.problem:
                return


def _client_story(place: Path) -> "Iterator[Chapter]":
    from game_operator.cli.demonstration.client_story import told
    from game_operator.cli.keys import write_pair

    keys = write_pair(place / "operator.pem", bits=2048)
    with running("sandbox", "--directory", str(place)) as service:
        yield from told(keys, service)


def _wallet_story(place: Path) -> "Iterator[Chapter]":
    from game_operator.cli.demonstration.wallet_story import told_of_wallet
    from game_operator.cli.keys import write_pair

    keys = write_pair(place / "provider.pem", bits=2048)
    with wallet_running(place, "wallet", keys.public) as (wallet, database):
        yield from told_of_wallet(keys, wallet, database, place / "wallet.log")


def _rounds_story(place: Path) -> "Iterator[Chapter]":
    from game_operator.cli.demonstration.rounds_story import told_of_rounds
    from game_operator.cli.keys import write_pair

    keys = write_pair(place / "dealer.pem", bits=2048)
    with wallet_running(place, "casino", keys.public) as (wallet, database):
        yield from told_of_rounds(keys.private, wallet, database)


def _certify_story(place: Path) -> "Iterator[Chapter]":
    from game_operator.cli.demonstration.certify_story import told_of_certification
    from game_operator.cli.keys import write_pair

    keys = write_pair(place / "certifier.pem", bits=2048)
    with wallet_running(place, "certified", keys.public) as (wallet, database):
        yield from told_of_certification(keys.private, wallet, database)


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
