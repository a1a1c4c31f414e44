"""How long a fresh interpreter takes to import, beyond what it takes to start."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers import imports as by_hand
from benchmarks.races import Comparison, Race, Turn
from benchmarks.stage import Stage

__all__ = ["races"]

_PEER = "httpx, pydantic and cryptography's RSA"
_GOALS = {"import game_operator": 0.10, "from game_operator import OperatorClient": 1.15}


def races(stage: Stage) -> Iterator[Race]:
    """Yield one race."""
    turns = {each: _importing(each) for each in _GOALS} | {_PEER: _importing(Path(by_hand.__file__).read_text())}
    yield Race(turns, [Comparison(each, _PEER, goal) for each, goal in _GOALS.items()], amount=1, rounds=20)


def _importing(program: str) -> Turn:
    return lambda calls: sum(_interpreter(program) - _interpreter("pass") for _ in range(int(calls))) / calls


def _interpreter(program: str) -> float:
    # Isolated: neither the current folder nor the variables of the user's Python count.
    process = subprocess.Popen([sys.executable, "-I", "-c", program])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, program
    return usage.ru_utime + usage.ru_stime
