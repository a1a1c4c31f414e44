"""
The commands put together, and every expected failure turned into a sentence and an exit code.

The service decides what a command did. If its result cannot be written, because the reader has gone or the disk is
full, the command must not look undone: a script would grant again. So a lost stream raises nothing, and the exit code
reports it.
"""

import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator
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
from game_operator.cli.commands.doctor import doctor, ledger_doctor
from game_operator.cli.commands.keygen import keygen
from game_operator.cli.commands.ledger import ledgers
from game_operator.cli.commands.operator_api import bet, games, grant, round_
from game_operator.cli.commands.profile import profiles
from game_operator.cli.commands.reconcile import reconciliations
from game_operator.cli.commands.schema import schema
from game_operator.cli.commands.serve import serve
from game_operator.cli.commands.session_token import tokens
from game_operator.cli.commands.totals import totals
from game_operator.cli.errors import ExitCode, StoppedError, lost_output, stopped_by
from game_operator.cli.options import Commands
from game_operator.cli.output import say
from game_operator.errors import GameOperatorError

_NAME = "game-operator"


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
    app = Commands(rich_markup_mode=None, pretty_exceptions_enable=False, pretty_exceptions_show_locals=False)
    app.callback()(game_operator)
    for command in (keygen, doctor, games, bet, round_, grant, serve, case):
        app.command(command.__name__.rstrip("_"))(command)
    for name, command in of_testkit:
        app.add(name, command)
    for group in (tokens, profiles, ledgers, reconciliations, campaigns):
        app.add_typer(group)
    return app


for _of_ledger in (anomalies, retry, resolve, totals, schema):
    ledgers.command()(_of_ledger)
ledgers.command("doctor")(ledger_doctor)


def run(args: list[str]) -> int:
    """Run the command line *args* and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the stream cannot encode is written as its escape, and raises nothing.
            stream.reconfigure(errors="backslashreplace")
    with _lasting_streams() as out:
        code = _outcome(args)
        lost = lost_output()
        if out.lost is not None and lost == ExitCode.UNWRITABLE:
            what = "The output" if code else "Carried out, but the result"
            say(f"{what} could not be written ({out.lost.strerror}).", style="red", error=True)
        return code or lost or ExitCode.FINE


class _LastingStream:
    """
    Stands for *stream*, None if the process was started without one: after an error it takes everything, and drops it.

    Attributes:
        lost: Why what was written went nowhere; None as long as all of it was taken.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.lost: OSError | None = OSError(errno.EBADF, "it is closed") if stream is None else None
        self._stream = stream or io.StringIO()

    def write(self, text: str) -> int:
        """Write *text*, or take note that it cannot be written."""
        with self._noting():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand on what is buffered, or take note that it cannot be written."""
        with self._noting():
            self._stream.flush()

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except OSError as failed:
            self.lost = self.lost or failed
            # What is still buffered goes nowhere, without a complaint at exit.
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)

    # Any: these are the stream's own attributes, of whatever kind it is.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _lasting_streams() -> Iterator[_LastingStream]:
    """Let stdout and stderr raise nothing, and yield the former."""
    before = sys.stdout, sys.stderr
    out, err = map(_LastingStream, before)
    # cast: they have every attribute of their streams.
    sys.stdout, sys.stderr = cast("TextIO", out), cast("TextIO", err)
    try:
        yield out
    finally:
        out.flush()
        err.flush()
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
        stopped = StoppedError(ExitCode.USAGE, misused.format_message(), advice=advice, name="UsageError")
    except typer.Abort:
        pass
    return stopped.show(as_json=as_json)


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
    return get_command(commands(of_testkit))
