"""A rehearsed migration: wallets of two versions serve one database, then the older one is shut out."""

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.models.webhooks import MovingCall
from tests.support.books import problems, read_books
from tests.support.calls import deposit, rollback, withdraw
from tests.support.crowds import open_accounts
from tests.support.next_version import next_program, raise_fence
from tests.support.times import wait_until
from tests.support.traffic import Traffic, openings
from tests.support.wallet_process import RETRY_PRESETS, Service, WalletProcess

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

PLAYERS = ["hot", *(f"p{number}" for number in range(4))]
#: Between two calls of a connection, so that a new process has the time to start.
_PAUSE_SECONDS = 0.02
_MIGRATE = "from game_operator.cli import main; main()"


def answers(key: RSAPrivateKey, wallet: WalletProcess, *calls: MovingCall) -> list[str | None]:
    """Return the codes by which *wallet* answers *calls*, each sent once."""
    service = Service(key, wallet.port, calls)
    service.start([()])
    wait_for(service, len(calls))
    service.stop()
    return [answer.code for answer in service.log]


def wait_for(service: Service, answered: int) -> None:
    """Return when so many calls have been answered."""
    wait_until(lambda: len(service.log) >= answered)


def test_wallets_of_two_versions(url: str, private_key: RSAPrivateKey, tmp_path: Path) -> None:
    """A migration that adds costs no call its answer. Once the fence is raised, the older wallet writes nothing."""
    newer = next_program(tmp_path / "newer")
    open_accounts(url, openings(PLAYERS))
    traffic = Traffic(7, PLAYERS, 2_000)
    calls = traffic.arrivals()
    half = len(calls) // 2
    with WalletProcess(url, private_key, tmp_path) as old:
        service = Service(private_key, old.port, calls[:half])
        service.start([*RETRY_PRESETS.values()])
        wait_for(service, 100)
        migrate = [sys.executable, "-c", _MIGRATE, "ledger", "migrate", "--database", url]
        subprocess.run(migrate, env=newer, check=True, capture_output=True)
        service.pause = _PAUSE_SECONDS
        with WalletProcess(url, private_key, tmp_path, name="newer", environment=newer) as new:
            beside = Service(private_key, new.port, calls[half:])
            beside.pause = _PAUSE_SECONDS
            beside.start([*RETRY_PRESETS.values()])
            wait_for(service, len(service.log) + 100)
            wait_for(beside, 100)
            service.stop()
            beside.stop()
            log = [*service.log, *beside.log]
            assert "SYSTEM_ERROR" not in {answer.code for answer in log}
            begun = [story for story in traffic.stories if story.bet_id in service.begun | beside.begun]
            beside.insist(call for story in begun for call in story.calls)
            assert problems(read_books(url), begun, [*service.log, *beside.log]) == []
            assert answers(private_key, old, withdraw("open", "p1")) == [None]
            raise_fence(url)
            before = read_books(url)
            late: list[MovingCall] = [
                withdraw("late", "p1"),
                deposit("open", "p1"),
                rollback("none", "p1", "withdraw:bet:none"),
            ]
            assert answers(private_key, old, *late) == ["SYSTEM_ERROR"] * 3
            assert read_books(url) == before
            assert answers(private_key, new, *late) == [None, None, "BET_NOT_FOUND"]
    assert problems(read_books(url)) == []
