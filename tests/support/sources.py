"""The source files of both distributions."""

from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[2]
#: Where each package is.
FOLDERS: Final = (_ROOT / "src" / "game_operator", _ROOT / "testkit" / "src" / "game_operator_testkit")


def sources() -> dict[str, Path]:
    """Return the modules by their paths, which begin with the name of the package."""
    files = {folder: sorted(folder.rglob("*.py")) for folder in FOLDERS}
    return {file.relative_to(folder.parent).as_posix(): file for folder, found in files.items() for file in found}
