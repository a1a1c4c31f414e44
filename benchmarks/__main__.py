"""
``python -m benchmarks`` measures everything and prints a table; with names, only those. How ledgers grow, which takes
longer, ``python -m benchmarks.growth`` measures.

It ends well even when a goal is missed: speed is reported and never tested.
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version

from benchmarks import client, games, imports, ledger, receiver, reconcile, telemetry, tokens, wallet
from benchmarks.races import Race, as_json, as_table, run, summary
from benchmarks.stage import Stage, set_stage

__all__ = ["SUITES", "main"]

SUITES: dict[str, Callable[[Stage], Iterator[Race]]] = {
    "client": client.races,
    "in-flight": client.races_in_flight,
    "games": games.races,
    "imports": imports.races,
    "tokens": tokens.races,
    "receiver": receiver.races,
    "ledger": ledger.races,
    "wallet": wallet.races,
    "telemetry": telemetry.races,
    "reconcile": reconcile.races,
}
_LIBRARIES = "httpx", "pydantic", "cryptography", "pyjwt", "uvicorn", "uvloop", "psycopg", "fastapi", "sqlalchemy"


def main() -> None:
    """Measure and print."""
    arguments = _parser().parse_args()
    findings = []
    with set_stage(quick=arguments.quick) as stage:
        for name in arguments.names or SUITES:
            for race in SUITES[name](stage):
                for finding in run(race, quick=arguments.quick):
                    findings.append(finding)
                    ratio = f"{finding.ratio:.2f} x {finding.peer} {finding.verdict}"
                    print(f"{finding.what}: {ratio}", file=sys.stderr, flush=True)
    print(as_json(findings) if arguments.json else f"{_machine()}\n\n{as_table(findings)}\n\n{summary(findings)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed beside what one writes by hand.")
    names = f"of {', '.join(SUITES)}; all by default"
    parser.add_argument("names", nargs="*", type=_suite, metavar="NAME", help=names)
    parser.add_argument("--quick", action="store_true", help="one round of one call, which shows that all is in order")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def _suite(name: str) -> str:
    if name not in SUITES:
        raise argparse.ArgumentTypeError(f"there is no suite {name!r}; there are {', '.join(SUITES)}")
    return name


def _machine() -> str:
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    return (
        f"CPython {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}; {libraries}\n"
        f"Load over the last 1, 5 and 15 minutes: {busy}. Ratios are medians of the rounds (lowest to highest)."
    )


if __name__ == "__main__":
    main()
