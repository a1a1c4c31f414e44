"""Where Django keeps its data, as an address: read from its settings, and from nowhere else."""

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from game_operator.errors import ConfigurationError, shown
from game_operator.ledger.accounts.choice import Kind

__all__ = ["address_in_django", "kind_in_django", "sqlite_file_in_django"]

_KINDS: dict[str, Kind] = {"sqlite": "sqlite", "postgresql": "postgres"}
#: What Django's settings call by names of their own.
_SETTINGS = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def kind_in_django(alias: str) -> Kind:
    """
    Return the kind of the database *alias*; a backend of your own counts as what it is made of.

    Raises:
        ConfigurationError: Django is not there or not configured, has no such database, or it is of another kind.
    """
    kind = _KINDS.get(vendor := _connection(alias).vendor)
    if kind is None:
        raise ConfigurationError(
            f"Django's database {shown(alias)} is of the kind {vendor}. A ledger needs PostgreSQL or SQLite."
        )
    return kind


def address_in_django(alias: str) -> str:
    """
    Return the address of the database *alias* as it is now: in a test run, of the test database.

    Raises:
        ConfigurationError: It is a database in memory, which no other connection can open; and as ``kind_in_django``.
    """
    if kind_in_django(alias) == "postgres":
        return _postgres_address(_connection(alias).settings_dict)
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
    name = _connection(alias).settings_dict["NAME"]
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


def _postgres_address(settings: dict[str, Any]) -> str:  # Any: texts and numbers, and whatever a driver takes.
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


def _connection(alias: str) -> Any:  # Any: Django has no types.
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.db import connections
        from django.db.utils import ConnectionDoesNotExist
    except ImportError as missing:
        raise ConfigurationError("from_django needs Django: pip install django") from missing
    try:
        return connections[alias]
    except ConnectionDoesNotExist:
        known = ", ".join(map(shown, connections))
        raise ConfigurationError(f"Django's DATABASES has no {shown(alias)}. It has {known}.") from None
    except ImproperlyConfigured as problem:
        raise ConfigurationError(f"Django's settings cannot be used: {problem}") from problem
