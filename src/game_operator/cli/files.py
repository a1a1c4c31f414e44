"""Files that a command reads, and those it writes: new ones, with their mode from the first byte on, or replaced."""

import os
import sys
import tempfile
from pathlib import Path

from game_operator.cli.output import say
from game_operator.errors import ConfigurationError, shown

#: Only its owner may read and write it.
SECRET_MODE = 0o600
PUBLIC_MODE = 0o644


def read_file(name: str, limit: int) -> bytes:
    """Return up to *limit* bytes of a file, or of standard input for "-"; raise ConfigurationError if that fails."""
    try:
        if name == "-":
            return sys.stdin.buffer.read(limit)
        with Path(name).open("rb") as file:
            return file.read(limit)
    except (OSError, ValueError) as unreadable:
        reason = unreadable.strerror if isinstance(unreadable, OSError) else str(unreadable)
        raise ConfigurationError(f"{shown(name)} cannot be read: {reason}. Name a file that can.") from None


def check_new(*paths: Path) -> None:
    """Raise ConfigurationError if there is anything at one of *paths*."""
    for path in paths:
        if os.path.lexists(path):
            raise ConfigurationError(
                f"{path} is there already, and a key is never overwritten. Choose another path, or move the old key "
                "away."
            )


def write_new(path: Path, content: bytes, mode: int) -> None:
    """
    Write *content* to a file that is not there yet, which has *mode* from its first byte on.

    Raises:
        ConfigurationError: The file is there already, or cannot be written; then nothing is left behind.
    """
    created = False
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        created = True
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except BaseException as failed:
        if created:
            path.unlink(missing_ok=True)
        if isinstance(failed, FileExistsError):
            check_new(path)
        if isinstance(failed, OSError | ValueError):
            problem = getattr(failed, "strerror", None) or str(failed)
            raise ConfigurationError(
                f"{path} cannot be written: {problem}. Choose a directory that is there and yours."
            ) from None
        raise


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


def is_written(path: Path, text: str, what: str) -> bool:
    """Write *text*, the *what* of a run that is over, to *path*; return whether that was possible, and say why not."""
    try:
        write_privately(path, text)
    except (OSError, ValueError) as failed:
        problem = getattr(failed, "strerror", None) or failed
        say(f"The {what} could not be written to {path}: {problem}.", style="red", error=True)
        return False
    return True
