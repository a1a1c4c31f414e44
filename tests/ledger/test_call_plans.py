"""How PostgreSQL finds what calls need: by key, also with plans that were made while the tables were empty."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.support.calls import deposit, rollback, withdraw
from tests.support.ledgers import funded

pytestmark = pytest.mark.outside

_BETS = 150
_PLAYERS = 20
#: A call looks up a few rows, and again if somebody else had locked its account.
_MOST_ROWS = 10


@pytest.mark.parametrize("callers", [1, 16])
def test_new_tables_are_not_walked(postgres_url: str, callers: int) -> None:
    """A ledger's first bets come before PostgreSQL has any statistics, and the plans of its connections stay."""
    bets = [withdraw(f"b{number}", player_id=f"p{number % _PLAYERS}", amount_cents=1) for number in range(_BETS)]
    won, back = bets[: _BETS // 2], bets[_BETS // 2 :]
    calls = [
        *bets,
        *bets,
        *(deposit(each.bet_id, player_id=each.player_id) for each in won),
        *(rollback(each.bet_id, player_id=each.player_id, tx_id=f"withdraw:bet:{each.bet_id}") for each in back),
        *(
            rollback(f"un{each.bet_id}", player_id=each.player_id, tx_id=f"withdraw:bet:un{each.bet_id}")
            for each in back
        ),
    ]
    players = (f"p{number}" for number in range(_PLAYERS) if number != 1)
    with funded(postgres_url, 1_000, *players) as ledger, ThreadPoolExecutor(callers) as pool:
        for _ in pool.map(ledger.apply, calls):
            pass
    with psycopg.connect(postgres_url) as connection:
        walked = connection.execute(
            "SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE idx_tup_read > %s",
            [_MOST_ROWS * len(calls)],
        ).fetchall()
    assert not walked
