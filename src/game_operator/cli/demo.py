"""``game-operator demo``: everything the client can do, told as a short story."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import TYPE_CHECKING, Any

from game_operator.cli._failures import ExitCode
from game_operator.cli._options import AsJson
from game_operator.cli._output import say, waiting, write_document
from game_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from game_operator.cli._story import Chapter

__all__ = ["demo"]

_START_SECONDS = 20.0
_STOP_SECONDS = 5.0


def demo(as_json: AsJson = False) -> int:
    """
    Show everything the client can do, against a sandbox that is started for it and stopped afterwards.

    The sandbox runs in a process of its own, so every call goes over HTTP. The exit code is 1 if a step went wrong.
    """
    from game_operator.cli._keys import write_pair
    from game_operator.cli._story import told

    started = time.monotonic()
    chapters: list[Chapter] = []
    with _cleaning_up_on_sigterm(), TemporaryDirectory(prefix="game-operator-demo-") as made:
        keys = write_pair(Path(made) / "operator.pem", bits=2048)
        with _service(Path(made)) as service:
            for chapter in told(keys, service):
                chapters.append(chapter)
                if not as_json:
                    _tell(len(chapters), chapter)
    return _end(chapters, time.monotonic() - started, as_json=as_json)


@contextmanager
def _cleaning_up_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end this process as Ctrl-C does, through every ``finally``."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _service(place: Path) -> Iterator[dict[str, Any]]:
    """Run ``game-operator sandbox`` with the keys in *place*, and yield what it says about itself."""
    command = [sys.executable, "-m", "game_operator.cli", "sandbox", "--json", "--directory", str(place)]
    # Our end of its stdin closes however we end, even killed, and that stops it.
    child = subprocess.Popen(  # noqa: S603 - our own command, and a path we have just made
        [*command, "--stop-with-stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        with waiting("Starting the sandbox …"):
            service = _announced(child)
        yield service | {"pid": child.pid}
    finally:
        _end_child(child)


def _announced(child: "subprocess.Popen[str]") -> dict[str, Any]:
    too_late = Timer(_START_SECONDS, child.kill)
    too_late.start()
    assert child.stdout is not None
    line = child.stdout.readline()
    too_late.cancel()
    if not line:
        raise ConfigurationError("The sandbox did not start. Run `game-operator sandbox` to see why.")
    document: dict[str, Any] = json.loads(line)
    if "error" in document:
        raise ConfigurationError(f"The sandbox did not start: {document['error']['message']}")
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
        say(f"All of it worked, in {seconds:.1f} s. The sandbox has stopped and its keys are gone.", style="green")
    else:
        say("The demo went wrong at the step marked with ✗.", style="red", error=True)
    return ExitCode.FINE if fine else ExitCode.SAID_NO
