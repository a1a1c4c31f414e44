"""Files that only whoever ran the command may read: player ids, balances and signed calls are in them."""

import os
import tempfile
from pathlib import Path

__all__ = ["write_privately"]


def write_privately(path: Path, text: str) -> None:
    """Write *text* to *path*; raise OSError or ValueError if that is not possible, and then nothing is left behind."""
    # Written beside and moved, so that neither the mode nor a link of what was there counts.
    handle, name = tempfile.mkstemp(prefix=".game-operator-", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    finally:
        # Still there if it could not be moved, as to where a folder is.
        beside.unlink(missing_ok=True)
