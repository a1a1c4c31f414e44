"""
Commits that PostgreSQL acknowledges with a warning: the rows are stored here, and perhaps nowhere else.

With synchronous replication a commit waits for the standby. If somebody cancels that wait, PostgreSQL keeps the commit
on this server and answers COMMIT with a warning alone. A failover then loses the call.
"""

import logging
from typing import Any

from game_operator.errors import LedgerUnavailableError

#: A column for a SELECT in a caller's transaction: until its end the server sends warnings, which a role may turn off.
SHOW_WARNINGS = (
    "(SELECT set_config('client_min_messages', 'warning', true) WHERE current_setting('client_min_messages') IN "
    "('error', 'fatal', 'panic'))"
)

_LOG = logging.getLogger("game_operator.ledger")
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
        if _is_doubt(diag):
            self.reason = message
        else:
            _LOG.warning("PostgreSQL warns: %s (SQLSTATE %s)", message, diag.sqlstate)

    def check(self) -> None:
        """Raise LedgerUnavailableError once if a commit is in doubt."""
        reason, self.reason = self.reason, None
        if reason is not None:
            raise LedgerUnavailableError(
                f"PostgreSQL acknowledged the commit with a warning: {reason}. The call may be lost if this server is. "
                "Repeat it: the repeat finds what was kept."
            )


def _is_doubt(diag: Any) -> bool:
    if diag.source_function == _WAITS_FOR_STANDBY or diag.sqlstate in _STATES:
        return True
    # Some servers and poolers leave the source out.
    return bool(diag.sqlstate == _WARNING and not diag.source_function)


class CommitWatch:
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

    def __init__(self) -> None:
        self._warnings = CommitWarnings()
        self._connection: Any = None

    def observe(self, connection: Any) -> None:
        """Watch *connection*, as ``apply(connection=…)`` takes it; an AsyncSession must have executed a statement."""
        self._leave()
        self._connection = psycopg_of(connection)
        if self._connection is not None:
            self._connection.add_notice_handler(self._warnings.notice)

    def __enter__(self) -> "CommitWatch":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_raised: object) -> None:
        self._leave()
        if kind is None:
            self._warnings.check()

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.remove_notice_handler(self._warnings.notice)


def psycopg_of(connection: Any) -> Any:
    """Return the psycopg connection under what ``apply(connection=…)`` takes, or None."""
    seen = connection() if _is(connection, "sqlalchemy.orm.scoping", "sqlalchemy.ext.asyncio.scoping") else connection
    seen = getattr(seen, "sync_session", seen)  # AsyncSession
    if _is(seen, "sqlalchemy.orm.session"):
        seen = seen.connection()
    seen = getattr(seen, "sync_connection", seen)  # AsyncConnection
    if _is(seen, "sqlalchemy.engine.base"):
        seen = seen.connection.driver_connection
    elif _is(seen, "django.db.backends.base.base", "django.utils.connection"):
        seen = seen.connection
    return seen if _is(seen, "psycopg") else None


def _is(thing: object, *modules: str) -> bool:
    return any(base.__module__ in modules for base in type(thing).__mro__)
