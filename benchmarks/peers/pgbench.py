"""PostgreSQL's own pgbench with one statement that writes the rows of one withdraw: balance, call, bet, posting."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from tests.support.filled_books import PREFIX
from tests.support.postgres import PostgresServer
from tests.support.postgres_binaries import binary_folders

__all__ = ["Pgbench"]

_TURNS = itertools.count()
_DIGEST = "00112233445566778899aabbccddeeff" * 2
# pgbench reads a colon with a name as a variable, inside quotes too: no id here may hold one.
_SCRIPT = r"""
\set r random(1, 9000000000000000000)
\set i {who}
WITH moved AS (
    UPDATE {prefix}accounts SET balance_cents = balance_cents - 100,
        at_millis = greatest(at_millis + 1, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint))
    WHERE account = 'p' || CAST(:i AS text) AND balance_cents >= 100
    RETURNING account, balance_cents, at_millis
), called AS (
    INSERT INTO {prefix}calls SELECT '', 'withdraw', 'withdraw-bet-' || {bet}, account, account, {bet}, 'BET', 100,
        NULL, balance_cents, at_millis, NULL FROM moved
), placed AS (
    INSERT INTO {prefix}bets SELECT {bet}, account, account, 'instance-1', 'aviator', NULL, 100, NULL, 'OPEN',
        at_millis, NULL, 'BET', 'withdraw-bet-' || {bet}, NULL, decode('{digest}', 'hex'), '' FROM moved
), posted AS (
    INSERT INTO {prefix}postings (from_account, to_account, amount_cents, source, operation, tx_id, at_millis)
    SELECT account, NULL, 100, '', 'withdraw', 'withdraw-bet-' || {bet}, at_millis FROM moved
)
SELECT balance_cents FROM moved;
"""


@dataclass(frozen=True, slots=True)
class Pgbench:
    """The program, and the tables in *database* of the server whose socket is in *folder*."""

    program: Path
    folder: Path
    database: str

    @classmethod
    def found(cls, server: PostgresServer, url: str) -> Self | None:
        """Return it for the database *url*; None where no PostgreSQL here has the program, which is said."""
        for binaries in binary_folders():
            if os.access(binaries / "pgbench", os.X_OK):
                return cls(binaries / "pgbench", server.folder, url.partition("?")[0].rpartition("/")[2])
        print(
            "No PostgreSQL here brings pgbench, and what is measured beside it is left out: "
            "apt-get install postgresql has it.",
            file=sys.stderr,
        )
        return None

    def __call__(self, clients: int, players: int, seconds: float) -> float:
        """
        Return withdraws a second of *clients* connections; for less than a second, of two withdraws each.

        Raises:
            RuntimeError: pgbench failed; the message ends with what it said.
        """
        who = "1" if players == 1 else f"random(1, {players})"
        bet = f"'b{next(_TURNS)}-' || CAST(:client_id AS text) || '-' || CAST(:r AS text)"
        until = ["-T", str(round(seconds))] if seconds >= 1 else ["-t", "2"]
        with _file(_SCRIPT.format(who=who, prefix=PREFIX, bet=bet, digest=_DIGEST)) as script:
            command = [str(self.program), "-n", "-M", "prepared", "-c", str(clients), "-j", "2", *until]
            command += ["-f", str(script), "-h", str(self.folder), "-p", "5432", "-U", "postgres", self.database]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = re.search(r"tps = ([\d.]+)", done.stdout)
        if found is None or done.returncode:
            raise RuntimeError(f"pgbench failed: {done.stderr[-500:]}")
        return float(found[1])


@contextmanager
def _file(text: str) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "withdraw.sql"
        path.write_text(text)
        yield path
