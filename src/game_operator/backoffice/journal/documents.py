"""
Documents by name in the ledger's database, such as the last good catalogue of a service.

A document is replaced only if it still is the one that was read. So programs that share a database lose nothing of each
other's, and nothing is locked while one of them thinks.
"""

from functools import lru_cache

from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.office import Office
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.steps import Execute, Steps


@lru_cache
def _statements(prefix: str) -> dict[str, str]:
    return sql_texts(__package__, "documents.sql", prefix=prefix)


def document(ledger: SqlLedger, name: str) -> bytes | None:
    """Return the document called *name*, or None if there is none."""

    def script(dialect: SqlDialect) -> Steps[bytes | None]:
        rows = yield Execute(_statements(dialect.prefix)["read"], (name,))
        return bytes(rows[0][0]) if rows else None

    return Office(ledger).read(script)


def keep_document(ledger: SqlLedger, name: str, body: bytes, *, before: bytes | None) -> bool:
    """
    Store *body* as the document called *name*, with the database's time.

    Args:
        ledger: The ledger in whose database it is stored.
        name: The document's name.
        body: Its content.
        before: The content that it takes the place of; None if there is no such document.

    Returns:
        Whether it is stored. It is not if the document is another one than *before* by now: read it again.
    """

    def script(dialect: SqlDialect) -> Steps[bool]:
        statements, at_millis = _statements(dialect.prefix), (yield from dialect.now_millis())
        if before is None:
            return bool((yield Execute(statements["insert"], (name, body, at_millis))))
        return bool((yield Execute(statements["update"], (body, at_millis, name, before))))

    return Office(ledger).write(script)
