"""What a certification tells in words of a program, in those of the command line: options, where arguments stand."""

from typing import Final

from game_operator.certify.engine.supplies import needs_told
from game_operator.cli.certifying.hooks import HOOKS
from game_operator.errors import ConfigurationError, RequestNotSentError

__all__ = ["GROUNDS_TOLD", "by_options", "in_options", "without_tls"]

#: Where what a scenario rests on can be read, for somebody who has only what is printed.
GROUNDS_TOLD: Final = (
    "spec: a section of the provider's specification. decision: a note in docs/decisions of game-operator, on what the "
    "specification leaves open; it is assumed, so ask your provider."
)
_OPTIONS: Final = {
    "second_url": "--second-url URL",
    "old_key": "--old-key FILE",
    "retired_key": "--retired-key FILE",
    "elsewhere": "--elsewhere ADDRESS",
    "foreign_instance_id": "--foreign-instance ID",
    "random_operations": "--random-operations N",
    "batches": "--profile FILE with deposit_batch = true",
} | {name: f"--hook {name}=COMMAND" for name in HOOKS}

#: What OpenSSL calls an answer that is no TLS.
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "wrong version number", "record layer failure", "RECORD_LAYER_FAILURE")


def by_options(missing: tuple[str, ...]) -> str:
    """Return what a scenario needs that has not got *missing*, with the options that supply it."""
    options = [_OPTIONS[name] for name in missing if name in _OPTIONS]
    return needs_told(missing) + (f": pass {' '.join(options)}" if options else "")


def in_options(wrong: ConfigurationError) -> ConfigurationError:
    """Return *wrong* with the option of this command, which few others have."""
    if wrong.setting != "allow_insecure_http":
        return wrong
    return ConfigurationError(wrong.what, remedy="Use https, or pass --allow-insecure-http if the way is private.")


def without_tls(failed: RequestNotSentError) -> RequestNotSentError | None:
    """Return *failed* with what to do, if TLS was asked of a port that speaks plain http; None if it was not."""
    if not any(words in failed.reason for words in _NO_TLS):
        return None
    return RequestNotSentError(
        failed.reason,
        elapsed_seconds=failed.elapsed_seconds,
        setting="url",
        remedy="Nothing was sent: that port speaks plain http, and no TLS. Pass http:// for https://.",
    )
