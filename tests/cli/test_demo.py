"""`game-operator demo`: its four parts, whole, and nothing left behind however they end."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from game_operator.cli.commands import demo_parts
from game_operator.cli.commands.demo_parts import Show, WrongAnswerError, play_client
from game_operator.cli.keys import KeyFiles, write_pair
from game_operator.sandbox import Sandbox
from tests.cli.support import Run, Told, command, started, stopped
from tests.sandbox.web.support import play, post

pytestmark = pytest.mark.outside


def is_running(pid: int) -> bool:
    """Return whether the process *pid* is there, and not just waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids_in(out: str) -> list[int]:
    """Return the processes of sandbox and wallet, as the stories tell them."""
    found = [int(pid) for pid in re.findall(r"process (\d+)", out)]
    assert found, out
    return found


def test_the_whole_story(tmp_path: Path) -> None:
    """What the client can do and what a wallet withstands (spec §2, §4, §5, §7), in order; nothing is left behind."""
    # Settings of another service, and a proxy that is none, do not bother it.
    elsewhere = {"GAME_OPERATOR_BASE_URL": "https://api.example.com", "GAME_OPERATOR_ID": "x"}
    told = command("demo", TMPDIR=str(tmp_path), HTTP_PROXY="http://127.0.0.1:1", **elsewhere)
    assert (told.code, told.err) == (0, "")
    story = iter(told.out.splitlines())
    # A membership test moves the iterator: each must come after the one before.
    for expected in (
        "1. A key pair",
        "2. The service, simulated on this machine",
        "3. The games (fetch-games)",
        "4. A bet in each state (fetch-bet)",
        "   OPEN: ",
        "   CLOSED: ",
        "   ROLLED_BACK: ",
        "   NOT_FOUND: ",
        "5. A round (fetch-round-bets)",
        "   by id: OK, ",
        "   by number ",
        "   one that never was: NOT_FOUND",
        "6. Free bets (free-bet/grant)",
        "   5 free bets of 1.00",
        "7. Free bets, refused",
        "   the same reference id again: refused by the service, DUPLICATE_REFERENCE_ID",
        "   51 free bets at once: refused before it was sent, COUNT_TOO_HIGH",
        "8. A call signed with the wrong key",
        "   HTTP 401, “Authentication failed”",
        "9. A session token",
        "   decoded for another instance: refused",
        "10. A wallet server, in its own process",
        "   opened player-1 with 100.00",
        "11. Balances asked for (player-balance)",
        "   player-balance player-3: PLAYER_NOT_FOUND",
        "12. A win",
        "   withdraw 5.00 for bet-1: SUCCESS, balance 95.00",
        "   deposit 12.50 for bet-1: SUCCESS, balance 107.50",
        "13. A loss",
        "   deposit 0.00 for bet-2: SUCCESS, balance 97.50",
        "14. A cancelled bet",
        "   rollback bet-3: SUCCESS, balance 97.50",
        "15. A withdraw that is repeated",
        "   withdraw 3.00 for bet-4: SUCCESS, balance 94.50",
        "16. A rollback that comes before its withdraw",
        "   rollback bet-5: BET_NOT_FOUND, balance 94.50",
        "   withdraw 7.00 for bet-5: BET_ROLLED_BACK, balance 94.50",
        "17. A withdraw of more than there is",
        "   withdraw 94.51 for bet-6: INSUFFICIENT_BALANCE, balance 94.50",
        "18. A forged signature",
        "   its log says why: the signature was made by none of the keys",
        "19. A withdraw's bytes, posted to /rollback",
        "   the signed bytes of bet-4's withdraw, to /rollback: INVALID_REQUEST",
        "20. The books",
        "   player-1: 94.50",
        "   verified: ",
        "21. A round played by the service",
        "   a win: /withdraw 95.00, /deposit 107.50",
        "   the same bet by fetch-bet: CLOSED",
        "   a cancelled one: withdraw, rollback; ROLLED_BACK on both sides",
        "22. Free bets, granted and claimed",
        "   3 free bets granted and played",
        "23. A reply that is lost",
        "   the wallet answers, the answer is lost, and the service repeats the withdraw: debited once",
        "24. 50 rounds with every fault there is",
        "   50 rounds, ",
        "   audited bet by bet and player by player: service and wallet agree on all of it",
        "25. Two players for a certification",
        "   opened tester-1 with 100.00",
        "26. Certified: flows, repeats, order and state",
        "   A flows: ",
        "   B repeats: ",
        "   C order and state: ",
        "All of it worked",
    ):
        assert any(line.startswith(expected) for line in story), expected
    assert max(map(len, told.out.splitlines())) <= 110
    assert list(tmp_path.iterdir()) == []
    processes = pids_in(told.out)
    assert len(set(processes)) == 2
    assert not any(map(is_running, processes))


def test_the_parts_as_a_document(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for a program: all parts, in order."""

    def part(title: str) -> Callable[..., None]:
        def play(show: Show, *_: object) -> None:
            show.step(title)
            show.line("fine")

        return play

    titles = ("client", "wallet", "rounds", "certification")
    for title in titles:
        monkeypatch.setattr(demo_parts, f"play_{title}", part(title))
    document = run("demo", "--json").document
    assert document["ok"] is True
    assert document["seconds"] >= 0
    assert document["steps"] == [{"title": title, "lines": ["fine"], "problem": ""} for title in titles]


@pytest.mark.parametrize(
    ("number", "code", "chapter"),
    [
        pytest.param(signal.SIGINT, 130, 2, id="Ctrl-C while the sandbox serves"),
        pytest.param(signal.SIGTERM, 143, 10, id="SIGTERM while the wallet serves"),
    ],
)
def test_stopped_in_the_middle_nothing_is_left_behind(tmp_path: Path, number: int, code: int, chapter: int) -> None:
    """What it has started ends, and the keys are gone."""
    told, pids = interrupted(tmp_path, number, chapter)
    assert told.code == code
    assert "Traceback" not in told.err
    assert not any(map(is_running, pids))
    assert list(tmp_path.iterdir()) == []


def test_killed_it_takes_what_it_started_along(tmp_path: Path) -> None:
    """Nobody is left to clean up, and yet no process stays."""
    told, pids = interrupted(tmp_path, signal.SIGKILL, chapter=2)
    assert told.code == -signal.SIGKILL
    give_up = time.monotonic() + 20
    while any(map(is_running, pids)) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not any(map(is_running, pids))


def interrupted(tmp_path: Path, number: int, chapter: int) -> tuple[Told, list[int]]:
    """Send the signal as soon as *chapter* names its process; again with a new demo if that one was over too soon."""
    for _ in range(5):
        with started("demo", TMPDIR=str(tmp_path)) as process:
            assert process.stdout is not None
            out = ""
            while f"\n{chapter}. " not in out or "process" not in out.partition(f"\n{chapter}. ")[2]:
                out += process.stdout.readline()
            told = stopped(process, number)
        if told.code != 0:
            break
    return told, pids_in(out)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    return write_pair(tmp_path_factory.mktemp("demo") / "operator.pem", bits=2048)


@pytest.fixture
def service(keys: KeyFiles) -> Iterator[dict[str, object]]:
    """What a sandbox says about itself."""
    with Sandbox(operator_public_key=keys.public) as sandbox:
        yield {
            "base_url": sandbox.base_url,
            "operator_id": sandbox.operator_id,
            "instance_id": sandbox.instance_id,
            "bet_ids": dict(sandbox.bet_ids),
            "round_id": sandbox.round_id,
            "round_no": sandbox.round_no,
            "pid": os.getpid(),
        }


@pytest.mark.parametrize(
    ("change", "title", "problem"),
    [
        pytest.param({}, "A session token (its contents are assumed)", "", id="all is well"),
        pytest.param({"operator_id": "x"}, "The games (fetch-games)", "HTTP 401", id="another operator"),
        pytest.param(
            {"bet_ids": {"OPEN": "nope", "CLOSED": "nope", "ROLLED_BACK": "nope"}},
            "A bet in each state (fetch-bet)",
            "the bet nope is NOT_FOUND, not OPEN",
            id="a bet that is not as it should be",
        ),
        pytest.param({"round_id": "nope"}, "A round (fetch-round-bets)", "the round is not found", id="no round"),
        pytest.param(
            {"instance_id": "nope", "round_no": 1}, "A round (fetch-round-bets)", "not found", id="no instance"
        ),
        pytest.param({"base_url": "http://127.0.0.1:1"}, "The games (fetch-games)", "never left", id="no service"),
    ],
)
def test_the_demo_stops_where_it_goes_wrong(
    keys: KeyFiles, service: dict[str, object], change: dict[str, object], title: str, problem: str
) -> None:
    """Each step compares what it sees with what is expected; the one with a problem is the last."""
    show = Show(silent=True)
    assert show.play(play_client, keys, service | change) == (not problem)
    assert show.steps[-1]["title"] == title
    assert problem in show.steps[-1]["problem"]
    assert not any(step["problem"] for step in show.steps[:-1])


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_step_that_goes_wrong_is_1(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """Said at the step, and nothing is left behind; this process's own way with SIGTERM is what it was."""
    before = signal.getsignal(signal.SIGTERM)

    def amiss(show: Show, keys: KeyFiles, service: dict[str, object]) -> None:
        show.step("A bad night")
        show.line(f"so far so good in process {service['pid']}")
        raise WrongAnswerError("the moon is out")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(demo_parts, "play_client", amiss)
    ended = run("demo", *(["--json"] if as_json else []))
    assert ended.code == 1
    assert signal.getsignal(signal.SIGTERM) is before
    if as_json:
        document = ended.document
        assert document["ok"] is False
        (step,) = document["steps"]
        assert (step["title"], step["problem"]) == ("A bad night", "the moon is out")
        out = step["lines"][0]
    else:
        out = ended.out
        assert "   ✗ the moon is out\n" in out
        assert "All of it worked" not in out
        assert "went wrong" in ended.err
    assert not any(map(is_running, pids_in(out)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        pytest.param("exit 1", "he sandbox did not start. Run", id="it says nothing"),
        pytest.param(
            """echo '{"error":{"message":"no web server"}}'; exit 2""",
            "The sandbox did not start: no web server",
            id="it says why",
        ),
        pytest.param(
            """case "$*" in *" serve "*) echo '{"error":{"message":"no loop"}}'; exit 2;; *) exec %s "$@";; esac""",
            "The wallet did not start: no loop",
            id="the wallet",
        ),
    ],
)
def test_a_server_that_does_not_start_is_2(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    """Which of the two it was, and why; nothing is left behind."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script.replace('%s', sys.executable)}\n")
    python.chmod(0o755)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(sys, "executable", str(python))
    error = run("demo", "--json").error
    assert error["exit_code"] == 2
    assert problem in error["message"]
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: signal.Signals(number).name)
def test_the_control_room_stays_open_until_it_is_stopped(tmp_path: Path, number: int) -> None:
    """`demo --web` prints its address, has rounds to show, plays against a real wallet, and leaves nothing behind."""
    with started("demo", "--web", "--json", TMPDIR=str(tmp_path), HTTP_PROXY="http://127.0.0.1:1") as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        assert document["players"] == ["ann", "bob", "cleo"]
        pages = {path: httpx.get(document["control_room"] + path, trust_env=False) for path in ("", "bets", "wallet")}
        told = stopped(process, number)
    assert {page.status_code for page in pages.values()} == {200}
    assert all(state in pages["bets"].text for state in ("CLOSED", "ROLLED_BACK"))
    assert "cleo" in pages["wallet"].text
    assert told == Told(0, "", "")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(document["control_room"], trust_env=False)


def test_the_wallet_of_the_control_room_takes_the_next_key(tmp_path: Path) -> None:
    """A rotation by the page's steps, and rounds go on."""
    with started("demo", "--web", "--json", TMPDIR=str(tmp_path)) as process:
        assert process.stdout is not None
        room = json.loads(process.stdout.readline())["control_room"]
        with httpx.Client(base_url=room, trust_env=False, timeout=20) as http:
            assert post(http, "/keys/rotate").status_code == 303
            play(http, player_id="bob")
            live = http.get("/live").text
        stopped(process, signal.SIGTERM)
    assert "INVALID_SIGNATURE" not in live
    assert live.count("/withdraw") >= 6


def test_a_port_without_the_control_room_is_2(run: Run) -> None:
    """It would be ignored without a word."""
    told = run("demo", "--port", "8925")
    assert (told.code, told.out) == (2, "")
    assert "Pass --web as well." in told.err
