"""`game-operator ledger`: what staff does with a ledger, on SQLite and PostgreSQL."""

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path

import psycopg
import pytest

from game_operator.errors import SchemaError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts, Terms
from game_operator.ledger.engine.tables import VERSION, schema_sql
from game_operator.models.webhooks import WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call, read_call
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.command_line import Run, said
from tests.support.documents import ROOT
from tests.support.raw_sql import DEFAULT_PREFIX, damage, is_sqlite, path_in, rows
from tests.support.raw_sql import run as run_sql

pytestmark = pytest.mark.drawn(5, any_database=("postgres",))

VARIABLE = "GAME_OPERATOR_DATABASE_URL"


def with_body(call: WebhookCall) -> WebhookCall:
    """Return *call* as it is read from the body it would come in."""
    return read_call(call.operation, encode_call(call), Profile())[0]


def play(url: str, *calls: WebhookCall, source: str = "") -> None:
    """Apply *calls* to a ledger in which p1 has 100.00."""
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal(100))
        for call in calls:
            ledger.add_source(source)
            ledger.apply(with_body(call), terms=Terms(source=source))


def test_accounts(run: Run, any_database: str) -> None:
    """Opened with exact decimals and adjusted once for each reference; the tables are made on the way."""
    assert run("ledger", "open", "p1", "12.50").out == "p1 holds 12.50.\n"
    assert run("ledger", "open", "p2", "--json").document == {"player_id": "p2", "balance": 0.0, "balance_cents": 0}
    told = run("ledger", "adjust", "p1", "-2.05", "--reference", "cashout-1")
    assert (told.code, told.out, told.err) == (0, "p1 holds 10.45.\n", "")
    told = run("ledger", "adjust", "p1", "-2.05", "--reference", "cashout-1")
    assert (told.code, told.out) == (0, "This reference was known, nothing was moved: p1 holds 10.45.\n")
    expected = {"player_id": "p1", "balance": 10.5, "balance_cents": 1050}
    for applied in (True, False):
        document = run("ledger", "adjust", "--json", "--reference=r2", "p1", "0.05").document
        assert document == {**expected, "applied": applied}
    assert run("ledger", "adjust", "p1", "92233720368547758.07", "--reference=r3").err.startswith(
        "Error: The account 'p1' cannot hold more than 92233720368547758.07. Nothing was moved."
    )


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        pytest.param(("open", "p1"), 1, "`game-operator ledger adjust`", id="open already"),
        pytest.param(("open", " "), 2, "must not be blank", id="a blank id"),
        pytest.param(("open", "p9", "12.505"), 2, "at most two decimals", id="finer than a cent"),
        pytest.param(("open", "p9", "12,50"), 2, "at most two decimals", id="a comma"),
        pytest.param(
            ("adjust", "p1", "0.00", "--reference=r"),
            2,
            "by 0 moves nothing, and would use up its reference.",
            id="adjusted by nothing",
        ),
        pytest.param(("adjust", "p9", "1.00", "--reference=r"), 1, "`game-operator ledger open` first", id="unknown"),
        pytest.param(("adjust", "p1", "1.00"), 2, "--reference", id="no reference"),
        pytest.param(("show",), 2, "one of the two", id="nothing to show"),
        pytest.param(("show", "--player", "p9"), 1, "no account 'p9'", id="an unknown account"),
        pytest.param(("bets", "--until", "2x"), 2, "write 2d, 12h or 30m", id="no age"),
        pytest.param(
            ("bets", "--since", "1d", "--until", "2d"), 2, "nothing is between", id="times in the wrong order"
        ),
        pytest.param(("resolve", "7"), 1, "no anomaly 7", id="an unknown anomaly resolved"),
        pytest.param(("totals", "--from", "yesterday"), 2, "is not a day", id="no day"),
        pytest.param(("totals", "--from=2026-11-22", "--to=2026-11-21"), 2, "before that of --from", id="no days"),
        pytest.param(("totals", "--by", "days"), 2, "is not one of day, game, instance, currency", id="totals by what"),
        pytest.param(("maintain", "--drop-after", "89"), 2, "--drop-after", id="dropped too early"),
    ],
)
def test_what_is_refused(run: Run, file: str, args: tuple[str, ...], code: int, problem: str) -> None:
    """In one sentence, with what to do; as one document for programs; and nothing is moved."""
    with SqlLedger(file) as ledger:
        ledger.open_account("p1", Decimal("12.50"))
        told = run("ledger", *args)
        assert (told.code, told.out) == (code, "")
        assert problem in told.err
        assert problem in run("ledger", *args, "--json").error["message"]
        assert ledger.verify().balances_cents == 1250


def test_the_history_of_a_bet(run: Run, any_database: str) -> None:
    """The bet, its calls, its movements and what was odd."""
    play(any_database, deposit("b1"), withdraw("b1"), deposit("b1"), deposit("b1", amount_cents=1), source="s")
    told = run("ledger", "show", "b1", "--source", "s")
    facts = said(told.out)
    assert (told.code, facts["state"], facts["wager"], facts["won"]) == (0, "CLOSED", "5.00", "12.50")
    for word in ("withdraw:bet:b1", "deposit:bet:b1", "-5.00", "12.50", "early_deposit", "conflicting_deposit"):
        assert word in told.out
    document = run("ledger", "show", "b1", "--source", "s", "--json").document
    assert (document["bet"]["state"], document["bet"]["won_cents"]) == ("CLOSED", 1250)
    assert [call["operation"] for call in document["calls"]] == ["withdraw", "deposit"]
    assert [movement["delta_cents"] for movement in document["movements"]] == [-500, 1250]
    assert [record["kind"] for record in document["anomalies"]] == ["early_deposit", "conflicting_deposit"]


def test_bets_of_which_little_is_known(run: Run, file: str) -> None:
    """One that nobody named is a finding; one that only an anomaly names is shown."""
    play(file, deposit("early"), rollback("tomb", tx_id="withdraw:bet:tomb"))
    told = run("ledger", "show", "nope")
    assert (told.code, told.out.splitlines()[0]) == (1, "The bet 'nope' is not there.")
    assert "No call names it. If it is of a source, add --source. For a player, pass --player." in told.out
    assert run("ledger", "show", "nope", "--json").document["bet"] is None
    told = run("ledger", "show", "early")
    assert (told.code, told.out.splitlines()[0]) == (0, "The bet 'early' is not there.")
    assert "TOMBSTONE" in run("ledger", "show", "tomb").out


def test_an_account(run: Run, file: str) -> None:
    """Its balance, its open bets and its latest movements."""
    play(file, withdraw("b1"), withdraw("b2"), deposit("b2"), claim("c1"))
    told = run("ledger", "show", "--player", "p1")
    facts = said(told.out)
    assert (told.code, facts["player id"], facts["balance"]) == (0, "p1", "105.50")
    assert "Open bets" in told.out
    document = run("ledger", "show", "--player", "p1", "--limit", "2", "--json").document
    assert (document["balance"], document["balance_cents"]) == (105.5, 10550)
    assert [each["tx_id"] for each in document["movements"]] == ["deposit:bet:b2", "c1"]
    assert [bet["bet_id"] for bet in document["open_bets"]] == ["b1"]


def test_sound_books(run: Run, any_database: str) -> None:
    """Totals, and 0."""
    play(any_database, withdraw("b1"), withdraw("b2", amount_cents=10**9))
    told = run("ledger", "verify")
    assert (told.code, told.err) == (0, "")
    assert said(told.out)["bets"] == "OPEN 1, DECLINED 1"
    assert said(told.out)["house"] == "-95.00"
    assert told.out.endswith("✓ The books are sound.\n")
    document = run("ledger", "verify", "--json").document
    assert (document["sound"], document["findings"], document["house"]) == (True, [], -95.0)


def test_damaged_books(run: Run, any_database: str) -> None:
    """The findings by kind, with the first ids, and 1."""
    play(any_database, withdraw("b1"))
    damage(any_database, ["UPDATE {p}accounts SET balance_cents = -1 WHERE account = 'p1'"])
    told = run("ledger", "verify")
    assert told.code == 1
    assert "The account 'p1' holds -0.01." in told.out
    assert "✗ The books are not sound: 1 finding." in told.out
    assert re.search(r"│ balance_differs │ +1 │ p1 +│ The balance of 'p1' is 95.01 below its postings. │", told.out)
    document = run("ledger", "verify", "--json")
    assert (document.code, document.document["findings"][0]["kind"]) == (1, "balance_differs")
    assert document.document["notes"][0]["account"] == "p1"


def test_anomalies_and_their_retry(run: Run, any_database: str, tmp_path: Path) -> None:
    """Listed, applied again, and then listed no more."""
    play(any_database, deposit("b1"), source="s")
    (record,) = run("ledger", "anomalies", "--json").document["anomalies"]
    assert (record["kind"], record["source"], record["code"]) == ("early_deposit", "s", "BET_NOT_FOUND")
    assert json.loads(record["body"])["action_id"] == "b1"
    told = run("ledger", "retry", record["id"])
    assert (told.code, told.out.startswith("Resolved: 0 of 1.\n"), "BET_NOT_FOUND" in told.out) == (1, True, True)
    assert "early_deposit" in run("ledger", "anomalies", "--source", "s", "--bodies").out
    assert run("ledger", "anomalies", "--source", "t").out == "There are no such anomalies.\n"
    with SqlLedger(any_database) as ledger:
        ledger.apply(with_body(withdraw("b1")), terms=Terms(source="s"))
    profile = tmp_path / "profile.toml"
    profile.write_text(Profile(duplicate_reply="verbatim").to_toml())
    told = run("ledger", "retry", record["id"], "--profile", profile)
    assert (told.code, told.out.startswith("Resolved: 1 of 1.\n"), "107.50" in told.out) == (0, True, True)
    assert run("ledger", "anomalies").out == "There are no such anomalies.\n"
    assert "early_deposit" in run("ledger", "anomalies", "--all").out
    again = run("ledger", "retry", record["id"], "--json")
    assert (again.code, "is resolved" in again.document["retried"][0]["error"]) == (1, True)


def test_what_maintain_drops(run: Run, any_database: str, tmp_path: Path) -> None:
    """Nothing unless it is told; then each day with its file, and each that stays with the reason."""
    play(any_database, withdraw("b1"))
    day = 86_400_000
    tables = {"postings": "at_millis", "calls": "at_millis", "bets": "opened_at_millis"}
    damage(
        any_database, [f"UPDATE {{p}}{table} SET {column} = {column} - {100 * day}" for table, column in tables.items()]
    )
    assert run("ledger", "open", "p9", "1.00").code == 0
    assert run("ledger", "maintain", "--json").document["kept"] == []
    told = run("ledger", "maintain", "--drop-after", 90)
    assert (told.code, "open bets" in told.out) == (0, True)
    with SqlLedger(any_database) as ledger:
        assert ledger.apply(deposit("b1")).applied
    (dropped,) = run("ledger", "maintain", "--drop-after", 90, "--archive", tmp_path, "--json").document["dropped"]
    assert dropped["postings"] == 2
    assert Path(dropped["file"]).parent == tmp_path
    alone = run("ledger", "maintain", "--archive", tmp_path)
    assert (alone.code, "Pass --drop-after, too" in alone.err) == (2, True)


def test_no_database(run: Run, tmp_path: Path) -> None:
    """It names the option and the variable; a file that is not there is not made by looking."""
    assert "--database sqlite:///wallet.db, or set GAME_OPERATOR_DATABASE_URL" in run("ledger", "verify").err
    path = tmp_path / "typo.db"
    told = run("ledger", "verify", "--database", f"sqlite:///{path}")
    assert (told.code, path.exists()) == (2, False)
    assert "Check the path. (`game-operator ledger open` makes a new ledger.)" in told.err


@pytest.mark.bare
def test_tables_that_are_not_there(run: Run, any_database: str) -> None:
    """Looking makes none; in a sentence, and not as findings."""
    with SqlLedger(any_database, table_prefix="other_"):
        pass
    told = run("ledger", "verify")
    assert (told.code, told.out) == (2, "")
    assert told.err == (
        "Error: There are no tables game_operator_* in this database. Check --database and --table-prefix. For a new "
        "ledger, `game-operator ledger open` makes them; `game-operator ledger schema --sql` prints the statements.\n"
    )
    assert "no tables zz_*" in run("ledger", "anomalies", "--table-prefix", "zz_", "--json").error["message"]
    assert run("ledger", "verify", "--table-prefix", "other_").code == 0


def test_old_bets(run: Run, any_database: str) -> None:
    """Those that are open, the oldest first, as far as they are older and as many as are asked for."""
    play(any_database, withdraw("b1"), withdraw("b2"), withdraw("b3"), deposit("b2"), source="s")
    damage(any_database, ["UPDATE {p}bets SET opened_at_millis = 3 WHERE bet_id = 'b1'"])
    damage(any_database, ["UPDATE {p}bets SET opened_at_millis = 2 WHERE bet_id = 'b2'"])

    def listed(*args: str) -> list[str]:
        return [bet["bet_id"] for bet in run("ledger", "bets", *args, "--json").document["bets"]]

    assert listed() == ["b2", "b1", "b3"]
    assert listed("--state", "OPEN") == ["b1", "b3"]
    assert listed("--state", "OPEN", "--until", "2d") == ["b1"]
    assert listed("--state", "OPEN", "--source", "t") == []
    limited = run("ledger", "bets", "--limit", "2", "--json").document
    assert ([bet["bet_id"] for bet in limited["bets"]], limited["more"]) == (["b2", "b1"], True)
    assert run("ledger", "bets", "--limit", "3", "--json").document["more"] is False
    told = run("ledger", "bets", "--state", "OPEN", "--limit", "1").out
    assert "1970-01-01 00:00:00.003" in told
    assert told.endswith("There are more than these 1: pass a greater --limit.\n")
    assert run("ledger", "bets", "--source", "t").out == "There are no such bets.\n"


def test_balances_in_the_operators_own_table(run: Run, file: str) -> None:
    """No phantom account is opened or paid; what only reads goes on, and tells what it does not compare."""
    run_sql(file, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    SqlLedger(file, accounts=TableAccounts(table="players", key="id", balance="balance")).close()
    for args in (("open", "p1"), ("adjust", "p1", "1.00", "--reference", "r")):
        told = run("ledger", *args)
        assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
        assert "--accounts-table" in run("ledger", *args, "--json").error["message"]
    told = run("ledger", "verify")
    assert (told.code, "are not compared with the postings" in told.out) == (0, True)


SECRET = "pl4nted-s3cret"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        pytest.param(f"postgresql://u:{SECRET}@127.0.0.1:1/d", 3, id="nobody listens"),
        pytest.param(f"postgresql://u@127.0.0.1:1/d?password={SECRET}", 3, id="as a parameter"),
        pytest.param(f"postgresql://u:{SECRET}@127.0.0.1:1/d?nope=1", 2, id="an unknown parameter"),
        pytest.param(f"postgresql://u:{SECRET}/x@127.0.0.1:1/d", 2, id="a slash in it"),
        pytest.param(f"postgresql://u:{SECRET}?x@127.0.0.1:1/d", 3, id="a question mark in it"),
        pytest.param(f"u:{SECRET}@127.0.0.1/d", 2, id="no scheme"),
        pytest.param(f"host=127.0.0.1 password={SECRET}", 2, id="as libpq has it"),
    ],
)
def test_passwords_are_never_printed(run: Run, monkeypatch: pytest.MonkeyPatch, url: str, code: int) -> None:
    """Whatever is wrong with an address, its password is not in what is said about it."""
    monkeypatch.setenv(VARIABLE, url)
    monkeypatch.setattr("game_operator.ledger.SqlLedger", partial(SqlLedger, patience_seconds=0.05))
    for args in (("verify",), ("verify", "--json")):
        told = run("ledger", *args)
        assert told.code == code, told
        assert SECRET not in told.out + told.err


def test_sources(run: Run, any_database: str) -> None:
    """The first call's, and those that were added."""
    with SqlLedger(any_database) as ledger:
        ledger.open_account("p1", Decimal(100))
    assert run("ledger", "sources").out.startswith("The ledger knows no source yet")
    with SqlLedger(any_database) as ledger:
        ledger.apply(withdraw("b1"))
    told = run("ledger", "add-source", "live")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("The ledger takes calls of 'live'.\n")
    assert run("ledger", "add-source", "live").out.startswith("The ledger takes calls of 'live' already. Nothing was")
    assert run("ledger", "add-source", "live", "--json").document["others"] == [{"name": ""}]
    assert [each["name"] for each in run("ledger", "sources", "--json").document["sources"]] == ["", "live"]
    listed = [re.split(r" *│ *", line)[1:-1] for line in run("ledger", "sources").out.splitlines() if "│" in line]
    assert listed == [["–"], ["live"]]
    told = run("ledger", "add-source", "a" * 257)
    assert (told.code, "at most 256 characters" in told.err) == (2, True)
    for name, problem in (("live ", "must not begin or end with a blank"), ("li\u200bve", "character U+200B")):
        for command in ("ledger add-source", "ledger bets --source", "serve --source"):
            told = run(*command.split(), name)
            assert (told.code, problem in " ".join(told.err.split())) == (2, True)
    assert [each["name"] for each in run("ledger", "sources", "--json").document["sources"]] == ["", "live"]


def test_stopping_bets(run: Run, any_database: str) -> None:
    """All processes refuse new bets until they are taken again; who decided and why is asked for."""
    with SqlLedger(any_database) as ledger:
        ledger.open_account("p1", Decimal(100))
        told = run("ledger", "stop-bets", "--actor", "ann", "--reason", "too high wins", "--code", "MAINTENANCE")
        assert (told.code, told.err, told.out) == (0, "", "Bets are stopped: a new one is answered MAINTENANCE.\n")
        assert ledger.apply(withdraw("b1")).code == "MAINTENANCE"
        ended = run("ledger", "start-bets", "--actor", "bob", "--reason", "fixed", "--json").document["ended"]
        assert (ended["code"], ended["actor"], ended["reason"]) == ("MAINTENANCE", "ann", "too high wins")
        assert ledger.apply(withdraw("b2")).applied
    assert run("ledger", "start-bets", "--actor", "bob", "--reason", "fixed").out == "Bets are taken.\n"
    wrong = run("ledger", "stop-bets", "--actor", "ann", "--reason", "r", "--code", "SYSTEM_ERROR")
    assert (wrong.code, "cannot refuse a withdraw" in " ".join(wrong.err.split())) == (2, True)
    assert run("ledger", "stop-bets", "--actor", " ", "--reason", "r").code == 2
    assert run("ledger", "stop-bets", "--actor", "ann").code == 2
    with SqlLedger(any_database) as ledger:
        assert ledger.apply(withdraw("b3")).applied


def test_the_name_of_a_ledger(run: Run, any_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option or a variable; another name is refused before anything is done."""
    assert run("ledger", "open", "p1", "--ledger-name", "production").code == 0
    told = run("ledger", "adjust", "p1", "1.00", "--reference", "r", "--ledger-name", "staging")
    assert (told.code, "belong to the ledger 'production'" in " ".join(told.err.split())) == (2, True)
    monkeypatch.setenv("GAME_OPERATOR_LEDGER_NAME", "staging")
    assert run("ledger", "bets").code == 2
    monkeypatch.setenv("GAME_OPERATOR_LEDGER_NAME", "production")
    assert run("ledger", "bets").code == 0
    with SqlLedger(any_database) as ledger:
        assert ledger.balance("p1") == 0


def test_migrating(run: Run, any_database: str) -> None:
    """It makes the tables or leaves them. Those of an unreleased version are refused, with what to do."""
    play(any_database, withdraw("b1"))
    assert run("ledger", "migrate", "--table-prefix", "new_").out == f"The tables new_* have version {VERSION}.\n"
    assert run("ledger", "migrate").out == f"The tables game_operator_* have version {VERSION}.\n"
    assert run("ledger", "migrate", "--json").document == {"version": VERSION}
    run_sql(any_database, "UPDATE {p}meta SET value = 4 WHERE name = 'version'")
    for arguments in (("migrate",), ("schema",), ("verify",)):
        told = run("ledger", *arguments)
        assert (told.code, told.out) == (2, "")
        assert "ever released, but 4," in " ".join(told.err.split())
        assert told.err.endswith("restore a backup.\n")


@pytest.mark.bare
def test_the_tables_as_sql(run: Run, any_database: str) -> None:
    """What is printed makes the tables, as opening does."""
    with_dialect = ("ledger", "schema", "--sql", "--dialect", "sqlite" if is_sqlite(any_database) else "postgres")
    if is_sqlite(any_database):
        assert run("ledger", "schema").code == 2, "no file is made"
        Path(path_in(any_database)).touch(0o600)
    assert run("ledger", "schema").out == (
        f"The tables game_operator_* do not exist, and this program needs version {VERSION}.\n"
    )
    statements = run("ledger", "schema", "--sql").out
    assert statements == run(*with_dialect).out
    assert run(*with_dialect, "--json").document["statements"].startswith("BEGIN")
    script(any_database, statements)
    assert run("ledger", "schema", "--json").document["from"] == VERSION
    nothing = run("ledger", "schema", "--sql")
    assert (nothing.out, nothing.err) == ("", f"The tables game_operator_* have version {VERSION} already.\n")
    play(any_database, withdraw("b1"))
    assert run("ledger", "verify").code == 0


def script(url: str, statements: str) -> None:
    """Run *statements* as a person does who has reviewed them."""
    if is_sqlite(url):
        with closing(sqlite3.connect(path_in(url))) as connection:
            connection.executescript(statements)
    else:
        with psycopg.connect(url, autocommit=True) as postgres:
            postgres.execute(statements.encode())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(("--dialect", "sqlite", "--grants", "web"), "SQLite has no roles", id="a role of SQLite"),
        pytest.param(("--dialect", "postgres", "--grants", "a$$b"), "is invalid", id="a dollar in a role"),
        pytest.param(("--dialect", "sqlite", "--database", "sqlite:///w.db"), "asks no database", id="both"),
        pytest.param(("--database", "sqlite:///:memory:"), "no tables yet", id="in memory"),
    ],
)
def test_statements_that_cannot_be_printed(run: Run, options: tuple[object, ...], problem: str) -> None:
    """Usage errors, and nothing on stdout."""
    told = run("ledger", "schema", "--sql", *options)
    assert (told.code, told.out) == (2, "")
    assert problem in " ".join(told.err.replace("│", " ").split())


@pytest.fixture
def clerk(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A role that can log in, and whose database is named by the environment; two anomalies are there."""
    role = "clerk_" + postgres_url.partition("///")[2].partition("?")[0]
    play(postgres_url, withdraw("b1"), deposit("b1"), withdraw("b2"))
    with SqlLedger(postgres_url) as ledger:
        ledger.keep_anomaly("deposit", "unreadable", b"[")
        ledger.keep_anomaly("deposit", "unreadable", encode_call(deposit("b2")))
    run_sql(postgres_url, f"CREATE ROLE {role} LOGIN")
    monkeypatch.setenv(VARIABLE, postgres_url.replace("user=postgres", f"user={role}"))
    yield role
    run_sql(postgres_url, f"DROP OWNED BY {role}")
    run_sql(postgres_url, f"DROP ROLE {role}")


WRITES: tuple[tuple[object, ...], ...] = (
    ("open", "p2", "5.00"),
    ("adjust", "p1", "1.00", "--reference", "r1"),
    ("add-source", "s2"),
    ("stop-bets", "--actor", "ann", "--reason", "r"),
    ("start-bets", "--actor", "ann", "--reason", "r"),
    ("retry", 2),
    ("resolve", 1),
    ("totals", "--close"),
)


def test_all_that_a_granted_role_may_do(run: Run, postgres_url: str, clerk: str, tmp_path: Path) -> None:
    """Every command, with the rights that are printed; a migration would need more."""
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(schema_sql("postgres", DEFAULT_PREFIX, after=VERSION, role=clerk).encode())
    for arguments in (
        *WRITES,
        ("show", "--player", "p2"),
        ("show", "b1"),
        ("bets", "--state", "OPEN"),
        ("anomalies", "--all"),
        ("maintain", "--drop-after", 90, "--archive", tmp_path),
        ("verify", "--full"),
        ("sources",),
        ("migrate",),
    ):
        told = run("ledger", *arguments)
        assert (told.code, told.err) == (0, ""), arguments
    checks = {check["name"]: check["found"] for check in run("ledger", "doctor", "--json").document["checks"]}
    assert checks["default partition"] == "it is empty"
    assert "permission denied for schema" in run("ledger", "open", "p1", "--table-prefix", "new_").err


def test_a_role_that_may_only_read(run: Run, postgres_url: str, clerk: str) -> None:
    """Whatever it may not do ends in a sentence with what to do, and in one document."""
    run_sql(postgres_url, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {clerk}")
    for arguments in (*WRITES, ("maintain",)):
        told = run("ledger", *arguments)
        assert (told.code, told.out) == (2, ""), arguments
        assert "lacks a right on the tables" in told.err
        assert "schema --sql --grants ROLE" in told.err
        assert run("ledger", *arguments, "--json").error["type"] == "SchemaError"
    assert [run("ledger", name, "--table-prefix", "new_").code for name in ("migrate", "maintain")] == [2, 2]

    async def awaited() -> None:
        async with AsyncSqlLedger(os.environ[VARIABLE]) as ledger:
            await ledger.open_account("p2", Decimal(1))

    with pytest.raises(SchemaError, match="lacks a right"):
        asyncio.run(awaited())


@pytest.mark.bare
def test_an_owner_that_nobody_logs_in_as(run: Run, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/how-to/deploy.md has it: the tables are its own. The granted role can serve and maintain."""
    wallet, owner = (f"{name}_{postgres_url.partition('///')[2].partition('?')[0]}" for name in ("wallet", "owner"))
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
    (recipe,) = re.findall(r"^```sql\n(CREATE ROLE ledger_owner NOLOGIN;\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    monkeypatch.setenv(VARIABLE, postgres_url.replace("user=postgres", f"user={wallet}"))
    run_sql(postgres_url, f"CREATE ROLE {wallet} LOGIN")
    try:
        statements = run("ledger", "schema", "--sql", "--dialect", "postgres", "--grants", wallet).out
        script(postgres_url, recipe.replace("ledger_owner", owner) + statements)
        tables = rows(postgres_url, "SELECT DISTINCT tableowner FROM pg_tables WHERE starts_with(tablename, '{p}')")
        assert tables == [(owner,)]
        for arguments in (("open", "p1", "5.00"), ("maintain",), ("verify",)):
            assert run("ledger", *arguments).code == 0, arguments
    finally:
        run_sql(postgres_url, f"DROP OWNED BY {wallet}, {owner}")
        run_sql(postgres_url, f"DROP ROLE {wallet}, {owner}")


def test_a_lock_that_another_transaction_holds(run: Run, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says where to read how to find it, and nothing of our statements."""
    monkeypatch.setenv(VARIABLE, postgres_url)
    play(postgres_url)
    monkeypatch.setattr("game_operator.ledger.SqlLedger", partial(SqlLedger, patience_seconds=0.1))
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE game_operator_accounts")
        told = run("ledger", "adjust", "p1", "1.00", "--reference", "r1")
    said = " ".join(told.err.split())
    assert told.code == 3
    assert "canceling statement due to lock timeout" in said
    assert said.endswith(
        'Another transaction holds a lock: docs/how-to/runbook.md, "Calls are stuck", says how to find it.'
    )
    assert "LINE" not in said
