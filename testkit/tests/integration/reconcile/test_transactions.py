"""How many transactions a further bet takes, and that none is open while the service is asked."""

import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

import psycopg
import pytest

from game_operator.backoffice import journal
from game_operator.backoffice.reconcile import by_hand, reconciler, worker
from game_operator.ledger.engine.address import path_of
from testkit.tests.support.reconciling import REPAIR, Desk

pytestmark = pytest.mark.outside

FURTHER = 26


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


@pytest.mark.drawn(2)
@pytest.mark.parametrize("repair", [False, True], ids=["dry", "with repair"])
def test_a_further_bet_takes_few_transactions(any_desk: Desk, monkeypatch: pytest.MonkeyPatch, *, repair: bool) -> None:
    """At most four that write and three that read; in truth about one, its repair."""
    desk, count = any_desk, Counter[str]()

    def counting(kind: str, function: Any) -> Any:
        def counted(*args: Any) -> Any:
            count[kind] += 1
            return function(*args)

        return counted

    for module in (journal, worker, reconciler, by_hand):
        for name, kind in (("read_with", "read"), ("write_with", "write")):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counting(kind, getattr(module, name)))
    monkeypatch.setattr(desk.wallet, "repair", counting("write", desk.wallet.repair))
    taken = []
    for bets in (1, FURTHER):
        for _ in range(bets):
            desk.play("lose")
        count.clear()
        report = desk.reconciler(sample=0.0).run(**REPAIR if repair else {})
        assert report.repaired.bets == (bets if repair else 0)
        taken.append(Counter(count))
    further = FURTHER - 1
    assert taken[1]["write"] - taken[0]["write"] <= (1.5 if repair else 0.5) * further
    assert taken[1]["read"] - taken[0]["read"] <= 0.5 * further
