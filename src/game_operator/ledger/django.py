"""A ledger in a database of a Django project, found by its entry in ``DATABASES``."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from game_operator.errors import ConfigurationError, LedgerUnavailableError, SchemaError, shown
from game_operator.ledger.api import AccountsSpec
from game_operator.ledger.engine.address import check_psycopg
from game_operator.ledger.engine.process_safety import check_outside
from game_operator.ledger.engine.tables import check_version, found_version, statements
from game_operator.ledger.joined_connections import KINDS
from game_operator.ledger.ownership import Owns
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.staff.queries import Use
from game_operator.ledger.steps import Execute, Kind, Rows, Steps, run

if TYPE_CHECKING:
    from game_operator.telemetry import Telemetry
else:
    Telemetry = object  # Who reads hints at run time loads no OpenTelemetry.

__all__ = ["DjangoLedger"]

T = TypeVar("T")

#: The names of libpq's keywords in Django's settings.
_SETTINGS = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


class DjangoLedger(SqlLedger):
    """
    A ledger in Django's database *alias*, PostgreSQL or SQLite, by its entry in ``DATABASES``.

    It may be made when modules are imported: it connects when it is first used, and follows Django to the test
    database. Each piece of work has a connection, which is closed after it, so that Django can drop that database.
    What it costs to connect is spared by calls that join: ``apply(call, connection=django.db.connection)``, which make
    the tables where they are missing. Everything else is as for ``SqlLedger``.

    Raises:
        ConfigurationError: The database is of another kind. Django has its own errors for settings and aliases.
    """

    _opened_url: str | None = None
    _is_closed = False

    def __init__(
        self,
        alias: str = "default",
        *,
        accounts: AccountsSpec = None,
        migrate: bool = True,
        table_prefix: str = "game_operator_",
        patience_seconds: float = 5.0,
        pooler: bool | None = None,
        clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        telemetry: "Telemetry | None" = None,
        owns: Owns = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            alias,
            accounts=accounts,
            migrate=migrate,
            table_prefix=table_prefix,
            patience_seconds=patience_seconds,
            pooler=pooler,
            clock_millis=clock_millis,
            telemetry=telemetry,
            owns=owns,
            name=name,
        )

    def _locate(self, url: str) -> None:
        self._alias = url

    def _begin(self) -> None:
        self._joiner.make_tables = self._make_tables if self._migrate else None
        if kind_in_django(self._alias) == "postgres":
            check_psycopg()

    @property
    def _url(self) -> str:  # type: ignore[override]  # Django says where it is, and only when it is asked.
        return address_in_django(self._alias)

    def close(self) -> None:
        """Close the ledger: it answers nothing any more."""
        check_outside(self)
        with self._mutex.lock:
            self._is_closed = True
            self._forget()

    def _make_queue(self) -> None:
        super()._make_queue()
        self._depth = 0

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Use a connection alone, to the database that Django uses now; the outermost use closes it."""
        with super()._alone():
            self._depth += 1
            try:
                if self._depth == 1:
                    self._turn()
                yield
            finally:
                self._depth -= 1
                if not self._depth and self._opened_url is not None:
                    self._store.rest()

    @contextmanager
    def _beside(self, use: Use) -> Iterator[Callable[[Callable[[], Steps[T]]], T]]:
        with self._alone():  # It makes the tables, should nobody have done so yet.
            pass
        with super()._beside(use) as read:
            yield read

    def check_source(self, source: str) -> None:
        """Leave the source to the first call, unless a connection was needed before: there may be no database yet."""
        if self._opened_url is not None:
            super().check_source(source)

    def _turn(self) -> None:
        if self._is_closed:
            raise LedgerUnavailableError("The ledger is closed. Open another, or close it later.")
        if self._opened_url != self._url:
            self._forget()
            run(self._open())
            self._opened_url = self._url

    def _forget(self) -> None:
        if self._opened_url is not None:
            self._opened_url = None
            self._store.close()

    def _make_tables(self, kind: Kind) -> Steps[None]:
        """
        Make the tables that a call did not find.

        In PostgreSQL a connection of ours commits them. SQLite has one writer, which is the caller, so they are made in
        the caller's transaction: in a TestCase they are gone with it, and made again by the next.
        """
        if kind == "postgres":
            with self._mutex.lock:
                self._forget()
            with self._alone():
                return
        rows: Rows = yield Execute("PRAGMA database_list", ())
        opened = next((row[2] for row in rows if row[1] == "main"), "")  # "" for one in memory.
        expected = sqlite_file_in_django(self._alias)
        if (Path(opened).resolve() if opened else None) != (expected and expected.resolve()):
            raise SchemaError(
                f"The tables {self._prefix}* are not in the database of connection=, and it is not Django's "
                f"{shown(self._alias)}. Pass django.db.connections[{self._alias!r}]."
            )
        version = check_version((yield from found_version("sqlite", self._prefix)), self._prefix)
        for statement in statements("sqlite", self._prefix, after=version):
            yield Execute(statement, ())


def kind_in_django(alias: str) -> Kind:
    """Return the kind of the database *alias*; raise ConfigurationError if no ledger can be there."""
    kind = KINDS.get(vendor := _django_connection(alias).vendor)
    if kind is None:
        raise ConfigurationError(
            f"Django's database {shown(alias)} is of the kind {vendor}. A ledger needs PostgreSQL or SQLite."
        )
    return kind


def address_in_django(alias: str) -> str:
    """Return the address of the database *alias* as it is now: in a test run, of the test database."""
    if kind_in_django(alias) == "postgres":
        return _postgres_address(_django_connection(alias).settings_dict)
    file = sqlite_file_in_django(alias)
    if file is None:
        raise ConfigurationError(
            f"Django's database {shown(alias)} is in memory, as SQLite's test databases are unless they have a name, "
            "and no connection but Django's can open it. Calls with connection=django.db.connection work there. For "
            f"all else give it a file: DATABASES[{alias!r}]['TEST'] = {{'NAME': BASE_DIR / 'test.sqlite3'}}"
        )
    return f"sqlite:///{file}"


def sqlite_file_in_django(alias: str) -> Path | None:
    """Return the file of the SQLite database *alias*; None for one in memory."""
    name = _django_connection(alias).settings_dict["NAME"]
    text = str(name)
    if isinstance(name, Path) or not (text == ":memory:" or text.startswith("file:")):
        if "?" in text:
            raise ConfigurationError(f"The ledger cannot open the file {shown(text)}: its name has a question mark.")
        return Path(name)
    if text == ":memory:" or "mode=memory" in text:
        return None
    raise ConfigurationError(
        f"NAME of Django's database {shown(alias)} is an address, {shown(text)}. Name the file itself: Path(…)"
    )


def _postgres_address(settings: dict[str, Any]) -> str:  # Any: texts, numbers and other values that a driver takes.
    from psycopg.pq import Conninfo

    options = dict(settings["OPTIONS"])
    # A role is assumed by each connection: what it makes belongs to the role.
    if role := options.pop("assume_role", None):
        quoted = str(role).replace("\\", "\\\\").replace(" ", "\\ ")
        options["options"] = f"{options.get('options', '')} -c role={quoted}".strip()
    known = {each.keyword.decode() for each in Conninfo.get_defaults()}
    found = {name: value for name, value in options.items() if name in known and value is not None}
    found |= {keyword: settings[name] for keyword, name in _SETTINGS.items() if settings[name]}
    if settings["NAME"] is None:
        found["dbname"] = "postgres"
    # By quote, for libpq takes a plus sign for itself.
    return f"postgresql:///?{urlencode(found, quote_via=quote)}"


def _django_connection(alias: str) -> Any:  # Any: Django has no types.
    from django.db import connections

    return connections[alias]
