"""`game-operator profile`: how webhooks are understood (spec §4.1; assumed, docs/decisions/0010 to 0014)."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from game_operator import Profile
from tests.support.command_line import Run
from tests.support.documents import ROOT
from tests.support.wire import wire

VECTORS = ROOT / "tests" / "vectors" / "webhooks"

DEPOSIT = ("--operation", "deposit")
BODIES = sorted(path.stem for path in VECTORS.glob("*.body"))


@pytest.fixture
def sample(tmp_path: Path) -> Any:
    """Writes a body to a file."""

    def write(body: object) -> Path:
        path = tmp_path / "sample.json"
        path.write_bytes(body if isinstance(body, bytes) else wire(body))
        return path

    return write


def fields(document: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return what the document says of each field."""
    return {
        each["field"]: (each["found_under"], each["in_body"], each["read_as"], each["note"])
        for each in document["fields"]
    }


@pytest.mark.parametrize("name", BODIES)
def test_every_sample_is_understood(run: Run, name: str) -> None:
    """As the operation that is passed (spec §4.1)."""
    operation = "player-balance" if name == "player-balance" else name.partition("-")[0]
    line = ("profile", "check", VECTORS / f"{name}.body", "--operation", operation)
    told, document = run(*line), run(*line, "--json").document
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("It is accepted.\n")
    assert (document["operation"], document["accepted"]) == (operation, True)
    assert (document["code"], document["problem"]) == (None, "")
    assert json.loads(line[2].read_bytes())["player_id"] == fields(document)["player_id"][2]


def test_each_field_of_a_withdraw(run: Run) -> None:
    """The canonical name, the name in the body, its value, and what it is read as."""
    path = VECTORS / "withdraw-other-names.body"
    told = run("profile", "check", path, "--operation", "withdraw")
    document = run("profile", "check", path, "--operation", "withdraw", "--json").document
    assert fields(document) == {
        "player_id": ("player_id", "p1", "p1", ""),
        "bet_id": ("bet_id", "b1", "b1", ""),
        "tx_id": (None, None, "withdraw:bet:b1", ""),
        "amount_cents": ("wager", 5000.0, 5000, "written with decimals, and read as cents"),
        "action": (None, None, "BET", ""),
        "round_id": (None, None, None, ""),
        "instance_id": (None, None, None, ""),
        "game": (None, None, None, ""),
    }
    assert document["unknown"] == ["extra"]
    note = "written with decimals, and read as cents"
    assert re.search(rf"│ amount_cents │ wager +│ 5000.0 +│ 5000 +│ {note} │", told.out)


def test_what_cannot_be_read_in_a_deposit(run: Run, sample: Any) -> None:
    """It moves nothing and is pointed out (docs/decisions/0010)."""
    body = {
        "player_id": "p1",
        "amount": 700,
        "bet_id": "b1",
        "action": {"type": "BET", "wager": {"amount": 5}, "won": 900, "round_id": 5, "bets": [{"won": 1}]},
    }
    line = ("profile", "check", sample(body), "--operation", "deposit")
    told, document = run(*line), run(*line, "--json").document
    found = fields(document)
    unreadable = "cannot be read: kept raw, and moves no money"
    assert found["wager_cents"] == ("action.wager", {"amount": 5}, None, unreadable)
    assert found["round_id"] == ("action.round_id", 5, None, unreadable)
    assert found["won_cents"] == ("action.won", 900, 900, "")
    assert found["free_bets"][2] == [{"id": None, "round_id": None, "wager_cents": None, "won_cents": 1}]
    assert (told.code, document["accepted"]) == (0, True)
    assert told.out.count(unreadable) == 2


@pytest.mark.parametrize(
    ("body", "operation", "problem", "code"),
    [
        ({"player_id": "p1", "amount": "5"}, "withdraw", "amount_cents (amount or wager) must", "INVALID_REQUEST"),
        ({"player_id": "p1", "action": {}}, "deposit", "a deposit's action must say what", "INVALID_REQUEST"),
        ({"player_id": "p1", "won": 5}, "deposit", "bet_id (action_id", "INVALID_REQUEST"),
        (b"[{}]", "deposit", "the body must be a JSON object", "INVALID_REQUEST"),
        # Of what was not read, nothing is final.
        (b"x" * 65_537, "deposit", "the body has more bytes than the profile's max_body_bytes, 65536", "SYSTEM_ERROR"),
    ],
    ids=["amount", "a deposit of no type", "a deposit by its won field", "a batch", "too long"],
)
def test_a_body_that_would_be_refused_is_1(
    run: Run, sample: Any, body: object, operation: str, problem: str, code: str
) -> None:
    """Why, and where each field was found; what cannot be read has no meaning (docs/decisions/0010)."""
    line = ("profile", "check", sample(body), "--operation", operation)
    told, document = run(*line), run(*line, "--json")
    assert (told.code, told.err, document.code) == (1, "", 1)
    assert f"Refused with {code}: {problem}" in told.out
    found = document.document
    assert (found["accepted"], found["code"], found["operation"]) == (False, code, operation)
    assert found["problem"].startswith(problem)
    assert all(each["read_as"] is None for each in found["fields"])
    assert (found["fields"] == []) is isinstance(body, bytes)


def test_a_profile_of_ones_own(run: Run, sample: Any, tmp_path: Path) -> None:
    """Names, bounds and actions come from the file (docs/decisions/0010)."""
    profile = tmp_path / "profile.toml"
    profile.write_text(
        """
        max_body_bytes = 70
        [fields]
        player_id = ["user.id"]
        "action.deposit" = ["type"]
        "amount_cents.deposit" = ["payout"]
        """
    )
    body = {"user": {"id": "p1"}, "type": "BET", "payout": 7, "bet_id": "b1"}
    document = run("profile", "check", sample(body), *DEPOSIT, "--profile", profile, "--json").document
    assert (document["operation"], fields(document)["player_id"][:3]) == ("deposit", ("user.id", "p1", "p1"))
    assert fields(document)["amount_cents"][0] == "payout"
    told = run("profile", "check", sample(body | {"more": "x"}), *DEPOSIT, "--profile", profile)
    assert told.code == 1
    assert "SYSTEM_ERROR: the body has more bytes than the profile's max_body_bytes, 70" in told.out


def test_a_sample_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body can be piped in."""
    stdin = io.TextIOWrapper(io.BytesIO((VECTORS / "deposit.body").read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("profile", "check", "-", *DEPOSIT, "--json").document["operation"] == "deposit"


@pytest.mark.parametrize("command", ["check", "show"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="no file"),
        pytest.param(b"codes = ", "The profile is not TOML", id="broken"),
        pytest.param(b"colour = 1", "A profile has no 'colour'", id="unknown"),
        pytest.param(b"[fields]\nbet_id = []", "fields.bet_id must have a name", id="a field without a name"),
    ],
)
def test_a_profile_that_cannot_be_is_2(
    run: Run, tmp_path: Path, command: str, content: bytes | None, problem: str
) -> None:
    """The message names the key, and what it can be."""
    profile = tmp_path / "profile.toml"
    if content is not None:
        profile.write_bytes(content)
    body = (VECTORS / "deposit.body", *DEPOSIT) if command == "check" else ()
    args = ("profile", command, *body, "--profile", profile)
    told, error = run(*args), run(*args, "--json").error
    assert (told.code, told.out) == (2, "")
    assert problem in told.err
    assert (error["type"], error["exit_code"]) == ("ConfigurationError", 2)
    assert problem in error["message"]


@pytest.mark.parametrize("name", ["nowhere.json", "", ".", "a\0b"])
def test_a_sample_that_is_not_there_is_2(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An expected failure, whatever the name."""
    monkeypatch.chdir(tmp_path)
    told = run("profile", "check", name, *DEPOSIT)
    assert (told.code, told.out) == (2, "")
    assert "cannot be read: " in told.err


def test_an_operation_has_to_be_named(run: Run) -> None:
    """Nobody guesses it; the four are named (spec §4.1)."""
    missing = run("profile", "check", VECTORS / "deposit.body").err
    assert "Missing option '--operation'. Choose from: withdraw, deposit, rollback, player-balance" in missing
    told = run("profile", "check", VECTORS / "deposit.body", "--operation", "balance")
    assert (told.code, told.out) == (2, "")
    assert "'withdraw', 'deposit', 'rollback', 'player-balance'" in told.err


def test_the_defaults_as_toml(run: Run) -> None:
    """What is printed is a profile: it reads back as the same, and each setting has its note."""
    told = run("profile", "show")
    assert (told.code, told.err) == (0, "")
    assert Profile.from_toml(told.out) == Profile()
    lines = told.out.splitlines()
    above = dict(zip(lines[1:], lines, strict=False))
    settings = [line for line in lines if " = " in line and not line.startswith(("#", '"'))] + ["[fields]"]
    assert len(settings) == len(Profile().to_toml().split("\n\n")[0].splitlines()) + 1
    for line in settings:
        assert re.match(r"# 00(10|11|12|13|14): ", above[line]), line
    assert "assumed" in lines[0]
