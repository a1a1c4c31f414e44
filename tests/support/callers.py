"""Every kind of connection that a caller can join a ledger's call to, behind one face: real drivers, real databases."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import psycopg
from anyio.from_thread import BlockingPortal, start_blocking_portal

from game_operator.ledger import AsyncSqlLedger, Outcome, SqlLedger, Terms
from game_operator.ledger.engine.address import path_of
from game_operator.models.webhooks import WebhookCall

__all__ = ["KINDS", "CallerKind", "Joining", "django_alias", "sqlalchemy_url"]

DEFAULT = Terms()


class Joining(NamedTuple):
    """A caller with a connection of some kind; all is called from a thread, whatever the kind."""

    connection: Any
    apply: Callable[..., Outcome]
    execute: Callable[[str], Sequence[Any]]
    begin: Callable[[], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]

    def scalar(self, sql: str) -> Any:
        """Return the one value that *sql* selects."""
        return self.execute(sql)[0][0]


class CallerKind(NamedTuple):
    """A kind of connection: which database it is for, how one is opened, and whether it begins by itself."""

    name: str
    database: str
    open: Callable[..., AbstractContextManager[Joining]]
    begins_by_itself: bool = False

    def __str__(self) -> str:
        return self.name


def sqlalchemy_url(url: str, driver: str) -> str:
    """Return the address of a ledger as SQLAlchemy writes it for *driver*."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}+{driver}://{rest}"


def _sync_apply(ledger: SqlLedger, connection: Any) -> Callable[..., Outcome]:
    return lambda call, terms=DEFAULT: ledger.apply(call, terms=terms, connection=connection)


@contextmanager
def _sqlite3(url: str, **options: Any) -> Iterator[Joining]:
    import sqlite3

    with SqlLedger(url, **options) as ledger, closing(sqlite3.connect(path_of(url), check_same_thread=False)) as mine:
        yield Joining(
            mine,
            _sync_apply(ledger, mine),
            lambda sql: mine.execute(sql).fetchall(),
            lambda: mine.execute("BEGIN IMMEDIATE"),
            mine.commit,
            mine.rollback,
        )


@contextmanager
def _psycopg(url: str, *, autocommit: bool = False, **options: Any) -> Iterator[Joining]:
    with SqlLedger(url, **options) as ledger, psycopg.connect(url, autocommit=autocommit) as mine:

        def execute(sql: str) -> Sequence[Any]:
            cursor = mine.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

        begin = (lambda: mine.execute("BEGIN")) if autocommit else (lambda: None)
        yield Joining(mine, _sync_apply(ledger, mine), execute, begin, mine.commit, mine.rollback)
        mine.rollback()


@contextmanager
def _psycopg_autocommit(url: str, **options: Any) -> Iterator[Joining]:
    with _psycopg(url, autocommit=True, **options) as joining:
        yield joining


@contextmanager
def _async_psycopg(url: str, **options: Any) -> Iterator[Joining]:
    with start_blocking_portal("asyncio") as portal, _async_ledger(portal, url, options) as ledger:

        async def connect() -> psycopg.AsyncConnection[Any]:
            return await psycopg.AsyncConnection.connect(url)

        mine = portal.call(connect)

        async def execute(sql: str) -> Sequence[Any]:
            cursor = await mine.execute(sql.encode())
            return await cursor.fetchall() if cursor.description else []

        yield _from_portal(portal, ledger, mine, execute, None, mine.commit, mine.rollback)
        portal.call(mine.close)


@contextmanager
def _alchemy_connection(url: str, driver: str, **options: Any) -> Iterator[Joining]:
    from sqlalchemy import create_engine

    engine = create_engine(sqlalchemy_url(url, driver))
    with SqlLedger(url, **options) as ledger, closing(engine.connect()) as mine:

        def execute(sql: str) -> Sequence[Any]:
            result = mine.exec_driver_sql(sql)
            return result.fetchall() if result.returns_rows else []

        yield Joining(mine, _sync_apply(ledger, mine), execute, mine.begin, mine.commit, mine.rollback)
    engine.dispose()


@contextmanager
def _alchemy_session(url: str, driver: str, **options: Any) -> Iterator[Joining]:
    from sqlalchemy import create_engine, text
    from sqlalchemy.orm import Session

    engine = create_engine(sqlalchemy_url(url, driver))
    with SqlLedger(url, **options) as ledger, Session(engine) as mine:

        def execute(sql: str) -> Sequence[Any]:
            result: Any = mine.execute(text(sql))
            return result.fetchall() if result.returns_rows else []

        yield Joining(mine, _sync_apply(ledger, mine), execute, lambda: None, mine.commit, mine.rollback)
    engine.dispose()


@contextmanager
def _alchemy_async_connection(url: str, driver: str, **options: Any) -> Iterator[Joining]:
    from sqlalchemy.ext.asyncio import create_async_engine

    with start_blocking_portal("asyncio") as portal, _async_ledger(portal, url, options) as ledger:
        engine = create_async_engine(sqlalchemy_url(url, driver))
        mine = engine.connect()
        portal.call(mine.start)

        async def execute(sql: str) -> Sequence[Any]:
            result = await mine.exec_driver_sql(sql)
            return result.fetchall() if result.returns_rows else []

        async def begin() -> None:
            await mine.begin()

        yield _from_portal(portal, ledger, mine, execute, begin, mine.commit, mine.rollback)
        portal.call(mine.close)
        portal.call(engine.dispose)


@contextmanager
def _alchemy_async_session(url: str, driver: str, **options: Any) -> Iterator[Joining]:
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    with start_blocking_portal("asyncio") as portal, _async_ledger(portal, url, options) as ledger:
        engine = create_async_engine(sqlalchemy_url(url, driver))
        mine = AsyncSession(engine)

        async def execute(sql: str) -> Sequence[Any]:
            result: Any = await mine.execute(text(sql))
            return result.fetchall() if result.returns_rows else []

        yield _from_portal(portal, ledger, mine, execute, None, mine.commit, mine.rollback)
        portal.call(mine.close)
        portal.call(engine.dispose)


@contextmanager
def _async_ledger(portal: BlockingPortal, url: str, options: dict[str, Any]) -> Iterator[AsyncSqlLedger]:
    ledger = AsyncSqlLedger(url, **options)
    portal.call(ledger.__aenter__)
    yield ledger
    portal.call(ledger.close)


def _from_portal(
    portal: BlockingPortal, ledger: AsyncSqlLedger, mine: Any, execute: Any, begin: Any, commit: Any, rollback: Any
) -> Joining:
    async def apply(call: WebhookCall, terms: Terms = DEFAULT) -> Outcome:
        return await ledger.apply(call, terms=terms, connection=mine)

    return Joining(
        mine,
        lambda call, terms=DEFAULT: portal.call(apply, call, terms),
        lambda sql: portal.call(execute, sql),
        lambda: portal.call(begin) if begin else None,
        lambda: portal.call(commit),
        lambda: portal.call(rollback),
    )


_ALIASES = count(1)


@contextmanager
def django_alias(url: str) -> Iterator[str]:
    """Make Django know the database of *url* under an alias."""
    from django.apps import apps
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure()
    apps.populate(settings.INSTALLED_APPS)
    alias = f"joined_{next(_ALIASES)}"
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: _django_database(url)})[alias]
    mine = connections[alias]
    mine.inc_thread_sharing()
    yield alias
    mine.close()
    del connections.settings[alias]


@contextmanager
def _django(url: str, **options: Any) -> Iterator[Joining]:
    with django_alias(url) as alias:
        yield from _django_joining(url, alias, options)


def _django_joining(url: str, alias: str, options: dict[str, Any]) -> Iterator[Joining]:
    from django.db import connections, transaction

    mine = connections[alias]
    open_blocks: list[Any] = []

    def execute(sql: str) -> Sequence[Any]:
        with mine.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def begin() -> None:
        connections[alias] = mine  # Django keeps one for each thread, and a test may go on in another.
        open_blocks.append(transaction.atomic(using=alias))
        open_blocks[-1].__enter__()

    def end(*, undo: bool) -> None:
        if open_blocks:
            mine.set_rollback(undo or mine.needs_rollback)
            open_blocks.pop().__exit__(None, None, None)

    with SqlLedger(url, **options) as ledger:
        commit, rollback = (lambda: end(undo=False)), (lambda: end(undo=True))
        yield Joining(mine, _sync_apply(ledger, mine), execute, begin, commit, rollback)


def _django_database(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path_of(url)}
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "HOST": query["host"],
        "PORT": query["port"],
        "USER": query["user"],
    }


def _with_driver(opened: Callable[..., Any], driver: str) -> Callable[..., AbstractContextManager[Joining]]:
    return lambda url, **options: opened(url, driver, **options)


KINDS = [
    CallerKind("sqlite3", "sqlite", _sqlite3),
    CallerKind("sqlalchemy connection, pysqlite", "sqlite", _with_driver(_alchemy_connection, "pysqlite")),
    CallerKind("sqlalchemy session, pysqlite", "sqlite", _with_driver(_alchemy_session, "pysqlite"), True),
    CallerKind(
        "sqlalchemy async connection, aiosqlite", "sqlite", _with_driver(_alchemy_async_connection, "aiosqlite")
    ),
    CallerKind(
        "sqlalchemy async session, aiosqlite", "sqlite", _with_driver(_alchemy_async_session, "aiosqlite"), True
    ),
    CallerKind("django, sqlite", "sqlite", _django),
    CallerKind("psycopg", "postgres", _psycopg, True),
    CallerKind("psycopg, autocommit", "postgres", _psycopg_autocommit),
    CallerKind("psycopg async", "postgres", _async_psycopg, True),
    CallerKind("sqlalchemy connection, psycopg", "postgres", _with_driver(_alchemy_connection, "psycopg")),
    CallerKind("sqlalchemy session, psycopg", "postgres", _with_driver(_alchemy_session, "psycopg"), True),
    CallerKind("sqlalchemy async connection, asyncpg", "postgres", _with_driver(_alchemy_async_connection, "asyncpg")),
    CallerKind("sqlalchemy async session, asyncpg", "postgres", _with_driver(_alchemy_async_session, "asyncpg"), True),
    CallerKind("sqlalchemy async connection, psycopg", "postgres", _with_driver(_alchemy_async_connection, "psycopg")),
    CallerKind("django, postgres", "postgres", _django),
]
