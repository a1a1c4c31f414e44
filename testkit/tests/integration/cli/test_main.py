"""The command as a whole: help, exit codes, one JSON document, and never a traceback for an expected failure."""

import json
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from game_operator.cli import options
from game_operator.cli.app import whole
from tests.support.command_line import COMMAND, CannedService, Reply, Run, clean_environment, ran, stopped
from tests.support.wire import game, wire

# Any: Typer keeps the class of a group to itself.
_WHOLE: Any = whole()
COMMANDS = tuple(_WHOLE.commands)
GROUPS = {name: tuple(each.commands) for name, each in _WHOLE.commands.items() if hasattr(each, "commands")}
#: What is in the groups.
PARTS = tuple(f"{name} {part}" for name, parts in GROUPS.items() for part in parts)

#: A call of each command that asks the service, without the settings.
CALLS = (
    pytest.param(("games",), id="games"),
    pytest.param(("bet", "bet-1"), id="bet"),
    pytest.param(("round", "--instance", "i", "--id", "r"), id="round"),
    pytest.param(
        ("grant", "--instance=i", "--player=p", "--count=1", "--wager-cents=1", "--expire-millis=1", "--reference=r"),
        id="grant",
    ),
)


@pytest.mark.parametrize("name", ["", *COMMANDS, *PARTS])
def test_every_command_explains_itself_and_takes_json(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """
    Help is complete: what the command does, and --json everywhere but on the groups of commands.

    80 columns cut no option, for one whose end is missing cannot be typed; and flags have no value, for `--json true`
    is wrong usage.
    """
    monkeypatch.setenv("COLUMNS", "200")
    wide = run(*name.split(), "--help")
    assert (wide.code, wide.err) == (0, "")
    assert ("--json" in wide.out) == (bool(name) and name not in GROUPS)
    monkeypatch.setenv("COLUMNS", "80")
    out = run(*name.split(), "--help").out
    assert out.count("…") == wide.out.count("…")  # Some texts have one themselves, as postgresql://… has.
    assert "bool" not in out


def test_every_option_has_a_text_and_every_text_an_option() -> None:
    """A name that is misspelled in options.toml would leave its option without a word in the help."""
    texts = tomllib.loads(Path(options.__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    commands: dict[str, Any] = {}
    for name, each in _WHOLE.commands.items():
        parts = getattr(each, "commands", {})
        commands |= {f"{name} {part}": under for part, under in parts.items()} if parts else {name: each}
    taken = {name: {each.name: each for each in command.params} for name, command in commands.items()}
    silent = [
        (name, option)
        for name, each in taken.items()
        for option, it in each.items()
        if not (it.help or getattr(it, "hidden", False) or it.param_type_name == "argument")
    ]
    everywhere = {option for each in taken.values() for option in each}
    unknown = [(name, each) for name, by in texts.items() for each in by if each not in taken.get(name, everywhere)]
    assert (silent, [each for each in unknown if each[1] != "panel"]) == ([], [])


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(("nope",), "No such command 'nope'.", id="an unknown command"),
        pytest.param(("games", "--nope"), "No such option: --nope", id="an unknown option"),
        pytest.param(("bet",), "Missing argument 'ID'.", id="a missing argument"),
        pytest.param(("round", "--instance", "i"), "Pass --id or --no", id="a round without a key"),
        pytest.param(("token",), "Missing command.", id="a group without a command"),
    ],
)
def test_wrong_usage_is_2(run: Run, args: tuple[str, ...], problem: str) -> None:
    """Text on stderr says where help is; --json says the same as one document on stdout."""
    told = run(*args)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("Error: ")
    assert problem in told.err
    assert "--help" in told.err.splitlines()[-1]
    if args != ("token",):
        error = run(*args, "--json").error
        assert (error["type"], error["exit_code"]) == ("UsageError", 2)
        assert problem in error["message"]


@pytest.mark.parametrize("args", CALLS)
def test_a_service_that_is_not_there_is_3(
    run: Run, settings: dict[str, str], nobody: str, args: tuple[str, ...]
) -> None:
    told = run(*args, "--base-url", nobody, "--deadline", "0.15")
    assert (told.code, told.out) == (3, "")
    assert "The request never left" in told.err
    error = run(*args, "--base-url", nobody, "--deadline", "0.15", "--json").error
    assert (error["type"], error["exit_code"], type(error["timed_out"])) == ("RequestNotSentError", 3, bool)
    assert error["attempts"] >= 1
    assert error["elapsed_seconds"] < 2


@pytest.mark.parametrize("args", CALLS[1::2])
@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "AuthenticationError"), (403, "OperatorInactiveError"), (404, "UnexpectedResponseError")],
)
def test_a_service_that_says_no_is_1(
    run: Run, settings: dict[str, str], args: tuple[str, ...], status: int, kind: str
) -> None:
    """Refused (spec §5, §7.3), or not understood: told with what a program branches on."""
    body = b'{"error": "no"}' if status != 404 else b"<html>"
    with CannedService([Reply(status, body)]) as service:
        told = run(*args, "--base-url", service.base_url)
        error = run(*args, "--base-url", service.base_url, "--json").error
    assert (told.code, told.out) == (1, "")
    assert f"HTTP {status}" in told.err
    assert (error["type"], error["exit_code"], error["status_code"]) == (kind, 1, status)
    assert error["service_message"] == "no" or status == 404


@pytest.mark.outside
@pytest.mark.parametrize("missing", ["typer", "rich"])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_without_the_extra_one_sentence_says_what_to_install(missing: str, as_json: bool) -> None:
    """The core installs without typer and rich, and `game-operator` with it."""
    program = f"import sys; sys.modules[{missing!r}] = None\nfrom game_operator.cli import main; sys.exit(main())"
    args = ["games", "--json"] if as_json else ["games"]
    ended = ran(sys.executable, "-c", program, *args)
    told, other = (ended.out, ended.err) if as_json else (ended.err, ended.out)
    assert (ended.code, other, told.count("\n")) == (2, "", 1)
    assert "pip install 'game-operator[cli]'" in told
    assert not as_json or json.loads(told)["error"]["exit_code"] == 2


@pytest.mark.outside
def test_help_loads_nothing_heavy() -> None:
    """`game-operator --help` costs typer and rich, not httpx, pydantic, cryptography or a web server."""
    heavy = ("httpx", "pydantic", "cryptography", "jwt", "starlette", "uvicorn", "anyio")
    program = (
        "import sys; from game_operator.cli import main; main(['--help']); "
        f"sys.exit([name for name in {heavy} if name in sys.modules] or 0)"
    )
    ended = ran(sys.executable, "-c", program)
    assert (ended.code, ended.err) == (0, "")


def test_a_stream_that_cannot_encode_shows_escapes(settings: dict[str, str]) -> None:
    """A log file in ASCII gets an escape, not a UnicodeEncodeError."""
    body = wire({"games": [game(name="日本 Crash")]})
    with CannedService([Reply(body=body)]) as service:
        where = settings | {"GAME_OPERATOR_BASE_URL": service.base_url}
        ended = ran(*COMMAND, "games", PYTHONIOENCODING="ascii", **where)
    assert (ended.code, ended.err) == (0, "")
    assert r"\u65e5\u672c" in ended.out


def test_ctrl_c_ends_a_call_without_a_traceback(settings: dict[str, str]) -> None:
    """130, as a shell has it; with --json still one document."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(
            [*COMMAND, "games", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(settings | {"GAME_OPERATOR_BASE_URL": address}),
        ) as process:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                told = stopped(process, signal.SIGINT)
    assert (told.code, told.error["type"]) == (130, "Interrupted")
