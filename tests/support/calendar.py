"""The clock of a ledger on SQLite or PostgreSQL, which a test moves by days."""

import time
from typing import Self
from urllib.parse import urlsplit

import psycopg

from game_operator.ledger import SqlLedger
from tests.support.raw_sql import DEFAULT_PREFIX, is_sqlite

DAY_MILLIS = 86_400_000

#: What PostgreSQL takes for its own function, because it looks into the schema ``public`` first.
_TURN = """
CREATE TABLE public.turned (millis bigint NOT NULL);
INSERT INTO public.turned VALUES (0);
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN pg_catalog.clock_timestamp() + (SELECT millis FROM public.turned) * interval '1 millisecond';
END $$;
"""
_FUNCTIONS = ("make_day", "fold_day")


class Calendar:
    """
    The clock of the ledgers in one database: the real one, moved by whole days or milliseconds.

    A ``with`` block makes the tables. After it PostgreSQL has its own clock again.
    """

    def __init__(self, url: str, days: float = 0) -> None:
        self.url = url
        self._millis = round(days * DAY_MILLIS)
        self._last = 0
        self._name = urlsplit(url).path.removeprefix("/")

    def __enter__(self) -> Self:
        self._run(_TURN, f"ALTER DATABASE {self._name} SET search_path = public, pg_catalog")
        self.move(0)
        with self.ledger():
            pass
        self._functions("public, pg_catalog, pg_temp")
        return self

    def __exit__(self, *_exc: object) -> None:
        # On a quick machine this clock is ahead by what it has counted on. The one that follows must not be behind it.
        time.sleep(max(0, self._last + 1 - time.time_ns() // 1_000_000) / 1_000)
        self._functions("pg_catalog, pg_temp")
        self._run(f"ALTER DATABASE {self._name} RESET search_path")
        self._run("DROP FUNCTION public.clock_timestamp()", "DROP TABLE public.turned")

    def __call__(self) -> int:
        """Return the time in Unix milliseconds, later each time unless it was moved back."""
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        return self._last + self._millis

    def ledger(self) -> SqlLedger:
        """Open a ledger that has this clock."""
        return SqlLedger(self.url, clock_millis=self)

    def move(self, days: float) -> None:
        """Let *days* pass, or be taken back."""
        self._millis += round(days * DAY_MILLIS)
        self._run(f"UPDATE public.turned SET millis = {self._millis}")

    def _functions(self, path: str) -> None:
        """Let the functions of the migration look for other functions in *path*."""
        self._run(*(f"ALTER FUNCTION {DEFAULT_PREFIX}{name}(date) SET search_path = {path}" for name in _FUNCTIONS))

    def _run(self, *statements: str) -> None:
        """Run statements on PostgreSQL; SQLite has none of these."""
        if not is_sqlite(self.url):
            with psycopg.connect(self.url, autocommit=True) as connection:
                for statement in statements:
                    connection.execute(statement.encode())
