"""What a file of SQLite is asked: whether it keeps what it has acknowledged, and who may change it."""

import os
import stat
from pathlib import Path

from game_operator.ledger.doctor.examined import Case, Check, Examined, bytes_text, case, space_case
from game_operator.ledger.doctor.ledger_checks import is_behind_rows
from game_operator.ledger.engine.tables import FULL
from game_operator.ledger.sqlite import file_system_of
from game_operator.ledger.steps import Execute, Steps

#: What others than its owner may do with a file; and with a folder, unless they may only delete what is their own.
_FOR_OTHERS, _WRITABLE = 0o077, 0o022
_LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")


def _file(examined: Examined) -> list[Case]:
    """Look at the file, what is beside it, and who may change both."""
    file = Path(examined.path)
    real, found = Path(os.path.realpath(file)), file.stat()
    mode, folder = stat.S_IMODE(found.st_mode), stat.S_IMODE(real.parent.stat().st_mode)
    cases = []
    if found.st_nlink > 1:
        cases.append(case("linked", file=file, links=found.st_nlink))
    if (journal := Path(f"{real}-journal")).exists():
        cases.append(case("journal", file=journal))
    if folder & _WRITABLE and not folder & stat.S_ISVTX:
        cases.append(case("replaceable", folder=real.parent, mode=f"{folder:04o}"))
    if mode & _FOR_OTHERS:
        cases.append(case("open", file=file, mode=f"{mode:04o}"))
    return cases or [case("private", file=file, mode=f"{mode:04o}")]


def _file_system(examined: Examined) -> list[Case]:
    found = file_system_of(examined.path)
    if found is None:
        return [case("unknown")]
    return [case(found.nature, kind=found.kind, point=found.mount_point)]


def _disk(examined: Examined) -> list[Case]:
    size = Path(examined.path).stat().st_size
    folder = os.path.dirname(os.path.realpath(examined.path))  # noqa: PTH120 - beside realpath
    return [space_case(folder, f"the file has {bytes_text(size)}")]


def _journal_mode(_examined: Examined) -> Steps[list[Case]]:
    """Look at what connections find that are not the ledger's, such as those that calls join."""
    mode = (yield Execute("PRAGMA main.journal_mode", ()))[0][0]
    level = (yield Execute("PRAGMA main.synchronous", ()))[0][0]
    cases = [] if mode == "wal" else [case("other", mode=mode.upper())]
    if level < FULL:
        cases.append(case("lower", level=_LEVELS[level]))
    return cases or [case("wal")]


def _contents(examined: Examined) -> Steps[list[Case]]:
    if not examined.full:
        return []
    rows = yield Execute("PRAGMA main.quick_check(1)", ())
    return [case("sound") if rows[0][0] == "ok" else case("damaged", problem=rows[0][0])]


def _clock(examined: Examined) -> Steps[list[Case]]:
    """Compare this machine's clock with the rows."""
    behind = yield from is_behind_rows(examined)
    return [behind or case("right", agrees="")]


#: What is asked of a file.
FILE_CHECKS: dict[str, Check] = {
    "file": _file,
    "file system": _file_system,
    "disk": _disk,
    "journal mode": _journal_mode,
    "contents": _contents,
    "clock": _clock,
}
#: What is asked of a database in memory.
MEMORY_CHECKS: dict[str, Check] = {"file": lambda _: [case("memory")], "clock": _clock}
