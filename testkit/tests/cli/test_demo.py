"""`game-operator demo`: all of its steps, and nothing left behind however they end."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from game_operator_testkit.cli import demo_tour
from game_operator_testkit.cli.demo import shown_steps
from game_operator_testkit.cli.demo_tour import WrongAnswerError, client_steps
from game_operator_testkit.provider.faults import FAULTS
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import play, post
from tests.support.command_line import COMMAND, Run, Told, clean_environment, mode_of, started, stopped

pytestmark = pytest.mark.outside


def test_the_whole_story(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client can do and what a wallet withstands (spec §2, §4, §5, §7), in order; nothing is left behind."""
    # Settings of another service, and a proxy that is none, do not bother it.
    monkeypatch.setenv("GAME_OPERATOR_BASE_URL", "https://api.example.com")
    monkeypatch.setenv("GAME_OPERATOR_ID", "x")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    told = run("demo")
    assert (told.code, told.err) == (0, "")
    story = iter(told.out.splitlines())
    # A membership test moves the iterator: each must come after the one before.
    for expected in (
        "1. The service, simulated on this machine",
        "2. The games (fetch-games)",
        "3. A bet in each state (fetch-bet)",
        "   OPEN: ",
        "   CLOSED: ",
        "   ROLLED_BACK: ",
        "   NOT_FOUND: ",
        "4. A round (fetch-round-bets)",
        "   round ",
        "5. Free bets (free-bet/grant)",
        "   5 free bets of 1.00",
        "   the same reference id again: refused, DUPLICATE_REFERENCE_ID",
        "   51 free bets at once: refused, COUNT_TOO_HIGH",
        "6. A call signed with the wrong key",
        "   HTTP 401, “Authentication failed”",
        "7. A session token",
        "   decoded for another instance: refused",
        "8. A wallet server",
        "   opened player-1 with 100.00",
        "9. Balances asked for (player-balance)",
        "   player-balance player-3: PLAYER_NOT_FOUND",
        "10. A win",
        "   withdraw 5.00 for bet-1: SUCCESS, balance 95.00",
        "   deposit 12.50 for bet-1: SUCCESS, balance 107.50",
        "11. A loss",
        "   deposit 0.00 for bet-2: SUCCESS, balance 97.50",
        "12. A cancelled bet",
        "   rollback bet-3: SUCCESS, balance 97.50",
        "13. A withdraw that is repeated",
        "   withdraw 3.00 for bet-4: SUCCESS, balance 94.50",
        "14. A rollback that comes before its withdraw",
        "   rollback bet-5: BET_NOT_FOUND, balance 94.50",
        "   withdraw 7.00 for bet-5: BET_ROLLED_BACK, balance 94.50",
        "15. A withdraw of more than there is",
        "   withdraw 94.51 for bet-6: INSUFFICIENT_BALANCE, balance 94.50",
        "16. A forged signature",
        "   a jackpot of 10000.00, signed by a stranger: INVALID_SIGNATURE",
        "17. A withdraw's bytes, posted to /rollback",
        "   the signed bytes of bet-4's withdraw: INVALID_REQUEST",
        "18. The books",
        "   6 bets: each balance is the sum of its postings",
        "19. 50 rounds with every fault there is",
        "   audited bet by bet and player by player: service and wallet agree on all of it",
        "20. Certified: flows, repeats, order and state",
        "   opened tester-1 with 100.00",
        "   PASSED: ",
        "21. Settlements that were lost (game-operator reconcile)",
        "   a dry run changes nothing: agrees 6, refund 1, settle 2",
        "   a second look agrees, so it repairs them: agrees 6, refunded 1, settled 2",
        "   the 3 lost calls arrive late: SUCCESS, and the balance stays",
        "   all bets compared once more: service and wallet agree",
        "22. A campaign of free bets that is interrupted (game-operator campaign)",
        "   planned: 5 free bets of 0.20 for each of 24 players",
        "   interrupted: 14 granted, 1 without an answer",
        "   resumed: 24 granted",
        "   the service has 24 grants: one for each of 24 players",
        "All of it worked",
    ):
        assert any(line.startswith(expected) for line in story), expected
    kinds = sum(info.side == "webhook" and not info.is_lasting for info in FAULTS)
    assert f" faults of {kinds} kinds occurred\n" in told.out
    assert "both balances are what they were before\n" in told.out
    assert max(map(len, told.out.splitlines())) <= 110
    assert list(tmp_path.iterdir()) == []


def test_the_steps_as_a_document(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for a program: all steps, in order, with their lines."""
    monkeypatch.setattr(demo_tour, "tour", lambda place: (line for line in ("A client", " fine", " and well", "Books")))
    document = run("demo", "--json").document
    assert document["ok"] is True
    assert document["seconds"] >= 0
    assert document["steps"] == [
        {"title": "A client", "lines": ["fine", "and well"], "problem": ""},
        {"title": "Books", "lines": [], "problem": ""},
    ]


@pytest.mark.parametrize(
    ("number", "code", "step"),
    [
        pytest.param(signal.SIGINT, 130, 2, id="Ctrl-C while the sandbox serves"),
        pytest.param(signal.SIGTERM, 143, 9, id="SIGTERM while the wallet serves"),
    ],
)
@pytest.mark.drawn(1)
def test_stopped_in_the_middle_nothing_is_left_behind(tmp_path: Path, number: int, code: int, step: int) -> None:
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
            while f"\n{step}. " not in out:
                out += process.stdout.readline()
            told = stopped(process, number)
        # Again if that demo was over too soon.
        if told.code != 0:
            break
    assert told.code == code
    assert "Traceback" not in told.err
    assert list(tmp_path.iterdir()) == []


def with_changed(sandbox: Sandbox, **changes: object) -> Any:
    """Return *sandbox* for the tour, with other attributes."""
    names = ("base_url", "operator_id", "private_key_pem", "instance_id", "bet_ids", "round_id")
    return SimpleNamespace(**{name: getattr(sandbox, name) for name in names} | changes)


@pytest.mark.parametrize(
    ("change", "title", "problem"),
    [
        pytest.param({}, "A session token (its contents are assumed)", "", id="all is well"),
        pytest.param(
            {"bet_ids": {"OPEN": "nope", "CLOSED": "nope", "ROLLED_BACK": "nope"}},
            "A bet in each state (fetch-bet)",
            "the bet nope is NOT_FOUND, not OPEN",
            id="a bet that is not as it should be",
        ),
        pytest.param({"round_id": "nope"}, "A round (fetch-round-bets)", "the round nope is not found", id="no round"),
        pytest.param({"instance_id": "nope"}, "A round (fetch-round-bets)", "not found", id="no instance"),
        pytest.param({"base_url": "http://127.0.0.1:1"}, "A call signed with the wrong key", "never left", id="gone"),
    ],
)
def test_the_demo_stops_where_it_goes_wrong(change: dict[str, object], title: str, problem: str) -> None:
    """Each step compares what it sees with what is expected; the one with a problem is the last."""
    with Sandbox() as sandbox, sandbox.client() as client:
        steps = shown_steps(client_steps(with_changed(sandbox, **change), client))
    assert steps[-1]["title"] == title
    assert problem in steps[-1]["problem"]
    assert bool(steps[-1]["problem"]) == bool(problem)
    assert not any(step["problem"] for step in steps[:-1])


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.drawn(1)
def test_a_step_that_goes_wrong_is_1(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """Said at the step, and nothing is left behind; this process's own way with SIGTERM is what it was."""
    before = signal.getsignal(signal.SIGTERM)

    def amiss(place: Path) -> Iterator[str]:
        yield "A bad night"
        yield " so far so good"
        raise WrongAnswerError("the moon is out")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(demo_tour, "tour", amiss)
    ended = run("demo", *(["--json"] if as_json else []))
    assert ended.code == 1
    assert signal.getsignal(signal.SIGTERM) is before
    if as_json:
        document = ended.document
        assert document["ok"] is False
        (step,) = document["steps"]
        assert step == {"title": "A bad night", "lines": ["so far so good"], "problem": "the moon is out"}
    else:
        assert "   ✗ the moon is out\n" in ended.out
        assert "All of it worked" not in ended.out
        assert "went wrong" in ended.err
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
        assert document["database"].startswith("sqlite:///")
        assert mode_of(Path(document["private_key_file"])) == 0o600
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


def test_the_wallet_of_the_control_room_takes_each_next_key(tmp_path: Path) -> None:
    """Two rotations by the page's steps, and a retired key; rounds go on after each."""
    with started("demo", "--web", "--json", TMPDIR=str(tmp_path)) as process:
        assert process.stdout is not None
        room = json.loads(process.stdout.readline())["control_room"]
        with httpx.Client(base_url=room, trust_env=False, timeout=20) as http:
            for form in ("prepare", "rotate", "prepare", "rotate", "retire", "prepare"):
                assert post(http, f"/keys/{form}").status_code == 303
                play(http, player_id="bob")
            live = http.get("/live").text
        stopped(process, signal.SIGTERM)
    assert "INVALID_SIGNATURE" not in live
    assert live.count('"path">/withdraw') >= 5 + 6


def test_a_port_without_the_control_room_is_2(run: Run) -> None:
    """It would be ignored without a word."""
    told = run("demo", "--port", "8925")
    assert (told.code, told.out) == (2, "")
    assert "Pass --web as well." in told.err
