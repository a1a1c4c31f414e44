"""`game-operator ledger doctor`: exit codes, the document, and what people read."""

from pathlib import Path
from typing import Any

import pytest

from game_operator.ledger import DoctorCheck, SqlLedger
from tests.support.calls import withdraw
from tests.support.command_line import Run
from tests.support.raw_sql import run as run_sql


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger with one source and nothing wrong, on a disk with room."""
    monkeypatch.setattr("game_operator.ledger.doctor.examined._LEAST_BYTES", 0)
    monkeypatch.setattr("game_operator.ledger.doctor.examined._LEAST_SHARE", 0)
    tmp_path.chmod(0o700)
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    with SqlLedger(url) as ledger:
        ledger.open_account("p1")
        ledger.apply(withdraw("b1"))
    return url


def test_the_document(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One, with a version; the address may stand in the environment."""
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", url)
    told = run("ledger", "doctor", "--json")
    document: dict[str, Any] = told.document
    assert (told.code, told.err) == (0, "")
    assert document.keys() == {"schema", "ok", "checks"}
    assert (document["schema"], document["ok"]) == (1, True)
    assert all(tuple(check) == (*DoctorCheck._fields, "see") for check in document["checks"])


def test_findings_and_advice(run: Run, url: str) -> None:
    """Advice is no failure. A finding says why it matters and what to do."""
    SqlLedger(url, table_prefix="casino_").close()
    options = ("ledger", "doctor", "--database", url)
    advised = run(*options)
    assert (advised.code, advised.err) == (0, "")
    assert "✓ tables: game_operator_* have version" in advised.out
    assert "→ other ledgers: the tables casino_* are other ledgers" in advised.out
    run_sql(url, "UPDATE {p}meta SET value = 99 WHERE name = 'oldest_writer'")
    found = run(*options)
    assert found.code == 1
    assert "✗ tables: The tables game_operator_* were migrated" in found.out
    assert "    why: A program and tables that do not fit" in found.out
    assert "    to do: Upgrade this program." in found.out
    assert ": 1 finding, " in found.out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        pytest.param([], 2, "There is no database", id="no database"),
        pytest.param(["--database", "sqlite:///nowhere.db"], 2, "There is no file", id="no file"),
        pytest.param(["--database", "mysql://db/x"], 2, "is not an address of SQLite or PostgreSQL", id="another kind"),
        pytest.param(["--table-prefix", "1x"], 2, "The table prefix", id="no prefix"),
        pytest.param(["--database", "postgresql://ann:Pa55@/no?host=/nowhere"], 3, "cannot be read", id="unreachable"),
    ],
)
def test_usage_and_reach(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, args: list[str], code: int, said: str
) -> None:
    """A sentence, without a password."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    database = ["--database", url] if args and args[0] == "--table-prefix" else []
    told = run("ledger", "doctor", *args, *database)
    assert (told.code, told.out, told.err.count("\n") <= 2) == (code, "", True)
    assert said in told.err
    assert "Pa55" not in told.err
