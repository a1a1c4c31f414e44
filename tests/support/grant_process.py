"""
A process that runs a campaign, to be killed.

Its arguments are the database, the service's address, the operator's id and key file, the campaign, and the lease. It
ends with 0 when the campaign has, and by itself when the other end of its stdin closes.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

from game_operator import OperatorClient
from game_operator.backoffice import Campaign
from game_operator.backoffice.journal import Journal
from game_operator.ledger import SqlLedger

__all__ = ["GrantProcess"]

_ROOT = Path(__file__).parents[2]


class GrantProcess:
    """A process at work at a campaign, however often it is killed and started again."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        command = [sys.executable, "-m", "tests.support.grant_process", *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=_ROOT)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill it, in the middle of whatever it does."""
        assert self._process is not None
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Return how it ended."""
        process, self._process = self._process, None
        assert process is not None
        status = process.wait(100)
        assert process.stdin is not None
        process.stdin.close()
        return status


def _run(database: str, base_url: str, operator_id: str, key: str, name: str, lease_millis: str) -> None:
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    with OperatorClient(base_url, operator_id, Path(key)) as client, SqlLedger(database) as ledger:
        campaign = Campaign(client, ledger, name)
        # Nobody waits a minute for the lease of a process that was killed.
        campaign._journal = Journal(ledger, lease_millis=int(lease_millis))
        campaign.resume(rate_per_second=1_000.0, concurrency=2)


def _end_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os._exit(3)


if __name__ == "__main__":
    _run(*sys.argv[1:])
