"""Every kind of connection that a caller can join a ledger's call to, behind one face: real drivers, real databases."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager, nullcontext
from functools import partial
from itertools import count
from operator import methodcaller
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

import psycopg
from anyio.from_thread import start_blocking_portal

from game_operator.ledger import AsyncSqlLedger, Outcome, SqlLedger, Terms
from game_operator.ledger.engine.address import path_of
from game_operator.models.webhooks import WebhookCall

T = TypeVar("T")
DEFAULT = Terms()


class Statements(NamedTuple):
    """What the operator's code does with a connection of one kind; each returns its rows, or an awaitable of them."""

    execute: Callable[[Any, str], Any]
    nested: Callable[[Any, str], Any]  # the statement in a savepoint, made as its library makes them
    commit: Callable[[Any], Any] = methodcaller("commit")
    rollback: Callable[[Any], Any] = methodcaller("rollback")


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


class Kind(NamedTuple, Generic[T]):
    """A kind of connection or wallet: which database it is for, how one is opened, and whether it begins by itself."""

    name: str
    database: str
    open: Callable[..., AbstractContextManager[T]]
    begins_by_itself: bool = False

    def __str__(self) -> str:
        return self.name


CallerKind: TypeAlias = Kind[Joining]


def sqlalchemy_url(url: str, driver: str) -> str:
    """Return the address of a ledger as SQLAlchemy writes it for *driver*."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}+{driver}://{rest}"


def _sqlite3(connection: sqlite3.Connection, sql: str) -> Sequence[Any]:
    return connection.execute(sql).fetchall()


def _sqlite3_nested(connection: sqlite3.Connection, sql: str) -> Sequence[Any]:
    connection.execute("SAVEPOINT mine")
    try:
        return connection.execute(sql).fetchall()
    except sqlite3.Error:
        connection.execute("ROLLBACK TO mine")
        raise
    finally:
        connection.execute("RELEASE mine")


def _psycopg(connection: Any, sql: str) -> Sequence[Any]:
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


def _psycopg_nested(connection: Any, sql: str) -> Sequence[Any]:
    with connection.transaction():
        return _psycopg(connection, sql)


async def _async_psycopg(connection: Any, sql: str) -> Sequence[Any]:
    cursor = await connection.execute(sql.encode())
    return await cursor.fetchall() if cursor.description else []


async def _async_psycopg_nested(connection: Any, sql: str) -> Sequence[Any]:
    async with connection.transaction():
        return await _async_psycopg(connection, sql)


def _alchemy(connection: Any, sql: str) -> Sequence[Any]:
    from sqlalchemy import text

    result = connection.execute(text(sql))
    return result.fetchall() if result.returns_rows else []


def _alchemy_nested(connection: Any, sql: str) -> Sequence[Any]:
    with connection.begin_nested():
        return _alchemy(connection, sql)


async def _async_alchemy(connection: Any, sql: str) -> Sequence[Any]:
    from sqlalchemy import text

    result = await connection.execute(text(sql))
    return result.fetchall() if result.returns_rows else []


async def _async_alchemy_nested(connection: Any, sql: str) -> Sequence[Any]:
    async with connection.begin_nested():
        return await _async_alchemy(connection, sql)


def _django(connection: Any, sql: str) -> Sequence[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def _django_nested(connection: Any, sql: str) -> Sequence[Any]:
    from django.db import transaction

    with transaction.atomic(using=connection.alias):
        return _django(connection, sql)


OF_SQLITE3 = Statements(_sqlite3, _sqlite3_nested)
OF_PSYCOPG = Statements(_psycopg, _psycopg_nested)
OF_ASYNC_PSYCOPG = Statements(_async_psycopg, _async_psycopg_nested)
OF_ALCHEMY = Statements(_alchemy, _alchemy_nested)
OF_ASYNC_ALCHEMY = Statements(_async_alchemy, _async_alchemy_nested)
OF_DJANGO = Statements(_django, _django_nested)


@contextmanager
def _joined(
    url: str,
    statements: Statements,
    connect: Callable[[str], Any],
    begin: Callable[[Any], Any] = lambda _: None,
    **options: Any,
) -> Iterator[Joining]:
    with SqlLedger(url, **options) as ledger, connect(url) as mine:

        def apply(call: WebhookCall, terms: Terms = DEFAULT) -> Outcome:
            return ledger.apply(call, terms=terms, connection=mine)

        yield Joining(mine, apply, partial(statements.execute, mine), partial(begin, mine), mine.commit, mine.rollback)


async def _nothing(_connection: Any) -> None: ...


@contextmanager
def _joined_async(
    url: str,
    statements: Statements,
    connect: Callable[[str], Any],
    begin: Callable[[Any], Any] = _nothing,
    **options: Any,
) -> Iterator[Joining]:
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(AsyncSqlLedger(url, **options)) as ledger,
        portal.wrap_async_context_manager(connect(url)) as mine,
    ):

        def apply(call: WebhookCall, terms: Terms = DEFAULT) -> Outcome:
            return portal.call(partial(ledger.apply, call, terms=terms, connection=mine))

        execute, commit, rollback = (partial(portal.call, each, mine) for each in (statements[0], *statements[2:]))
        yield Joining(mine, apply, execute, partial(portal.call, begin, mine), commit, rollback)


def _to_sqlite3(url: str) -> Any:
    return closing(sqlite3.connect(path_of(url), check_same_thread=False))


@contextmanager
def _to_psycopg(url: str, *, autocommit: bool = False) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=autocommit) as mine:
        yield mine
        mine.rollback()


@asynccontextmanager
async def _to_async_psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as mine:
        yield mine
        await mine.rollback()


@contextmanager
def _to_alchemy(url: str, *, driver: str, orm: bool = False) -> Iterator[Any]:
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    engine = create_engine(sqlalchemy_url(url, driver))
    with Session(engine) if orm else closing(engine.connect()) as mine:
        yield mine
    engine.dispose()


@asynccontextmanager
async def _to_async_alchemy(url: str, *, driver: str, orm: bool = False) -> AsyncIterator[Any]:
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    engine = create_async_engine(sqlalchemy_url(url, driver))
    async with AsyncSession(engine) if orm else engine.connect() as mine:
        yield mine
    await engine.dispose()


async def _begin_async(connection: Any) -> None:
    await connection.begin()


_ALIASES = count(1)


def django_settings(url: str) -> dict[str, Any]:
    """Return the entry of Django's DATABASES for the database at *url*."""
    if url.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path_of(url)}
    parts = urlsplit(url)
    server = {name.upper(): values[0] for name, values in parse_qs(parts.query).items()}
    return {"ENGINE": "django.db.backends.postgresql", "NAME": parts.path.lstrip("/"), **server}


@contextmanager
def django_alias(database: str | dict[str, Any]) -> Iterator[str]:
    """Make Django know a database under an alias, by its URL or by its entry in DATABASES."""
    from django.apps import apps
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure()
    apps.populate(settings.INSTALLED_APPS)
    alias, entry = f"joined_{next(_ALIASES)}", django_settings(database) if isinstance(database, str) else database
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: entry})[alias]
    mine = connections[alias]
    mine.inc_thread_sharing()
    try:
        yield alias
    finally:
        mine.close()
        del connections.settings[alias]


@contextmanager
def _of_django(url: str, **options: Any) -> Iterator[Joining]:
    from django.db import connections, transaction

    open_blocks: list[Any] = []

    def begin() -> None:
        connections[alias] = mine  # Django keeps one for each thread, and a test may go on in another.
        open_blocks.append(transaction.atomic(using=alias))
        open_blocks[-1].__enter__()

    def end(*, undo: bool) -> None:
        if open_blocks:
            mine.set_rollback(undo or mine.needs_rollback)
            open_blocks.pop().__exit__(None, None, None)

    with django_alias(url) as alias:
        mine = connections[alias]
        with _joined(url, OF_DJANGO, lambda _: nullcontext(mine), **options) as joining:
            yield joining._replace(begin=begin, commit=partial(end, undo=False), rollback=partial(end, undo=True))


_BY_BEGIN = methodcaller("execute", "BEGIN")


def _by_alchemy(driver: str, *, orm: bool = False) -> Callable[..., Any]:
    begin: dict[str, Any] = {} if orm else {"begin": methodcaller("begin")}
    return partial(_joined, statements=OF_ALCHEMY, connect=partial(_to_alchemy, driver=driver, orm=orm), **begin)


def _by_async_alchemy(driver: str, *, orm: bool = False) -> Callable[..., Any]:
    begin: dict[str, Any] = {} if orm else {"begin": _begin_async}
    connect = partial(_to_async_alchemy, driver=driver, orm=orm)
    return partial(_joined_async, statements=OF_ASYNC_ALCHEMY, connect=connect, **begin)


_BY_SQLITE3 = partial(
    _joined, statements=OF_SQLITE3, connect=_to_sqlite3, begin=methodcaller("execute", "BEGIN IMMEDIATE")
)
_BY_PSYCOPG = partial(_joined, statements=OF_PSYCOPG, connect=_to_psycopg)
_WITH_AUTOCOMMIT = partial(_BY_PSYCOPG, connect=partial(_to_psycopg, autocommit=True), begin=_BY_BEGIN)
_BY_ASYNC_PSYCOPG = partial(_joined_async, statements=OF_ASYNC_PSYCOPG, connect=_to_async_psycopg)

KINDS = [
    CallerKind("sqlite3", "sqlite", _BY_SQLITE3),
    CallerKind("sqlalchemy connection, pysqlite", "sqlite", _by_alchemy("pysqlite")),
    CallerKind("sqlalchemy session, pysqlite", "sqlite", _by_alchemy("pysqlite", orm=True), True),
    CallerKind("sqlalchemy async connection, aiosqlite", "sqlite", _by_async_alchemy("aiosqlite")),
    CallerKind("sqlalchemy async session, aiosqlite", "sqlite", _by_async_alchemy("aiosqlite", orm=True), True),
    CallerKind("django, sqlite", "sqlite", _of_django),
    CallerKind("psycopg", "postgres", _BY_PSYCOPG, True),
    CallerKind("psycopg, autocommit", "postgres", _WITH_AUTOCOMMIT),
    CallerKind("psycopg async", "postgres", _BY_ASYNC_PSYCOPG, True),
    CallerKind("sqlalchemy connection, psycopg", "postgres", _by_alchemy("psycopg")),
    CallerKind("sqlalchemy session, psycopg", "postgres", _by_alchemy("psycopg", orm=True), True),
    CallerKind("sqlalchemy async connection, asyncpg", "postgres", _by_async_alchemy("asyncpg")),
    CallerKind("sqlalchemy async session, asyncpg", "postgres", _by_async_alchemy("asyncpg", orm=True), True),
    CallerKind("sqlalchemy async connection, psycopg", "postgres", _by_async_alchemy("psycopg")),
    CallerKind("django, postgres", "postgres", _of_django),
]
