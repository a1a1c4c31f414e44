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
        if "--json" in given:
            document = {"error": {"type": "ConfigurationError", "message": _NEEDS_EXTRA, "exit_code": 2}}
            sys.stdout.write(json.dumps(document) + "\n")
        else:
            sys.stderr.write(_NEEDS_EXTRA + "\n")
        return 2
    except KeyboardInterrupt:  # Before the command has begun, so nothing was done.
        if "--json" in given:
            document = {"error": {"type": "Interrupted", "message": _TOO_EARLY, "exit_code": 130}}
            sys.stdout.write(json.dumps(document) + "\n")
        else:
            sys.stderr.write(f"Error: {_TOO_EARLY}\n")
        return 130
    return run(given)
