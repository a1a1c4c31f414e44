"""
Play a rolling deploy of two versions on one database, SQLite and PostgreSQL: forward, back and forward again.

    git worktree add /tmp/before <the release before>
    PYTHONPATH=src:. python tools/rehearse_upgrade.py /tmp/before/src src

Processes of both versions play bets meanwhile; a call that fails, or a finding in the books, is printed.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_PLAYER = """
import json, sys, threading
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import DepositCall, WithdrawCall
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
ledger = SqlLedger(sys.argv[1], patience_seconds=20)
print("is open", flush=True)
answered, failures, number = 0, [], 0
while not stop.is_set():
    number += 1
    bet = dict(player_id="p1", bet_id=f"{sys.argv[2]}-{number}")
    for call in (WithdrawCall(**bet, amount_cents=3), DepositCall(**bet, amount_cents=1)):
        try:
            assert ledger.apply(call).code is None
            answered += 1
        except Exception as failed:
            failures.append(f"{type(failed).__name__}: {failed}"[:100])
print(f"answered {answered} calls, {len(failures)} failed {failures[:3]}", flush=True)
"""
_OPEN = """
import sys
from decimal import Decimal
from game_operator.ledger import SqlLedger
SqlLedger(sys.argv[1]).open_account("p1", Decimal(100_000))
"""
_VERIFY = """
import sys
from game_operator.ledger import SqlLedger
report = SqlLedger(sys.argv[1], migrate=False).verify()
print(f"the books: {len(report.findings)} findings, {report.calls} calls, bets {report.bets}")
"""
_BACK = """
import sys
from game_operator.ledger import SqlLedger
from game_operator.ledger.sql import migrated_back
print("back to version", migrated_back(SqlLedger(sys.argv[1], migrate=False)))
"""


def _tell(*told: str) -> None:
    print(*told, flush=True)  # noqa: T201


def _run(source: str, code: str, url: str) -> None:
    done = subprocess.run([sys.executable, "-c", code, url], env=_environment(source), capture_output=True, text=True)  # noqa: S603
    _tell(done.stdout.strip() or done.stderr.strip()[-300:])


def _player(source: str, url: str, name: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", _PLAYER, url, name],
        env=_environment(source),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    told = process.stdout.readline().strip()
    _tell(f"{name:6}", told or f"does not open: {process.stderr.read().strip().splitlines()[-1]}")
    return process


def _environment(source: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": source}


def _stop(*players: "subprocess.Popen[str]") -> None:
    for player in players:
        out, _ = player.communicate("")
        _tell(f"{player.args[-1]:6}", out.strip())  # type: ignore[index]  # They are a list.


def rehearse(old: str, new: str, url: str) -> None:
    """Play on the empty database at *url*."""
    _tell(f"--- {url.partition(':')[0]}")
    _run(old, _OPEN, url)
    first, second = _player(old, url, "old-1"), _player(old, url, "old-2")
    time.sleep(2)
    third = _player(new, url, "new-3")  # It migrates.
    _stop(_player(old, url, "old-4"))
    time.sleep(2)
    _stop(first)
    fourth = _player(new, url, "new-5")
    time.sleep(2)
    _stop(second)
    _run(new, _VERIFY, url)
    _run(new, _BACK, url)
    fifth = _player(old, url, "old-6")
    time.sleep(2)
    _stop(third, fourth)
    _stop(fifth)
    _run(old, _VERIFY, url)
    _stop(_player(new, url, "new-7"))
    _run(new, _VERIFY, url)


def main() -> None:
    """Play on both kinds of database."""
    from tests.support.postgres import PostgresServer

    old, new = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        rehearse(old, new, f"sqlite:///{Path(folder) / 'wallet.db'}")
    with PostgresServer() as server:
        rehearse(old, new, server.create_database())


if __name__ == "__main__":
    main()
