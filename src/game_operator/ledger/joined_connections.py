"""
The connections that a caller may pass with its open transaction, recognised without importing their libraries.

Each takes statements with ``?`` and returns rows. Errors of the database pass through unchanged.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, ref

from game_operator.errors import LedgerError, TransactionRequiredError
from game_operator.ledger.postgres.hazards import DJANGO, SQLALCHEMY, is_from, plain_connection, psycopg_of
from game_operator.ledger.steps import Connection, Kind, Rows, Steps

#: The rows of a statement, and how many it changed.
Done: TypeAlias = tuple[Rows, int]

#: The kinds of database by the names that Django and SQLAlchemy have for them.
KINDS: dict[str, Kind] = {"sqlite": "sqlite", "postgresql": "postgres"}

_PID = "SELECT pg_backend_pid()"
#: Drivers' connections of callers: whether a pooler is between; None after the first call.
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


class Caller(ABC):
    """A caller's connection. Its methods return work: with a connection of asyncio, each call is awaited."""

    kind: Kind
    #: psycopg's connection behind a pooler, where no statement may be prepared by name.
    _pooled: Any = None

    def __init__(self, connection: Connection) -> None:
        self.connection: Connection = connection
        #: What the caller passed.
        self.original: Any = connection

    @abstractmethod
    def enter(self, pooler: bool | None) -> Steps[None]:
        """
        Raise TransactionRequiredError unless a transaction is open that the caller commits.

        *pooler* says whether a pooler is between it and PostgreSQL; None finds out.
        """

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any]) -> Steps[Done]:
        """Execute one statement."""

    def flush(self, *, forget: bool) -> Steps[None]:  # noqa: ARG002 - for sessions
        """Execute what the operator's code has left for later; with *forget*, keep no row that it has read."""
        yield from ()


class _Sqlite3(Caller):
    """``sqlite3.Connection``."""

    kind = "sqlite"

    def enter(self, pooler: bool | None) -> Steps[None]:  # noqa: ARG002 - for PostgreSQL
        yield from ()
        if not self.connection.in_transaction:
            raise _required('connection.execute("BEGIN IMMEDIATE") begins one, connection.commit() ends it')

    def execute(self, sql: str, parameters: Sequence[Any]) -> Steps[Done]:
        yield from ()
        cursor = self.connection.cursor()
        cursor.row_factory = None  # The caller's own may make dicts.
        text_factory, self.connection.text_factory = self.connection.text_factory, str  # … and bytes of texts.
        try:
            cursor.execute(sql, parameters)
            return cursor.fetchall(), cursor.rowcount
        finally:
            self.connection.text_factory = text_factory
            cursor.close()  # In a traceback that is kept, it would keep a closed connection's locks.


class _Psycopg(Caller):
    """``psycopg.Connection`` and ``AsyncConnection``; without autocommit the first statement begins a transaction."""

    kind = "postgres"

    def enter(self, pooler: bool | None) -> Steps[None]:
        if self.connection.autocommit and self.connection.info.transaction_status.name == "IDLE":
            raise _required("with connection.transaction(): begins one")
        self._prepare = False if (yield from _is_pooled(self.connection, pooler)) else None
        self._cursor = _psycopg_cursor(self.connection)

    def execute(self, sql: str, parameters: Sequence[Any]) -> Steps[Done]:
        cursor = self._cursor
        yield partial(cursor.execute, _placed(sql, "format"), parameters, prepare=self._prepare)
        try:
            return (yield cursor.fetchall), cursor.rowcount
        except Exception as failed:
            # A statement without rows, which in a pipeline is not known before. Errors of the server have subclasses.
            if type(failed).__name__ != "ProgrammingError":
                raise
            return [], cursor.rowcount


class _Django(Caller):
    """``django.db.connection``, or one of ``django.db.connections``."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.kind = _kind(connection.vendor)

    def enter(self, pooler: bool | None) -> Steps[None]:
        if not self.connection.in_atomic_block:
            raise _required("with transaction.atomic(): begins one")
        driver = self.connection.connection
        self._pooled = driver if (yield from _is_pooled(driver, pooler)) else None

    def execute(self, sql: str, parameters: Sequence[Any]) -> Steps[Done]:
        yield from ()
        with _unprepared(self._pooled), self.connection.cursor() as cursor:
            cursor.execute(_placed(sql, "format"), parameters)
            return cursor.fetchall() if cursor.description else [], cursor.rowcount


class _SqlAlchemy(Caller):
    """SQLAlchemy's Connection and AsyncConnection."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.kind, self._paramstyle = _kind(connection.dialect.name), connection.dialect.paramstyle

    def enter(self, pooler: bool | None) -> Steps[None]:
        if not self.connection.in_transaction():
            how = "async with" if hasattr(self.connection, "sync_connection") else "with"
            raise _required(f"{how} engine.begin() as connection: or {how} connection.begin(): begins one")
        plain: Connection = getattr(self.connection, "sync_connection", self.connection)
        driver = plain.connection.driver_connection
        # Python's sqlite3 begins before the first INSERT, UPDATE or DELETE, and not before a SAVEPOINT, whose RELEASE
        # would then commit.
        if self.kind == "sqlite" and not driver.in_transaction:
            if driver.isolation_level is None or getattr(driver, "autocommit", None) is True:
                raise _required("this engine has the isolation level AUTOCOMMIT; remove it, or begin by yourself")
            yield partial(self.connection.exec_driver_sql, "BEGIN IMMEDIATE")
        self._pooled = driver if (yield from _is_pooled(driver, pooler)) else None
        if getattr(plain.connection.dbapi_connection, "_prepared_statement_cache", None) is not None:
            yield from self._check_asyncpg(driver, pooler)

    def _check_asyncpg(self, driver: Any, pooler: bool | None) -> Steps[None]:
        """Refuse what SQLAlchemy has prepared on asyncpg behind a pooler, where the name leads to any statement."""
        is_first = pooler is None and driver not in _POOLED
        pooled = _remembered(driver) if pooler is None else pooler
        if pooled is None:
            pid = (yield partial(self.connection.exec_driver_sql, _PID)).scalar_one()
            pooled = _POOLED[driver] = pid != driver.get_server_pid()
        # The first call on a connection prepares its statements anew, so that each name leads to its own.
        if pooled and not is_first:
            raise LedgerError(_ASYNCPG)

    def execute(self, sql: str, parameters: Sequence[Any]) -> Steps[Done]:
        with _unprepared(self._pooled):
            result = yield partial(self.connection.exec_driver_sql, _placed(sql, self._paramstyle), tuple(parameters))
        return result.fetchall() if result.returns_rows else [], result.rowcount


class _Session(_SqlAlchemy):
    """SQLAlchemy's Session and AsyncSession."""

    def __init__(self, connection: Connection, session: Any) -> None:
        super().__init__(connection)
        self.original = session

    def flush(self, *, forget: bool) -> Steps[None]:
        yield self.original.flush
        # A row that was read before our statements has the balance of then: changed, it would be written back.
        if forget:
            self.original.expire_all()


def _sqlalchemy_session(session: Any) -> Steps[Caller]:
    # What the caller has added or changed must be visible to our statements, as to the caller's queries.
    if getattr(session, "sync_session", session).autoflush:
        yield session.flush
    return _Session((yield session.connection), session)


#: Connections by module and name of their type or one of its bases: whether asyncio awaits them, and what is made.
_CALLERS: dict[tuple[str, str], tuple[bool, Callable[[Any], Caller | Steps[Caller]]]] = {
    ("sqlite3", "Connection"): (False, _Sqlite3),
    ("psycopg", "Connection"): (False, _Psycopg),
    ("psycopg", "AsyncConnection"): (True, _Psycopg),
    ("sqlalchemy.engine.base", "Connection"): (False, _SqlAlchemy),
    ("sqlalchemy.orm.session", "Session"): (False, _sqlalchemy_session),
    ("sqlalchemy.orm.scoping", "scoped_session"): (False, lambda scoped: _sqlalchemy_session(scoped())),
    ("sqlalchemy.ext.asyncio.engine", "AsyncConnection"): (True, _SqlAlchemy),
    ("sqlalchemy.ext.asyncio.session", "AsyncSession"): (True, _sqlalchemy_session),
    ("sqlalchemy.ext.asyncio.scoping", "async_scoped_session"): (True, lambda scoped: _sqlalchemy_session(scoped())),
    ("django.db.backends.base.base", "BaseDatabaseWrapper"): (False, _Django),
    ("django.utils.connection", "ConnectionProxy"): (False, _Django),
}


def caller_of(connection: Connection, *, awaits: bool) -> Steps[Caller]:
    """Return *connection* as a Caller; raise TypeError if a ledger that *awaits*, or not, does not take it."""
    kind = type(connection)
    known = (_CALLERS.get((base.__module__, base.__qualname__)) for base in kind.__mro__)
    is_awaited, make = next(filter(None, known), (None, None))
    if make is None or is_awaited is not awaits:
        advice = " is not a connection that a ledger can join"
        if is_awaited:
            advice = " belongs to asyncio: give it to an AsyncSqlLedger, awaited"
        elif make is not None:
            advice = " would block the event loop: give it to a SqlLedger, in the thread that uses it"
        # No repr: it may contain an address with a password.
        raise TypeError(f"{kind.__module__}.{kind.__qualname__}{advice}.\n{_TAKEN}")
    made = make(connection)
    return made if isinstance(made, Caller) else (yield from made)


def _remembered(driver: Any) -> bool | None:
    """Return whether a pooler is before *driver*, and True on its first call; None if it is not known yet."""
    if driver not in _POOLED:
        # A connection that serves one call is not worth a query: unprepared statements work either way.
        _POOLED[driver] = None
        return True
    return _POOLED[driver]


def _is_pooled(driver: Any, pooler: bool | None) -> Steps[bool]:
    """Return whether our statements on the driver's connection must not be prepared by name."""
    if getattr(driver, "prepare_threshold", None) is None:
        return False  # Not psycopg, or it prepares nothing.
    known = _remembered(driver) if pooler is None else pooler
    if known is None:
        cursor = _psycopg_cursor(driver)
        yield partial(cursor.execute, _PID, prepare=False)
        known = _POOLED[driver] = (yield cursor.fetchone)[0] != driver.info.backend_pid
    return known


def _psycopg_cursor(connection: Connection) -> Any:
    """Return a plain cursor; the caller's own factories may make dicts, or read other placeholders."""
    import psycopg

    cursor_class: Any = psycopg.AsyncCursor if isinstance(connection, psycopg.AsyncConnection) else psycopg.Cursor
    return cursor_class(connection, row_factory=psycopg.rows.tuple_row)


@contextmanager
def _unprepared(driver: Any) -> Iterator[None]:
    """Keep psycopg's *driver* connection from preparing a statement by name; None is any other driver."""
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


def failure_of(caller: Caller) -> Callable[[], bool] | None:
    """Return what says, without asking the server, whether *caller*'s transaction has failed; None if nothing can."""
    try:
        watched = ref(getattr(caller.connection, "sync_connection", caller.connection))
    except TypeError:  # sqlite3: its transactions do not fail, but end.
        return None

    def has_failed() -> bool:
        connection: Connection = watched()
        if getattr(connection, "in_atomic_block", False) and connection.needs_rollback:  # Django
            return True
        # SQLAlchemy would connect again to answer for one that is closed.
        if getattr(connection, "closed", False) or getattr(connection, "invalidated", False):
            return False
        driver = psycopg_of(connection)
        return driver is not None and driver.info.transaction_status.name == "INERROR"

    return has_failed


def left_open(connection: Connection) -> Callable[[], bool]:
    """
    Return what says, after its block was left, whether the transaction of *connection* may not be committed.

    It may be nested, open still, or gone with a connection that was closed. Call this inside the block. The answer is a
    sign and proves nothing: a pool may have lent the connection again.
    """
    plain = plain_connection(connection)
    if is_from(plain, SQLALCHEMY):
        was_nested = plain.in_nested_transaction()
        return lambda: was_nested or plain.get_transaction() is not None  # One that was rolled back stays there, too.
    if is_from(plain, *DJANGO):
        was_nested = bool(plain.savepoint_ids)
        return lambda: was_nested or _is_driver_in_transaction(plain.connection)
    return lambda: _is_driver_in_transaction(plain)


def _is_driver_in_transaction(driver: Any) -> bool:
    if is_from(driver, "psycopg"):
        return bool(driver.info.transaction_status.name != "IDLE")
    try:
        return bool(getattr(driver, "in_transaction", False))
    except Exception:  # sqlite3's, which is not imported here, for a connection that is closed.
        return True


def _required(how: str) -> TransactionRequiredError:
    return TransactionRequiredError(
        f"connection= has no open transaction, so the call would not be committed together with yours: {how}."
    )


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise TypeError(f"connection= leads to a database of the kind {name}.\n{_TAKEN}")
    return KINDS[name]


@lru_cache(512)
def _placed(sql: str, paramstyle: str) -> str:
    """Return *sql* with the placeholders of *paramstyle*; each ``?`` of ours is a placeholder."""
    if paramstyle == "qmark":
        return sql
    if paramstyle in ("format", "pyformat"):
        return sql.replace("%", "%%").replace("?", "%s")
    if paramstyle in ("numeric", "numeric_dollar"):
        sign = ":" if paramstyle == "numeric" else "$"
        first, *rest = sql.split("?")
        return first + "".join(f"{sign}{number}{part}" for number, part in enumerate(rest, 1))
    raise TypeError(f"connection= takes parameters in the style {paramstyle}, which no driver we know does.\n{_TAKEN}")
