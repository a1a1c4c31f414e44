"""What a file of SQLite and a PostgreSQL server are asked: do they keep what they acknowledge, and who may write."""

import os
import re
import time
from pathlib import Path
from typing import Any

from game_operator.ledger.doctor.examined import Case, Check, Examined, bytes_text, case, space_case
from game_operator.ledger.doctor.ledger_checks import is_behind_rows
from game_operator.ledger.engine.tables import FULL
from game_operator.ledger.postgres.hazards import Identities
from game_operator.ledger.sqlite import file_system_of
from game_operator.ledger.steps import AskOperator, Execute, Rows, Steps

_LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")
_MOST_SKEW_SECONDS = 30.0
_MOST_MINUTES = 5
#: So many connections should be free.
_LEAST_CONNECTIONS = 10
_NEEDED = re.compile(r"\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(", re.IGNORECASE)


def _file_system(examined: Examined) -> list[Case]:
    found = file_system_of(examined.path)
    if found is None:
        return [case("unknown")]
    return [case(found.nature, kind=found.kind, point=found.mount_point)]


def _disk_of_file(examined: Examined) -> list[Case]:
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


def _machines_clock(examined: Examined) -> Steps[list[Case]]:
    """Compare this machine's clock with the rows."""
    behind = yield from is_behind_rows(examined)
    return [behind or case("right", agrees="")]


#: What is asked of a file.
FILE_CHECKS: dict[str, Check] = {
    "file system": _file_system,
    "disk": _disk_of_file,
    "journal mode": _journal_mode,
    "clock": _machines_clock,
}
#: What is asked of a database in memory.
MEMORY_CHECKS: dict[str, Check] = {"clock": _machines_clock}


def server(examined: Examined) -> Steps[list[Case]]:
    """Look at whether calls can be stored, and remember the settings that later checks need."""
    examined.settings = {name: value for name, value in (yield from examined.asked("settings"))}  # noqa: C416 - of rows
    ((standby, user, examined.now_millis),) = yield from examined.asked("place")
    found = []
    if standby:
        found.append(case("standby"))
    elif examined.settings["default_transaction_read_only"] == "on":
        found.append(case("read_only", user=user))
    if (encoding := examined.settings["server_encoding"]) != "UTF8":
        found.append(case("encoding", encoding=encoding))
    return found or [case("primary")]


def _fsync(examined: Examined) -> list[Case]:
    return [case(examined.settings["fsync"])]


def _full_page_writes(examined: Examined) -> list[Case]:
    return [case(examined.settings["full_page_writes"])]


def _synchronous_commit(examined: Examined) -> Steps[list[Case]]:
    """Say where commits would not wait, if the ledger did not see to it."""
    rows = yield from examined.asked("commit_settings")
    current = examined.settings["synchronous_commit"]
    if not rows and current in ("off", "local"):
        rows = [("the server", current)]
    return [case("raised", value=value, whom=whom) for whom, value in rows] or [case("waits", value=current)]


def _standbys(examined: Examined) -> Steps[list[Case]]:
    ((connected, confirming, hidden),) = yield from examined.asked("standbys")
    names = examined.settings["synchronous_standby_names"].strip()
    if hidden:
        return [case("hidden", connected=connected)]
    if not names:
        return [case("asynchronous" if connected else "alone", connected=connected)]
    counted = _NEEDED.match(names)
    needed = int(counted[1]) if counted else 1
    name = "waiting" if confirming < needed else "synchronous"
    return [case(name, names=names, needed=needed, confirming=confirming)]


def _isolation(examined: Examined) -> list[Case]:
    level = examined.settings["default_transaction_isolation"]
    return [case("usual" if level == "read committed" else "other", level=level, user=examined.settings["user"])]


def _pooler(_examined: Examined) -> Steps[list[Case]]:
    """Compare process ids, as connecting does."""
    return [case((yield AskOperator("doctor", _route)))]


def _route(connection: Any) -> str:  # Any: psycopg's, which is an extra.
    ((seen,),) = connection.execute("SELECT pg_backend_pid()").fetchall()
    return "straight" if seen == connection.info.backend_pid else "between"


def _timeline(examined: Examined) -> Steps[list[Case]]:
    ((system, name),) = yield from examined.asked("timeline")
    return [case("standby") if name is None else case("number", timeline=int(name, 16), system=system)]


def _servers_clock(examined: Examined) -> Steps[list[Case]]:
    """Compare the server's clock with its rows and with ours."""
    before = time.time()
    ((_, _, now_millis),) = yield from examined.asked("place")
    skew = (before + time.time()) / 2 - now_millis / 1_000
    found = [each for each in [(yield from is_behind_rows(examined))] if each]
    if abs(skew) > _MOST_SKEW_SECONDS:
        found.append(case("differs", seconds=round(abs(skew)), side="ahead of" if skew > 0 else "behind"))
    return found or [case("right", agrees=", and this machine's clock agrees with the server's")]


def _sequences(examined: Examined) -> Steps[list[Case]]:
    """Compare ids with their sequences, as connecting does."""
    identities = Identities(examined.prefix)
    found = [case("set" if is_set else "behind", message=text) for is_set, text in (yield from identities.behind())]
    hidden = yield from identities.hidden()
    if hidden:
        found.append(case("hidden", named=", ".join(hidden)))
    return found or [case("right")]


def _disk_of_server(examined: Examined) -> Steps[list[Case]]:
    """Measure the disk of the data, if it is this machine's."""
    ((size, is_local),) = yield from examined.asked("size")
    text = f"the database has {bytes_text(size)}"
    data = examined.settings.get("data_directory", "")
    if is_local and os.path.isdir(data):  # noqa: PTH112 - a folder that we may not enter is one, too
        return [space_case(data, text)]
    return [case("elsewhere", size=text)]


def _rights(examined: Examined) -> Steps[list[Case]]:
    """Name the roles that may change money, and what every role may do."""
    found = []
    for table, rights, may_write in (yield from examined.asked("public_rights")):
        found.append(case("public_writes" if may_write else "public_reads", table=table, rights=rights))
    writers = []
    for role, deletes, updates, may_insert in (yield from examined.asked("roles")):
        if deletes:
            found.append(case("deletes", role=role, rights=deletes))
        elif updates and not may_insert:
            found.append(case("updates", role=role, rights=updates))
        elif updates:
            writers.append(role)
    ((user, is_superuser, is_owner, schema, public_creates),) = yield from examined.asked("own_rights")
    if public_creates:
        found.append(case("public_creates", schema=schema))
    if is_superuser or is_owner:
        found.append(case("superuser" if is_superuser else "owner", user=user))
    return found or [case("as_needed", roles=", ".join([user, *writers]))]


def _connections(examined: Examined) -> Steps[list[Case]]:
    ((used, most),) = yield from examined.asked("connections")
    return [case("few" if most - used < _LEAST_CONNECTIONS else "enough", used=used, most=most)]


def _transactions(examined: Examined) -> Steps[list[Case]]:
    """Look for transactions that nobody works on and that hold locks of our tables."""
    rows = yield from examined.asked("prepared", _MOST_MINUTES)
    found = [case("prepared", gid=gid, minutes=minutes) for gid, minutes in rows]
    idle: Rows = yield from examined.asked("idle_transactions", _MOST_MINUTES)
    found += [case("idle", minutes=minutes, user=user, pid=pid) for minutes, user, pid in idle]
    ((hidden,),) = yield from examined.asked("hidden_sessions")
    if hidden:
        found.append(case("hidden"))
    return found or [case("none", most=_MOST_MINUTES)]


def _indexes(examined: Examined) -> Steps[list[Case]]:
    rows = yield from examined.asked("invalid_indexes")
    return [case("invalid", names=", ".join(row[0] for row in rows)) if rows else case("valid")]


def _default_partition(examined: Examined) -> Steps[list[Case]]:
    rows = yield from examined.asked("default_partition") if examined.version else ()
    if not rows:
        return []
    name = rows[0][0]  # Quoted by the server.
    filled = yield from examined.has_rows(name)
    return [case("filled" if filled else "empty", name=name)]


#: What is asked of a server.
SERVER_CHECKS: dict[str, Check] = {
    "fsync": _fsync,
    "full_page_writes": _full_page_writes,
    "synchronous_commit": _synchronous_commit,
    "standbys": _standbys,
    "isolation": _isolation,
    "pooler": _pooler,
    "timeline": _timeline,
    "disk": _disk_of_server,
    "connections": _connections,
    "clock": _servers_clock,
}
#: What is asked of a ledger's tables there.
TABLE_CHECKS: dict[str, Check] = {
    "transactions": _transactions,
    "sequences": _sequences,
    "rights": _rights,
    "indexes": _indexes,
    "default partition": _default_partition,
}
