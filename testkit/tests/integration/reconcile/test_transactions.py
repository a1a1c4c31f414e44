"""How many transactions a further bet takes, and that none is open while the service is asked."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from game_operator.ledger.engine.address import path_of
from testkit.tests.support.reconciling import REPAIR, Desk

pytestmark = pytest.mark.outside


def check_idle(url: str) -> None:
    """Assert that nobody has an open transaction."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(url), timeout=0, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        return
    with psycopg.connect(url) as connection:
        busy = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND state LIKE 'idle in transaction%'"
        ).fetchone()
    assert busy == (0,)


@pytest.mark.drawn(3)
def test_no_transaction_is_open_while_the_service_is_asked(any_desk: Desk) -> None:
    """For bets, rounds and games: a service that does not answer holds up no call."""
    desk = any_desk
    for _ in range(3):
        desk.play("lose")
    desk.way.before = lambda _: check_idle(desk.url)
    assert desk.reconciler().run(**REPAIR).repaired.bets == 3
    assert {"fetch-bet", "fetch-games"} <= set(desk.way.asked)
