"""An environment with one distribution and what it requires, and nothing else: as after an installation."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Self
from venv import EnvBuilder

from packaging.requirements import Requirement


class EmptyEnvironment:
    """
    A fresh virtual environment in *home* without pip.

    What is required is not downloaded: the files of the versions that are tested here are linked into it.
    """

    def __init__(self, home: Path) -> None:
        EnvBuilder(symlinks=True).create(home)
        self.bin: Path = home / "bin"
        (self._packages,) = home.glob("lib/python*/site-packages")

    def install(self, wheel: Path, extra: str = "") -> Self:
        """Unpack *wheel*, and link what it requires, with one of its extras perhaps."""
        with zipfile.ZipFile(wheel) as files:
            files.extractall(self._packages)
        name, version, *_ = wheel.name.split("-")
        about = Distribution.at(self._packages / f"{name}-{version}.dist-info")
        for found in {each for name in {"", extra} for each in _required(about, name, set())}:
            for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
                link = self._packages / top
                if not link.exists():
                    link.symlink_to(Path(str(found.locate_file(top))).resolve())
        return self

    def run(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run Python with *arguments* and nothing of this process's environment."""
        command = [str(self.bin / "python"), "-W", "error", "-I", *arguments]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=55, check=False)


def _required(about: Distribution, extra: str, seen: set[str]) -> Iterator[Distribution]:
    """Yield what *about* requires with *extra*, and what that requires."""
    for requirement in map(Requirement, about.requires or ()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        yield from _with_extras(requirement, seen)


def _with_extras(requirement: Requirement, seen: set[str]) -> Iterator[Distribution]:
    extras: Sequence[str] = ["", *sorted(requirement.extras)]
    try:
        found = distribution(requirement.name)
    except PackageNotFoundError:
        sys.exit(f"{requirement} is required and not installed here.")
    if not requirement.name.startswith("game-operator"):
        yield found
    for extra in extras:
        key = f"{requirement.name}[{extra}]"
        if key not in seen:
            seen.add(key)
            yield from _required(found, extra, seen)
