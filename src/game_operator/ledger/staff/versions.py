"""Which version the tables of a ledger have, old ones too: it only reads, and opens no ledger."""

from functools import partial

from game_operator.errors import ConfigurationError
from game_operator.ledger.engine.address import check_psycopg, is_postgres, unknown_database
from game_operator.ledger.engine.script import Kind
from game_operator.ledger.engine.tables import check_prefix, check_version, found_version
from game_operator.ledger.staff.queries import has_own_snapshot, survey


def kind_of(url: str) -> Kind:
    """Return which database *url* names; raise ConfigurationError if there is nothing to read at it."""
    if is_postgres(url):
        check_psycopg()
        return "postgres"
    if not url.startswith("sqlite:///"):
        raise unknown_database(url)
    if not has_own_snapshot(url):
        raise ConfigurationError("A database in memory ends with its process: it has no tables yet.")
    return "sqlite"


def tables_version(url: str, prefix: str) -> int:
    """
    Return the version of the tables at *url*, 0 without tables.

    Raises:
        ConfigurationError: *url* or *prefix* is invalid.
        LedgerUnavailableError: The database cannot be read.
        SchemaError: The tables are newer than this program.
    """
    script = partial(found_version, kind_of(url), check_prefix(prefix))
    return check_version(survey(url, script, "listing"), prefix)
