"""
Sign with a key that your program never sees.

Any object with a `sign` method is a signer: an HSM, a key service, a daemon. This one calls the openssl command, and
counts the calls. Signatures are deterministic, so the client caches them.
"""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from game_operator import OperatorClient
from game_operator_testkit import Sandbox


class OpensslSigner:
    """RSA-SHA256 with PKCS#1 v1.5 padding, made by the openssl command."""

    def __init__(self, key_file: Path) -> None:
        self.key_file = key_file
        self.signed = 0

    def sign(self, message: bytes) -> bytes:
        """Return the raw signature of the message."""
        self.signed += 1
        command = ["openssl", "dgst", "-sha256", "-sign", str(self.key_file)]
        return subprocess.run(command, input=message, stdout=subprocess.PIPE, check=True).stdout


with Sandbox() as sandbox, TemporaryDirectory() as directory:
    key_file = Path(directory, "operator.pem")
    key_file.write_bytes(sandbox.private_key_pem)
    signer = OpensslSigner(key_file)
    with OperatorClient(sandbox.base_url, sandbox.operator_id, signer, trust_env=False) as client:
        for _ in range(3):
            print(len(client.fetch_games()), "games")
        print(client.fetch_bet(sandbox.bet_ids["OPEN"]).status)
    print("signatures made:", signer.signed)

# Prints:
# 14 games
# 14 games
# 14 games
# OPEN
# signatures made: 2
