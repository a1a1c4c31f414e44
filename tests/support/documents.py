"""How code blocks in Markdown are run."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).resolve().parents[2]
_TARGETS = frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_HOME = "__home__"
#: Pages whose blocks are files and terminals of one folder: tests/tutorials follows them.
TUTORIALS = ("django", "fastapi", "another-language")
#: Not run here. What uvicorn serves is run by tests/test_documents.py.
_LEFT_OUT = {"pip", "python3", "git", "cd", "export", "uvicorn"}
_SHELL = re.compile(
    r"^(?P<indent> *)```sh\n(?P<commands>.*?)^(?P=indent)```$"
    r"(?:\n\n(?P=indent)```text\n(?P<output>.*?)^(?P=indent)```$)?",
    re.MULTILINE | re.DOTALL,
)


class ShellBlock(NamedTuple):
    """Commands of a page in a ``sh`` block, and what they print by the ``text`` block that follows, if one does."""

    commands: str
    output: str

    def assert_printed(self, printed: str) -> None:
        """Assert that *printed* is what the page says: … in a line alone stands for any lines, else for any text."""
        lines = ("(?:.*\n)*" if line == "…" else _line_pattern(line) for line in self.output.splitlines())
        assert re.fullmatch("".join(lines), printed), f"{self.commands}\n{printed}"


def _line_pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…")) + "\n"


def shell_blocks(page: Path) -> dict[str, list[ShellBlock]]:
    """Return the ``sh`` blocks of *page* by the heading above them; a test of the page runs them."""
    _, *sections = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    return {section.partition("\n")[0]: list(map(_shell_block, _SHELL.finditer(section))) for section in sections}


def _shell_block(found: re.Match[str]) -> ShellBlock:
    return ShellBlock(dedent(found["commands"]), dedent(found["output"] or ""))


def _run_console(example: Example) -> str | None:
    """
    Run the lines after ``$`` that are ours, in a folder of their own; hold that every ``make`` target exists.

    What a reader would set with ``export`` leads to a sandbox here.
    """
    commands = [line.removeprefix("$ ") for line in str(example.parsed).splitlines() if line.startswith("$ ")]
    if not commands:
        return "a console block without a line that begins with '$ '"
    from game_operator_testkit import Sandbox  # Here, so that a test that only reads pages needs no testkit.

    with Sandbox() as sandbox, TemporaryDirectory() as folder:
        settings = {
            "GAME_OPERATOR_BASE_URL": sandbox.base_url,
            "GAME_OPERATOR_ID": sandbox.operator_id,
            "GAME_OPERATOR_PRIVATE_KEY": sandbox.private_key_pem.decode(),
        }
        problems = [_problem_with(command, folder, os.environ | settings) for command in commands]
    return "; ".join(filter(None, problems)) or None


def _problem_with(command: str, folder: str, environ: Mapping[str, str]) -> str | None:
    program, *arguments = shlex.split(command, comments=True)
    if program == "make":
        unknown = [target for target in arguments if target not in _TARGETS]
        return f"the Makefile has no target {unknown}" if unknown else None
    if program in _LEFT_OUT:
        return None
    if program != "game-operator":
        return f"nobody runs {command!r} in the tests"
    # The script beside this interpreter, so that the installed entry point is what runs.
    script = Path(sys.executable).with_name(program)
    done = subprocess.run(
        [script, *arguments], capture_output=True, text=True, timeout=50, check=False, cwd=folder, env=environ
    )
    return None if done.returncode == 0 else f"{command!r} ended with {done.returncode}: {done.stdout}{done.stderr}"


class _ConsoleBlockParser(CodeBlockParser):
    language = "console"

    def evaluate(self, example: Example) -> str | None:
        return _run_console(example)


@cache
def _service_key() -> bytes:
    """Return the public key that a provider would have handed over, in PEM."""
    key = generate_private_key(65537, 2048).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _enter_folder(namespace: dict[str, Any]) -> None:
    """Run a document's blocks in a folder of their own, which holds what a reader has got from the provider."""
    folder = TemporaryDirectory()
    namespace[_HOME] = folder, Path.cwd()
    Path(folder.name, "service.pub.pem").write_bytes(_service_key())
    os.chdir(folder.name)


def _leave_folder(namespace: dict[str, Any]) -> None:
    folder, before = namespace[_HOME]
    os.chdir(before)
    folder.cleanup()


DOCUMENTS = Sybil(
    parsers=[PythonCodeBlockParser(), _ConsoleBlockParser(), SkipParser()],
    setup=_enter_folder,
    teardown=_leave_folder,
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"],
    excludes=[f"docs/tutorials/{name}.md" for name in TUTORIALS],
    # Sybil's own default is the folder of this file, where no document is.
    path=str(ROOT),
)
