"""A certification or a storm, run as a process of the command line, and what it prints and writes."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

#: Seconds that a process has to end by itself once the server stops, and after it was asked to.
_LAST_WORDS_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 5.0
#: Of the terminal's text, the end of it.
_SHOWN_BYTES: Final = 32 * 1024


class RunProcess:
    """
    One run of ``game-operator``, in a directory that goes with it.

    Args:
        title: What runs, such as ``certification``.
        arguments: Of ``game-operator``, made from the directory that files may be written to.
        on_end: Called in another thread when the process has ended.

    Attributes:
        command: The command line, to be copied into a shell.
    """

    def __init__(self, title: str, arguments: Callable[[Path], Sequence[str]], on_end: Callable[[], object]) -> None:
        self.title: str = title
        # Only its owner can read it: a report names players and bets.
        self._directory = TemporaryDirectory(prefix="game-operator-run-")
        self._place = Path(self._directory.name)
        given = arguments(self._place)
        self.command: str = shlex.join(["game-operator", *given])
        self._output = self._place / "output.txt"
        with self._output.open("wb") as output:
            # In the same process group: what ends the sandbox from its terminal ends this too.
            self._process = subprocess.Popen(  # noqa: S603 - our own command, without a shell
                [sys.executable, "-m", "game_operator.cli", *given],
                cwd=self._place,
                env=os.environ | {"NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        Thread(target=self._wait, args=(on_end,), name=f"{title} of the control room", daemon=True).start()

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it is at work."""
        return self._process.poll()

    @property
    def printed(self) -> bytes:
        """The end of what it has printed."""
        return self._output.read_bytes()[-_SHOWN_BYTES:]

    def written(self, name: str) -> bytes | None:
        """Return the content of the file that the run wrote as *name*; None if there is no such file."""
        file = self._place / name
        return file.read_bytes() if file.is_file() else None

    def interrupt(self) -> None:
        """Ask the process to end, as Ctrl-C does: a certification puts money back first."""
        self._process.terminate()

    def end(self) -> None:
        """End the process, whatever it does, and remove its files."""
        for seconds, then in (
            # The Ctrl-C that stops the server may have reached it already, and a second signal makes it leave at once.
            (_LAST_WORDS_SECONDS, self._process.terminate),
            (_STOP_SECONDS, self._process.kill),
        ):
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                then()
        self._process.wait()
        self._directory.cleanup()

    def _wait(self, on_end: Callable[[], object]) -> None:
        self._process.wait()
        on_end()
