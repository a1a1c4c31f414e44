"""
The wallet's server killed at random moments under signed load, started again, and the same calls repeated.

Whatever was under way when it died is in doubt. The repeats end the doubt: each call is answered definitely, money is
conserved, nothing is doubled, and every answer that was given before is borne out by the books.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tests.support.books import problems, read_books
from tests.support.calls import withdraw
from tests.support.crowds import open_accounts
from tests.support.leftovers import assert_idle
from tests.support.postgres import PostgresServer
from tests.support.seeds import random_of
from tests.support.traffic import openings
from tests.support.wallet_process import PLAYERS, Load, Service, WalletProcess

pytestmark = pytest.mark.outside

Figures = Callable[[str, object], None]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database of each kind, on the disk."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'wallet.db'}"
    server: PostgresServer = request.getfixturevalue("durable")
    return server.create_database()


def _killed(url: str, key: RSAPrivateKey, folder: Path, *, kills: int, seed: int) -> str:
    """Kill the wallet *kills* times under load, repeat all calls, assert that the books are right; return figures."""
    open_accounts(url, openings(PLAYERS))
    random = random_of(seed)
    with WalletProcess(url, key, folder) as wallet:
        with Load(url, key, wallet, calls=800 * kills, seed=seed) as load:
            for _ in range(kills):
                time.sleep(random.uniform(0.02, 0.25))
                wallet.kill()
                wallet.start()
        figures = load.audited()
    assert_idle(url)
    assert load.service.doubts, "no call was under way when the server was killed"
    return f"{url.partition(':')[0]}, {kills} kills, {figures}, {dict(load.service.answers_by_code())}"


@pytest.mark.timeout(300)
@pytest.mark.drawn(1)
def test_killed_under_load(url: str, private_key: RSAPrivateKey, tmp_path: Path) -> None:
    """B08, H05: two kills, each connection with another retry preset: nothing lost, nothing doubled."""
    _killed(url, private_key, tmp_path, kills=2, seed=1)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_killed_200_times(url: str, private_key: RSAPrivateKey, tmp_path: Path, record_property: Figures) -> None:
    """B08, H05: two hundred kills."""
    record_property("figures", _killed(url, private_key, tmp_path, kills=200, seed=2))


@pytest.mark.drawn(1)
def test_a_withdraw_that_was_committed_and_never_answered(url: str, private_key: RSAPrivateKey, tmp_path: Path) -> None:
    """B08: killed once the withdraw is in the database; after the restart the same withdraw is SUCCESS, one debit."""
    open_accounts(url, {"p1": 10_000})
    with WalletProcess(url, private_key, tmp_path) as wallet:
        service = Service(private_key, wallet.port, [withdraw()])
        service.start([()])
        while not read_books(url).bets:
            time.sleep(0.001)
        wallet.kill()
        service.stop()
        wallet.start()
        service.insist([withdraw()])
    assert service.log[-1].code is None
    books = read_books(url)
    assert books.accounts == {"p1": 9_500}
    assert problems(books, (), service.log) == []
