"""
Ids that PostgreSQL numbers by itself, compared with the sequences they come from.

Logical replication copies rows and not sequences. After a switchover by it a sequence begins anew: inserts meet ids
that are taken, or land among older rows where ``prune`` has left holes.
"""

import logging
from collections.abc import Generator
from typing import Any

from game_operator.errors import LedgerError
from game_operator.ledger.engine.script import Execute, Rows, Step

_LOG = logging.getLogger("game_operator.ledger")
#: The tables whose column ``id`` is an identity.
_TABLES = ("postings", "anomalies")
#: How far above the highest id a sequence is set: others may have taken some that are not committed yet.
_STEP = 1_000
_BEHIND = (
    "The sequence {sequence} is behind the ids of {table}, and the ledger's user may not set it, so calls fail or rows "
    "land out of order. Let the table's owner run: SELECT setval('{sequence}', {value}); and, for the next time, "
    "GRANT SELECT, UPDATE ON SEQUENCE {sequence} TO the ledger's user."
)
_UNKNOWN = (
    "The ledger's user may not look at the sequence {sequence}: whether it is behind the ids of {table} is unknown. "
    "Let the table's owner run: GRANT SELECT, UPDATE ON SEQUENCE {sequence} TO the ledger's user."
)


class Identities:
    """The identities of one ledger's tables in PostgreSQL."""

    def __init__(self, prefix: str) -> None:
        self._keys = {f"{prefix}{table}_pkey": f"{prefix}{table}" for table in _TABLES}
        # In this order: the statement's snapshot is older than what it reads of a sequence, so that no id that is
        # given out meanwhile makes a sequence look as if it were behind.
        self._compare = " UNION ALL ".join(
            f"SELECT '{prefix}{table}', sequence, (SELECT max(id) FROM {prefix}{table}), "  # noqa: S608 - a checked prefix
            "CASE WHEN has_sequence_privilege(sequence, 'SELECT, USAGE') "
            "THEN coalesce(pg_sequence_last_value(CAST(sequence AS regclass)), 0) END, "
            "has_sequence_privilege(sequence, 'UPDATE') "
            f"FROM (SELECT pg_get_serial_sequence('{prefix}{table}', 'id') AS sequence) AS named"
            for table in _TABLES
        )
        # A process that does not get the lock leaves it to the one that has it. A sequence is never set lower: nextval
        # is above all that it has given out. The lock comes first, and the sequence is read after it.
        sequence = "CAST(CAST(? AS text) AS regclass)"
        self._advance = (
            f"WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtext('{prefix}identities')) AS is_mine) "  # noqa: S608
            f"SELECT setval({sequence}, greatest(nextval({sequence}), CAST(? AS bigint))) FROM alone "
            f"WHERE is_mine AND coalesce(pg_sequence_last_value({sequence}), 0) < CAST(? AS bigint)"
        )
        self._logged: set[tuple[str, bool]] = set()

    def table_of(self, failed: BaseException) -> str | None:
        """Return the table whose new id was taken already, if that is what any driver's *failed* says."""
        text = str(getattr(failed, "orig", failed))
        return next((table for key, table in self._keys.items() if f'"{key}"' in text), None)

    def behind(self) -> Generator[Step, Any, list[tuple[bool, str]]]:
        """Return whether this user may set it, and what to do else, of each sequence behind its ids; read only."""
        rows: Rows = yield Execute(self._compare, ())
        return [
            (may_set, _BEHIND.format(table=table, sequence=sequence, value=highest + _STEP))
            for table, sequence, highest, last, may_set in rows
            if highest is not None and last is not None and last < highest
        ]

    def advanced(self, *, failed_table: str | None = None) -> Generator[Step, Any, None]:
        """Set each sequence that is behind its highest id to 1,000 above it; that of *failed_table* must be set."""
        rows: Rows = yield Execute(self._compare, ())
        for table, sequence, highest, last, may_set in rows:
            if sequence is None or highest is None or (last is not None and last >= highest):
                continue
            if last is not None and may_set:
                parameters = (sequence, sequence, highest + _STEP, sequence, highest)
                done: Rows = yield Execute(self._advance, parameters)
                if done:
                    _LOG.warning("The sequence %s was behind the ids of %s: set to %s.", sequence, table, done[0][0])
                continue
            behind = last is not None or table == failed_table
            message = (_BEHIND if behind else _UNKNOWN).format(table=table, sequence=sequence, value=highest + _STEP)
            if (sequence, behind) not in self._logged:
                self._logged.add((sequence, behind))
                _LOG.log(logging.ERROR if behind else logging.WARNING, message)
            if table == failed_table:
                raise LedgerError(message)
