"""
Workers of `game-operator serve` replaced and killed under signed load.

A rolling restart costs no call its answer. A kill costs those that were under way, whose repeats are answered as if
nothing had happened. Nothing is lost or doubled, no worker outlives its supervisor, and the port is free again.
"""

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tests.support.crowds import open_accounts
from tests.support.leftovers import assert_idle
from tests.support.postgres import PostgresServer
from tests.support.seeds import random_of
from tests.support.times import wait_until
from tests.support.traffic import openings
from tests.support.wallet_process import PLAYERS, Load, WalletProcess

pytestmark = pytest.mark.outside

Figures = Callable[[str, object], None]


def is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def _restarted(url: str, key: RSAPrivateKey, folder: Path, *, times: int, workers: int) -> str:
    open_accounts(url, openings(PLAYERS))
    with WalletProcess(url, key, folder, "--workers", str(workers)) as wallet:
        wait_until(lambda: len(wallet.workers()) == workers, "not all workers began")
        with Load(url, key, wallet, calls=800 * times * workers, seed=7) as load:
            for _ in range(times):
                before = set(wallet.workers())
                wallet.restart_workers()
                assert not before & set(wallet.workers())
                assert len(wallet.workers()) == workers
            assert load.service.log, "no call came in"
        figures = load.audited()
        assert load.service.doubts == 0
        assert "SYSTEM_ERROR" not in load.service.answers_by_code()
    assert_idle(url)
    return f"{url.partition(':')[0]}, {times} rolling restarts of {workers} workers, {figures}"


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("url", "workers"), [("sqlite", 1), ("postgres", 1), ("postgres", 3)], indirect=["url"])
def test_twenty_rolling_restarts(
    url: str, workers: int, private_key: RSAPrivateKey, tmp_path: Path, record_property: Figures
) -> None:
    """The same, again and again, on both databases; SQLite has one worker."""
    record_property("figures", _restarted(url, private_key, tmp_path, times=20 // workers, workers=workers))


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_kills_during_rolling_restarts(
    durable: PostgresServer, private_key: RSAPrivateKey, tmp_path: Path, record_property: Figures
) -> None:
    """B08, H05: SIGKILL to workers and to the supervisor, at any moment of a rolling restart."""
    url, random = durable.create_database(), random_of(11)
    open_accounts(url, openings(PLAYERS))
    kills = {"worker": 0, "supervisor": 0}
    with WalletProcess(url, private_key, tmp_path, "--workers", "2") as wallet:
        with Load(url, private_key, wallet, calls=100_000, seed=8) as load:
            while sum(kills.values()) < 200:
                os.kill(wallet.pid, signal.SIGHUP)
                time.sleep(random.uniform(0.0, 2.0))
                if random.random() < 0.5:
                    with suppress(ProcessLookupError, IndexError):  # None may be left.
                        os.kill(random.choice(wallet.workers()), signal.SIGKILL)
                        kills["worker"] += 1
                    continue
                orphans = wallet.workers()
                wallet.kill()
                kills["supervisor"] += 1
                wait_until(lambda: not any(map(_is_alive, orphans)), "a worker outlives its supervisor")  # noqa: B023
                assert is_free(wallet.port)
                wallet.start()
        figures = load.audited()
    assert_idle(url)
    assert load.service.doubts, "no call was under way when a process was killed"
    record_property("figures", f"{kills}, {figures}")


def _is_alive(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False
