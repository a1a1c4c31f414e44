"""
Statements prepared on one connection to PostgreSQL, and executed through libpq itself, which psycopg wraps.

A cursor of psycopg looks up adapters, types and what is prepared for each of its parameters: more than all else that
a lone call costs this process. Here all is text, what is sent and what comes back.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from psycopg import errors, generators
from psycopg.pq import ExecStatus, Format

from game_operator.ledger.postgres.express import Statement
from game_operator.ledger.postgres.sessions import statement_name

__all__ = ["Prepared"]

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn, PGresult


class Prepared:
    """What is prepared on one connection; the next connection needs another."""

    def __init__(self, pgconn: "PGconn") -> None:
        self._pgconn = pgconn
        self._names: dict[str, bytes] = {}

    def execution(self, statement: Statement) -> "PQGen[list[list[str]]]":
        """Return what the connection is to ``wait`` for: the rows of *statement*, executed alone and committed."""
        try:
            return (yield from self._executed(statement))
        except errors.InvalidSqlStatementName:
            # After a rollback psycopg drops whatever is prepared. Nothing has been done so far.
            self._names.clear()
            return (yield from self._executed(statement))

    def _executed(self, statement: Statement) -> "PQGen[list[list[str]]]":
        name = self._names.get(statement.sql)
        if name is None:
            sql = statement.sql.encode()
            name = statement_name(sql)
            self._pgconn.send_prepare(name, sql)
            yield from self._result()
            self._names[statement.sql] = name
        values = [None if text is None else text.encode() for text in statement.parameters]
        # Binary, which for a text is its bytes as they are: otherwise libpq would cut it at a NUL, and not refuse it.
        self._pgconn.send_query_prepared(name, values, [Format.BINARY] * len(values))
        return _rows((yield from self._result()))

    def _result(self) -> "Generator[Any, Any, PGresult]":  # Any: what psycopg's own generator and wait() exchange
        result: PGresult = (yield from generators.execute(self._pgconn))[-1]
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise errors.error_from_result(result)
        return result


def _rows(result: "PGresult") -> list[list[str]]:
    columns = range(result.nfields)
    return [[_text(result.get_value(row, column)) for column in columns] for row in range(result.ntuples)]


def _text(value: bytes | None) -> str:
    assert value is not None  # No column of the express lane is ever NULL.
    return value.decode()
