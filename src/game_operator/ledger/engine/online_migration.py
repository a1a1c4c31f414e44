"""
What prepares large tables of PostgreSQL for a migration while calls go on, so that calls wait for it for a second only.

The indexes are those of the migration itself, built concurrently: it finds them there. What is interrupted is taken up
by the next attempt. Behind a pooler nothing is prepared: a session there is nobody's, and neither is its lock.
"""

import logging
import re
from typing import NamedTuple

from game_operator.ledger.engine.script import Execute, Rows, Script
from game_operator.ledger.engine.tables import CALL_TABLES, VERSION, ddl, found_version, sql_texts, waiting_briefly

#: From here on calls would notice that they wait for the indexes: about 2 × 10^4 bets.
LARGE_BYTES = 16 * 1024 * 1024

#: So many days from now the postings must end that become one partition. The check is in the way of calls from then on,
#: if nobody completes the migration.
_DAYS = 30
_LOG = logging.getLogger("game_operator.ledger")
_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX IF NOT EXISTS (\w+)\s+ON (\w+)[^;]*")


class TablesAreLargeError(Exception):
    """The tables are to be prepared first."""


class IndexBuild(NamedTuple):
    """
    An index that the migration makes.

    Attributes:
        name: The index.
        table: Its table.
        statements: What builds it while calls go on; first what drops what an interrupted build has left.
    """

    name: str
    table: str
    statements: tuple[str, ...]


def is_prepared_first(prefix: str) -> Script[bool]:
    """Return whether the tables are so large that they should be prepared; those of older versions cannot be."""
    if (yield from found_version("postgres", prefix)) != VERSION - 1:
        return False
    rows: Rows = yield Execute(_sql(prefix)["bytes"], (list(CALL_TABLES),))
    return int(rows[0][0]) >= LARGE_BYTES


def missing_indexes(prefix: str) -> Script[list[IndexBuild]]:
    """Return the indexes of the latest migration that tables lack which are there."""
    question, missing = _sql(prefix)["index"], []
    for found in _INDEX.finditer(ddl("postgres", prefix, after=VERSION - 1)):
        name, table = found.groups()
        ((is_table, is_there, unusable),) = yield Execute(question, (table, name, name))
        if is_table and (unusable or not is_there):
            drops = (f"DROP INDEX CONCURRENTLY IF EXISTS {unusable}",) if unusable else ()
            built = found[0].replace("INDEX", "INDEX CONCURRENTLY", 1)
            missing.append(IndexBuild(name, table, (*drops, built)))
    return missing


def is_bounded(prefix: str) -> Script[bool]:
    """Return whether it is proven where the postings end, or nobody needs to know."""
    return not (yield Execute(_sql(prefix)["unbounded"], ()))


def indexes_built(prefix: str) -> Script[bool]:
    """Build the indexes, each statement committed by itself; return False if another process does."""
    return (yield from _alone(prefix, _build(prefix)))


def postings_bounded(prefix: str) -> Script[bool]:
    """Prove where the postings end, so that they are not read to become a partition; return False as above."""
    return (yield from _alone(prefix, _bound(prefix)))


def _alone(prefix: str, script: Script[None]) -> Script[bool]:
    """Run *script* if nobody else does and the tables still need it; the lock lasts as long as the connection."""
    ((is_ours,),) = yield Execute(_sql(prefix)["lock"], ())
    if is_ours and (yield from found_version("postgres", prefix)) == VERSION - 1:
        yield Execute("SET statement_timeout = 0", ())
        yield from script
    return bool(is_ours)


def _build(prefix: str) -> Script[None]:
    # It waits for transactions that are under way, and nobody waits for it meanwhile.
    yield Execute("SET lock_timeout = 0", ())
    missing = yield from missing_indexes(prefix)
    if missing:
        extra = {"event": "ledger.indexes_building"}
        _LOG.warning("Building %d indexes of the tables %s* while calls go on.", len(missing), prefix, extra=extra)
    for build in missing:
        for statement in build.statements:
            yield Execute(statement, ())


def _bound(prefix: str) -> Script[None]:
    sql = _sql(prefix)
    yield Execute(waiting_briefly(prefix, local=False), ())
    yield Execute(sql["bound"], ())
    if (yield Execute(sql["unproven"], ())):
        yield Execute(sql["prove"], ())


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(__package__, "online_migration.sql", prefix=prefix, days=str(_DAYS))
