"""
The connections that a caller may pass with its open transaction, told apart without importing their libraries.

Each is given statements with ``?`` and returns rows; what the database raises passes through as the driver, SQLAlchemy
or Django raises it.
"""

import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from game_operator.errors import LedgerError, TransactionRequiredError
from game_operator.ledger.engine.script import Kind, Rows

#: The rows of a statement, and how many it changed.
Done: TypeAlias = tuple[Rows, int]

_PID = "SELECT pg_backend_pid()"
#: psycopg's connections of callers: whether a pooler is between; None where only one call was seen so far.
_POOLED: WeakKeyDictionary[Any, bool | None] = WeakKeyDictionary()

_ASYNCPG = (
    "connection= leads to a pooler, and SQLAlchemy keeps prepared statements of asyncpg, whose names may lead to "
    "statements of other connections there. Nothing was applied. Make the engine with connect_args="
    "{'statement_cache_size': 0, 'prepared_statement_cache_size': 0, 'prepared_statement_name_func': lambda: "
    "f'__asyncpg_{uuid4()}__'}."
)

_TAKEN = """connection= takes, with a transaction open:
- SqlLedger: sqlite3.Connection, psycopg.Connection, SQLAlchemy's Connection and Session, django.db.connection
- AsyncSqlLedger: psycopg.AsyncConnection, SQLAlchemy's AsyncConnection and AsyncSession
over SQLite or PostgreSQL"""


class Caller(Protocol):
    """A caller's connection."""

    @property
    def kind(self) -> Kind:
        """The kind of its database."""

    @property
    def original(self) -> Any:
        """What the caller passed."""

    def enter(self, pooler: bool | None = None) -> None:
        """
        Make sure that a transaction is open, and is the caller's to commit; else TransactionRequiredError.

        *pooler* says whether a pooler is between it and PostgreSQL; None finds out.
        """

    def execute(self, sql: str, parameters: Sequence[Any]) -> Done:
        """Execute one statement."""


class AsyncCaller(Protocol):
    """A caller's connection of asyncio."""

    @property
    def kind(self) -> Kind:
        """The kind of its database."""

    @property
    def original(self) -> Any:
        """What the caller passed."""

    async def enter(self, pooler: bool | None = None) -> None:
        """
        Make sure that a transaction is open, and is the caller's to commit; else TransactionRequiredError.

        *pooler* says whether a pooler is between it and PostgreSQL; None finds out.
        """

    async def execute(self, sql: str, parameters: Sequence[Any]) -> Done:
        """Execute one statement."""


class _Sqlite3:
    """``sqlite3.Connection``."""

    kind: ClassVar[Kind] = "sqlite"

    def __init__(self, connection: Any) -> None:
        self.original = connection

    def enter(self, pooler: bool | None = None) -> None:  # noqa: ARG002 - for PostgreSQL
        if not self.original.in_transaction:
            raise _required('connection.execute("BEGIN IMMEDIATE") begins one, connection.commit() ends it')

    def execute(self, sql: str, parameters: Sequence[Any]) -> Done:
        cursor = self.original.cursor()
        cursor.row_factory = None  # The caller's own may make dicts.
        text_factory, self.original.text_factory = self.original.text_factory, str  # … and bytes of texts.
        try:
            cursor.execute(sql, parameters)
            return cursor.fetchall(), cursor.rowcount
        finally:
            self.original.text_factory = text_factory
            cursor.close()  # In a traceback that is kept, it would keep a closed connection's locks.


class _Psycopg:
    """``psycopg.Connection``; without autocommit the first statement begins a transaction."""

    kind: ClassVar[Kind] = "postgres"

    def __init__(self, connection: Any) -> None:
        import psycopg

        self.original = connection
        # The caller's own factories may make dicts, or read other placeholders.
        self._cursor = psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
        self._prepare: bool | None = None

    def enter(self, pooler: bool | None = None) -> None:
        _check_psycopg(self.original)
        self._prepare = False if _is_pooled(self.original, pooler) else None

    def execute(self, sql: str, parameters: Sequence[Any]) -> Done:
        cursor = self._cursor
        cursor.execute(_placed(sql, "format"), parameters, prepare=self._prepare)
        try:
            return cursor.fetchall(), cursor.rowcount
        except Exception as failed:
            _check_rowless(failed)
            return [], cursor.rowcount


class _AsyncPsycopg:
    """``psycopg.AsyncConnection``."""

    kind: ClassVar[Kind] = "postgres"

    def __init__(self, connection: Any) -> None:
        import psycopg

        self.original = connection
        self._cursor = psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row)
        self._prepare: bool | None = None

    async def enter(self, pooler: bool | None = None) -> None:
        _check_psycopg(self.original)
        self._prepare = False if await _is_pooled_async(self.original, pooler) else None

    async def execute(self, sql: str, parameters: Sequence[Any]) -> Done:
        cursor = self._cursor
        await cursor.execute(_placed(sql, "format"), parameters, prepare=self._prepare)
        try:
            return await cursor.fetchall(), cursor.rowcount
        except Exception as failed:
            _check_rowless(failed)
            return [], cursor.rowcount


class _Django:
    """``django.db.connection``, or one of ``django.db.connections``."""

    def __init__(self, connection: Any) -> None:
        self.original = connection
        self.kind = _kind(connection.vendor)
        self._pooled: Any = None

    def enter(self, pooler: bool | None = None) -> None:
        if not self.original.in_atomic_block:
            raise _required("with transaction.atomic(): begins one")
        driver = self.original.connection
        self._pooled = driver if _is_pooled(driver, pooler) else None

    def execute(self, sql: str, parameters: Sequence[Any]) -> Done:
        with _unprepared(self._pooled), self.original.cursor() as cursor:
            cursor.execute(_placed(sql, "format"), parameters)
            return cursor.fetchall() if cursor.description else [], cursor.rowcount


class _SqlAlchemy:
    """SQLAlchemy's Connection."""

    def __init__(self, connection: Any, *, original: Any = None) -> None:
        self.original = connection if original is None else original
        self._connection = connection
        self.kind = _kind(connection.dialect.name)
        self._paramstyle = connection.dialect.paramstyle
        self._pooled: Any = None

    def enter(self, pooler: bool | None = None) -> None:
        if not self._connection.in_transaction():
            raise _required("with engine.begin() as connection: or with connection.begin(): begins one")
        if self.kind == "sqlite" and _sqlite_must_begin(self._connection):
            self._connection.exec_driver_sql("BEGIN IMMEDIATE")
        driver = self._connection.connection.driver_connection
        self._pooled = driver if _is_pooled(driver, pooler) else None

    def execute(self, sql: str, parameters: Sequence[Any]) -> Done:
        with _unprepared(self._pooled):
            result = self._connection.exec_driver_sql(_placed(sql, self._paramstyle), tuple(parameters))
        return result.fetchall() if result.returns_rows else [], result.rowcount


class _AsyncSqlAlchemy:
    """SQLAlchemy's AsyncConnection."""

    def __init__(self, connection: Any, *, original: Any = None) -> None:
        self.original = connection if original is None else original
        self._connection = connection
        self.kind = _kind(connection.dialect.name)
        self._paramstyle = connection.dialect.paramstyle
        self._pooled: Any = None

    async def enter(self, pooler: bool | None = None) -> None:
        if not self._connection.in_transaction():
            raise _required("async with engine.begin() as connection: or async with connection.begin(): begins one")
        if self.kind == "sqlite" and _sqlite_must_begin(self._connection.sync_connection):
            await self._connection.exec_driver_sql("BEGIN IMMEDIATE")
        pooled = self._connection.sync_connection.connection
        driver = pooled.driver_connection
        self._pooled = driver if await _is_pooled_async(driver, pooler) else None
        if getattr(pooled.dbapi_connection, "_prepared_statement_cache", None) is not None:
            await self._check_asyncpg(driver, pooler)

    async def _check_asyncpg(self, driver: Any, pooler: bool | None) -> None:
        """Refuse what SQLAlchemy has prepared on asyncpg behind a pooler, where the name leads to any statement."""
        is_first = pooler is None and driver not in _POOLED
        pooled = _remembered(driver) if pooler is None else pooler
        if pooled is None:
            pid = (await self._connection.exec_driver_sql(_PID)).scalar_one()
            pooled = _POOLED[driver] = pid != driver.get_server_pid()
        # The first call on a connection prepares its statements anew, so that each name leads to its own.
        if pooled and not is_first:
            raise LedgerError(_ASYNCPG)

    async def execute(self, sql: str, parameters: Sequence[Any]) -> Done:
        with _unprepared(self._pooled):
            result = await self._connection.exec_driver_sql(_placed(sql, self._paramstyle), tuple(parameters))
        return result.fetchall() if result.returns_rows else [], result.rowcount


def _sqlalchemy_session(session: Any) -> _SqlAlchemy:
    # What the caller has added or changed is to be seen by our statements, as by a query of its own.
    if session.autoflush:
        session.flush()
    return _SqlAlchemy(session.connection(), original=session)


async def _sqlalchemy_async_session(session: Any) -> _AsyncSqlAlchemy:
    if session.sync_session.autoflush:
        await session.flush()
    return _AsyncSqlAlchemy(await session.connection(), original=session)


#: By module and name of the type or one of its bases.
_SYNC: dict[tuple[str, str], Callable[[Any], Caller]] = {
    ("sqlite3", "Connection"): _Sqlite3,
    ("psycopg", "Connection"): _Psycopg,
    ("sqlalchemy.engine.base", "Connection"): _SqlAlchemy,
    ("sqlalchemy.orm.session", "Session"): _sqlalchemy_session,
    ("sqlalchemy.orm.scoping", "scoped_session"): lambda scoped: _sqlalchemy_session(scoped()),
    ("django.db.backends.base.base", "BaseDatabaseWrapper"): _Django,
    ("django.utils.connection", "ConnectionProxy"): _Django,
}
_ASYNC: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("psycopg", "AsyncConnection"): _AsyncPsycopg,
    ("sqlalchemy.ext.asyncio.engine", "AsyncConnection"): _AsyncSqlAlchemy,
    ("sqlalchemy.ext.asyncio.session", "AsyncSession"): _sqlalchemy_async_session,
    ("sqlalchemy.ext.asyncio.scoping", "async_scoped_session"): lambda scoped: _sqlalchemy_async_session(scoped()),
}


def caller_of(connection: Any) -> Caller:
    """
    Return *connection* as a Caller.

    Raises:
        TypeError: It is none that a SqlLedger takes; the message lists those.
    """
    make = _found(type(connection), sync=True)
    if make is None:
        advice = ""
        if _found(type(connection), sync=False):
            advice = " belongs to asyncio: give it to an AsyncSqlLedger, awaited"
        raise _unknown(connection, advice)
    caller: Caller = make(connection)
    return caller


async def async_caller_of(connection: Any) -> AsyncCaller:
    """
    Return *connection* as an AsyncCaller.

    Raises:
        TypeError: It is none that an AsyncSqlLedger takes; the message lists those.
    """
    make = _found(type(connection), sync=False)
    if make is None:
        advice = ""
        if _found(type(connection), sync=True):
            advice = " would block the event loop: give it to a SqlLedger, in the thread that uses it"
        raise _unknown(connection, advice)
    made = make(connection)
    caller: AsyncCaller = await made if inspect.isawaitable(made) else made
    return caller


def _known_pooled(driver: Any, pooler: bool | None) -> bool | None:
    """Return whether our statements on the driver's connection must not be prepared by name; None: look."""
    if getattr(driver, "prepare_threshold", None) is None:
        return False  # Not psycopg, or it prepares nothing.
    return _remembered(driver) if pooler is None else pooler


def _remembered(driver: Any) -> bool | None:
    """Return whether a pooler is before *driver*, and True on its first call; None: look."""
    if driver not in _POOLED:
        # A connection for one call alone is not worth a look: unprepared is right either way.
        _POOLED[driver] = None
        return True
    return _POOLED[driver]


def _is_pooled(driver: Any, pooler: bool | None) -> bool:
    known = _known_pooled(driver, pooler)
    if known is None:
        import psycopg

        cursor = psycopg.Cursor(driver, row_factory=psycopg.rows.scalar_row)
        known = _POOLED[driver] = cursor.execute(_PID, prepare=False).fetchone() != driver.info.backend_pid
    return known


async def _is_pooled_async(driver: Any, pooler: bool | None) -> bool:
    known = _known_pooled(driver, pooler)
    if known is None:
        import psycopg

        cursor = psycopg.AsyncCursor(driver, row_factory=psycopg.rows.scalar_row)
        pid = await (await cursor.execute(_PID, prepare=False)).fetchone()
        known = _POOLED[driver] = pid != driver.info.backend_pid
    return known


@contextmanager
def _unprepared(driver: Any) -> Iterator[None]:
    """Let psycopg's *driver* connection prepare nothing for a statement; None has nothing to be kept from it."""
    if driver is None:
        yield
        return
    before, driver.prepare_threshold = driver.prepare_threshold, None
    try:
        yield
    finally:
        driver.prepare_threshold = before


def sqlstates(failed: BaseException) -> Iterator[str]:
    """Yield PostgreSQL's codes for *failed* as driver, SQLAlchemy or Django wrapped it."""
    seen: BaseException | None = failed
    while seen is not None:
        for error in (seen, getattr(seen, "orig", None)):
            for name in ("sqlstate", "pgcode"):  # The newer drivers' name for it, and psycopg2's.
                state = getattr(error, name, None)
                if isinstance(state, str):
                    yield state
        seen = seen.__cause__


def failure_of(caller: Caller | AsyncCaller) -> Callable[[], bool] | None:
    """Return what says, without asking the server, whether *caller*'s transaction has failed; None if nothing can."""
    connection = getattr(caller, "_connection", caller.original)  # SQLAlchemy's own, where a Session was passed.
    try:
        watched = weakref.ref(getattr(connection, "sync_connection", connection))
    except TypeError:  # sqlite3: its transactions do not fail, but end.
        return None
    return lambda: _has_failed(watched())


def _has_failed(connection: Any) -> bool:
    if getattr(connection, "in_atomic_block", False) and connection.needs_rollback:  # Django
        return True
    # SQLAlchemy would connect again to answer for one that is closed.
    if getattr(connection, "closed", False) or getattr(connection, "invalidated", False):
        return False
    driver = getattr(connection, "connection", connection)
    driver = getattr(driver, "driver_connection", driver)
    status = getattr(getattr(driver, "info", None), "transaction_status", None)
    return getattr(status, "name", "") == "INERROR"


def _found(kind: type, *, sync: bool) -> Callable[[Any], Any] | None:
    makers = _SYNC if sync else _ASYNC
    names = [(base.__module__, base.__qualname__) for base in kind.__mro__]
    return next((makers[name] for name in names if name in makers), None)


def _unknown(connection: Any, advice: str) -> TypeError:
    # No repr: an address with a password may stand in it.
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return TypeError(f"{kind}{advice or ' is not a connection that a ledger can join'}.\n{_TAKEN}")


def _required(how: str) -> TransactionRequiredError:
    return TransactionRequiredError(
        f"connection= has no open transaction, so the call would not be committed together with yours: {how}."
    )


def _kind(name: str) -> Kind:
    if name == "sqlite":
        return "sqlite"
    if name == "postgresql":
        return "postgres"
    raise TypeError(f"connection= leads to a database of the kind {name}.\n{_TAKEN}")


def _check_psycopg(connection: Any) -> None:
    if connection.autocommit and connection.info.transaction_status.name == "IDLE":
        raise _required("with connection.transaction(): begins one")


def _check_rowless(failed: Exception) -> None:
    """Raise *failed* unless it only says that a statement has no rows; in a pipeline nothing tells so before."""
    import psycopg

    if type(failed) is not psycopg.ProgrammingError:  # The server's own refusals have classes of their own.
        raise failed


def _sqlite_must_begin(connection: Any) -> bool:
    """
    Return whether SQLAlchemy's transaction has not begun in SQLite yet.

    Python's sqlite3 begins before the first INSERT, UPDATE or DELETE, and not before a SAVEPOINT, whose RELEASE would
    then commit.
    """
    driver = connection.connection.driver_connection
    if driver.in_transaction:
        return False
    if driver.isolation_level is None or getattr(driver, "autocommit", None) is True:
        raise _required("this engine has the isolation level AUTOCOMMIT; take it away, or begin by yourself")
    return True


@lru_cache(512)
def _placed(sql: str, paramstyle: str) -> str:
    """Return *sql* with the placeholders of *paramstyle*; no text of ours has a ``?`` that is none."""
    if paramstyle == "qmark":
        return sql
    if paramstyle in ("format", "pyformat"):
        return sql.replace("%", "%%").replace("?", "%s")
    if paramstyle in ("numeric", "numeric_dollar"):
        sign = ":" if paramstyle == "numeric" else "$"
        first, *rest = sql.split("?")
        return first + "".join(f"{sign}{number}{part}" for number, part in enumerate(rest, 1))
    raise TypeError(f"connection= takes parameters in the style {paramstyle}, which no driver we know does.\n{_TAKEN}")
