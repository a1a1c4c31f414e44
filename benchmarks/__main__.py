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

from benchmarks import (
    dealer,
    fetch_bet,
    fetch_games,
    imports,
    in_flight,
    ledger,
    over_https,
    parsing,
    posts,
    receiver,
    reconcile,
    rules,
    telemetry,
    threads,
    tokens,
    wallet,
)
from benchmarks.measure import Finding, Race, run
from benchmarks.rates import RateFinding, RateRace, run_rates
from benchmarks.report import as_json, as_tables, ratio_of, summary
from benchmarks.stage import Stage, set_stage

__all__ = ["SUITES", "main"]

SUITES: dict[str, Callable[[Stage], Iterator[Race | RateRace]]] = {
    "fetch-bet": fetch_bet.races,
    "fetch-games": fetch_games.races,
    "imports": imports.races,
    "in-flight": in_flight.races,
    "posts": posts.races,
    "https": over_https.races,
    "threads": threads.races,
    "parsing": parsing.races,
    "tokens": tokens.races,
    "receiver": receiver.races,
    "ledger": ledger.races,
    "rules": rules.races,
    "wallet": wallet.races,
    "dealer": dealer.races,
    "reconcile": reconcile.races,
    "telemetry": telemetry.races,
}

_LIBRARIES = (
    *("httpx", "httpx2", "pydantic", "cryptography", "pyjwt", "uvicorn", "uvloop"),
    *("psycopg", "fastapi", "sqlalchemy", "asyncpg"),
)


def main() -> None:
    """Measure and print."""
    arguments = _parser().parse_args()
    findings = []
    for finding in _findings(arguments.names or list(SUITES), quick=arguments.quick):
        findings.append(finding)
        ratio = f"{ratio_of(finding).median:.2f} x {finding.peer} {finding.verdict}"
        print(f"{finding.what}: {ratio}", file=sys.stderr, flush=True)
    print(as_json(findings) if arguments.json else f"{_machine()}\n\n{as_tables(findings)}\n\n{summary(findings)}")


def _findings(names: list[str], *, quick: bool) -> Iterator[Finding | RateFinding]:
    with set_stage(quick=quick) as stage:
        for name in names:
            for race in SUITES[name](stage):
                yield from run(race, quick=quick) if isinstance(race, Race) else run_rates(race, quick=quick)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed beside what one writes by hand.")
    names = ", ".join(SUITES)
    parser.add_argument("names", nargs="*", type=_suite, metavar="NAME", help=f"of {names}; all by default")
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
