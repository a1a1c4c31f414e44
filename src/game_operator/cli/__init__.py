"""The command ``game-operator`` (extra ``cli``): short functions over the public API, for people and for scripts."""

import json
import sys
from collections.abc import Sequence

__all__ = ["main"]

_NEEDS_EXTRA = "The command game-operator needs typer and rich: pip install 'game-operator[cli]'"
_TOO_EARLY = "Interrupted. Nothing was done."


def main(args: Sequence[str] | None = None) -> int:
    """
    Run the command line *args*, by default this process's, and return the exit code.

    0 is fine, 1 stands for findings or a service that said no, 2 for wrong usage or settings, 3 for a service that
    could not be reached, 74 for a success whose result could not be written. With ``--json`` stdout carries exactly one
    JSON document, for failures too.
    """
    given = list(sys.argv[1:] if args is None else args)
    try:
        from game_operator.cli.app import run
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        return _ended("ConfigurationError", _NEEDS_EXTRA, 2, as_json="--json" in given)
    except KeyboardInterrupt:  # Before the command has begun, so nothing was done.
        return _ended("Interrupted", _TOO_EARLY, 130, as_json="--json" in given)
    return run(given)


def _ended(kind: str, message: str, code: int, *, as_json: bool) -> int:
    """Say why a command did not begin, without typer and rich, and return the exit code."""
    if as_json:
        document = {"error": {"type": kind, "message": message, "exit_code": code}}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        sys.stderr.write(f"Error: {message}\n")
    return code
