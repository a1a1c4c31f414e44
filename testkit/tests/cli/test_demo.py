"""`game-operator demo`: all of its steps, and nothing left behind however they end."""

import json
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from game_operator.errors import GameOperatorError
from game_operator_testkit.cli import demo_tour
from game_operator_testkit.provider.faults import FAULTS
from tests.support.command_line import COMMAND, Run, Told, clean_environment, mode_of, started, stopped

pytestmark = pytest.mark.outside


def test_the_whole_story(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client can do and what a wallet withstands (spec §4, §5, §7), in order; nothing is left behind."""
    # Settings of another service, and an invalid proxy, have no effect.
    monkeypatch.setenv("GAME_OPERATOR_BASE_URL", "https://api.example.com")
    monkeypatch.setenv("GAME_OPERATOR_ID", "x")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    told = run("demo")
    assert (told.code, told.err) == (0, "")
    story = iter(told.out.splitlines())
    # A membership test moves the iterator: each must come after the one before.
    for expected in (
        "The games of the service, which is simulated on this machine",
        "   $ game-operator games",
        "A bet",
        "   status           CLOSED",
        "A round",
        "   $ game-operator round --instance ",
        "Free bets",
        "   Granted: 5 free bets of 100 cents for player-1.",
        "The same free bets once more, which the service refuses",
        "   Error: The service answered HTTP 400: DUPLICATE_REFERENCE_ID",
        "Three bets of which the last call is lost, repaired",
        "   The run repairs.",
        "   repaired        bets 3, total 29.00",
        "50 rounds with every fault there is",
        "   $ game-operator storm --url http://127.0.0.1:",
        "   Service and wallet agree on all 141 bets and 3 claims.",
        "Groups A, B and C of the certifier",
        "   PASSED: ",
        "The books",
        "   ✓ The books are sound.",
        "All of it worked",
    ):
        assert any(line.startswith(expected) for line in story), expected
    # A storm names the faults that occurred.
    assert all(f"{info.name} " in told.out for info in FAULTS if info.side == "webhook" and not info.is_lasting)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.drawn(1)
def test_stopped_in_the_middle_nothing_is_left_behind(tmp_path: Path, number: int, code: int) -> None:
    """Its servers end with it, and the ledger is gone."""
    # An interpreter of its own: loading is part of a step, and Python itself leaves a socket open that is interrupted
    # while it connects.
    environ = clean_environment({"TMPDIR": str(tmp_path)})
    for _ in range(5):
        with subprocess.Popen(
            [*COMMAND, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
        ) as process:
            assert process.stdout is not None
            out = ""
            while "\nA bet" not in out:
                out += process.stdout.readline()
            told = stopped(process, number)
        # Again if that demo was over too soon.
        if told.code != 0:
            break
    assert told.code == code
    assert "Traceback" not in told.err
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_goes_wrong_is_1(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the last line, and nothing is left behind; the process handles SIGTERM as it did before."""
    before = signal.getsignal(signal.SIGTERM)

    def amiss(place: Path) -> None:
        raise GameOperatorError("the moon is out")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(demo_tour, "tour", amiss)
    assert run("demo") == Told(1, "", "Error: the moon is out\n")
    assert run("demo", "--json").error["message"] == "the moon is out"
    assert signal.getsignal(signal.SIGTERM) is before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: signal.Signals(number).name)
@pytest.mark.drawn(1)
def test_the_control_room_stays_open_until_it_is_stopped(tmp_path: Path, number: int) -> None:
    """`demo --web` prints its address, has rounds to show, plays against a real wallet, and leaves nothing behind."""
    with started("demo", "--web", "--json", TMPDIR=str(tmp_path), HTTP_PROXY="http://127.0.0.1:1") as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        assert document["players"] == ["ann", "bob", "cleo"]
        # What `game-operator reconcile` needs to find a bet that lost its settlement.
        ran = subprocess.run(
            [*COMMAND, "reconcile", "run", "--min-age", "0s", "--second-look", "0s", "--sample", "1", "--json"],
            capture_output=True,
            env=clean_environment(document["environment"]),
        )
        assert json.loads(ran.stdout)["verdicts"] == {"agrees": {"bets": 5, "total_cents": 0}}
        assert mode_of(Path(document["environment"]["GAME_OPERATOR_PRIVATE_KEY_FILE"])) == 0o600
        paths = ("", "bets", "wallet", "runs")
        pages = {path: httpx.get(document["control_room"] + path, trust_env=False) for path in paths}
        told = stopped(process, number)
    assert {page.status_code for page in pages.values()} == {200}
    assert all(state in pages["bets"].text for state in ("CLOSED", "ROLLED_BACK"))
    assert "cleo" in pages["wallet"].text
    assert "is not in a file" not in pages["runs"].text
    assert told == Told(0, "", "")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(document["control_room"], trust_env=False)
