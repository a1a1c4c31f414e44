"""Addresses of databases: what libpq is given, and what a message may show of one, which is never a password."""

import re
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

from game_operator.errors import ConfigurationError, shown

_PARAMETER = re.compile(r"([?&]([^=&]*)=)([^&]*)")
#: What the name of a parameter has that nobody may see: password, sslpassword, scram_client_key, oauth_client_secret.
_SECRET_WORDS = ("password", "secret", "_key")
_HIDDEN = "***"
#: Where a driver begins a new line with a new sentence, or ends without a full stop.
_SENTENCE_END = re.compile(r"(?<=[^\s.:?])\s*\n\s*(?=[A-Z])|(?<=[^\s.?])\s*\Z")
#: A statement, as PostgreSQL quotes it below its error.
_QUOTED = re.compile(r"\nLINE .*", re.DOTALL)
#: SQLite's name for a database in memory.
IN_MEMORY = ":memory:"
#: What to do where the server has not answered at all.
CHECK_SERVER = "Check its address and password, and that the server runs."
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
    try:
        import psycopg  # noqa: F401 - an extra
    except ImportError as missing:
        raise missing_psycopg() from missing


def missing_psycopg() -> ConfigurationError:
    """Return the error for a driver that is not installed."""
    return ConfigurationError(
        "The ledger's own connection to PostgreSQL needs psycopg 3, also where your application uses asyncpg or "
        'psycopg2. Install the extra "postgres": pip install "game-operator[postgres]"'
    )


def address_of(url: str) -> str:
    """
    Return *url* as libpq reads it.

    Raises:
        ConfigurationError: It cannot be read. Or a slash or an at sign of a password was not escaped: libpq would take
            the rest of it for the name of a host or a database, and show it.
    """
    import psycopg  # An extra.
    from psycopg.conninfo import conninfo_to_dict

    rest = url.partition("://")[2]
    place = rest.partition("?")[0]
    userinfo, at, _ = place.partition("@")
    # libpq ends at U+0000, and cannot be given a lone surrogate, which a byte of another encoding becomes.
    is_text = "\0" not in url and url.isprintable()
    # For libpq the first @ ends the password; with a slash before it there is none.
    if not is_text or place.count("@") > 1 or (at and "/" in userinfo):
        raise _unreadable()
    address = f"postgresql://{rest}"
    try:
        conninfo_to_dict(address)
    except psycopg.ProgrammingError:  # Its text has the whole address.
        raise _unreadable() from None
    return address


# Any: what psycopg.connect takes.
def limits_of(url: str, patience_seconds: float) -> dict[str, Any]:
    """
    Return parameters of libpq by which a silent server is given up; none that the address *url* sets.

    Else libpq waits for hours for a server that vanishes without a word: a cut cable, a firewall's restart. With these,
    the connection is given up and the next of several hosts is found within a receiver's budget.
    """
    from psycopg.conninfo import conninfo_to_dict

    seconds = max(2, round(patience_seconds))
    given = conninfo_to_dict(address_of(url))
    wanted = {
        "connect_timeout": max(2, seconds // 2),
        "tcp_user_timeout": 1000 * seconds,
        "keepalives_idle": seconds,
        "keepalives_interval": max(1, seconds // 3),
        "keepalives_count": 3,
    }
    return {name: value for name, value in wanted.items() if name not in given}


def _unreadable() -> ConfigurationError:
    """Return the error for an address that cannot be read. It shows nothing, for any part may be of the password."""
    return ConfigurationError(
        "The ledger's address cannot be read. Write postgresql://user:password@host:5432/database, and percent-encode "
        "what is special in the password: / is %2F, ? is %3F, # is %23, @ is %40, % is %25. What follows a ? are "
        "parameters of libpq, such as sslmode=verify-full."
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
    # From the last @, because a password may hold one that was not escaped.
    userinfo, at, place = rest.rpartition("@")
    user, colon, _ = userinfo.partition(":")
    hidden = f"{user}{colon}{_HIDDEN if colon else ''}{at}{place}"
    return f"{scheme}://" + _PARAMETER.sub(lambda found: found[1] + _HIDDEN if _is_secret(found) else found[0], hidden)


def _is_secret(parameter: re.Match[str]) -> bool:
    name = unquote(parameter[2]).lower()
    return any(word in name for word in _SECRET_WORDS)


def sentences(failed: BaseException) -> str:
    """Return what a driver says on one line, without our SQL, which servers quote; libpq never says the password."""
    said = _QUOTED.sub("", str(failed))[:300]
    return " ".join(_SENTENCE_END.sub(". ", said).split())
