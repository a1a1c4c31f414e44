"""One player, many bets at once, where transactions are SERIALIZABLE: who waits for the row is rolled back."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Barrier
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool
from sqlalchemy.ext.asyncio import create_async_engine

from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.wallet import AsyncJoinedWallet, JoinedWallet, Wallet
from tests.support.callers import sqlalchemy_url
from tests.support.calls import withdraw
from tests.support.ledgers import funded

_BETS = 24
_CALLS = [withdraw(f"b{number}", amount_cents=10) for number in range(_BETS)]


@pytest.fixture
def serializable_url(postgres_url: str) -> str:
    """A database whose transactions are SERIALIZABLE by default."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_isolation = serializable'.encode())
    funded(postgres_url).close()
    return postgres_url


@contextmanager
def _own(url: str) -> Iterator[list[Any]]:
    """Four ledgers, as of four machines."""
    with ExitStack() as opened:
        yield [Wallet(opened.enter_context(SqlLedger(url))) for _ in range(4)]


@contextmanager
def _psycopg(url: str) -> Iterator[list[Any]]:
    with SqlLedger(url) as ledger, ConnectionPool(url, min_size=_BETS, max_size=_BETS) as pool:
        yield [JoinedWallet(ledger, pool.connection)]


@pytest.mark.parametrize("opens", [_own, _psycopg], ids=["own", "psycopg"])
def test_a_hot_row_is_answered(serializable_url: str, opens: Callable[[str], Any]) -> None:
    """What is answered is debited once, and what is not moves nothing: the service repeats it."""
    with opens(serializable_url) as wallets, ThreadPoolExecutor(_BETS) as threads:
        together = Barrier(_BETS)

        def bet(number: int) -> bool:
            together.wait()
            try:
                return wallets[number % len(wallets)].withdraw(_CALLS[number]).code is None
            except Exception:  # A serialization failure, as the driver or SQLAlchemy raises it.
                return False

        answered = sum(threads.map(bet, range(_BETS)))
    _check(serializable_url, answered)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_a_hot_row_is_answered_in_asyncio(serializable_url: str, driver: str) -> None:
    """The same for tasks."""
    engine = create_async_engine(
        sqlalchemy_url(serializable_url, driver), pool_size=_BETS, isolation_level="SERIALIZABLE"
    )
    async with AsyncSqlLedger(serializable_url) as ledger:
        wallet = AsyncJoinedWallet(ledger, engine.begin)
        replies = await asyncio.gather(*map(wallet.withdraw, _CALLS), return_exceptions=True)
    await engine.dispose()
    _check(serializable_url, sum(getattr(reply, "code", "raised") is None for reply in replies))


def _check(url: str, answered: int) -> None:
    """Check that some were answered, and that each of these and no other was debited once."""
    assert 0 < answered <= _BETS
    with SqlLedger(url) as ledger:
        assert ledger.balance("p1") == 1_000 - 10 * answered
        assert len(list(ledger.bets())) == answered
        assert ledger.verify().findings == ()
