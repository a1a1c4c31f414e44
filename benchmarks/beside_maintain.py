"""
``python -m benchmarks.beside_maintain``: withdraws, alone and beside ``ledger maintain`` in another process.

The books are 120 days old and were never maintained, so the run does all there is to do: it closes and seals every day,
reads everything once, and drops what is older than 90 days. Callers come at a steady pace, as players do.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, NamedTuple

import uvloop

from benchmarks.books_filled import fill_books
from benchmarks.ledger_load import fresh_withdraw
from benchmarks.ledger_stage import running_postgres, sqlite_file
from game_operator.ledger import AsyncSqlLedger

__all__ = ["main"]

_PLAYERS: Final = 10_000
_CALLERS: Final = 8
#: Between two calls of a caller, so that both processors are not busy with calls alone.
_PAUSE_SECONDS: Final = 0.04
_ALONE_SECONDS: Final = 20.0


class Times(NamedTuple):
    """How long calls took, in milliseconds."""

    calls: int
    median: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Times":
        """Return those of *seconds*."""
        millis = [each * 1000 for each in seconds]
        return cls(len(millis), statistics.median(millis), statistics.quantiles(millis, n=100)[98], max(millis))


async def _calls(ledger: AsyncSqlLedger, is_over: Callable[[], bool]) -> Times:
    taken: list[float] = []

    async def caller() -> None:
        while not is_over():
            call, began = fresh_withdraw(_PLAYERS), time.perf_counter()
            await ledger.apply(call)
            taken.append(time.perf_counter() - began)
            await asyncio.sleep(random.uniform(0, 2 * _PAUSE_SECONDS))

    await asyncio.gather(*(caller() for _ in range(_CALLERS)))
    return Times.of(taken)


async def _alone(ledger: AsyncSqlLedger, seconds: float) -> Times:
    until = time.perf_counter() + seconds
    return await _calls(ledger, lambda: time.perf_counter() >= until)


async def _beside(ledger: AsyncSqlLedger, url: str) -> tuple[Times, float, str]:
    """Return the times of calls while ``maintain`` runs once, how long that took, and what it has done."""
    command = [
        sys.executable,
        "-m",
        "game_operator.cli",
        "ledger",
        "maintain",
        "--seconds",
        "300",
        "--drop-after",
        "90",
        "--json",
    ]
    began = time.perf_counter()
    process: Process = await create_subprocess_exec(*command, "--database", url, stdout=PIPE)
    output = asyncio.create_task(process.communicate())
    times = await _calls(ledger, output.done)
    report, _ = await output
    if process.returncode:
        raise RuntimeError(f"maintain ended with {process.returncode}: {report.decode()}")
    return times, time.perf_counter() - began, json.dumps(json.loads(report))


async def _measure(kind: str, url: str, seconds: float) -> None:
    async with AsyncSqlLedger(url) as ledger:
        await _alone(ledger, 1)
        before = await _alone(ledger, seconds / 2)
        beside, took, report = await _beside(ledger, url)
        after = await _alone(ledger, seconds / 2)
        again, took_again, _ = await _beside(ledger, url)
    print(f"{kind}: the first maintain took {took:.1f} s: {report}", file=sys.stderr)
    print(f"{kind}: the next maintain took {took_again:.1f} s", file=sys.stderr)
    for what, times in (("before", before), ("beside the first", beside), ("after", after), ("beside the next", again)):
        figures = f"{times.calls:,} | {times.median:.1f} ms | {times.p99:.1f} ms | {times.longest:.0f} ms"
        print(f"| {kind} | {what} | {figures} |", flush=True)


def main() -> None:
    """Measure both databases and print a table."""
    parser = argparse.ArgumentParser(description="Withdraws alone, and beside maintain.")
    parser.add_argument("--bets", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=_ALONE_SECONDS, help="how long calls are measured alone")
    arguments = parser.parse_args()
    print("| database | maintain | withdraws | median | 99 of 100 | longest |\n|---|---|---|---|---|---|", flush=True)
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres())
        for kind, url in (("PostgreSQL", server.create_database()), ("SQLite", stack.enter_context(sqlite_file()))):
            fill_books(url, arguments.bets, players=_PLAYERS)
            uvloop.run(_measure(kind, url, arguments.seconds))


if __name__ == "__main__":
    main()
