"""``game-operator campaign``: from a file of players to the report, against a sandbox and a ledger."""

import signal
import socket
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from game_operator.ledger import SqlLedger
from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import Forked, Run, started
from tests.support.raw_sql import run as run_sql
from tests.support.times import wait_until

pytestmark = pytest.mark.outside

Plan = Callable[..., list[object]]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger with the players p1 to p100, in the environment."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    with SqlLedger(url) as ledger:
        for number in range(1, 101):
            ledger.open_account(f"p{number}", Decimal(1))
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", url)
    return url


@pytest.fixture
def plan(tmp_path: Path, settings: dict[str, str], database: str, sandbox: Sandbox) -> Plan:
    """Returns the command line that plans a campaign of so many players."""

    def made(name: str, number: int, *options: object, rows: str = "") -> list[object]:
        file = tmp_path / "players.csv"
        file.write_text("player_id\n" + "".join(f"p{each}\n" for each in range(1, number + 1)) + rows)
        terms = ("--instance", sandbox.instance_id, "--count", 5, "--wager-cents", 100, "--expire-millis", 86_400_000)
        return ["campaign", "plan", name, "--players", file, *terms, *options]

    return made


def _granted(sandbox: Sandbox, name: str) -> list[str]:
    """Return the players of a campaign that the service has granted, sorted."""
    requests = [grant.request for grant in sandbox.world.grants()]
    return sorted(each.player_id for each in requests if each.reference_id.startswith(f"{name}/"))


def test_from_the_file_to_the_report(run: Run, plan: Plan, sandbox: Sandbox, tmp_path: Path) -> None:
    told = run(*plan("whole", 25, "--max-exposure-cents", 12_500))
    assert told.code == 0
    for text in ("125.00", "EUR", "players checked  yes", "campaign run whole"):
        assert text in told.out
    assert _granted(sandbox, "whole") == []
    assert run("campaign", "status", "whole", "--json").document["state"] == "planned"
    assert "To make the grants: game-operator campaign run whole" in run("campaign", "status", "whole").out
    told = run("campaign", "run", "whole", "--rate", 2_000)
    assert (told.code, told.err) == (0, "")
    assert "│ granted │     25 │" in told.out
    assert _granted(sandbox, "whole") == sorted(f"p{number}" for number in range(1, 26))
    file = tmp_path / "results.csv"
    document = run("campaign", "report", "whole", "--results", file, "--json").document
    assert (document["state"], document["by_state"]) == (
        "finished",
        {"granted": {"grants": 25, "exposure_cents": 12_500}},
    )
    assert (document["exposure_cents"], document["currency"]) == (12_500, "EUR")
    assert file.read_text().count("\n") == 26
    assert file.stat().st_mode & 0o777 == 0o600
    assert {line.split(",")[5] for line in file.read_text().splitlines()[1:]} == {
        f"whole/p{number}" for number in range(1, 26)
    }


def _running(settings: dict[str, str], database: str, name: str, *options: str) -> Forked:
    environ = settings | {"GAME_OPERATOR_DATABASE_URL": database}
    return started("campaign", "run", name, "--rate", "40", *options, **environ)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_what_is_under_way_and_says_how_to_go_on(
    run: Run, plan: Plan, sandbox: Sandbox, settings: dict[str, str], database: str, number: signal.Signals
) -> None:
    name = f"ctrl-c-{number.value}"
    run(*plan(name, 100))
    process = _running(settings, database, name)
    wait_until(lambda: len(_granted(sandbox, name)) >= 15)
    process.send_signal(number)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 128 + number
    assert "Stopping: the calls under way are finished first." in err
    assert f"To make the grants: game-operator campaign run {name}" in out
    granted = _granted(sandbox, name)
    assert 15 <= len(granted) < 100
    assert f"│ granted │ {len(granted):>6} │" in out
    document = run("campaign", "status", name, "--json").document
    assert (document["by_state"].get("sending"), document["at_work"]) == (None, 0)


def test_the_second_ctrl_c_ends_at_once(
    run: Run, plan: Plan, sandbox: Sandbox, settings: dict[str, str], database: str
) -> None:
    """Even while the service does not answer; what was under way is in doubt, and asked for again."""
    run(*plan("twice", 12))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        # The address is not known when the campaign is planned.
        run_sql(database, "UPDATE {p}runs SET service = ?", f"{url}|{sandbox.operator_id}")
        process = _running(settings | {"GAME_OPERATOR_BASE_URL": url}, database, "twice")
        silent.settimeout(40)
        connection, _ = silent.accept()
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
        connection.close()
    assert process.returncode == 130
    assert "may have been made" in err
    assert run("campaign", "status", "twice", "--json").document["by_state"]["sending"]["grants"] == 1
