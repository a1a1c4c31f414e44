"""Files that commands write: reports and results, private and whole or not there."""

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from game_operator.cli.options import check_extra
from game_operator.cli.output import say
from game_operator.errors import ConfigurationError, shown

#: Only its owner may read and write a file.
SECRET_MODE = 0o600
#: All may read a file, unless the umask forbids it.
PUBLIC_MODE = 0o644


def write_privately(path: Path, content: str | bytes, mode: int = SECRET_MODE) -> None:
    """Write or replace *path*; raise OSError or ValueError if that is not possible, and leave nothing behind."""
    # Written beside and moved, so that neither the mode nor a link of what was there counts.
    handle, name = tempfile.mkstemp(prefix=".game-operator-", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(mode)
        beside.replace(path)
    finally:
        # Still there if it could not be moved, as to where a folder is.
        beside.unlink(missing_ok=True)


def _is_device(path: Path) -> bool:
    """Return whether *path* is a device or a pipe: a file moved there would take its place for the whole machine."""
    return path.absolute().parent == Path("/dev") or (path.exists() and not path.is_file())


def check_writable(option: str, path: Path, ending: str, *, may_be_device: bool = False) -> None:
    """
    Check before the work that a file can be written to *path*, which *option* names.

    A file that exists is overwritten only if its name has the *ending* of what is written, such as ``.html``.

    Raises:
        ConfigurationError: There is no folder for it, nothing can be written there, *path* is not a file, or is one
            with another ending.
    """
    folder = shown(str(path.parent))
    if path == Path("-"):
        raise ConfigurationError(f"{option} - would write a file named '-'. Pass the name of a file.")
    if not path.parent.is_dir():
        raise ConfigurationError(f"{option}: there is no folder {folder}. Make it first.")
    # Not Path.exists(), which raises for a name that is too long.
    if os.path.lexists(path):
        if may_be_device and _is_device(path) and not path.is_dir():
            return
        if not path.is_file():
            raise ConfigurationError(f"{option} {shown(str(path))} is not a file. Pass a file that may be overwritten.")
        if path.suffix.lower() != ending:
            raise ConfigurationError(
                f"{option} {shown(str(path))} exists, and only a file whose name ends in {ending} is overwritten. Pass "
                "another name."
            )
    try:
        # What the rights of the folder say is not all: a file system may be read-only or full.
        tempfile.TemporaryFile(prefix=".game-operator-", dir=path.parent).close()
    except OSError as refused:
        raise ConfigurationError(
            f"{option}: nothing can be written in the folder {folder}: {refused.strerror}. Pass a file in another one."
        ) from None


def is_written(path: Path, text: str, what: str) -> bool:
    """
    Write *text*, the *what* of a run that is over, to *path*: a new file is its owner's alone.

    Return whether that was possible, and say why not.
    """
    try:
        if _is_device(path):
            with path.open("ab") as file:
                file.write(text.encode())
        else:
            write_privately(path, text)
    except (OSError, ValueError) as failed:
        problem = getattr(failed, "strerror", None) or failed
        say(f"The {what} could not be written to {path}: {problem}.", style="red", error=True)
        return False
    return True


HtmlFile = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write it as one HTML page that needs nothing else."),
]


def check_page(html: Path | None) -> None:
    """Raise ConfigurationError if no page of HTML can be written to *html*, before the work and not after it."""
    if html is not None:
        check_extra("--html", "cli", ["jinja2"])
        check_writable("--html", html, ".html")
