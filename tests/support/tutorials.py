"""
Tutorials, followed as a reader follows them: blocks are copied from the top to the bottom, into files and terminals.

The sentence above a block says what is done with it:

- "Put this into `casino/app.py`:" makes a file, and "Add this to the end of `casino/app.py`:" appends to it.
- A ``console`` block is typed into the first terminal. A ``text`` block below it is what must be printed.
- With "leave it running" above it, a ``console`` block has a terminal for itself, until the end of the page. The reader
  goes on when what the ``text`` block shows is printed.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.documents import ROOT, ShellBlock

#: What installs and activates: the tests have an environment already.
NOT_RUN = ("python3 -m venv ", ". .venv/bin/activate", "pip install ", "npm install ")
#: What a terminal keeps for the commands that follow.
_KEPT = ("cd ", "export ", ". ")
_PATIENCE_SECONDS = 50.0
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?P<how>Put this into|Add this to the end of) `(?P<name>[^`]+)`:$")


class Block(NamedTuple):
    """A block of a page, and the paragraph above it."""

    language: str
    text: str
    above: str

    @property
    def file(self) -> str | None:
        """The file that it belongs to, if it does."""
        found = _FILE.search(self.above)
        return found["name"] if found else None

    @property
    def commands(self) -> list[str]:
        """What a reader types, without what is not run."""
        lines = self.text.replace("\\\n", "").splitlines()
        typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [command for command in typed if not command.startswith(NOT_RUN)]


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the blocks of *page* in order."""
    text, end = page.read_text(), 0
    for found in _BLOCK.finditer(text):
        paragraph = text[end : found.start()].strip().rpartition("\n\n")[2]
        yield Block(found["language"], found["text"], " ".join(paragraph.split()))
        end = found.end()


class Reader:
    """
    Somebody who follows a page in an empty folder; a ``with`` block ends what is left running.

    Args:
        folder: The folder.
        changes: What a reader writes in place of a text of the page, such as the address of a database.
        patience_seconds: How long a command may take.
    """

    def __init__(
        self, folder: Path, changes: Mapping[str, str], *, patience_seconds: float = _PATIENCE_SECONDS
    ) -> None:
        self._folder, self._changes, self._patience_seconds = folder, changes, patience_seconds
        self._kept: list[str] = []
        self._terminals = ExitStack()
        self._shown: Callable[[ShellBlock], None] | None = None
        self._environ = _environ()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._terminals.close()

    def follow(self, page: Path) -> None:
        """Do what *page* says, block by block; raise AssertionError for what it does not say or does wrongly."""
        for block in blocks_of(page):
            changed = block._replace(text=self._changed(block.text))
            if changed.file is not None:
                self._write(changed.file, changed)
            elif changed.language == "console":
                self._type(changed)
            else:
                assert changed.language == "text", f"what is done with this block?\n{block.text}"
                self._compare(changed)

    def _changed(self, text: str) -> str:
        for old, new in self._changes.items():
            text = text.replace(old, new)
        return text

    def _write(self, name: str, block: Block) -> None:
        self._shown = None
        file = self._folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        is_new = "Put this into" in block.above
        assert file.exists() is not is_new, name
        with file.open("a") as opened:
            opened.write(block.text if is_new else f"\n\n{block.text}")

    def _type(self, block: Block) -> None:
        self._shown = None
        if "leave it running" in block.above:
            self._shown = self._terminals.enter_context(self._left_running(block.commands))
            return
        commands = block.commands
        printed = self._ran([*self._kept, *commands]) if commands else ""
        self._kept += [command for command in commands if command.startswith(_KEPT)]
        self._shown = lambda shown: shown.assert_printed(printed)

    def _compare(self, block: Block) -> None:
        assert self._shown is not None, f"nothing was typed above this\n{block.text}"
        self._shown(ShellBlock("", block.text))

    def _ran(self, commands: list[str]) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", "\n".join(commands)],
            cwd=self._folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=self._patience_seconds,
            check=False,
        )
        assert done.returncode == 0, "\n".join([*commands, done.stdout])
        return done.stdout

    @contextmanager
    def _left_running(self, commands: list[str]) -> Iterator[Callable[[ShellBlock], None]]:
        log = self._folder / f"terminal-{time.monotonic_ns()}.log"
        with log.open("w") as opened:
            process = subprocess.Popen(
                ["bash", "-e", "-c", "\n".join([*commands[:-1], f"exec {commands[-1]}"])],
                cwd=self._folder,
                env=self._environ,
                stdout=opened,
                stderr=subprocess.STDOUT,
            )
        try:
            yield lambda shown: _wait_until(process, log, shown)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_PATIENCE_SECONDS)


def _wait_until(process: "subprocess.Popen[bytes]", log: Path, shown: ShellBlock) -> None:
    """Wait until *log* has what is *shown*."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            shown.assert_printed(log.read_text())
        except AssertionError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def _environ() -> dict[str, str]:
    """Return an environment with the programs and the package that are tested, and without pytest's own variables."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GAME_OPERATOR_", "COV_"))
    }
    programs = Path(sys.executable).parent
    return environ | {
        "PATH": f"{programs}{os.pathsep}{environ.get('PATH', '')}",
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONUNBUFFERED": "1",
        # Not the plugins of our own tests, which a reader has not installed.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "anyio.pytest_plugin,game_operator_testkit.plugin.fixtures,pytest_django.plugin",
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }
