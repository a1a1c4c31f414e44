"""The version of the tables that comes next, made up: its migration, and a program that has it."""

import os
import shutil
from pathlib import Path

import psycopg

import game_operator
from game_operator.ledger.engine.tables import VERSION
from tests.support.raw_sql import DEFAULT_PREFIX, is_sqlite, run

NEXT = VERSION + 1

#: What it adds: a table, and a column of one that calls write.
_TEXT = f"""-- Version {NEXT}.

CREATE TABLE {{{{prefix}}}}notes (
    note {{column}} PRIMARY KEY
){{strict}};

ALTER TABLE {{{{prefix}}}}bets ADD COLUMN note text;

UPDATE {{{{prefix}}}}meta SET value = {NEXT} WHERE name = 'version';
"""
_MIGRATION = {
    "postgres": _TEXT.format(column='text COLLATE "C"', strict=""),
    "sqlite": _TEXT.format(column="TEXT NOT NULL", strict=" STRICT"),
}


def next_program(folder: Path) -> dict[str, str]:
    """Copy the package to *folder* with the migration, which only adds; return the environment of a process with it."""
    package = folder / "game_operator"
    # With the compiled files, which fit as long as the times do: else each process would compile the package first.
    shutil.copytree(Path(game_operator.__file__).parent, package)
    engine = package / "ledger" / "engine"
    for kind, statements in _MIGRATION.items():
        (engine / "schema" / f"{kind}_{NEXT:04}.sql").write_text(statements)
    tables = engine / "tables.py"
    before, version, after = tables.read_text().partition(f"\nVERSION = {VERSION}\n")
    assert version
    tables.write_text(f"{before}\nVERSION = {NEXT}\n{after}")
    return {**os.environ, "PYTHONPATH": str(folder)}


def run_next_migration(url: str) -> None:
    """Migrate the tables by hand; programs that run go on."""
    text = _MIGRATION["sqlite" if is_sqlite(url) else "postgres"].replace("{prefix}", DEFAULT_PREFIX)
    if is_sqlite(url):
        for statement in text.split(";\n\n"):
            run(url, statement)
    else:
        with psycopg.connect(url) as connection:
            connection.execute(text.encode())


def raise_fence(url: str, oldest: int = NEXT) -> None:
    """Let no program write whose version is below *oldest*."""
    run(url, "UPDATE {p}meta SET value = ? WHERE name = 'oldest_writer'", oldest)
