"""
Databases whose tables are made once and lent again and again: only the rows are removed between two tests.

By the server's processor time, removing rows takes 30 ms, copying a database with tables 90, and making the tables of a
ledger in an empty one 130.
"""

from collections.abc import Callable

import psycopg
from psycopg import sql

from tests.support.postgres import PostgresServer

__all__ = ["LentTables"]

#: Each statement that changes the form of a table writes one of these, or removes one. ANALYZE and VACUUM write sizes.
_CATALOGS = ("class", "attribute", "attrdef", "constraint", "index", "inherits", "trigger", "proc", "type", "policy")
_OURS = "oid >= 16384 AND relkind IN ('r', 'p', 'i')"
_FORM = "SELECT string_agg(part, ' ') FROM ({}) AS parts (part)".format(
    " UNION ALL ".join(
        [f"SELECT format('%s-%s', count(*), max(xmin::text::bigint)) FROM pg_{name}" for name in _CATALOGS]
        + ["SELECT count(*)::text FROM pg_namespace WHERE nspname !~ '^pg_'"]
        + [f"SELECT sum(reltuples)::text FROM pg_class WHERE {_OURS}"]
    )
)
_TABLES = """
SELECT oid::regclass::text FROM pg_class
WHERE oid >= 16384 AND relkind IN ('r', 'p') AND NOT relispartition AND relnamespace <> 'pg_toast'::regnamespace
"""
_SEQUENCES = """
SELECT format('%I.%I', schemaname, sequencename), coalesce(last_value, start_value), last_value IS NOT NULL
FROM pg_sequences
"""
_NEWEST = (
    "SELECT max(newest) FROM (SELECT max(oid) FROM pg_class UNION ALL SELECT max(oid) FROM pg_proc) AS ids (newest)"
)
#: A database that has grown by rows and their remains is made again.
_LARGEST_BYTES = 4 * 1024 * 1024
_RESET = f"""
DO $reset$
DECLARE
    made text;
BEGIN
    FOR made IN
        SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')
        UNION ALL
        SELECT format('DROP %s IF EXISTS %s CASCADE', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, oid::regclass)
        FROM pg_class
        WHERE oid > {{newest}} AND relkind IN ('r', 'p', 'v') AND relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT format('DROP ROUTINE IF EXISTS %s CASCADE', oid::regprocedure) FROM pg_proc
        WHERE oid > {{newest}} AND pronamespace = 'public'::regnamespace
    LOOP
        EXECUTE made;
    END LOOP;
    IF ({_FORM}) <> {{form}} OR (SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE {_OURS}) > {_LARGEST_BYTES} THEN
        RAISE EXCEPTION 'the tables are no longer those that were made';
    END IF;
    SET LOCAL session_replication_role = replica;
    LOCK TABLE {{tables}} IN EXCLUSIVE MODE;
    {{statements}}
    PERFORM pg_stat_reset();
END $reset$
"""


class LentTables:
    """
    Lends databases in which *make* has made tables, with the rows that it has left there.

    Args:
        server: Has the databases.
        make: Makes the tables in the empty database with this URL.
    """

    def __init__(self, server: PostgresServer, make: Callable[[str], None]) -> None:
        self._server = server
        self._make = make
        self._lendable: list[str] = []
        self._template = ""
        # The same for every copy, in which tables have the ids that they have in the template.
        self._reset = ""

    def lend_database(self) -> str:
        """Return the URL of a database with the tables until ``take_back``."""
        return self._lendable.pop() if self._lendable else self._copied()

    def take_back(self, url: str) -> None:
        """
        Cut the connections, drop what a test has made besides, and put the rows back.

        If a test has changed the tables, the database is dropped.
        """
        if self._server.is_put_back(url, self._reset):
            self._lendable.append(url)
        else:
            self._server.drop_database(url)

    def _copied(self) -> str:
        if not self._template:
            self._template = self._server.create_database()
            self._make(self._template)
            with psycopg.connect(self._template, autocommit=True) as connection:
                self._reset = _reset(connection)
        return self._server.create_database(template=self._template)


def _reset(connection: psycopg.Connection) -> str:
    """Return the statement that puts all rows and sequences back, as they are now."""
    tables = [name for (name,) in connection.execute(_TABLES)]
    statements = [f"DELETE FROM {table};" for table in tables]
    for table in tables:
        rows = _value(connection, f"SELECT json_agg(row)::text FROM {table} AS row")
        if rows:
            quoted = sql.Literal(rows).as_string(connection)
            recorded = f"SELECT * FROM json_populate_recordset(NULL::{table}, {quoted})"
            statements.append(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE {recorded};")
    for name, value, is_called in connection.execute(_SEQUENCES):
        statements.append(f"PERFORM setval('{name}', {value}, {is_called});")
    return _RESET.format(
        form=f"'{_value(connection, _FORM)}'",
        newest=_value(connection, _NEWEST),
        tables=", ".join(tables),
        statements=" ".join(statements),
    )


def _value(connection: psycopg.Connection, question: str) -> object:
    row = connection.execute(question.encode()).fetchone()
    return row and row[0]
