"""`game-operator doctor --upgrade`: what an upgrade would refuse is listed before it, and looking changes nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from game_operator.errors import SchemaError
from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.ledger.api import Unit
from tests.cli.support import Run, Told
from tests.support.calls import withdraw
from tests.support.raw_sql import is_sqlite, path_in, rows
from tests.support.raw_sql import run as run_sql
from tests.support.version_1 import old_tables, old_withdraw

pytestmark = pytest.mark.drawn(4, database_url=("postgres",))

YEAR_3000 = 32_503_680_000_000


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An installation of version 1 that has served one bet, on each kind of database."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    old_tables(url)
    if is_sqlite(url):
        Path(path_in(url)).chmod(0o600)
    old_withdraw(url, "b1")
    return url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An installation of version 1 in SQLite, where it alone is meant."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    old_tables(url)
    return url


def findings(told: Told) -> dict[str, tuple[str, str]]:
    """Return the findings and advices by name, with what is said; each says what to do."""
    checks: list[dict[str, str]] = told.document["checks"]
    assert all(check["todo"] for check in checks if check["outcome"] != "ok")
    is_fine = not {"problem", "unreachable"} & {check["outcome"] for check in checks}
    assert told.document["ok"] == is_fine
    assert (told.code == 0) == is_fine
    return {
        check["name"]: (check["outcome"], f"{check['found']} {check['todo']}")
        for check in checks
        if check["outcome"] != "ok"
    }


def problems(told: Told) -> set[str]:
    """Return the names of the findings."""
    return {name for name, (outcome, _) in findings(told).items() if outcome == "problem"}


def everything(url: str) -> list[Any]:
    """Return the schema with its rights, all rows and all files."""
    if is_sqlite(url):
        schema = rows(url, "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2")
        names = [name for kind, name, _ in schema if kind == "table"]
        files = sorted(Path(path_in(url)).parent.iterdir())
        return [schema, files, *(rows(url, f'SELECT * FROM "{name}" ORDER BY 1, 2') for name in names)]
    schema = rows(
        url,
        "SELECT relname, relkind, relfilenode, CAST(relacl AS text) FROM pg_class "
        "WHERE relnamespace = to_regnamespace('public') ORDER BY 1",
    )
    names = [name for name, kind, *_ in schema if kind in "rS"]
    return [schema, *(sorted(map(repr, rows(url, f'SELECT * FROM "{name}"'))) for name in names)]


def own_table(unit: str = "cents", table: str = "players") -> tuple[str, ...]:
    """Return the options for the operator's own table."""
    named = ("--accounts-table", table, "--accounts-key", "id", "--accounts-balance", "balance")
    return (*named, "--accounts-unit", unit)


def test_a_sound_installation(run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine before the upgrade, which it announces, and after it; the address may stand in the environment."""
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", database_url)
    before = findings(run("doctor", "--upgrade", "--json"))
    assert before.keys() == {"tables", "commits"}
    assert "version 1" in before["tables"][1]
    assert "cannot be started any more" in before["tables"][1]
    SqlLedger(database_url).close()
    assert findings(run("doctor", "--upgrade", "--json")).keys() == {"commits"}
    text = run("doctor", "--upgrade")
    assert (text.code, text.err) == (0, "")
    assert "✓ sources: calls of '' are taken" in text.out


PLAYERS = "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance {})"
#: Columns of a table, a row, the unit it is said to hold, and a part of what is said.
REFUSED: dict[str, tuple[str, str, Unit, str]] = {
    "declared_decimals": ("id text PRIMARY KEY, balance numeric(12, 2)", "", "cents", 'unit "units"'),
    "whole_units": ("id text PRIMARY KEY, balance bigint", "", "units", '"cents" or "micros"'),
    "a_fraction": ("id text PRIMARY KEY, balance numeric", "'p1', 102.25", "cents", "102.25"),
    "not_unique": ("id text, balance bigint", "", "cents", "must be unique"),
    "no_such_table": ("", "", "cents", "There is no table no_such_table"),
}


def test_tables_that_would_be_refused(run: Run, database_url: str) -> None:
    """What opening says is said before."""
    told = {}
    for table, (columns, row, unit, part) in REFUSED.items():
        if columns:
            run_sql(database_url, f"CREATE TABLE {table} ({columns})")
        if row:
            run_sql(database_url, f"INSERT INTO {table} VALUES ({row})")
        found = findings(run("doctor", "--upgrade", "--database", database_url, *own_table(unit, table), "--json"))
        outcome, told[table] = found["table of balances"]
        assert (outcome, part in told[table]) == ("problem", True), table
    for table, (_, _, unit, _) in REFUSED.items():
        with pytest.raises(SchemaError) as refused:
            SqlLedger(database_url, accounts=TableAccounts(table=table, key="id", balance="balance", unit=unit))
        assert str(refused.value) in told[table]


def test_a_fraction_behind_the_first_rows(run: Run, database_url: str) -> None:
    """Opening looks at a thousand rows, and the call of this player would be an error: the doctor looks at all."""
    run_sql(database_url, PLAYERS.format("numeric"))
    run_sql(
        database_url,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "
        "INSERT INTO players SELECT CAST(i AS varchar(40)), 100 FROM n",
    )
    options = ("doctor", "--upgrade", "--database", database_url, *own_table(), "--json")
    assert problems(run(*options)) == set()
    run_sql(database_url, "INSERT INTO players VALUES ('p1', 0.5)")
    assert "0.5, and cents have no decimals" in findings(run(*options))["table of balances"][1]
    SqlLedger(database_url, accounts=TableAccounts(table="players", key="id", balance="balance", unit="cents")).close()


def test_a_schema_in_sqlite(run: Run, sqlite_url: str) -> None:
    """The file is there, and the name is wrong: a finding."""
    ran = run("doctor", "--upgrade", "--database", sqlite_url, *own_table(table="shop.players"), "--json")
    assert problems(ran) == {"table of balances"}
    assert "without a schema" in findings(ran)["table of balances"][1]


def test_a_trigger_on_the_balances(run: Run, database_url: str) -> None:
    """It may be harmless, so it is advice. A ledger that has served from a table asks for it, if it is not named."""
    run_sql(database_url, PLAYERS.format("bigint"))
    run_sql(database_url, "INSERT INTO {p}meta VALUES ('balances_elsewhere', 1)")
    if is_sqlite(database_url):
        run_sql(database_url, "CREATE TRIGGER keeper AFTER UPDATE ON players BEGIN SELECT 1; END")
    else:
        function = "suppress_redundant_updates_trigger()"
        run_sql(
            database_url, f"CREATE TRIGGER keeper BEFORE UPDATE ON players FOR EACH ROW EXECUTE FUNCTION {function}"
        )
    outcome, text = findings(run("doctor", "--upgrade", "--database", database_url, *own_table(), "--json"))["updates"]
    assert outcome == "advice"
    assert "the trigger keeper of players" in text
    if not is_sqlite(database_url):
        run_sql(database_url, "CREATE VIEW seen AS SELECT * FROM players")
        behind = findings(run("doctor", "--upgrade", "--database", database_url, *own_table(table="seen"), "--json"))
        assert "the trigger keeper of public.players" in behind["updates"][1]
    unnamed = findings(run("doctor", "--upgrade", "--database", database_url, "--json"))["table of balances"]
    assert unnamed[0] == "advice"
    assert "Pass --accounts-table" in unnamed[1]


def test_two_sources(run: Run, database_url: str) -> None:
    """The migration registers both, so nothing would be refused; a bet that was taken through both is named."""
    old_withdraw(database_url, "b2", "live")
    options = ("doctor", "--upgrade", "--database", database_url, "--json")
    outcome, text = findings(run(*options))["sources"]
    assert outcome == "advice"
    assert "calls of '', 'live' are taken" in text
    assert "debits again" in text
    assert "The bet" not in text
    old_withdraw(database_url, "b1", "live")
    assert "The bet 'b1' was taken" in findings(run(*options))["sources"][1]
    with SqlLedger(database_url) as ledger:
        ledger.add_source("test")
        assert ledger.sources() == ["", "live", "test"]
    assert "'', 'live', 'test'" in findings(run(*options))["sources"][1]


def test_another_ledger_owns_the_balances(run: Run, database_url: str) -> None:
    """A second ledger is refused; one that has served from the table before is a warning."""
    run_sql(database_url, PLAYERS.format("bigint"))
    accounts = TableAccounts(table="players", key="id", balance="balance", unit="cents")
    options = ("doctor", "--upgrade", "--database", database_url, *own_table(), "--json")
    assert problems(run(*options)) == set()
    SqlLedger(database_url, table_prefix="other_", accounts=accounts).close()
    found = findings(run(*options))
    assert found["other ledgers"][0] == "advice"
    assert found["shared balances"][0] == "problem"
    assert "TableAccounts(shared=True)" in found["shared balances"][1]
    with pytest.raises(SchemaError, match="moved by the ledger with the table prefix other_"):
        SqlLedger(database_url, accounts=accounts)
    owner = findings(run(*options, "--table-prefix", "other_"))
    assert "shared balances" not in owner


def test_ledgers_that_share_balances_already(run: Run, database_url: str) -> None:
    """Both of version 1: they go on, with a warning, whichever is first."""
    run_sql(database_url, PLAYERS.format("bigint"))
    accounts = TableAccounts(table="players", key="id", balance="balance", unit="cents")
    run_sql(database_url, "INSERT INTO {p}meta VALUES ('balances_elsewhere', 1)")
    SqlLedger(database_url, table_prefix="other_", accounts=accounts).close()
    run_sql(database_url, "DELETE FROM game_operator_balance_tables")
    options = ("doctor", "--upgrade", "--database", database_url, *own_table(), "--json")
    assert "other_ may move" in findings(run(*options))["shared balances"][1]
    SqlLedger(database_url, table_prefix="other_", accounts=accounts).close()
    assert findings(run(*options))["shared balances"][0] == "advice"
    SqlLedger(database_url, accounts=accounts).close()
    assert findings(run(*options))["shared balances"][0] == "advice"


def test_a_state_that_would_be_refused(run: Run, database_url: str) -> None:
    """An account that a wrong clock has left in the future, and then tables that a newer program has migrated."""
    options = ("doctor", "--upgrade", "--database", database_url, "--json")
    run_sql(database_url, "UPDATE {p}accounts SET at_millis = ?", YEAR_3000)
    ahead = run(*options)
    assert problems(ahead) == {"times"}
    assert "'p1' Set the clocks right" in findings(ahead)["times"][1]
    run_sql(database_url, "UPDATE {p}accounts SET at_millis = 1")
    run_sql(database_url, "UPDATE {p}meta SET value = 99 WHERE name = 'version'")
    newer = run(*options)
    assert problems(newer) == {"tables"}
    assert "Upgrade this program" in findings(newer)["tables"][1]


def test_looking_changes_nothing_and_waits_for_nobody(run: Run, database_url: str) -> None:
    """While a process of version 1 is in the middle of a call."""
    run_sql(database_url, PLAYERS.format("bigint"))
    before = everything(database_url)
    with ExitStack() as stack:
        serving: Any
        if is_sqlite(database_url):
            serving = stack.enter_context(closing(sqlite3.connect(path_in(database_url))))
        else:
            serving = stack.enter_context(psycopg.connect(database_url))
        serving.execute("UPDATE game_operator_accounts SET balance_cents = 0")
        assert problems(run("doctor", "--upgrade", "--database", database_url, *own_table(), "--json")) == set()
        serving.rollback()
    assert everything(database_url) == before


def test_no_ledger_there(run: Run, database_url: str) -> None:
    """A wrong prefix is a finding that names the ledgers there are; a database that is not there is out of reach."""
    wrong = run("doctor", "--upgrade", "--database", database_url, "--table-prefix", "casino_", "--json")
    assert problems(wrong) == {"tables"}
    assert "game_operator_*" in findings(wrong)["tables"][1]
    nowhere = f"{database_url}.nowhere" if is_sqlite(database_url) else "postgresql://ann:Pa55@/no?host=/nowhere"
    told = run("doctor", "--upgrade", "--database", nowhere, "--json")
    assert (told.code, findings(told)["tables"][0]) == (3, "unreachable")
    assert "Pa55" not in told.out
    assert not Path(f"{path_in(database_url)}.nowhere").exists()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(["--upgrade"], "There is no database. Pass --database", id="no database"),
        pytest.param(["--upgrade", "--database", "sqlite:///:memory:"], "nothing to upgrade", id="in memory"),
        pytest.param(
            ["--upgrade", "--database", "mysql://db/x"], "is not an address of SQLite or PostgreSQL", id="another kind"
        ),
        pytest.param(["--upgrade", "--database", "sqlite:///x.db", "--accounts-table", "t"], "all three", id="half"),
        pytest.param(["--database", "sqlite:///x.db"], "are for doctor --upgrade", id="without --upgrade"),
    ],
)
def test_usage(run: Run, args: list[str], told: str) -> None:
    """One sentence, and exit code 2."""
    ran = run("doctor", *args)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert told in ran.err


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644], ids=oct)
def test_a_file_that_others_can_read(run: Run, tmp_path: Path, sqlite_url: str, mode: int) -> None:
    """The upgrade leaves the mode of a file that is there."""
    (tmp_path / "wallet.db").chmod(mode)
    found = findings(run("doctor", "--upgrade", "--database", sqlite_url, "--json"))
    assert ("file" in found) == (mode != 0o600)
    assert "PRAGMA synchronous = FULL" in found["commits"][1]
    if mode != 0o600:
        assert f"chmod 600 {tmp_path / 'wallet.db'}" in found["file"][1]


# --- PostgreSQL alone -------------------------------------------------------------------------------------------------


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """A role that serves calls of version 1 on tables that it does not own."""
    old_tables(postgres_url)
    name = "clerk_" + postgres_url.partition("///")[2].partition("?")[0]
    run_sql(postgres_url, f"CREATE ROLE {name} LOGIN")
    run_sql(postgres_url, f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {name}")
    yield name
    run_sql(postgres_url, f"DROP OWNED BY {name}")
    run_sql(postgres_url, f"DROP ROLE {name}")


def as_role(url: str, role: str) -> str:
    """Return *url* for another user."""
    return url.replace("user=postgres", f"user={role}")


def test_rights_that_will_be_missing(run: Run, postgres_url: str, role: str) -> None:
    """Said to the owner and to the role; the line that is said is what is needed, before and after the migration."""
    owner = ("doctor", "--upgrade", "--database", postgres_url, "--json")
    clerk = ("doctor", "--upgrade", "--database", as_role(postgres_url, role), "--json")
    assert problems(run(*owner)) == {f"rights of {role}"}
    assert problems(run(*clerk)) == {"rights", f"rights of {role}"}
    with pytest.raises(SchemaError):
        SqlLedger(as_role(postgres_url, role))
    line = findings(run(*owner))[f"rights of {role}"][1].partition(", run: ")[2]
    SqlLedger(postgres_url).close()
    assert problems(run(*clerk)) == {f"rights of {role}", "sources"}
    run_sql(postgres_url, line)
    assert problems(run(*clerk)) == problems(run(*owner)) == set()
    with SqlLedger(as_role(postgres_url, role)) as ledger:
        assert ledger.apply(withdraw("b2")).applied


def test_default_privileges(run: Run, postgres_url: str, role: str) -> None:
    """Where the owner has set them, nothing will be missing."""
    run_sql(postgres_url, f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE ON TABLES TO {role}")
    assert problems(run("doctor", "--upgrade", "--database", postgres_url, "--json")) == set()
    SqlLedger(postgres_url).close()
    SqlLedger(as_role(postgres_url, role)).close()


@pytest.mark.parametrize("may_read", [True, False], ids=["who may read", "who may not"])
def test_a_user_who_may_not_write(run: Run, postgres_url: str, role: str, may_read: bool) -> None:
    """SELECT is all that looking needs; what cannot be read says so."""
    run_sql(postgres_url, f"REVOKE INSERT, UPDATE ON ALL TABLES IN SCHEMA public FROM {role}")
    if not may_read:
        run_sql(postgres_url, f"REVOKE SELECT ON game_operator_bets FROM {role}")
    ran = run("doctor", "--upgrade", "--database", as_role(postgres_url, role), "--json")
    assert problems(ran) == (set() if may_read else {"sources"})
    if not may_read:
        assert "permission denied for table game_operator_bets" in findings(ran)["sources"][1]


def behind(url: str, role: str) -> None:
    """Leave a sequence behind its ids."""
    old_withdraw(url, "b1")
    run_sql(url, "ALTER TABLE game_operator_postings ALTER COLUMN id RESTART WITH 1")
    run_sql(url, f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}")
    run_sql(url, f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE ON TABLES TO {role}")


def test_a_sequence_behind_its_ids(run: Run, postgres_url: str, role: str) -> None:
    """The owner's ledger sets it; a role that may not is told the command."""
    behind(postgres_url, role)
    before = everything(postgres_url)
    owner = run("doctor", "--upgrade", "--database", postgres_url, "--json")
    assert findings(owner)["sequences"][0] == "advice"
    clerk = run("doctor", "--upgrade", "--database", as_role(postgres_url, role), "--json")
    assert "sequences" in problems(clerk)
    assert "SELECT setval(" in findings(clerk)["sequences"][1]
    assert everything(postgres_url) == before


def test_commits_that_do_not_wait(run: Run, postgres_url: str, role: str) -> None:
    """Named by role: a call that joins raises them."""
    run_sql(postgres_url, f"ALTER ROLE {role} SET synchronous_commit = 'Local'")
    outcome, text = findings(run("doctor", "--upgrade", "--database", postgres_url, "--json"))["commits"]
    assert (outcome, role in text, "raises it to on" in text) == ("advice", True, True)
