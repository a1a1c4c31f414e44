"""One player, many bets at once, where transactions are SERIALIZABLE: who waits for the row is rolled back."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from game_operator.ledger import SqlLedger
from tests.support.calls import withdraw
from tests.support.joined_wallets import Opened, WalletKind, asked
from tests.support.ledgers import funded
from tests.support.raw_sql import rows, run

_CALLS = [withdraw(f"b{number}", amount_cents=10) for number in range(24)]


def _wallet(opened: Opened) -> Any:
    """Return a wallet; asyncpg in SQLAlchemy begins with READ COMMITTED unless it is told what to begin with."""
    engine = getattr(opened.transaction, "__self__", None)
    if isinstance(engine, AsyncEngine):
        return opened.wallet(transaction=engine.execution_options(isolation_level="SERIALIZABLE").begin)
    return opened.wallet()


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(asked("own, postgres") * 4, id="own, of four machines"),
        pytest.param(asked("psycopg, transaction()"), id="psycopg"),
        pytest.param(asked("async connection, psycopg"), id="psycopg in asyncio"),
        pytest.param(asked("async connection, asyncpg"), id="asyncpg"),
    ],
)
def test_a_hot_row_is_answered(postgres_url: str, kinds: list[WalletKind]) -> None:
    """What is answered is debited once, and what is not moves nothing: the service repeats it."""
    ((name,),) = rows(postgres_url, "SELECT current_database()")
    run(postgres_url, f"ALTER DATABASE {name} SET default_transaction_isolation = serializable")
    funded(postgres_url).close()
    with ExitStack() as stack, ThreadPoolExecutor(len(kinds)) as machines:
        machine = [stack.enter_context(kind.open(postgres_url)) for kind in kinds]
        bets = [_CALLS[number :: len(kinds)] for number in range(len(kinds))]
        replies = machines.map(lambda opened, calls: opened.at_once(_wallet(opened), calls), machine, bets)
        answered = sum(getattr(reply, "code", "raised") is None for each in replies for reply in each)
    assert 0 < answered <= len(_CALLS)
    with SqlLedger(postgres_url) as ledger:
        assert ledger.balance("p1") == 1_000 - 10 * answered
        assert len(list(ledger.bets())) == answered
        assert ledger.verify().findings == ()
