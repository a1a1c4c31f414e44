"""Withdraws signed beforehand, in a file, for the load must not wait for its own signing."""

import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

__all__ = ["SignedWithdraws"]

#: So many are signed at a time.
_SOME = 100


class SignedWithdraws:
    """Lines of signature, tab and body, more of them when they run out; none is like another, in any file."""

    def __init__(self, path: Path, private_key: RSAPrivateKey, players: int) -> None:
        self.path = path
        self._players = players
        self._pem = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._count = 0

    def at_least(self, count: int) -> None:
        """Sign so many that there are *count*."""
        missing = range(self._count, count, _SOME)
        if not missing:
            return
        jobs = [(self._pem, start, self._players) for start in missing]
        with ProcessPoolExecutor(os.cpu_count()) as pool, self.path.open("a") as file:
            # Processes are worth their while for many only.
            for lines in map(_signed, jobs) if len(jobs) < 5 else pool.map(_signed, jobs):
                file.write(lines)
                self._count += _SOME

    def requests(self, first: int) -> Iterator[bytes]:
        """Yield those from number *first* on as whole requests of HTTP."""
        with self.path.open("rb") as file:
            for line in islice(file, first, None):
                signature, _, body = line.rstrip(b"\n").partition(b"\t")
                yield (
                    b"POST /withdraw HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                    b"Signature: %b\r\nContent-Length: %d\r\n\r\n%b"
                ) % (signature, len(body), body)


def _signed(job: tuple[bytes, int, int]) -> str:
    pem, start, players = job
    key = load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)
    return "".join(_line(key, number, players) for number in range(start, start + _SOME))


def _line(key: RSAPrivateKey, number: int, players: int) -> str:
    # Ids as a service writes them: no order in them.
    bet_id = f"{number * 2654435761 % 2**32:08x}{players:06x}{number:010x}"
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
