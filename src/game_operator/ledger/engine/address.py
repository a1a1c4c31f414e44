"""
Addresses of databases: what libpq is given, what Django's settings say, and what a message may show of one.

A password is never shown.
"""

import re
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote, unquote, urlencode

from game_operator.errors import ConfigurationError, shown
from game_operator.ledger.engine.script import Kind

_SECRET_PARAMETER = re.compile(r"([?&](?:ssl)?password=)([^&]*)", re.IGNORECASE)
_HIDDEN = "***"
#: SQLite's name for a database in memory.
IN_MEMORY = ":memory:"
#: Without any of these there is no password: neither in an address nor in libpq's "host=db password=…".
_SECRET_SIGNS = frozenset(":@=? ")


def checked_url(url: object) -> str:
    """Return *url*, the address of a ledger; raise TypeError or ConfigurationError if it is not one."""
    if not isinstance(url, str):
        advice = "sqlite:///wallet.db or postgresql://user:password@host:5432/database"
        if isinstance(url, PurePath):
            advice = shown(f"sqlite:///{url}")
        raise TypeError(f"url must be a str, not {type(url).__name__}. Pass {advice}.")
    if not url.strip():
        raise ConfigurationError(
            f"The ledger's address is {shown(url)}, which is empty. Pass sqlite:///wallet.db or "
            "postgresql://user:password@host:5432/database. If it comes from the environment, check that the variable "
            "is set."
        )
    return url


def is_postgres(url: str) -> bool:
    """Return whether *url* names a PostgreSQL database; SQLAlchemy's spelling names the driver too."""
    return url.partition("://")[0].partition("+")[0] in ("postgresql", "postgres")


def path_of(url: str) -> str:
    """Return the file that ``sqlite:///relative.db`` or ``sqlite:////absolute.db`` names."""
    path = url.removeprefix("sqlite:///").partition("?")[0]
    if not path:
        raise ConfigurationError("sqlite:/// names no file: write sqlite:///wallet.db, or sqlite:////path/to/wallet.db")
    return path if path == IN_MEMORY else str(Path(path))


def check_psycopg() -> None:
    """Load the driver of PostgreSQL; raise ConfigurationError, which names the extra, if it is not installed."""
    import_module("game_operator.ledger.postgres.store")


def address_of(url: str) -> str:
    """
    Return *url* as libpq reads it.

    Raises:
        ConfigurationError: A slash or an at sign of a password was not escaped: libpq would take the rest of it for
            the name of a host or a database, and show it.
    """
    rest = url.partition("://")[2]
    place = rest.partition("?")[0]
    userinfo, at, _ = place.partition("@")
    # For libpq the first @ ends the password; with a slash before it there is none.
    if place.count("@") > 1 or (at and "/" in userinfo):
        raise unreadable()
    return f"postgresql://{rest}"


def unreadable() -> ConfigurationError:
    """Return the error for an address that cannot be read. It shows nothing, for any part may be of the password."""
    return ConfigurationError(
        "The ledger's address cannot be read. Write postgresql://user:password@host:5432/database, and percent-encode "
        "what is special in the password: / is %2F, ? is %3F, # is %23, @ is %40, % is %25."
    )


def unknown_database(url: str) -> ConfigurationError:
    """Return the error for an address of no database that we know."""
    if url and _SECRET_SIGNS.isdisjoint(url):  # The name of a file, most likely.
        return ConfigurationError(
            f"{shown(url)} is not an address of a database. For a file write {shown(f'sqlite:///{url}')[1:-1]}."
        )
    return ConfigurationError(
        f"{shown(shown_address(url))} is not an address of SQLite or PostgreSQL. Use sqlite:///wallet.db or postgresql://…"
    )


def shown_address(url: str) -> str:
    """Return *url* without its password."""
    scheme, colons, rest = url.partition("://")
    if not colons:  # Such as libpq's "host=db password=…".
        return _HIDDEN
    # From the last @, for a password may hold one that was not escaped.
    userinfo, at, place = rest.rpartition("@")
    user, colon, _ = userinfo.partition(":")
    hidden = f"{user}{colon}{_HIDDEN if colon else ''}{at}{place}"
    return f"{scheme}://" + _SECRET_PARAMETER.sub(rf"\1{_HIDDEN}", hidden)


def without_password(text: str, url: str) -> str:
    """Return *text*, such as a driver's message, without the password that stands in *url*."""
    for secret in _passwords(url):
        text = text.replace(secret, _HIDDEN)
    return text


def _passwords(url: str) -> list[str]:
    userinfo = url.partition("://")[2].rpartition("@")[0]
    found = [userinfo.partition(":")[2], *(match[2] for match in _SECRET_PARAMETER.finditer(url))]
    # As written and as meant; a single letter would blot out the message, and reveals nothing.
    forms = {form for secret in found for form in (secret, unquote(secret)) if len(form) > 1}
    return sorted(forms, key=len, reverse=True)


_KINDS: dict[str, Kind] = {"sqlite": "sqlite", "postgresql": "postgres"}
#: The names of libpq's keywords in Django's settings.
_SETTINGS = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def kind_in_django(alias: str) -> Kind:
    """Return the kind of the database *alias*; raise ConfigurationError if no ledger can be there."""
    kind = _KINDS.get(vendor := _django_connection(alias).vendor)
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


def _django_connection(alias: str) -> Any:  # Any: Django has no types.
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
