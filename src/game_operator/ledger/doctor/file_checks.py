"""What a file of SQLite is asked: whether it keeps what it has acknowledged, and who may change it."""

import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

from game_operator.ledger.doctor.disk_space import space_case
from game_operator.ledger.doctor.examined import Case, Check, Examined, bytes_text, case
from game_operator.ledger.doctor.ledger_checks import is_behind_rows
from game_operator.ledger.engine.file_systems import file_system_of
from game_operator.ledger.engine.script import Execute, Script
from game_operator.ledger.engine.tables import FULL

#: What others than its owner may do with a file; and with a folder, unless they may only delete what is their own.
_FOR_OTHERS, _WRITABLE = 0o077, 0o022
#: Four times what the log is cut to.
_LARGE_LOG = 256 * 1024 * 1024
#: From these versions on, the race of two connections that write or checkpoint is corrected.
_CORRECTED = ((3, 44, 6), (3, 45), (3, 50, 7), (3, 51), (3, 51, 3))
_LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")


def _versions(_examined: Examined) -> list[Case]:
    return [version_case(sqlite3.sqlite_version_info)]


def version_case(number: tuple[int, ...]) -> Case:
    """Return the case of a version of SQLite."""
    corrected, next_minor, again, next_again, since = _CORRECTED
    is_corrected = corrected <= number < next_minor or again <= number < next_again or number >= since
    return case("sqlite" if is_corrected else "wal_reset", version=".".join(map(str, number)))


def _file(examined: Examined) -> list[Case]:
    """Look at the file, what is beside it, its folder and its owners."""
    file = Path(examined.path)
    real, found = Path(os.path.realpath(file)), file.stat()
    mode = stat.S_IMODE(found.st_mode)
    cases = []
    if found.st_nlink > 1:
        cases.append(case("linked", file=file, links=found.st_nlink))
    if (journal := Path(f"{real}-journal")).exists():
        cases.append(case("journal", file=journal))
    folder = stat.S_IMODE(real.parent.stat().st_mode)
    if folder & _WRITABLE and not folder & stat.S_ISVTX:
        cases.append(case("replaceable", folder=real.parent, mode=f"{folder:04o}"))
    cases += owner_cases(real, found.st_uid)
    if mode & _FOR_OTHERS:
        cases.append(case("open", file=file, mode=f"{mode:04o}"))
    if file.is_symlink():
        cases.append(case("symlink", file=file, real=real))
    return cases or [case("private", file=file, mode=f"{mode:04o}")]


def owner_cases(real: Path, owner: int) -> list[Case]:
    """Compare the owners of the file, its log and its index, and of this process."""
    beside = (Path(f"{real}{ending}") for ending in ("-wal", "-shm"))
    cases = [case("owners", file=each, other=real) for each in beside if each.exists() and each.stat().st_uid != owner]
    if hasattr(os, "geteuid") and owner != os.geteuid() != 0:  # Windows has no such ids.
        cases.append(case("foreign", file=real, owner=owner, user=os.geteuid()))
    return cases


def _file_system(examined: Examined) -> list[Case]:
    found = file_system_of(examined.path)
    if found is None:
        return [case("unknown")]
    return [case(found.nature, kind=found.kind, point=found.mount_point)]


def _disk(examined: Examined) -> list[Case]:
    size = Path(examined.path).stat().st_size
    folder = os.path.dirname(os.path.realpath(examined.path))  # noqa: PTH120 - beside realpath
    return [space_case(folder, f"the file has {bytes_text(size)}")]


def _journal_mode(_examined: Examined) -> Script[list[Case]]:
    """Look at what connections find that are not the ledger's, such as those that calls join."""
    pragmas: dict[str, Any] = {}
    for name in ("journal_mode", "synchronous", "locking_mode", "mmap_size"):
        rows = yield Execute(f"PRAGMA main.{name}", ())
        pragmas[name] = rows[0][0] if rows else 0
    cases = []
    if pragmas["journal_mode"] != "wal":
        cases.append(case("other", mode=pragmas["journal_mode"].upper()))
    if pragmas["synchronous"] < FULL:
        cases.append(case("lower", level=_LEVELS[pragmas["synchronous"]]))
    odd = [f"locking_mode {pragmas['locking_mode']}"] if pragmas["locking_mode"] != "normal" else []
    odd += [f"mmap_size {pragmas['mmap_size']}"] if pragmas["mmap_size"] else []
    if odd:
        cases.append(case("other_settings", settings=" and ".join(odd)))
    return cases or [case("wal")]


def _log(examined: Examined) -> list[Case]:
    log = Path(f"{os.path.realpath(examined.path)}-wal")
    size = log.stat().st_size if log.exists() else 0
    return [case("large" if size > _LARGE_LOG else "small", size=bytes_text(size))]


def _contents(examined: Examined) -> Script[list[Case]]:
    if not examined.full:
        return []
    rows = yield Execute("PRAGMA main.quick_check(1)", ())
    return [case("sound") if rows[0][0] == "ok" else case("damaged", problem=rows[0][0])]


def _clock(examined: Examined) -> Script[list[Case]]:
    """Compare this machine's clock with the rows."""
    behind = yield from is_behind_rows(examined)
    return [behind or case("right", agrees="")]


#: What is asked of a file.
FILE_CHECKS: dict[str, Check] = {
    "versions": _versions,
    "file": _file,
    "file system": _file_system,
    "disk": _disk,
    "journal mode": _journal_mode,
    "write-ahead log": _log,
    "contents": _contents,
    "clock": _clock,
}
#: What is asked of a database in memory.
MEMORY_CHECKS: dict[str, Check] = {"versions": _versions, "file": lambda _: [case("memory")], "clock": _clock}
