"""The commands, where balances are in a table of the operator's."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import BalanceCall, DepositCall, WithdrawCall
from game_operator.cli.app import whole
from game_operator.cli.keys import KeyFiles
from game_operator.errors import SchemaError
from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.models.webhooks import WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call, read_call
from game_operator_testkit.provider.caller import WebhookCaller
from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import Run, said, started
from tests.support.raw_sql import rows
from tests.support.raw_sql import run as run_sql

pytestmark = [pytest.mark.drawn(4, database=("postgres",))]

_OPTIONS = (
    "--accounts-table",
    "players",
    "--accounts-key",
    "id",
    "--accounts-balance",
    "balance",
    "--accounts-unit",
    "cents",
)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of each kind with the operator's table, named by the environment."""
    url = f"sqlite:///{tmp_path / 'casino.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    run_sql(url, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint NOT NULL)")
    run_sql(url, "INSERT INTO players VALUES ('ann', 10000), ('bob', 20000)")
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", url)
    return url


def applied(url: str, *calls: WebhookCall) -> list[int]:
    """Apply *calls*, as the operator's wallet does; return the numbers of the anomalies."""
    with SqlLedger(url, accounts=TableAccounts(table="players", key="id", balance="balance")) as ledger:
        for call in calls:
            ledger.apply(read_call(call.operation, encode_call(call), Profile())[0])
        return [record.id for record in ledger.anomalies()]


def balance(url: str, player_id: str = "ann") -> int:
    """Return what the operator's table says, in cents."""
    return int(rows(url, "SELECT balance FROM players WHERE id = ?", player_id)[0][0])


BET = WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500)
WIN = DepositCall(player_id="ann", bet_id="b1", amount_cents=1250)


@pytest.mark.outside
def test_it_is_served(database: str, keys: KeyFiles) -> None:
    """Calls move the operator's rows, and no account of the ledger's own comes to be."""
    args = ("--port", "0", "--json", "--database", database, "--service-key", str(keys.public), *_OPTIONS)
    with started("serve", *args) as process:
        try:
            assert process.stdout is not None
            with WebhookCaller(json.loads(process.stdout.readline())["url"], keys.private) as service:
                for call, after in ((BET, "95.00"), (WIN, "107.50"), (BalanceCall(player_id="bob"), "200.00")):
                    delivery = service.send(call)
                    assert delivery.reply is not None
                    assert (delivery.reply.code, delivery.reply.balance) == (None, Decimal(after))
        finally:
            process.kill()
            process.communicate()
    assert balance(database) == 10_750
    assert rows(database, "SELECT count(*) FROM {p}accounts") == [(0,)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"unit": "units"}, 'the unit "units" was passed', id="the unit of others"),
        pytest.param(
            {"table": "purses"}, "If an account has more columns, name all of them as its key", id="half a key"
        ),
    ],
)
def test_a_problem_is_told_by_options(database: str, options: dict[str, Any], told: str) -> None:
    """In words that fit a program and the command line alike."""
    run_sql(database, "CREATE TABLE purses (id varchar(9), country varchar(9), balance bigint, UNIQUE (id, country))")
    accounts = {"table": "players", "key": "id", "balance": "balance"} | options
    with pytest.raises(SchemaError) as refused:
        SqlLedger(database, accounts=TableAccounts(**accounts))
    assert told in str(refused.value)


def test_a_table_that_two_services_share(run: Run, database: str) -> None:
    """A second prefix is refused, and the option that lifts it is named; every command takes it."""
    applied(database, BET)
    players = TableAccounts(table="players", key="id", balance="balance", shared=True)
    SqlLedger(database, accounts=players, table_prefix="second_").close()
    second = ("ledger", "bets", "--table-prefix", "second_", *_OPTIONS)
    refused = run(*second)
    assert (refused.code, "(--accounts-shared) if two services" in " ".join(refused.err.split())) == (2, True)
    assert run(*second, "--accounts-shared").out == "There are no such bets.\n"
    alone = run("ledger", "bets", "--accounts-shared")
    assert (alone.code, "Missing: --accounts-table" in alone.err) == (2, True)
    for command in ("serve", "storm", "ledger show", "ledger retry"):
        assert "--accounts-shared" in run(*command.split(), "--help").out


def test_an_account_is_shown_with_its_balance(run: Run, database: str) -> None:
    """Out of the table; who never moved is not known, and nobody is told to open an account."""
    applied(database, BET)
    assert said(run("ledger", "show", "--player", "ann", *_OPTIONS).out)["balance"] == "95.00"
    for player in ("bob", "eve"):
        told = run("ledger", "show", "--player", player, *_OPTIONS)
        assert (told.code, "no call has moved that account yet" in told.err) == (1, True)
    assert "OPEN" in run("ledger", "bets", *_OPTIONS).out
    assert "OPEN" in run("ledger", "show", "b1", *_OPTIONS).out


def test_without_the_options_nobody_is_told_to_open_an_account(run: Run, database: str) -> None:
    """`ledger open` cannot open one in the operator's table."""
    applied(database, BET)
    assert run("ledger", "show", "--player", "ann").out.startswith("The balance is in your own table.\n")
    told = run("ledger", "show", "--player", "bob")
    assert told.code == 1
    assert "ledger open" not in told.err
    assert told.err == (
        "Error: There is no account 'bob'. The balances are in your own table, and no call has moved that "
        "account yet.\n"
    )


def test_an_anomaly_is_retried(run: Run, database: str) -> None:
    """It pays into the table; without the options it is refused, and the options are named."""
    (early,) = applied(database, WIN, BET)
    refused = run("ledger", "retry", early)
    assert refused.code == 2
    assert "--accounts-table" in refused.err
    assert balance(database) == 9_500
    assert run("ledger", "retry", early, *_OPTIONS, "--json").document["retried"][0]["balance"] == 107.5
    assert balance(database) == 10_750


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(_OPTIONS[:2], "Missing: --accounts-key, --accounts-balance.", id="a table alone"),
        pytest.param(_OPTIONS[2:], "Missing: --accounts-table.", id="no table"),
        pytest.param(("--accounts-unit", "cents"), "Missing: --accounts-table", id="a unit alone"),
        pytest.param(
            (*_OPTIONS[:-1], "pennies"),
            "unit must be one of cents, units, whole, thousandths, not 'pennies'",
            id="another unit",
        ),
        pytest.param(("--accounts-table", "players;", *_OPTIONS[2:]), "'players;'", id="not a name"),
        pytest.param(("--accounts-table", "gamers", *_OPTIONS[2:]), "no table gamers", id="another table"),
    ],
)
def test_options_that_do_not_fit(run: Run, database: str, options: tuple[str, ...], problem: str) -> None:
    """A half of them is no table."""
    applied(database)
    told = run("ledger", "show", "--player", "ann", *options)
    assert (told.code, told.out) == (2, "")
    assert problem in " ".join(told.err.split())


def test_a_ledger_with_balances_of_its_own_takes_no_note_of_the_options(run: Run, database: str) -> None:
    """A slip at the command line would else stop the wallet that serves from it."""
    with SqlLedger(database) as ledger:
        ledger.open_account("ann", Decimal(5))
    told = run("ledger", "show", "--player", "ann", *_OPTIONS)
    assert told.code == 2
    assert "its balances are its own" in told.err
    with SqlLedger(database) as ledger:
        assert ledger.balance("ann") == 500


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_key_of_two_columns_is_not_served(run: Run, database: str, keys: KeyFiles) -> None:
    """A call names a player, and no currency."""
    key = ("--accounts-key", "id,currency")
    args = ("--database", database, "--service-key", keys.public, "--port", 0)
    told = run("serve", *args, *_OPTIONS[:2], *key, *_OPTIONS[4:])
    assert told.code == 2
    assert "--accounts-key names 2 columns, and serve cannot know the account of a call" in told.err


@pytest.fixture
def wallet(database: str, keys: KeyFiles) -> Iterator[str]:
    """Where `serve` answers for the operator's table."""
    args = ("--port", "0", "--json", "--database", database, "--service-key", str(keys.public), *_OPTIONS)
    with started("serve", *args) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()
            process.communicate()


def test_a_storm_is_audited(
    run: Run,
    wallet: str,
    database: str,
    keys: KeyFiles,
    tmp_path: Path,
    private_key: RSAPrivateKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every bet of players who are there already, and who have played before; nobody is opened."""
    monkeypatch.chdir(tmp_path)
    applied(database, BET, WIN)
    players = tmp_path / "players.txt"
    players.write_text("ann\nbob\n")
    common = (
        "--url",
        wallet,
        "--service-private-key",
        keys.private,
        "--database",
        database,
        "--bets",
        60,
        "--seed",
        5,
    )
    nobody = run("storm", *common, *_OPTIONS)
    assert (nobody.code, nobody.out) == (2, "")
    assert "a storm opens no accounts in players, which is yours. Pass --players-file FILE" in nobody.err
    told = run("storm", *common, "--players-file", players, *_OPTIONS, "--json")
    assert (told.code, told.document["passed"], told.document["differences"]) == (0, True, [])
    assert rows(database, "SELECT count(*) FROM {p}bets")[0][0] > 30
    players.write_text("ann\neve\n")
    stranger = run("storm", *common, "--players-file", players, *_OPTIONS)
    assert stranger.code == 2
    assert "The table of balances has no player 'eve'." in stranger.err


_NAMES = ("table", "key", "balance", "unit", "shared")
_VARIABLES = {
    f"GAME_OPERATOR_ACCOUNTS_{name.removeprefix('--accounts-').upper()}": value
    for name, value in zip(_OPTIONS[::2], _OPTIONS[1::2], strict=True)
}
#: Every command that opens a ledger, and its exit code over the operator's table: 2 where only own accounts will do.
_OPENING = {
    "ledger open eve 1.00": 2,
    "ledger adjust ann 1.00 --reference r1": 2,
    "ledger show b1": 0,
    "ledger show --player ann": 0,
    "ledger bets": 0,
    "ledger verify --full": 0,
    "ledger maintain --seconds 1": 0,
    "ledger correct-time ann": 1,
    "ledger sources": 0,
    "ledger add-source more": 0,
    "ledger anomalies": 0,
    "ledger retry 1": 0,
    "ledger resolve 1": 0,
    "ledger totals": 0,
    "ledger migrate": 0,
    "campaign run summer": 1,
    "campaign resume summer": 1,
    "campaign status summer": 1,
    "campaign stop summer": 1,
    "campaign report summer": 1,
    "reconcile run": 1,
    "reconcile status": 0,
    "reconcile stop": 1,
    "reconcile findings": 0,
    "reconcile resolve 1 --pay --actor me --reason r": 1,
    "reconcile refund b1 --actor me --reason r --min-age 0s --second-look 0s": 0,
    "reconcile report": 1,
    "case b1": 0,
}


@pytest.fixture
def customer(database: str, sandbox: Sandbox, settings: dict[str, str]) -> str:
    """The database, after a call and an early one, beside a sandbox that is named by the environment."""
    applied(database, WIN, BET)
    return database


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("line", "code"), _OPENING.items(), ids=_OPENING)
@pytest.mark.parametrize("by", ["options", "variables"])
def test_every_command_takes_the_table(
    run: Run, customer: str, line: str, code: int, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its options or by variables, and it is looked at: another table is refused; the options count for more."""
    if by == "variables":
        for name, value in _VARIABLES.items():
            monkeypatch.setenv(name, value)
    options = () if by == "variables" else _OPTIONS
    told = run(*line.split(), *options)
    assert told.code == code, told
    assert ("which is yours" in told.err) is (code == 2)
    assert balance(customer, "bob") == 20_000
    if code != 2:
        other = run(*line.split(), *options, "--accounts-table", "gamers")
        assert (other.code, "no table gamers" in other.err) == (2, True), other


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        pytest.param("GAME_OPERATOR_ACCOUNTS_TABLE", "", "Missing: --accounts-table", id="empty"),
        pytest.param("GAME_OPERATOR_ACCOUNTS_KEY", " ", "Missing: --accounts-key", id="blank"),
        pytest.param("GAME_OPERATOR_ACCOUNTS_UNIT", "pennies", "unit must be one of", id="another unit"),
        pytest.param("GAME_OPERATOR_ACCOUNTS_SHARED", "maybe", "ACCOUNTS_SHARED", id="neither yes nor no"),
        pytest.param("GAME_OPERATOR_ACCOUNTS_SHARED", "No", "", id="no"),
        pytest.param("GAME_OPERATOR_ACCOUNTS_SHARED", "1", "", id="yes"),
    ],
)
def test_variables_are_checked(
    run: Run, database: str, variable: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the options are."""
    applied(database, BET)
    for name, text in (_VARIABLES | {variable: value}).items():
        monkeypatch.setenv(name, text)
    told = run("ledger", "show", "b1")
    assert (told.code, problem in " ".join(told.err.split())) == (2 if problem else 0, True), told


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_new_tables_are_made_beside_the_variables(run: Run, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ledger migrate` comes before the first `serve`, and leaves it to that to say whose the balances are."""
    for name, text in _VARIABLES.items():
        monkeypatch.setenv(name, text)
    assert run("ledger", "migrate").code == 0
    with SqlLedger(database) as ledger:
        assert ledger.open_account("p9", Decimal(1)) == 100


def test_no_command_that_names_a_ledger_is_without_the_options() -> None:
    """A command that is added later, too."""
    lacking = {
        name: missing
        for name, parameters in _parameters_of_commands()
        if "table_prefix" in parameters
        if (missing := [each for each in _NAMES if f"accounts_{each}" not in parameters])
    }
    assert lacking == {}
    opening = {" ".join(line.split()[: 1 if line.startswith("case") else 2]) for line in _OPENING}
    apart = {"serve", "storm", "certify", "games", "campaign plan", "ledger doctor", "ledger schema"}
    named = {name for name, parameters in _parameters_of_commands() if "table_prefix" in parameters}
    assert named - apart <= opening | {"ledger stop-bets", "ledger start-bets"}


def _parameters_of_commands() -> Iterator[tuple[str, set[str]]]:
    every: Any = whole()  # Typer keeps the class of a group to itself.
    for name, each in every.commands.items():
        for part, command in getattr(each, "commands", {"": each}).items():
            yield f"{name} {part}".strip(), {parameter.name for parameter in command.params}


def test_a_plan_needs_to_know_the_players(run: Run, customer: str, sandbox: Sandbox, tmp_path: Path) -> None:
    """Without the table nobody knows them: it is refused, unless nobody is to be looked up."""
    file = tmp_path / "players.csv"
    file.write_text("player_id\nann\neve\n")
    terms = ("--instance", sandbox.instance_id, "--count", 5, "--wager-cents", 100, "--expire-millis", 86_400_000)
    plan = ("campaign", "plan", "summer", "--players", file, *terms)
    refused = run(*plan)
    assert refused.code == 2
    assert "--accounts-table" in refused.err
    assert "--no-player-check" in refused.err
    assert run("campaign", "status", "summer").code == 1  # Nothing was planned.
    stranger = run(*plan, *_OPTIONS)
    assert (stranger.code, "eve" in stranger.out + stranger.err) == (2, True)
    assert run(*plan, "--no-player-check").code == 0
    file.write_text("player_id\nann\nbob\n")
    assert "players checked  yes" in run(*plan[:2], "autumn", *plan[3:], *_OPTIONS).out


@pytest.mark.parametrize("line", [*_OPENING, "ledger schema --sql", "serve --service-key {key} --port 0"])
def test_a_search_path_to_nowhere(
    run: Run, line: str, postgres_url: str, keys: KeyFiles, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command says what to do, as wrong usage, and makes nothing anywhere."""
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", f"{postgres_url}&options=-csearch_path%3Dcasino")
    told = run(*(word.format(key=keys.public) for word in line.split()))
    assert (told.code, told.out) == (2, "")
    assert "The search_path of this user is 'casino', and it leads to no schema" in " ".join(told.err.split())
    assert "Traceback" not in told.err


def test_the_doctor_finds_a_search_path_to_nowhere(
    run: Run, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a finding, beside all others."""
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", f"{postgres_url}&options=-csearch_path%3Dcasino")
    told = run("ledger", "doctor")
    assert (told.code, "CREATE SCHEMA" in " ".join(told.out.split())) == (1, True)
