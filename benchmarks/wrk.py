"""Load by wrk: requests from a file, each with its own signature made beforehand, none of them twice."""

import json
import os
import re
import shutil
import subprocess
from base64 import urlsafe_b64encode
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

__all__ = ["SignedWithdraws", "Wrk"]

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


class SignedWithdraws:
    """A file of withdraws, made longer when it runs out; each server walks it from its own beginning."""

    def __init__(self, path: Path, private_key: RSAPrivateKey, players: int) -> None:
        self.path = path
        self._players = players
        self._pem = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._count = 0

    def at_least(self, count: int) -> None:
        """Sign so many that there are *count*."""
        missing = range(self._count, count, 500)
        if not missing:
            return
        jobs = [(self._pem, start, self._players) for start in missing]
        with ProcessPoolExecutor(os.cpu_count()) as pool, self.path.open("a") as file:
            for lines in pool.map(_signed, jobs):
                file.write(lines)
                self._count += 500


def _signed(job: tuple[bytes, int, int]) -> str:
    pem, start, players = job
    key = load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)
    return "".join(_line(key, number, players) for number in range(start, start + 500))


def _line(key: RSAPrivateKey, number: int, players: int) -> str:
    # Ids as a service writes them: no order in them.
    bet_id = f"{number * 2654435761 % 2**32:08x}{number:08x}"
    call = {
        "player_id": f"p{number * 7919 % players + 1}",
        "amount": 100,
        "game": "aviator",
        "instance_id": "instance-1",
        "action": "BET",
        "action_id": bet_id,
        "tx_id": f"withdraw:bet:{bet_id}",
    }
    body = json.dumps(call, separators=(",", ":"))
    signature = urlsafe_b64encode(key.sign(body.encode(), PKCS1v15(), SHA256())).rstrip(b"=")
    return f"{signature.decode()}\t{body}\n"


class Wrk:
    """Calls one server; *withdraws* it has had already are not sent again."""

    def __init__(self, port: int, withdraws: SignedWithdraws, script: Path) -> None:
        self._port = port
        self._withdraws = withdraws
        self._script = script
        self._sent = 0
        script.write_text(_SCRIPT)

    def rate(self, connections: int, seconds: float, most: float = 8_000) -> float:
        """Return answered calls a second."""
        wanted = max(200, int(most * max(seconds, 1)))
        self._withdraws.at_least(self._sent + wanted)
        program = shutil.which("wrk")
        if program is None:
            return self._without_wrk(connections, wanted, seconds)
        command = [program, "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", str(self._script)]
        command += [f"http://127.0.0.1:{self._port}", str(self._withdraws.path), str(self._sent), str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
            raise RuntimeError(f"wrk met errors:\n{done.stdout}")
        answered, rate = (
            re.search(r"(\d+) requests in", done.stdout),
            re.search(r"Requests/sec:\s+([\d.]+)", done.stdout),
        )
        assert answered
        assert rate
        self._sent += int(answered[1]) + connections
        return float(rate[1])

    def _without_wrk(self, connections: int, wanted: int, seconds: float) -> float:
        """Do the same with a few calls by our own hand: slower than wrk, it shows that all is in order."""
        from benchmarks.webhook_load import call_once

        with self._withdraws.path.open() as file:
            lines = list(islice(file, self._sent, self._sent + min(wanted, connections * 2)))
        self._sent += len(lines)
        return call_once(self._port, [line.rstrip("\n").split("\t", 1) for line in lines])
