"""What each opening of a ledger looks at, because no call could be stored. The doctor looks at everything else."""

from game_operator.errors import SchemaError
from game_operator.ledger.steps import Execute, Steps, UnwritableError

#: The newest posting may be so much later than now: two machines never quite agree.
MOST_AHEAD_MILLIS = 60_000

_SERVER = "SELECT current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only')"


def look_at_server(*, migrate: bool) -> Steps[None]:
    """
    Look at what a PostgreSQL server takes.

    Raises:
        SchemaError: The database has an encoding that cannot hold all ids.
        UnwritableError: Nothing can be written there, and *migrate* says that this process will.
    """
    ((encoding, is_standby, read_only),) = yield Execute(_SERVER, ())
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
