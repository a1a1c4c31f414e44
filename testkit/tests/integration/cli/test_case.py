"""``game-operator case``: a case file from the command line, with its exit codes."""

import json
import sqlite3
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest

from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call, read_call
from game_operator_testkit.sandbox import Sandbox
from tests.support.calls import deposit, withdraw
from tests.support.command_line import Run


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A ledger with the closed bet b1 of p1; its address."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal(100))
        for call in (withdraw(), deposit()):
            ledger.apply(read_call(call.operation, encode_call(call), Profile())[0])
    return url


def test_a_case_for_people(run: Run, database: str) -> None:
    """The summary, the bet, its calls and postings, what is not kept, and the hash."""
    told = run("case", "b1", "--database", database)
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[:2] == ["The ledger has the bet as CLOSED.", "The provider was not asked."]
    assert lines[-1].startswith("digest  ")
    for part in (
        "withdraw:bet:b1",
        "deposit:bet:b1",
        "12.50",
        "-5.00",
        "The bet was settled by a call of the provider.",
    ):
        assert part in told.out


def test_a_case_for_programs(run: Run, database: str) -> None:
    """What --json prints is a case file, and anybody finds its hash again."""
    told = run("case", "b1", "--database", database, "--json")
    assert told.document["contents"]["ledger"]["bet"]["won_cents"] == 1250
    contents = json.dumps(told.document["contents"], sort_keys=True, separators=(",", ":"))
    assert sha256(contents.encode()).hexdigest() == told.document["digest"]


def test_a_case_as_a_page(run: Run, database: str, tmp_path: Path) -> None:
    """Only its owner may read it, for it holds a player's data; redacted it holds none."""
    page = tmp_path / "case.html"
    told = run("case", "b1", "--database", database, "--html", page, "--redact")
    assert told.code == 0
    digest = sha256(page.read_bytes()).hexdigest()
    assert told.out.replace("\n", " ").endswith(
        f"The case file is in {page}. Its SHA-256, as sha256sum shows it: {digest} "
    )
    assert page.stat().st_mode & 0o777 == 0o600
    assert ">p1<" not in page.read_text()
    assert "person-" in page.read_text()


def test_a_bet_that_nobody_knows_is_1(run: Run, database: str) -> None:
    """There is a case file all the same."""
    told = run("case", "nobody's", "--database", database)
    assert (told.code, told.err) == (1, "")
    assert told.out.startswith("Nobody knows this bet")
    told = run("case", "nobody's", "--database", database, "--json")
    assert (told.code, told.document["contents"]["is_known"]) == (1, False)
    assert run("case", "b1", "--source", "elsewhere", "--database", database).code == 1


def test_the_provider_is_asked_unless_offline(
    run: Run, database: str, settings: dict[str, str], sandbox: Sandbox
) -> None:
    """It is known by its answer alone; --offline leaves that out."""
    bet_id = sandbox.bet_ids["CLOSED"]
    told = run("case", bet_id, "--database", database, "--json")
    assert (told.code, told.document["contents"]["provider"]["answer"]["status"]) == (0, "CLOSED")
    told = run("case", bet_id, "--database", database, "--offline", "--json")
    assert (told.code, told.document["contents"]["provider"]["was_asked"]) == (1, False)


@pytest.mark.usefixtures("settings")
def test_a_provider_that_is_not_there_is_in_the_case(run: Run, database: str, nobody: str) -> None:
    """The case is made; the bet is known, so the exit code is 0."""
    told = run("case", "b1", "--database", database, "--base-url", nobody, "--deadline", "0.15")
    assert (told.code, told.err) == (0, "")
    assert "The provider gave no usable answer." in told.out
    assert "RequestNotSentError" in told.out


def test_half_of_the_settings_are_2(run: Run, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody wants the provider asked; --offline does without."""
    monkeypatch.setenv("GAME_OPERATOR_ID", "acme")
    told = run("case", "b1", "--database", database)
    assert told.code == 2
    assert "Missing or empty: --base-url" in told.err
    assert run("case", "b1", "--database", database, "--offline").code == 0


def test_balances_in_the_operators_own_table(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'casino.db'}"
    with sqlite3.connect(tmp_path / "casino.db") as casino:
        casino.execute("CREATE TABLE players (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
        casino.execute("INSERT INTO players VALUES ('p1', 10000)")
    with SqlLedger(url, accounts=TableAccounts(table="players", key="id", balance="balance")) as ledger:
        ledger.apply(withdraw())
    options = ("--accounts-table", "players", "--accounts-key", "id", "--accounts-balance", "balance")
    told = run("case", "b1", "--database", url, *options, "--json")
    assert told.document["contents"]["ledger"]["account"]["balance_cents"] == 9_500


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(("b1",), "There is no database", id="no database"),
        pytest.param(("b1", "--database", "sqlite:///nowhere.db"), "There is no file", id="no file"),
        pytest.param(("b" * 257, "--database", "{database}"), "bet_id must have at most 256", id="an id too long"),
        pytest.param(
            ("b1", "--database", "{database}", "--html", "{folder}/no/x.html"), "there is no folder", id="no folder"
        ),
        pytest.param(("b1", "--database", "{database}", "--html", "{folder}"), "is not a file", id="a folder"),
        pytest.param(
            ("b1", "--database", "{database}", "--html", "{folder}/wallet.db"),
            "only a file whose name ends in .html",
            id="the ledger",
        ),
    ],
)
def test_wrong_usage_is_2(
    run: Run, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path / "..")
    told = run("case", *(each.format(folder=tmp_path, database=database) for each in args))
    assert (told.code, told.out) == (2, "")
    assert problem in told.err
