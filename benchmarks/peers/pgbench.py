"""PostgreSQL's own pgbench with one statement that writes the rows of one withdraw: balance, call, bet, posting."""

import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["pgbench"]

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


def pgbench(folder: Path, database: str, prefix: str, clients: int, players: int, seconds: float) -> float:
    """Run pgbench on the server whose socket is in *folder*; return withdraws a second."""
    who = "1" if players == 1 else f"random(1, {players})"
    bet = f"'b{next(_TURNS)}-' || CAST(:client_id AS text) || '-' || CAST(:r AS text)"
    with _file(_SCRIPT.format(who=who, prefix=prefix, bet=bet, digest=_DIGEST)) as script:
        command = [_program(), "-n", "-M", "prepared", "-c", str(clients), "-j", "2", "-T", str(max(1, round(seconds)))]
        command += ["-f", str(script), "-h", str(folder), "-p", "5432", "-U", "postgres", database]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    if found is None or done.returncode:
        raise RuntimeError(f"pgbench failed: {done.stderr[-500:]}")
    return float(found[1])


@contextmanager
def _file(text: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "withdraw.sql"
        path.write_text(text)
        yield path


def _program() -> str:
    found = shutil.which("pgbench") or next(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))), None)
    if found is None:
        raise RuntimeError("pgbench is missing: it comes with the server (on Debian: apt-get install postgresql)")
    return found
