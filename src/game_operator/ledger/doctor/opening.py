"""
What each opening of a ledger looks at, because calls may be lost here and the answer costs next to nothing.

What is certain is refused. What an operator may have chosen is a warning in the log, once for each process and
database. `doctor.py` looks at everything else.
"""

import logging

from game_operator.errors import SchemaError
from game_operator.ledger.steps import Execute, Steps, UnwritableError

_LOG = logging.getLogger("game_operator.ledger.opening")

#: The newest posting may be so much later than now: two machines never quite agree.
MOST_AHEAD_MILLIS = 60_000

_SERVER = (
    "SELECT current_setting('server_encoding'), current_setting('fsync'), current_setting('full_page_writes'), "
    "pg_is_in_recovery(), current_setting('transaction_read_only')"
)
_FSYNC = (
    "PostgreSQL runs with fsync = off: a power failure or a crash of its machine loses calls that were answered. Set "
    "fsync = on and reload the server."
)
_FULL_PAGE_WRITES = (
    "PostgreSQL runs with full_page_writes = off: a power failure can damage its tables, unless the disk writes whole "
    "pages. Set full_page_writes = on and reload the server."
)
_logged: set[tuple[str, str]] = set()


def look_at_server(address: str, *, migrate: bool) -> Steps[None]:
    """
    Look at the settings of the PostgreSQL server at *address*.

    Raises:
        SchemaError: The database has an encoding that cannot hold all ids.
        UnwritableError: Nothing can be written there, and *migrate* says that this process will.
    """
    ((encoding, fsync, full_page_writes, is_standby, read_only),) = yield Execute(_SERVER, ())
    if encoding != "UTF8":
        raise SchemaError(
            f"The database has the encoding {encoding}, and the ledger needs UTF8, because ids can hold any text. "
            "Create the database with ENCODING 'UTF8'."
        )
    if migrate and is_standby:
        raise UnwritableError("the server is a standby, which takes no calls: let the address lead to the primary")
    if migrate and read_only == "on":
        raise UnwritableError(
            "transactions of this user are read-only: reset default_transaction_read_only of server, database and role"
        )
    if fsync == "off":
        _warn_once(address, _FSYNC)
    if full_page_writes == "off":
        _warn_once(address, _FULL_PAGE_WRITES)


def _warn_once(address: str, text: str) -> None:
    if (address, text) not in _logged:
        _logged.add((address, text))
        _LOG.warning(text, extra={"event": "ledger.hazard"})
