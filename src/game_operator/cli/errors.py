"""From an error to an exit code, and to what people and programs are told about it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from game_operator.cli.output import say, write_document
from game_operator.cli.stopping import on_signals
from game_operator.errors import (
    ApiError,
    ConfigurationError,
    GameOperatorError,
    LedgerUnavailableError,
    OutcomeUnknownError,
    SchemaError,
    TransportError,
)

__all__ = ["ExitCode", "GrantInterruptedError", "StoppedError", "exit_code_of", "grant_in_doubt", "tell"]
__all__ += ["tell_interrupted_grant", "tell_usage"]

#: What a program branches on, of whichever error has it.
_ATTRIBUTES = (
    "status_code",
    "error_code",
    "reference_id",
    "instance_id",
    "possibly_granted",
    "retry_after",
    "attempts",
    "elapsed_seconds",
    "timed_out",
    "statements",
    "calls_sent",
    "last_answered",
    "first_unanswered",
    "last_unanswered",
    "trace",
)


#: The options for the settings that errors blame.
_OPTIONS = {
    "base_url": "--base-url",
    "operator_id": "--operator-id",
    "player_id": "--player",
    "instance_id": "--instance",
    "deadline": "--deadline",
    "port": "--port",
    "table_prefix": "--table-prefix",
    "second_url": "--second-url",
    "elsewhere": "--elsewhere",
}
#: What to do about a setting that most commands have no option for.
_REMEDIES = {
    "allow_insecure_http": "Use https: this command speaks plain http to this machine alone.",
    "trust_env": "Check HTTPS_PROXY and the other proxy variables, SSL_CERT_FILE and SSL_CERT_DIR, or unset them.",
}


def told(error: GameOperatorError) -> str:
    """Return what *error* says, with the option to change in front."""
    setting = error.setting or ""
    option = f"{_OPTIONS[setting]}: " if setting in _OPTIONS else ""
    return f"{option}{error.what} {_REMEDIES.get(setting, error.remedy)}".rstrip()


class ExitCode(IntEnum):
    """What the exit codes of all commands mean."""

    FINE = 0
    SAID_NO = 1
    USAGE = 2
    UNREACHABLE = 3
    UNWRITABLE = 74
    INTERRUPTED = 130
    READER_GONE = 141


class StoppedError(Exception):
    """
    A command was stopped by a signal, and has told all there is to say.

    Attributes:
        code: The exit code, 128 and the signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class GrantInterruptedError(Exception):
    """
    A grant was stopped by Ctrl-C or SIGTERM: the service may have made it.

    Attributes:
        reference_id: The operator's id of the grant (spec §2.2).
        instance_id: Where it was to be made.
    """

    def __init__(self, reference_id: str, instance_id: str) -> None:
        self.reference_id, self.instance_id = reference_id, instance_id
        super().__init__(
            "Interrupted. Whether the free bets were granted is unknown: run the very same command again "
            f"(reference id {reference_id!r})."
        )


@contextmanager
def grant_in_doubt(reference_id: str, instance_id: str) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into the error that says that the grant may have been made."""
    # SIGTERM would end this process without a word, and without the reference id.
    with on_signals([signal.SIGTERM], signal.default_int_handler):
        try:
            yield
        except KeyboardInterrupt:
            raise GrantInterruptedError(reference_id, instance_id) from None


def exit_code_of(error: GameOperatorError) -> ExitCode:
    """Return the exit code for *error*."""
    if isinstance(error, ConfigurationError):
        return ExitCode.USAGE
    out_of_reach = isinstance(error, TransportError | LedgerUnavailableError)
    return ExitCode.UNREACHABLE if out_of_reach else ExitCode.SAID_NO


def tell(error: GameOperatorError, *, as_json: bool) -> ExitCode:
    """Tell about *error*, and return the exit code."""
    code = exit_code_of(error)
    if not as_json:
        _say_error(error)
        if isinstance(error, OutcomeUnknownError):
            say("Here that means: run this very command once more, unchanged.", error=True)
        return code
    facts: dict[str, object] = {name: getattr(error, name) for name in _ATTRIBUTES if hasattr(error, name)}
    if isinstance(error, ApiError):
        facts["service_message"] = error.message
    # A class of ours that nobody can import goes by the name that it is caught as.
    name = next(kind.__name__ for kind in type(error).__mro__ if not kind.__name__.startswith("_"))
    _document(name, told(error), code, facts)
    return code


def _say_error(error: GameOperatorError) -> None:
    text = f"Error: {told(error)}"
    # Statements to run, which are ours, stand in lines; anything else is one line, whatever it quotes.
    for line in text.splitlines() if isinstance(error, SchemaError) else [text]:
        say(line, style="red", error=True)


def tell_usage(problem: str, advice: str, *, as_json: bool, code: ExitCode = ExitCode.USAGE) -> ExitCode:
    """Tell about a command line that cannot be carried out, and return the exit code."""
    if as_json:
        _document("Interrupted" if code is ExitCode.INTERRUPTED else "UsageError", problem, code, {})
    else:
        say(f"Error: {problem}", style="red", error=True)
        say(advice, error=True)
    return code


def tell_interrupted_grant(stopped: GrantInterruptedError, *, as_json: bool) -> ExitCode:
    """Tell about a grant that may have been made, and return the exit code."""
    if as_json:
        facts: dict[str, object] = {"reference_id": stopped.reference_id, "instance_id": stopped.instance_id}
        _document("Interrupted", str(stopped), ExitCode.INTERRUPTED, facts)
    else:
        say(f"Error: {stopped}", style="red", error=True)
    return ExitCode.INTERRUPTED


def _document(kind: str, message: str, code: ExitCode, facts: dict[str, object]) -> None:
    write_document({"error": {"type": kind, "message": message, "exit_code": int(code), **facts}})
