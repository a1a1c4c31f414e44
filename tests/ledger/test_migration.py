"""Migrating the tables to a later version, which these tests make up: what waits, what is refused, and what is said."""

import re
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from game_operator.errors import SchemaError
from game_operator.ledger import SqlLedger
from game_operator.ledger.engine.tables import VERSION
from tests.support.calls import deposit, withdraw
from tests.support.ledgers import funded
from tests.support.next_version import NEXT, next_program
from tests.support.raw_sql import is_sqlite, path_in, rows

pytestmark = [pytest.mark.bare, pytest.mark.outside, pytest.mark.drawn(4, database_url=("postgres",))]

P = "game_operator_"
OPEN = "SqlLedger(url, patience_seconds=0.1).close()"
OPEN_ONLY = "SqlLedger(url, migrate=False).close()"
JOIN = """
import psycopg, sqlite3
from game_operator.ledger.joined_calls import Joiner
from game_operator.ledger.rules.book import Item
from game_operator.ledger.api import DEFAULT_TERMS
from game_operator.ledger.engine.address import path_of
from game_operator.ledger.steps import run
from game_operator.models.webhooks import WithdrawCall
if url.startswith("sqlite:"):
    connection = sqlite3.connect(path_of(url), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
else:
    connection = psycopg.connect(url)
joiner = Joiner("game_operator_", None, lambda: 1, awaits=False)
run(joiner.apply(Item(WithdrawCall(player_id="p1", bet_id="b2", amount_cents=1), DEFAULT_TERMS), connection))
"""


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a program with the next version."""
    return next_program(tmp_path_factory.mktemp("newer"))


@pytest.fixture
def played(database_url: str) -> str:
    """A database with tables of this version, and a bet."""
    with funded(database_url, 100) as ledger:
        ledger.apply(withdraw("b1"))
    return database_url


def newer_run(newer: dict[str, str], code: str, url: str) -> str:
    """Run *code* as a program with the next version; return "", or how it ended with an error of the ledger."""
    program = f"import sys\nfrom game_operator.ledger import SqlLedger\nurl = sys.argv[1]\n{code}"
    ran = subprocess.run([sys.executable, "-c", program, url], env=newer, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return ""
    assert re.search(
        r"^game_operator\.\S+(SchemaError|LedgerUnavailableError|NotReadyError): ", ran.stderr, re.MULTILINE
    )
    return ran.stderr


def newer_says(newer: dict[str, str], database: str, *commands: str) -> str:
    """Return what commands of a program with the next version print, one after the other."""
    each = [["ledger", *command.split(), "--database", database] for command in commands]
    # The exit code 1 stands for findings.
    program = f"from game_operator.cli import main\nassert all(main(each) in (0, 1) for each in {each})"
    ran = subprocess.run([sys.executable, "-c", program], env=newer, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def version(url: str) -> Any:
    """Return the version of the tables."""
    return rows(url, "SELECT value FROM {p}meta WHERE name = 'version'")[0][0]


def test_one_that_only_adds(played: str, newer: dict[str, str]) -> None:
    """The program that runs goes on, both write the same bets, and a new one of this version is refused."""
    with SqlLedger(played) as ledger:
        assert newer_says(newer, played, "migrate") == f"The tables {P}* have version {NEXT}.\n"
        assert rows(played, "SELECT note FROM {p}notes") == []
        assert ledger.apply(deposit("b1")).applied
        assert ledger.apply(withdraw("b2")).applied
        assert "sound" in newer_says(newer, played, "verify", "adjust p1 1.00 --reference r")
        assert ledger.balance("p1") == 10_000 - 500 + 1_250 - 500 + 100
        assert ledger.verify().sound
    with pytest.raises(SchemaError, match=f"have version {NEXT}, and this program knows version {VERSION}.*upgrade"):
        SqlLedger(played)


def test_its_statements_by_hand(played: str, newer: dict[str, str]) -> None:
    """They are printed and in the error, begin at the version that is there, and in PostgreSQL keep calls out first."""
    printed = newer_says(newer, played, "schema --sql")
    refused = newer_run(newer, OPEN_ONLY, played)
    assert f"have version {VERSION}, and this program needs version {NEXT}" in refused
    assert f"-- Version {NEXT}." in refused
    assert "CREATE TABLE game_operator_accounts" not in refused + printed
    assert ("LOCK TABLE game_operator_accounts" in printed) == (not is_sqlite(played))
    script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
    if is_sqlite(played):
        subprocess.run([sys.executable, "-c", script, path_in(played), printed], check=True)
    else:
        with psycopg.connect(played, autocommit=True) as connection:
            connection.execute(printed.encode())
    assert newer_run(newer, OPEN_ONLY, played) == ""


def test_a_newer_program_before_it(played: str, newer: dict[str, str]) -> None:
    """Its joined call names what to do, and its doctor and schema say which version is there."""
    assert "tables game_operator_* are old: open a ledger on their database" in newer_run(newer, JOIN, played)
    said = f"have version {VERSION}, and this program needs version {NEXT}"
    assert said in newer_says(newer, played, "schema")
    assert said in " ".join(newer_says(newer, played, "doctor").split())
    assert version(played) == VERSION


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    "lock",
    [
        f"LOCK TABLE {P}meta IN ACCESS EXCLUSIVE MODE",
        # As a call that is under way: the migration would hold some locks of calls while it waits for others.
        f"UPDATE {P}accounts SET at_millis = at_millis WHERE account = 'p1'",
    ],
    ids=["of the versions", "of a call"],
)
def test_one_that_cannot_have_its_locks(played: str, newer: dict[str, str], lock: str) -> None:
    """It gives up within its patience and changes nothing; afterwards it is done."""
    with psycopg.connect(played) as somebody:
        somebody.execute(lock.encode())
        assert "timeout" in newer_run(newer, OPEN, played)
        with psycopg.connect(played) as looker:
            looker.execute(f"LOCK TABLE {P}postings, {P}calls, {P}bets IN ROW EXCLUSIVE MODE NOWAIT".encode())
        somebody.rollback()
    assert version(played) == VERSION
    assert newer_run(newer, OPEN, played) == ""
    assert version(played) == NEXT
