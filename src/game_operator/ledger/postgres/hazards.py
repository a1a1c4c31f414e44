"""
Two things that PostgreSQL does not call an error: a commit that is stored here alone, and a sequence behind its ids.

With synchronous replication a commit waits for the standby. If somebody cancels that wait, PostgreSQL keeps the commit
on this server and answers COMMIT with a warning alone. A failover then loses the call.

Logical replication copies rows and not sequences. After a switchover by it a sequence begins anew: inserts meet ids
that are taken, or land among older rows. Ids of postings are unique within a partition and a millisecond alone, so that
hardly any conflicts; but a partition takes no ids of what was sealed before it was made. Each new connection compares
them, and the first call of a process that joins.

Nothing here imports psycopg, because calls that join come over other drivers, too.
"""

import logging
import re
from contextlib import AbstractContextManager
from typing import Any

from game_operator.errors import LedgerError, LedgerUnavailableError
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.steps import Execute, Rows, Steps

_LOG = logging.getLogger("game_operator.ledger")

#: A column for a SELECT in a caller's transaction: until its end the server sends warnings, which a role may turn off.
SHOW_WARNINGS = (
    "(SELECT set_config('client_min_messages', 'warning', true) WHERE current_setting('client_min_messages') IN "
    "('error', 'fatal', 'panic'))"
)

_WAITS_FOR_STANDBY = "SyncRepWaitForLSN"
#: COMMIT found no transaction (25P01), or an administrator ended the session while it committed (57P01).
_STATES = frozenset({"25P01", "57P01"})
_WARNING = "01000"
_MOST = 300


class CommitWarnings:
    """Receives the notices of one connection: notes those that put a commit in doubt, and logs other warnings."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def notice(self, diag: Any) -> None:  # Any: psycopg's Diagnostic, which is not imported here.
        """Take one notice, as ``add_notice_handler`` calls it."""
        # An error that arrives between two statements comes as a notice, too; the next statement raises it.
        if (diag.severity_nonlocalized or diag.severity) != "WARNING":
            return
        message = " ".join((diag.message_primary or "").split())[:_MOST]
        # Some servers and poolers leave the source out.
        is_nameless = diag.sqlstate == _WARNING and not diag.source_function
        if is_nameless or diag.source_function == _WAITS_FOR_STANDBY or diag.sqlstate in _STATES:
            self.reason = message
        else:
            extra = {"event": "ledger.server_warning", "sqlstate": diag.sqlstate}
            _LOG.warning("PostgreSQL warns: %s (SQLSTATE %s)", message, diag.sqlstate, extra=extra)

    def check(self) -> None:
        """Raise LedgerUnavailableError once if a commit is in doubt."""
        reason, self.reason = self.reason, None
        if reason is not None:
            raise LedgerUnavailableError(
                f"PostgreSQL acknowledged the commit with a warning: {reason}. The call may be lost if this server is. "
                "Repeat it: the repeat finds what was kept."
            )


class CommitWatch(CommitWarnings, AbstractContextManager["CommitWatch"]):
    """
    Watches the commit of a caller's transaction; without psycopg below it, it sees nothing.

    Enter it before the transaction is opened, so that it is left after the commit::

        with CommitWatch() as watch, transaction() as connection:
            ...
            watch.observe(connection)

    The server sends warnings only where ``client_min_messages`` is warning or lower, which is PostgreSQL's default;
    SHOW_WARNINGS sees to it.

    Raises:
        LedgerUnavailableError: On leaving a block that raised nothing: the commit is in doubt. Never retry it.
    """

    _connection: Any = None

    def observe(self, connection: Any) -> None:
        """Watch *connection*, as ``apply(connection=…)`` takes it; an AsyncSession must have executed a statement."""
        self._leave()
        self._connection = psycopg_of(connection)
        if self._connection is not None:
            self._connection.add_notice_handler(self.notice)

    def __exit__(self, kind: type[BaseException] | None, *_raised: object) -> None:
        self._leave()
        if kind is None:
            self.check()

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.remove_notice_handler(self.notice)


def psycopg_of(connection: Any) -> Any:
    """Return the psycopg connection under what ``apply(connection=…)`` takes, or None."""
    seen = plain_connection(connection)
    if is_from(seen, SQLALCHEMY):
        seen = seen.connection.driver_connection
    elif is_from(seen, *DJANGO):
        seen = seen.connection
    return seen if is_from(seen, "psycopg") else None


def plain_connection(connection: Any) -> Any:
    """Return *connection* without what SQLAlchemy puts around its Connection: an ORM's session, or asyncio."""
    is_scoped = is_from(connection, "sqlalchemy.orm.scoping", "sqlalchemy.ext.asyncio.scoping")
    seen = connection() if is_scoped else connection
    seen = getattr(seen, "sync_session", seen)  # AsyncSession
    if is_from(seen, "sqlalchemy.orm.session"):
        seen = seen.connection()
    return getattr(seen, "sync_connection", seen)  # AsyncConnection


SQLALCHEMY = "sqlalchemy.engine.base"
DJANGO = ("django.db.backends.base.base", "django.utils.connection")


def is_from(thing: object, *modules: str) -> bool:
    """Return whether the type of *thing*, or one of its bases, is defined in one of *modules*."""
    return any(base.__module__ in modules for base in type(thing).__mro__)


#: The tables whose column ``id`` has a sequence.
_TABLES = ("postings", "anomalies", "findings")
#: How far above the highest id a sequence is set: others may have taken some that are not committed yet.
_STEP = 1_000
_BEHIND = (
    "The sequence {sequence} is behind the ids of {table}, and the ledger's user may not set it, so calls fail or rows "
    "land out of order. Let the table's owner run: SELECT setval('{sequence}', {value}); and, for the next time, "
    "GRANT SELECT, UPDATE ON SEQUENCE {sequence} TO the ledger's user."
)


def _constraint_of(failed: BaseException | None) -> str:
    """Return the constraint that *failed* is about, as psycopg and asyncpg name it below their wrappers; or ""."""
    while failed is not None:
        for holder in (failed, getattr(failed, "diag", None)):
            if isinstance(name := getattr(holder, "constraint_name", None), str):
                return name
        failed = getattr(failed, "orig", failed.__cause__)
    return ""


class Identities:
    """The identities of one ledger's tables in PostgreSQL."""

    def __init__(self, prefix: str) -> None:
        # The keys of partitions have names of their own. A partition takes no ids from before it was made, either.
        self._keys = {f"{prefix}{table}": re.compile(rf"{prefix}{table}(_\w+)?_(pkey|above)") for table in _TABLES}
        texts = [sql_texts(__package__, "hazards.sql", prefix=prefix, table=table) for table in self._keys]
        self._compare = " UNION ALL ".join(each["compare"] for each in texts)
        self._advance = texts[0]["advance"]

    def table_of(self, failed: BaseException) -> str | None:
        """Return the table whose new id was taken already, if that is what any driver's *failed* says."""
        name = _constraint_of(failed)
        return next((table for table, key in self._keys.items() if key.fullmatch(name)), None)

    def behind(self) -> Steps[list[tuple[bool, str]]]:
        """Return whether this user may set it, and what to do else, of each sequence behind its ids; read only."""
        rows: Rows = yield Execute(self._compare, ())
        return [
            (may_set, _BEHIND.format(table=table, sequence=sequence, value=highest + _STEP))
            for table, sequence, highest, last, may_set in rows
            if highest is not None and last is not None and last < highest
        ]

    def hidden(self) -> Steps[list[str]]:
        """Return the sequences that this user may not look at."""
        rows: Rows = yield Execute(self._compare, ())
        return [sequence for _, sequence, highest, last, _ in rows if highest is not None and sequence and last is None]

    def advanced(self, *, failed_table: str | None = None) -> Steps[None]:
        """Set each sequence that is behind its highest id to 1,000 above it; that of *failed_table* must be set."""
        rows: Rows = yield Execute(self._compare, ())
        for table, sequence, highest, last, may_set in rows:
            if sequence is None or highest is None or (last is not None and last >= highest):
                continue
            if last is not None and may_set:
                parameters = (sequence, sequence, highest + _STEP, sequence, highest)
                done: Rows = yield Execute(self._advance, parameters)
                if done:
                    extra = {"event": "ledger.sequence_set"}
                    text = "The sequence %s was behind the ids of %s: set to %s."
                    _LOG.warning(text, sequence, table, done[0][0], extra=extra)
                continue
            if last is None and table != failed_table:
                continue  # This user may not look at it. The doctor says so.
            message = _BEHIND.format(table=table, sequence=sequence, value=highest + _STEP)
            _LOG.error(message, extra={"event": "ledger.sequence_behind"})
            if table == failed_table:
                raise LedgerError(message)
