"""``game-operator ledger schema``: the tables as SQL, for review."""

from typing import Literal

import typer

from game_operator.cli.database import DATABASE, LedgerOptions, address_of, check_file
from game_operator.cli.output import remark, say
from game_operator.cli.render import answer


def schema(
    *,
    sql: bool = False,
    grants: str | None = None,
    dialect: Literal["sqlite", "postgres"] | None = None,
    place: LedgerOptions,
) -> None:
    """
    Print the version of the tables, or with --sql the statements that make or migrate them. It changes nothing.

    The statements begin at the version that the tables have. With --dialect no database is asked.
    """
    from game_operator.ledger.engine.schema_sql import schema_sql
    from game_operator.ledger.engine.tables import VERSION
    from game_operator.ledger.staff.queries import tables_at

    if not sql and grants is not None:
        raise typer.BadParameter("--grants says which statements to print. Pass --sql too.")
    if dialect is not None and place.database:
        raise typer.BadParameter("--dialect asks no database. Pass --dialect or --database.")
    kind, version = dialect, 0
    if kind is None:
        address = address_of(place.database, f"Pass --dialect, or --database, or set {DATABASE}.")
        check_file(address, "Check the path, or pass --dialect sqlite.")
        kind, version = tables_at(address, place.table_prefix)
    if grants is not None and kind == "sqlite":
        raise typer.BadParameter("--grants names a role of PostgreSQL. SQLite has no roles.")
    if dialect is not None and not sql:
        answer({"dialect": kind, "to": VERSION}, f"This program needs version {VERSION}.")
        return
    document: dict[str, object] = {"dialect": kind, "from": version, "to": VERSION}
    if not sql:
        has = f"have version {version}" if version else "do not exist"
        answer(document, f"The tables {place.table_prefix}* {has}, and this program needs version {VERSION}.")
        return
    statements = schema_sql(kind, place.table_prefix, after=version, role=grants)
    answer(document | {"statements": statements})
    for line in statements.splitlines():
        say(line)
    if not statements:
        remark(f"The tables {place.table_prefix}* have version {version} already.")
