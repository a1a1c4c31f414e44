"""The tables as SQL that a person reviews and runs: what makes or migrates them, and the rights to serve from them."""

import re

from game_operator.errors import ConfigurationError, shown
from game_operator.ledger.engine.tables import BALANCE_TABLES, VERSION, check_prefix, ddl, lock_of_calls, table_names
from game_operator.ledger.steps import Kind

#: A role that can stand in a statement as it is, in quotes.
_ROLE = re.compile(r"[\w .@-]{1,63}")
#: The tables whose ids come from a sequence, which the ledger sets where it is behind.
_NUMBERED = ("postings", "anomalies", "findings")
_FUNCTIONS = ("make_day", "fold_day")

_BEGIN = {
    "sqlite": "BEGIN IMMEDIATE;\n\n",
    # As when a program migrates: it gives up soon, waits for others that do the same, and stays beside older tables.
    "postgres": """BEGIN;
SET LOCAL lock_timeout = '1s';
SET LOCAL statement_timeout = 0;
SELECT pg_advisory_xact_lock(hashtext('{prefix}migration'));
SELECT pg_advisory_xact_lock(hashtext('{shared}'));
SELECT set_config('search_path', CAST(CAST(relnamespace AS regnamespace) AS text) || ', ' ||
    current_setting('search_path'), true) FROM pg_class WHERE oid = to_regclass('{prefix}meta');

""",
}
_USE_SCHEMA = """DO $$ BEGIN
    EXECUTE 'GRANT USAGE ON SCHEMA ' || (
        SELECT CAST(relnamespace AS regnamespace) FROM pg_class WHERE oid = to_regclass('{prefix}meta')
    ) || ' TO {role}';
END $$;"""


def schema_sql(kind: Kind, prefix: str, *, after: int = 0, role: str | None = None) -> str:
    """
    Return one transaction that makes or migrates the tables, "" if there is nothing to do.

    Args:
        kind: The database.
        prefix: How the names of the tables begin.
        after: The version that the tables have; 0 without tables.
        role: In PostgreSQL, who serves from them, and needs rights for all but migrating.

    Raises:
        ConfigurationError: *prefix* or *role* is invalid.
    """
    parts = [ddl(kind, check_prefix(prefix), after=after)] if after < VERSION else []
    if parts and after and kind == "postgres":
        parts.insert(0, f"{lock_of_calls(prefix)};\n")
    if role is not None:
        parts.append(grants(prefix, role))
    if not parts:
        return ""
    return _BEGIN[kind].format(prefix=prefix, shared=BALANCE_TABLES) + "\n".join(parts) + "\nCOMMIT;\n"


def grants(prefix: str, role: str) -> str:
    """Return what lets *role* do everything in PostgreSQL but migrate the tables *prefix*, which it need not own."""
    if not _ROLE.fullmatch(role):
        raise ConfigurationError(
            f"The role {shown(role)} is invalid.",
            remedy="Pass 1 to 63 letters, digits, blanks and _ . @ - of its name.",
        )
    quoted = f'"{role}"'
    tables = ", ".join(table_names("postgres", prefix))
    sequences = ", ".join(f"{prefix}{name}_id_seq" for name in _NUMBERED)
    functions = ", ".join(f"{prefix}{name}(date)" for name in _FUNCTIONS)
    use = _USE_SCHEMA.replace("{prefix}", prefix).replace("{role}", quoted)
    return f"""-- All but migrating needs these rights. DELETE is for maintain, the default partition for the doctor.
{use}
GRANT SELECT, INSERT, UPDATE ON {tables} TO {quoted};
GRANT SELECT ON {prefix}postings_default TO {quoted};
GRANT DELETE ON {prefix}postings TO {quoted};
GRANT USAGE, SELECT, UPDATE ON SEQUENCE {sequences} TO {quoted};
GRANT EXECUTE ON FUNCTION {functions} TO {quoted};
"""
