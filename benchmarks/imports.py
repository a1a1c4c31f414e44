"""How long a fresh interpreter takes to import, beyond what it takes to start."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bodies import BET_ID, catalogue, one_bet
from benchmarks.measure import Contender, Cost, Race, Turn
from benchmarks.peers import imports as by_hand
from benchmarks.stage import Stage

__all__ = ["races"]


_CLIENT = "from game_operator import OperatorClient"
#: What reads an answer without a network: what a client loads and builds for it is part of the price.
_READ = f"""{_CLIENT}
from game_operator.protocol import operations
from game_operator.protocol.http import HttpReply
"""
_BET = f"{_READ}operations.fetch_bet('acme', {BET_ID!r}).parse(HttpReply(200, {{}}, {one_bet()!r}))"
_GAMES = f"{_READ}operations.fetch_games('acme').parse(HttpReply(200, {{}}, {catalogue(1)!r}))"


def races(stage: Stage) -> Iterator[Race]:
    yield Race(
        "imports",
        Contender("httpx, pydantic and cryptography's RSA", _importing(Path(by_hand.__file__).read_text())),
        (
            Contender("import game_operator", _importing("import game_operator"), 0.10),
            Contender(_CLIENT, _importing(_CLIENT), 1.15),
            Contender("the same, and a first bet read", _importing(_BET)),
            Contender("the same, and a first game read", _importing(_GAMES)),
            Contender(
                "from game_operator import SessionTokenBuilder",
                _importing("from game_operator import SessionTokenBuilder"),
            ),
        ),
        calls=1,
        rounds=20,
    )


def _importing(program: str) -> Turn:
    def turn(calls: int) -> Cost:
        bare, full = Cost(0, 0), Cost(0, 0)
        for _ in range(calls):
            bare = _sum(bare, _interpreter("pass"))
            full = _sum(full, _interpreter(program))
        return Cost(full.cpu - bare.cpu, full.wall - bare.wall)

    return turn


def _sum(one: Cost, other: Cost) -> Cost:
    return Cost(one.cpu + other.cpu, one.wall + other.wall)


def _interpreter(program: str) -> Cost:
    began = time.perf_counter()
    # Isolated: neither the current folder nor the variables of the user's Python count.
    process = subprocess.Popen([sys.executable, "-I", "-c", program])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, program
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - began)
