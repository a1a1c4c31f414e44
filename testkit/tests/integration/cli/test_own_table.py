"""The commands, where balances are in a table of the operator's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from game_operator import DepositCall, WithdrawCall
from game_operator.cli.app import whole
from game_operator.cli.keys import KeyFiles
from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.models.webhooks import WebhookCall
from game_operator_testkit.sandbox import Sandbox
from tests.support.calls import with_body
from tests.support.command_line import Run, serving
from tests.support.raw_sql import rows
from tests.support.raw_sql import run as run_sql

pytestmark = [pytest.mark.drawn(4, database=("postgres",))]

_ACCOUNTS = {"table": "players", "key": "id", "balance": "balance", "unit": "cents"}
_OPTIONS = tuple(word for name, value in _ACCOUNTS.items() for word in (f"--accounts-{name}", value))


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
            ledger.apply(with_body(call))
        return [record.id for record in ledger.anomalies()]


def balance(url: str, player_id: str = "ann") -> int:
    """Return what the operator's table says, in cents."""
    return int(rows(url, "SELECT balance FROM players WHERE id = ?", player_id)[0][0])


BET = WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500)
WIN = DepositCall(player_id="ann", bet_id="b1", amount_cents=1250)


@pytest.fixture
def wallet(database: str, keys: KeyFiles) -> Iterator[str]:
    """Where `serve` answers for the operator's table."""
    with serving("--database", database, "--service-key", keys.public, *_OPTIONS) as (url, _):
        yield url


def test_a_storm_is_audited(
    run: Run,
    wallet: str,
    database: str,
    keys: KeyFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every bet of players who are there already, and who have played before; nobody is opened."""
    monkeypatch.chdir(tmp_path)
    applied(database, BET, WIN)
    players = tmp_path / "players.txt"
    players.write_text("ann\nbob\n")
    where = ("--url", wallet, "--service-private-key", keys.private, "--database", database)
    common = (*where, "--bets", 60, "--seed", 5)
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
        for name, value in _ACCOUNTS.items():
            monkeypatch.setenv(f"GAME_OPERATOR_ACCOUNTS_{name.upper()}", value)
    options = () if by == "variables" else _OPTIONS
    told = run(*line.split(), *options)
    assert told.code == code, told
    assert ("which is yours" in told.err) is (code == 2)
    assert balance(customer, "bob") == 20_000
    if code != 2:
        other = run(*line.split(), *options, "--accounts-table", "gamers")
        assert (other.code, "no table gamers" in other.err) == (2, True), other


def test_no_command_that_names_a_ledger_is_without_the_options() -> None:
    """A command that is added later, too."""
    lacking = {
        name: missing
        for name, parameters in _parameters_of_commands()
        if "table_prefix" in parameters
        if (missing := [each for each in (*_ACCOUNTS, "shared") if f"accounts_{each}" not in parameters])
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


@pytest.mark.parametrize(
    ("line", "code"),
    [
        *((line, 2) for line in [*list(_OPENING)[::6], "ledger schema --sql", "serve --service-key {key} --port 0"]),
        ("ledger doctor", 1),
    ],
)
def test_a_search_path_to_nowhere(
    run: Run,
    line: str,
    code: int,
    postgres_url: str,
    keys: KeyFiles,
    settings: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands of each kind say what to do, as wrong usage, and make nothing; the doctor has it as a finding."""
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", f"{postgres_url}&options=-csearch_path%3Dcasino")
    told = run(*(word.format(key=keys.public) for word in line.split()))
    shown = " ".join((told.out if code == 1 else told.err).split())
    assert (told.code, "CREATE SCHEMA" in shown, told.out == "") == (code, True, code == 2)
    assert "The search_path of this user is 'casino', and it leads to no schema" in shown
    assert "Traceback" not in told.err
