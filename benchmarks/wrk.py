"""Load on a wallet over HTTP by wrk, or where it is missing by our own hand: each withdraw once, and each counted."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from benchmarks.signed_withdraws import SignedWithdraws
from benchmarks.webhook_load import post_all

__all__ = ["HttpLoad", "check_stored"]

#: More calls a second than any server here can take.
_MOST = 8_000
_SCRIPT = """
local lines, position = {}, 0
function init(args)
    local skipped, wanted = tonumber(args[2]), tonumber(args[3])
    local number = 0
    for line in io.lines(args[1]) do
        number = number + 1
        if number > skipped then table.insert(lines, line) end
        if number >= skipped + wanted then break end
    end
end
function request()
    position = position + 1
    local line = lines[position] or lines[#lines]
    local cut = string.find(line, "\\t", 1, true)
    local headers = { ["Content-Type"] = "application/json", ["Signature"] = string.sub(line, 1, cut - 1) }
    return wrk.format("POST", "/withdraw", headers, string.sub(line, cut + 1))
end
"""


class HttpLoad:
    """
    Calls one server.

    Args:
        port: Where the server listens on loopback.
        stored: Says how many withdraws its database has debited; None where nothing is stored.
    """

    def __init__(self, port: int, stored: Callable[[], int] | None) -> None:
        self._port = port
        self._stored = stored
        self._sent: dict[Path, int] = {}

    def rate(self, withdraws: SignedWithdraws, connections: int, seconds: float) -> float:
        """
        Return how many of *withdraws* a second were answered; none is one that this server has had already.

        Raises:
            RuntimeError: Not everything answered was stored, or was no SUCCESS: that would be quick, and worth nothing.
        """
        first = self._sent.get(withdraws.path, 0)
        before = self._stored() if self._stored else 0
        program = shutil.which("wrk") if seconds >= 1 else None
        post = self._by_hand if program is None else self._by_wrk
        answered, rate = post(withdraws, first, connections, seconds)
        # What was under way at the end was sent too, and one is wrk's look at its script.
        self._sent[withdraws.path] = first + answered + connections + 1
        if self._stored:
            # Our own hand waits for each answer; wrk hangs up.
            after = _settled(self._stored) if program else self._stored()
            check_stored(answered, after - before, connections=connections)
        return rate

    def _by_wrk(self, withdraws: SignedWithdraws, first: int, connections: int, seconds: float) -> tuple[int, float]:
        wanted = round(_MOST * seconds)
        withdraws.at_least(first + wanted)
        script = withdraws.path.with_suffix(".lua")
        script.write_text(_SCRIPT)
        command = ["wrk", "-t1", f"-c{connections}", f"-d{round(seconds)}s", "--timeout", "30s", "-s", str(script)]
        command += [f"http://127.0.0.1:{self._port}", str(withdraws.path), str(first), str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        answered = re.search(r"(\d+) requests in", done.stdout)
        rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
        if "Non-2xx" in done.stdout or "Socket errors" in done.stdout or not answered or not rate:
            raise RuntimeError(f"wrk met errors:\n{done.stdout}")
        return int(answered[1]), float(rate[1])

    def _by_hand(self, withdraws: SignedWithdraws, first: int, connections: int, seconds: float) -> tuple[int, float]:
        withdraws.at_least(first + 2 * connections + (round(_MOST * seconds) if seconds >= 1 else 0))
        requests = _for(seconds, withdraws.requests(first), at_least=connections)
        began = time.perf_counter()
        answered = post_all(self._port, requests, connections)
        return answered, answered / (time.perf_counter() - began)


def _for(seconds: float, requests: Iterator[bytes], *, at_least: int) -> Iterator[bytes]:
    until = time.perf_counter() + seconds
    yield from islice(requests, at_least)
    while time.perf_counter() < until and (request := next(requests, None)):
        yield request


def _settled(stored: Callable[[], int]) -> int:
    """Return how many are stored once the server has finished what was under way."""
    before, now = -1, stored()
    while now != before:
        time.sleep(0.2)
        before, now = now, stored()
    return now


def check_stored(answered: int, stored: int, *, connections: int) -> None:
    """Raise RuntimeError unless all that was answered was stored, and only what was sent."""
    if not answered <= stored <= answered + connections:
        raise RuntimeError(
            f"{answered} calls over {connections} connections were answered, and {stored} withdraws were stored"
        )
