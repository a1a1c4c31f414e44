"""
The commands put together, and every expected failure turned into a sentence and an exit code.

The service decides what a command did. If its result cannot be written, because the reader has gone or the disk is
full, the command must not look undone: a script would grant again. So a lost stream raises nothing, and the exit code
reports it.
"""

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Annotated, Any, TextIO, cast

import typer
from typer.main import get_command

from game_operator._version import __version__
from game_operator.cli import testkit
from game_operator.cli.commands.anomalies import anomalies, resolve, retry
from game_operator.cli.commands.campaign import campaigns
from game_operator.cli.commands.case import case
from game_operator.cli.commands.doctor import doctor
from game_operator.cli.commands.keygen import keygen
from game_operator.cli.commands.ledger import ledgers
from game_operator.cli.commands.ledger_doctor import doctor as ledger_doctor
from game_operator.cli.commands.ledger_schema import schema
from game_operator.cli.commands.operator_api import LONG_NAMES, bet, games, grant, round_
from game_operator.cli.commands.profile import profiles
from game_operator.cli.commands.reconcile import reconciliations
from game_operator.cli.commands.serve import serve
from game_operator.cli.commands.session_token import tokens
from game_operator.cli.commands.totals import totals
from game_operator.cli.errors import ExitCode, StoppedError, stopped_by
from game_operator.cli.options import Commands, unwrapped
from game_operator.cli.output import say
from game_operator.errors import GameOperatorError, shown

_NAME = "game-operator"
#: What Typer and its validator say of a value, and what we say instead.
_WORDS = {
    r"Input should be greater than or equal to (\S+)": r"The smallest value is \1.",
    r"Input should be less than or equal to (\S+)": r"The largest value is \1.",
    r"Value error, ": "",
    r"\bdir (.+) does not exist\.": r"There is no folder \1.",
    r"\bfile (.+) does not exist\.": r"There is no file \1.",
}
#: What is expected where the validator has an error of this type.
_NUMBERS = {
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number that can be used",
    "float_parsing": "a number",
}


def _version(wanted: bool) -> None:
    if wanted:
        say(f"{_NAME} {__version__}")
        raise typer.Exit


def game_operator(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """
    The operator's side of a game provider integration.

    Settings come from options or from the environment: GAME_OPERATOR_BASE_URL, GAME_OPERATOR_ID,
    GAME_OPERATOR_PRIVATE_KEY_FILE. Exit codes: 0 fine, 1 findings or the service said no, 2 usage, 3 could not reach,
    74 carried out but the result could not be written, 130 interrupted, 141 the output's reader has closed the pipe.
    """


def commands(of_testkit: Iterable[tuple[str, testkit.Command]]) -> Commands:
    """Return all commands, with those *of_testkit* by their names."""
    # A traceback of ours, should there ever be one, shows no local variables: they might hold a key.
    app = Commands(pretty_exceptions_enable=False, pretty_exceptions_show_locals=False)
    app.callback(help=unwrapped(game_operator))(game_operator)
    # Names of options, as they were typed but without their dashes.
    context = {"token_normalize_func": lambda name: LONG_NAMES.get(name, name)}
    for command in (keygen, doctor, games, bet, round_, grant, serve, case):
        app.command(command.__name__.rstrip("_"), context_settings=context)(command)
    for name, command in of_testkit:
        app.add(name, command, context_settings=context)
    for group in (tokens, profiles, ledgers, reconciliations, campaigns):
        app.add_typer(group)
    return app


for _of_ledger in (anomalies, retry, resolve, totals, ledger_doctor, schema):
    ledgers.command()(_of_ledger)


def run(args: list[str]) -> int:
    """Run the command line *args* and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the stream cannot encode is written as its escape, and raises nothing.
            stream.reconfigure(errors="backslashreplace")
    with _lasting_streams() as out:
        code = _outcome(args)
        out.flush()
        # A reader that left early has seen enough. And a command that failed has said so by its code.
        if out.lost is None or isinstance(out.lost, BrokenPipeError):
            return code
        what = "The output" if code else "Carried out, but the result"
        say(f"{what} could not be written ({out.lost.strerror or out.lost}).", style="red", error=True)
        return code or ExitCode.UNWRITABLE


class _Outlet:
    """
    Stands for *stream*; None if the process was started without one.

    Attributes:
        lost: Why what was written went nowhere; None as long as all of it was taken.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = io.StringIO() if stream is None else stream
        self._absent = stream is None
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        """Write *text*, or take note that it cannot be written."""
        if self._absent:
            self.lost = OSError(errno.EBADF, "it is closed")
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Hand on what is buffered, or take note that it cannot be written."""
        self._try(self._stream.flush)

    def _try(self, put: Callable[..., object], *text: str) -> None:
        if self.lost is not None:
            return
        try:
            put(*text)
        except OSError as failed:
            self.lost = failed
            # What is still buffered goes nowhere, without a complaint at exit.
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)

    # Any: these are the stream's own attributes, of whatever kind it is.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _lasting_streams() -> Iterator[_Outlet]:
    """Put outlets in the place of stdout and stderr, and yield that of stdout."""
    before = sys.stdout, sys.stderr
    out = _Outlet(sys.stdout)
    # cast: an outlet has every attribute of its stream.
    sys.stdout, sys.stderr = cast("TextIO", out), cast("TextIO", _Outlet(sys.stderr))
    try:
        yield out
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _outcome(args: list[str]) -> int:
    as_json = "--json" in (args[: args.index("--")] if "--" in args else args)
    stopped = StoppedError(ExitCode.INTERRUPTED, "Interrupted.", advice="Nothing more was done.")
    try:
        code = whole(_typed(args)).main(args or ["--help"], prog_name=_NAME, standalone_mode=False)
        if code != ExitCode.INTERRUPTED:
            return int(code or 0) if args else ExitCode.USAGE
    except GameOperatorError as error:
        stopped = stopped_by(error, next(iter(args), ""))
    except StoppedError as early:
        stopped = early
    except typer.TyperException as misused:
        # The context is an attribute of the usage errors alone, whose classes Typer keeps to itself.
        context: Any = getattr(misused, "ctx", None)
        advice = f"Try: {context.command_path if context else _NAME} --help"
        stopped = StoppedError(ExitCode.USAGE, _plain(misused), advice=advice, name="UsageError")
    except typer.Abort:
        pass
    return stopped.show(as_json=as_json)


def _plain(misused: Any) -> str:  # Any: the errors of Typer have few attributes in common.
    """Return what is wrong with an option, in words that say what to pass."""
    problem: str = misused.format_message()
    # The validator says neither the value nor what to pass.
    errors: list[Any] = getattr(misused.__cause__, "errors", list)()
    kind = _NUMBERS.get(errors[0]["type"]) if errors else None
    if kind is not None:
        default = getattr(getattr(misused, "param", None), "default", None)
        example = f"{default:g}" if isinstance(default, float) else default if isinstance(default, int) else 10
        return problem.replace(
            errors[0]["msg"], f"{shown(errors[0]['input'])} is not {kind}. Pass one, such as {example}."
        )
    for pattern, words in _WORDS.items():
        problem = re.sub(pattern, words, problem)
    return problem


def _typed(args: list[str]) -> str | None:
    """Return the command that is typed; None without one, as for the help of all."""
    return next((each for each in args if not each.startswith("-")), None)


# Any: Typer keeps the class of what it makes to itself.
def whole(typed: str | None = None) -> Any:
    """
    Return the whole command; of the testkit's, *typed* alone is looked up, and all of them for the help.

    Raises:
        ConfigurationError: *typed* is a command of the testkit, which cannot be used.
    """
    return _made(*((name, testkit.command_for(name, typed)) for name in testkit.NAMES))


# Typer reads every signature anew each time.
@cache
def _made(*of_testkit: tuple[str, testkit.Command]) -> Any:
    command: Any = get_command(commands(of_testkit))
    _hide_types_of_flags(command)
    return command


def _hide_types_of_flags(command: Any) -> None:
    """Let the help show ``--json``, which takes no value, and not ``--json <bool>``."""
    for parameter in command.get_params(command.context_class(command)):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for part in getattr(command, "commands", {}).values():
        _hide_types_of_flags(part)
