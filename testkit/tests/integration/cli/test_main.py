"""The command as a whole: help, exit codes, one JSON document, and never a traceback for an expected failure."""

import json
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from game_operator._version import __version__
from game_operator.cli import main, options
from game_operator.cli.app import whole
from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import COMMAND, CannedService, Forked, Reply, Run, clean_environment, started, stopped
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


def test_help_names_every_command(run: Run) -> None:
    told = run("--help")
    assert told.code == 0
    assert all(f"\n  {name} " in told.out for name in COMMANDS)


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


def test_help_says_what_the_exit_codes_mean(run: Run) -> None:
    """130 with the others, and that a bet or a round that is not there is 0."""
    out = " ".join(run("--help").out.split())
    assert all(code in out for code in ("0 fine", "1 findings", "2 usage", "3 could not reach", "130 interrupted"))
    for name in ("bet", "round"):
        out = " ".join(run(name, "--help").out.split())
        assert "NOT_FOUND" in out
        assert "the exit code is 0" in out


def test_help_wraps_paragraphs_to_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line ends where it does in the source; the limits of ids are told (spec §2.2)."""
    out = " ".join(run("grant", "--help").out.split())
    assert "keeps the service from granting twice" in out
    assert out.count("1 to 100 characters") == 2


def test_version(run: Run) -> None:
    assert run("--version").out == f"game-operator {__version__}\n"


def test_nothing_at_all_shows_the_help_and_is_wrong_usage(run: Run) -> None:
    told = run()
    assert told.code == 2
    assert "Usage" in told.out


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(("nope",), "No such command 'nope'.", id="an unknown command"),
        pytest.param(("games", "--nope"), "No such option: --nope", id="an unknown option"),
        pytest.param(("bet",), "Missing argument 'ID'.", id="a missing argument"),
        pytest.param(
            ("grant", "--count", "many"),
            "'--count': Input should be a valid integer",
            id="a number that is none",
        ),
        pytest.param(("storm", "--timeout", "abc"), "'--timeout': Input should be a valid number", id="a word"),
        pytest.param(("storm", "--bets", "1.5"), "'--bets': Input should be a valid integer", id="a half"),
        pytest.param(("storm", "--seed", "9" * 5_000), "exceeded maximum size", id="5,000 digits"),
        pytest.param(
            ("storm", "--bets", "0"), "'--bets': Input should be greater than or equal to 1", id="below the smallest"
        ),
        pytest.param(("round", "--instance", "i"), "Pass --id or --no", id="a round without a key"),
        pytest.param(("token",), "Missing command.", id="a group without a command"),
        pytest.param(("profile", "check"), "Missing argument 'SAMPLE'.", id="a group's missing argument"),
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


def test_json_after_a_double_dash_is_an_argument(run: Run, settings: dict[str, str]) -> None:
    """`--` ends the options: a bet may be called --json."""
    told = run("bet", "--", "--json")
    assert (told.code, told.out) == (0, "NOT_FOUND: there is no such bet, or it is older than 90 days.\n")


@pytest.mark.parametrize("args", CALLS)
def test_missing_settings_are_2(run: Run, args: tuple[str, ...]) -> None:
    """What is missing is named, with the option that would do instead."""
    told = run(*args)
    assert (told.code, told.out) == (2, "")
    for name in ("GAME_OPERATOR_BASE_URL", "GAME_OPERATOR_ID", "GAME_OPERATOR_PRIVATE_KEY_FILE", "--private-key"):
        assert name in told.err
    assert told.err.startswith("Error: Missing or empty: --")
    error = run(*args, "--json").error
    assert (error["type"], error["exit_code"]) == ("ConfigurationError", 2)


@pytest.mark.parametrize("args", CALLS)
def test_options_stand_for_settings(run: Run, sandbox: Sandbox, key_file: Path, args: tuple[str, ...]) -> None:
    """With the three options no environment is needed; the service was asked, whatever it says."""
    options = ("--base-url", sandbox.base_url, "--operator-id", sandbox.operator_id, "--private-key", key_file)
    assert run(*args, *options).code == (1 if args[0] == "grant" else 0)


def test_the_option_wins_over_a_key_in_the_environment(
    run: Run, settings: dict[str, str], key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GAME_OPERATOR_PRIVATE_KEY_FILE")
    monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY", "no PEM at all")
    assert run("games").code == 2
    assert run("games", "--private-key", key_file).code == 0


@pytest.mark.parametrize("args", CALLS)
def test_a_key_that_cannot_sign_is_2(
    run: Run, settings: dict[str, str], tmp_path: Path, public_pem: bytes, args: tuple[str, ...]
) -> None:
    """A public key cannot sign (spec §5)."""
    wrong = tmp_path / "operator.pub.pem"
    wrong.write_bytes(public_pem)
    assert "public key" in run(*args, "--private-key", wrong).err
    error = run(*args, "--private-key", wrong, "--json").error
    assert (error["type"], error["exit_code"]) == ("SigningKeyError", 2)


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


def test_a_wait_that_the_service_asks_for_is_told(run: Run, settings: dict[str, str]) -> None:
    """A 429 is not in the specification; a program needs to know when to come back."""
    with CannedService([Reply(429, b"{}", retry_after="3600")]) as service:
        error = run("games", "--base-url", service.base_url, "--json").error
    assert (error["type"], error["exit_code"], error["retry_after"]) == ("RateLimitedError", 1, 3600.0)


@pytest.mark.parametrize("deadline", ["0", "-1", "nan", "inf"])
def test_a_deadline_that_cannot_be_is_2(run: Run, settings: dict[str, str], deadline: str) -> None:
    assert run("games", "--deadline", deadline).code == 2


def test_a_proxy_setting_that_cannot_be_used_is_2(
    run: Run, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expected failure, though it is httpx that finds it."""
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://proxy")
    assert "proxy" in run("games", "--base-url", "https://127.0.0.1:1").err
    assert run("games", "--base-url", "https://127.0.0.1:1", "--json").error["exit_code"] == 2


@pytest.mark.outside
@pytest.mark.parametrize("missing", ["typer", "rich"])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_without_the_extra_one_sentence_says_what_to_install(missing: str, as_json: bool) -> None:
    """The core installs without typer and rich, and `game-operator` with it."""
    program = f"import sys; sys.modules[{missing!r}] = None\nfrom game_operator.cli import main; sys.exit(main())"
    args = ["games", "--json"] if as_json else ["games"]
    ran = subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, env=clean_environment({}), check=False
    )
    told, other = (ran.stdout, ran.stderr) if as_json else (ran.stderr, ran.stdout)
    assert (ran.returncode, other, told.count("\n")) == (2, "", 1)
    assert "pip install 'game-operator[cli]'" in told
    assert not as_json or json.loads(told)["error"]["exit_code"] == 2


def test_a_command_without_its_extra_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, public_pem: bytes
) -> None:
    """Before anything is sent, listens or is made."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    key = tmp_path / "service.pub.pem"
    key.write_bytes(public_pem)
    told = run("serve", "--database", f"sqlite:///{tmp_path / 'w.db'}", "--service-key", key)
    assert (told.code, told.out) == (2, "")
    assert told.err == (
        "Error: game-operator serve needs the package uvicorn. Install the extra: pip install 'game-operator[serve]'\n"
    )


@pytest.mark.outside
def test_help_loads_nothing_heavy() -> None:
    """`game-operator --help` costs typer and rich, not httpx, pydantic, cryptography or a web server."""
    heavy = ("httpx", "pydantic", "cryptography", "jwt", "starlette", "uvicorn", "anyio")
    program = (
        "import sys; from game_operator.cli import main; main(['--help']); "
        f"sys.exit([name for name in {heavy} if name in sys.modules] or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_stream_that_cannot_encode_shows_escapes(settings: dict[str, str]) -> None:
    """A log file in ASCII gets an escape, not a UnicodeEncodeError."""
    body = wire({"games": [game(name="日本 Crash")]})
    with CannedService([Reply(body=body)]) as service:
        ascii_only = settings | {"PYTHONIOENCODING": "ascii", "GAME_OPERATOR_BASE_URL": service.base_url}
        ran = subprocess.run(
            [*COMMAND, "games"], capture_output=True, text=True, env=clean_environment(ascii_only), check=False
        )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert r"\u65e5\u672c" in ran.stdout


def test_a_reader_that_leaves_early_is_no_failure_worth_a_traceback(settings: dict[str, str]) -> None:
    """`game-operator games | head -1` ends quietly, with the exit code of a closed pipe."""
    body = wire({"games": [game(id=f"game-{number}") for number in range(500)]})
    with CannedService([Reply(body=body)]) as service:
        environ = settings | {"GAME_OPERATOR_BASE_URL": service.base_url}
        with subprocess.Popen(
            [*COMMAND, "games", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(environ),
        ) as for_programs:
            _leave_early(for_programs)
        with started("games", **environ) as for_people:
            _leave_early(for_people)


def _leave_early(process: "Forked | subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(30) == 141


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


def test_an_empty_option_is_named(run: Run, settings: dict[str, str]) -> None:
    """The variable is set, and does not count beside an option; nothing else is missing."""
    told = run("games", "--operator-id", "")
    assert (told.code, told.err) == (2, "Error: Missing or empty: --operator-id (or GAME_OPERATOR_ID).\n")


def test_an_address_that_does_not_answer_is_named(run: Run, settings: dict[str, str]) -> None:
    """It may have come from the environment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    told = run("games", "--base-url", url)
    assert (told.code, f"Error: {url} cannot be reached: ConnectError" in told.err) == (3, True)


@pytest.mark.parametrize("name", ["games", "doctor"])
@pytest.mark.parametrize(
    ("options", "variables", "advice"),
    [
        pytest.param(
            ("--base-url", "http://api.example.com"),
            {},
            "Use https.",
            id="plain http",
        ),
        pytest.param(
            ("--base-url", "base_url "), {}, "--base-url: The base URL 'base_url ' is not", id="a value of ours"
        ),
        pytest.param(("--operator-id", "a:b"), {}, "--operator-id: The operator id 'a:b' cannot", id="operator id"),
        pytest.param(
            (),
            {"GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE": "planted secret"},
            "(GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE) out, or encrypt the key",
            id="a passphrase too many",
        ),
        pytest.param(
            ("--base-url", "https://192.0.2.1"),
            {"HTTPS_PROXY": "nonsense://proxy"},
            "SSL_CERT_DIR, or unset them.",
            id="proxy",
        ),
    ],
)
def test_advice_names_options_and_not_arguments(
    run: Run,
    settings: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    key_file: Path,
    private_pem: bytes,
    name: str,
    options: tuple[str, ...],
    variables: dict[str, str],
    advice: str,
) -> None:
    """Whoever types has no `allow_insecure_http=True`; a value that was typed is shown as it was."""
    key = key_file
    if "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE" in variables:  # The shared one is loaded once, without a passphrase.
        key = tmp_path / "operator.pem"
        key.touch(0o600)
        key.write_bytes(private_pem)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    told = run(name, "--private-key", key, *options)
    assert advice in told.out + told.err
    assert "=True" not in told.out + told.err
    assert "passphrase=" not in told.out + told.err
    assert advice in run(name, "--private-key", key, *options, "--json").out


def test_advice_about_the_way_names_the_option(run: Run, settings: dict[str, str], nobody: str) -> None:
    """Where nobody answers, and where a login page does."""
    assert "check the base URL, DNS" in run("games", "--base-url", nobody, "--deadline", "0.15").err
    with CannedService([Reply(200, b"<html>", "text/html")]) as service:
        assert "Check that the base URL leads" in run("games", "--base-url", service.base_url).err
        assert "Check that the base URL leads" in run("doctor", "--base-url", service.base_url).out


@pytest.mark.outside
def test_a_port_that_is_taken_is_told_with_the_option(run: Run) -> None:
    """Nothing of `port=0`."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = run("sandbox", "--port", taken.getsockname()[1])
    assert (told.code, told.out) == (2, "")
    assert told.err.endswith("or pass port 0 to take a free one.\n")


class _Interrupted(ModuleType):
    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["for people", "for programs"])
def test_ctrl_c_while_the_command_loads(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loading takes half a second: an interruption then is no traceback."""
    monkeypatch.setitem(sys.modules, "game_operator.cli.app", _Interrupted("game_operator.cli.app"))
    assert main(["games", *options]) == 130
    out, err = capsys.readouterr()
    if options:
        assert (json.loads(out)["error"]["exit_code"], err) == (130, "")
    else:
        assert (out, err) == ("", "Error: Interrupted. Nothing was done.\n")
