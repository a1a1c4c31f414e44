"""How a command ends: by an error, with its message or document and its exit code, or by a signal."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from types import FrameType
from typing import Final

from game_operator.cli.output import remark, say, write_document
from game_operator.codes import GrantErrorCode
from game_operator.errors import (
    ApiError,
    ConfigurationError,
    GameOperatorError,
    LedgerUnavailableError,
    OutcomeUnknownError,
    SchemaError,
    TransportError,
)


class ExitCode(IntEnum):
    """What the exit codes of all commands mean."""

    FINE = 0
    SAID_NO = 1
    USAGE = 2
    UNREACHABLE = 3
    UNWRITABLE = 74
    INTERRUPTED = 130
    READER_GONE = 141


#: The exit code of an error is that of the nearest of its classes.
_CODES: Final = {
    GameOperatorError: ExitCode.SAID_NO,
    ConfigurationError: ExitCode.USAGE,
    SchemaError: ExitCode.USAGE,
    TransportError: ExitCode.UNREACHABLE,
    LedgerUnavailableError: ExitCode.UNREACHABLE,
}
#: The attributes of errors that programs branch on.
_ATTRIBUTES: Final = (
    "status_code error_code reference_id instance_id retry_after attempts elapsed_seconds timed_out "
    "statements problem_count problems"
)
#: The options for the settings that errors blame, and whose names differ.
_OPTIONS: Final = {
    "player_id": "--player",
    "instance_id": "--instance",
    "unit": "--accounts-unit",
    "rate_per_second": "--rate",
    "max_total_cents": "--max-total",
}
#: The settings whose option has the same name.
_SAME: Final = (
    "base_url operator_id deadline port table_prefix second_url elsewhere max_bets actor reason min_age second_look "
    "sample"
)
#: What to do about a setting at the command line.
_REMEDIES: Final = {
    "moves_money": "Pass --moves-money if that is what you want.",
    "allow_insecure_http": "Use https.",
    "allow_remote": "Pass 127.0.0.1, ::1 or localhost; or allow it by --allow-remote.",
    "trust_env": "Check HTTPS_PROXY and the other proxy variables, SSL_CERT_FILE and SSL_CERT_DIR, or unset them.",
}
_MIGRATE: Final = "Run `game-operator ledger migrate`: programs that run already go on."
_NO_TABLES: Final = (
    "Check --database and --table-prefix. For a new ledger, `game-operator ledger open` makes them; `game-operator "
    "ledger schema --sql` prints the statements."
)
#: Ctrl-C, and what a supervisor sends.
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def error_text(error: GameOperatorError) -> str:
    """Return what *error* says, with the option to change in front."""
    setting = error.setting or ""
    option = f"--{setting.replace('_', '-')}" if setting in _SAME.split() else _OPTIONS.get(setting)
    remedy = _REMEDIES.get(setting, error.remedy)
    if isinstance(error, SchemaError) and error.version is not None:
        remedy = _MIGRATE if error.version else _NO_TABLES
    return f"{f'{option}: ' if option else ''}{error.what} {remedy}".rstrip()


def exit_code_of(error: GameOperatorError) -> ExitCode:
    """Return the exit code that says what kind of *error* ended a command."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def lost_output() -> ExitCode | None:
    """Return the exit code of a command whose output so far went nowhere, or None if stdout took it."""
    sys.stdout.flush()
    lost: OSError | None = getattr(sys.stdout, "lost", None)
    if lost is None:
        return None
    return ExitCode.READER_GONE if isinstance(lost, BrokenPipeError) else ExitCode.UNWRITABLE


class StoppedError(Exception):
    """
    A command cannot go on, because of a signal, of something that has gone, or of an error.

    Attributes:
        code: The exit code.
        message: What to say about it; "" if the command has said all.
        advice: A line below the message, for people.
        name: The type of the error in a document.
        facts: What a program branches on.
    """

    def __init__(
        self, code: int, message: str = "", *, advice: str = "", name: str = "Interrupted", **facts: object
    ) -> None:
        super().__init__(code)
        self.code: int = code
        self.message: str = message
        self.advice: str = advice
        self.name: str = name
        self.facts: dict[str, object] = facts

    def show(self, *, as_json: bool) -> int:
        """Print why a command failed, and return the exit code."""
        if not self.message:
            return self.code
        if as_json:
            error = {"type": self.name, "message": self.message, "exit_code": int(self.code), **self.facts}
            write_document({"error": error})
            return self.code
        text = f"Error: {self.message}"
        # Statements to run keep their lines. Any other message is one line, because it may quote others.
        for line in text.splitlines() if "statements" in self.facts else [text]:
            say(line, style="red", error=True)
        if self.advice:
            say(self.advice, error=True)
        return self.code


def stopped_by(error: GameOperatorError, command: str) -> StoppedError:
    """Return how to report that *error* ended *command*."""
    facts: dict[str, object] = {name: getattr(error, name) for name in _ATTRIBUTES.split() if hasattr(error, name)}
    if isinstance(error, ApiError):
        facts["service_message"] = error.message
    # A private class goes by the name of the public one that it is caught as.
    name = next(kind.__name__ for kind in type(error).__mro__ if not kind.__name__.startswith("_"))
    is_duplicate = getattr(error, "error_code", None) == GrantErrorCode.DUPLICATE_REFERENCE_ID
    in_doubt = isinstance(error, OutcomeUnknownError) and not is_duplicate
    advice = "Here that means: run this very command once more, unchanged." if in_doubt else ""
    if error.setting == "allow_insecure_http" and command in ("call", "certify"):
        advice = "On a private network, pass --allow-insecure-http."
    return StoppedError(exit_code_of(error), error_text(error), advice=advice, name=name, **facts)


@contextmanager
def on_signals(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let *handler* take signals, and restore the earlier handlers afterwards."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def stopping_gently(leave: Callable[[], object], sentence: str) -> Iterator[list[int]]:
    """
    Let the first Ctrl-C or SIGTERM call *leave* and say *sentence*, and the second one raise KeyboardInterrupt.

    Yield the signals that have come.
    """
    signals: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        leave()
        if len(signals) > 1:
            raise KeyboardInterrupt
        with suppress(RuntimeError):  # It came in the middle of a line to the same stream.
            remark(sentence)

    with on_signals(STOP_SIGNALS, stop):
        yield signals
