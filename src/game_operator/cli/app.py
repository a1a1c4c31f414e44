"""
The commands put together, and every expected failure turned into a sentence and an exit code.

The service decides what a command did. If its result cannot be written, because the reader has gone or the disk is
full, the command must not look undone: a script would grant again. So a lost stream raises nothing, and the exit code
reports it.

Of the commands that ``game-operator-testkit`` brings, by the entry-point group ``game_operator.commands``, only five
names are looked up, and only when one of them is typed or the help lists all. So every other command works
whatever is installed, and imports nothing of the testkit.
"""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Annotated, Any, Final, TextIO, TypeAlias, cast

import typer
from typer.main import get_command

from game_operator._version import __version__
from game_operator.cli.commands.anomalies import anomalies, resolve, retry
from game_operator.cli.commands.campaign import campaigns
from game_operator.cli.commands.case import case
from game_operator.cli.commands.doctor import doctor, ledger_doctor
from game_operator.cli.commands.ledger import ledgers, totals
from game_operator.cli.commands.operator_api import bet, games, grant, round_
from game_operator.cli.commands.profile import profiles
from game_operator.cli.commands.reconcile import reconciliations
from game_operator.cli.commands.serve import serve
from game_operator.cli.commands.signing import keygen, tokens
from game_operator.cli.errors import ExitCode, StoppedError, lost_output, stopped_by
from game_operator.cli.options import Commands
from game_operator.cli.output import say
from game_operator.errors import ConfigurationError, GameOperatorError

_NAME = "game-operator"
TESTKIT_NAMES: Final = ("sandbox", "storm", "certify", "call", "demo")

_TESTKIT: Final = "game-operator-testkit"
_TESTKIT_GROUP: Final = "game_operator.commands"
_INSTALL_TESTKIT: Final = f"pip install '{_TESTKIT}=={__version__}'"

# Any: Typer reads the parameters of a command, whatever they are.
Command: TypeAlias = Callable[..., Any]


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


def commands(of_testkit: Iterable[tuple[str, Command]]) -> Commands:
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


for _of_ledger in (anomalies, retry, resolve, totals):
    ledgers.command()(_of_ledger)
ledgers.command("doctor")(ledger_doctor)


def run(args: list[str]) -> int:
    """Run the command line *args* and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the stream cannot encode is written as its escape, and raises nothing.
            stream.reconfigure(errors="backslashreplace")
    out, err = map(_LastingStream, (sys.stdout, sys.stderr))
    # cast: they have every attribute of their streams.
    with redirect_stdout(cast("TextIO", out)), redirect_stderr(cast("TextIO", err)):
        code = _outcome(args)
        lost = lost_output()
        if out.lost is not None and lost == ExitCode.UNWRITABLE:
            what = "The output" if code else "Carried out, but the result"
            say(f"{what} could not be written ({out.lost.strerror}).", style="red", error=True)
        err.flush()
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
        message = " ".join(misused.format_message().split())  # Choices stand on lines of their own.
        stopped = StoppedError(ExitCode.USAGE, message, advice=advice, name="UsageError")
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
    return _made(*((name, command_for(name, typed)) for name in TESTKIT_NAMES))


# Typer reads every signature anew each time.
@cache
def _made(*of_testkit: tuple[str, Command]) -> Any:
    return get_command(commands(of_testkit))


def command_of(name: str) -> Command:
    """
    Return the command *name* of the testkit.

    Raises:
        ConfigurationError: The testkit is missing, has another version, or cannot be imported; it says what to install.
    """
    try:
        testkit = distribution(_TESTKIT)
    except PackageNotFoundError:
        raise ConfigurationError(
            f"The command {name} comes with {_TESTKIT}, which is not installed. Run: {_INSTALL_TESTKIT}"
        ) from None
    if testkit.version != __version__:
        raise ConfigurationError(
            f"{_TESTKIT} {testkit.version} is installed, and game-operator {__version__} needs the same version "
            f"for the command {name}. Run: {_INSTALL_TESTKIT}"
        )
    try:
        (entry,) = testkit.entry_points.select(group=_TESTKIT_GROUP, name=name)
        command: Command = entry.load()
    except Exception as failed:  # Whatever a module of it, or of what it needs, raises when it is imported.
        raise ConfigurationError(
            f"{_TESTKIT} cannot be imported for the command {name} ({type(failed).__name__}: {failed}). "
            f"Run: pip install --force-reinstall '{_TESTKIT}=={__version__}'"
        ) from None
    return command


def command_for(name: str, typed: str | None) -> Command:
    """Return what stands for *name* where *typed* is the command, or None for the help of all."""
    if typed is not None:
        return command_of(name) if name == typed else _not_read
    try:
        return command_of(name)
    except ConfigurationError as missing:

        def unusable() -> None:
            """Return nothing: its text is for the help alone."""

        unusable.__doc__ = str(missing)
        return unusable


def _not_read() -> None:
    """Stand for a command, so that a misspelt one is answered with its name."""
