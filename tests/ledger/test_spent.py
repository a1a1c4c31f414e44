"""`ledger.spent`: what an account wagered and got since a time, for limits that are asked in a call's transaction."""

from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from game_operator.ledger import Spent, SqlLedger, Terms
from game_operator.ledger.engine.tables import sql_texts
from game_operator.models.webhooks import WebhookCall
from tests.ledger.test_fence import connected
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.raw_sql import rows
from tests.support.repairs import findings, lost, pay, repair, won

pytestmark = [pytest.mark.drawn(8, database_url=("postgres",))]

NONE = Spent(0, 0, 0, 0, 0)
Step = Callable[[SqlLedger], object]


def call(*calls: WebhookCall) -> Step:
    """Return the step that applies calls."""
    return lambda ledger: [ledger.apply(each) for each in calls]


def settled(by_us: Any, late: WebhookCall | None = None) -> Step:
    """Return the steps of a bet that a repair settles, and of a call that comes too late and is paid by hand."""

    def steps(ledger: SqlLedger) -> None:
        ledger.apply(BET)
        repair(ledger, by_us)
        if late is not None:
            ledger.apply(late)
            pay(ledger, findings(ledger)[0].id)

    return steps


BET = withdraw("b1", amount_cents=500)
LOSS, WIN, LITTLE = (deposit("b1", amount_cents=cents) for cents in (0, 700, 100))
HISTORIES = [
    pytest.param(call(), NONE, id="nothing"),
    pytest.param(call(BET), Spent(500, 0, 0, 500, 0), id="an open bet"),
    pytest.param(call(BET, LOSS), Spent(500, 0, 0, 0, 0), id="lost"),
    pytest.param(call(BET, WIN, WIN), Spent(500, 700, 0, 0, 0), id="won"),
    pytest.param(call(BET, rollback("b1")), Spent(500, 0, 500, 0, 0), id="rolled back"),
    pytest.param(call(withdraw("b1", amount_cents=99_999)), NONE, id="declined"),
    pytest.param(call(rollback("b1"), withdraw("b1")), NONE, id="a tombstone"),
    pytest.param(call(withdraw("b1", action="RAIN")), NONE, id="a RAIN"),
    pytest.param(call(withdraw("b1", action="RAIN"), rollback("b1", tx_id=None)), NONE, id="a RAIN that came back"),
    pytest.param(call(claim(amount_cents=300), claim(amount_cents=300)), Spent(0, 0, 0, 0, 300), id="free bets"),
    pytest.param(call(claim(action="JACKPOT", amount_cents=900)), Spent(0, 0, 0, 0, 900), id="a jackpot"),
    pytest.param(call(claim("c", "nobody")), NONE, id="a claim of nobody"),
    pytest.param(call(withdraw("b1", "p2")), NONE, id="another's bet"),
    pytest.param(call(deposit("b1")), NONE, id="an early deposit"),
    pytest.param(settled(won(700)), Spent(500, 700, 0, 0, 0), id="a win that was repaired"),
    pytest.param(settled(lost()), Spent(500, 0, 500, 0, 0), id="a refund that was repaired"),
    pytest.param(settled(won(100), WIN), Spent(500, 700, 0, 0, 0), id="paid the rest"),
    pytest.param(settled(won(700), LITTLE), Spent(500, 100, 0, 0, 0), id="taken back"),
    pytest.param(settled(lost(), WIN), Spent(500, 200, 500, 0, 0), id="paid above the refund"),
    pytest.param(settled(lost(), LITTLE), Spent(500, 0, 100, 0, 0), id="a part taken back"),
]


@pytest.fixture
def ledger(database_url: str) -> Any:
    """A ledger with two accounts."""
    with SqlLedger(database_url) as ledger:
        for player in ("p1", "p2"):
            ledger.open_account(player, Decimal(100))
        yield ledger


@pytest.mark.parametrize(("history", "spent"), HISTORIES)
def test_what_counts(ledger: SqlLedger, database_url: str, history: Step, spent: Spent) -> None:
    """In the ledger's own transaction and in the caller's; and nothing of it since a later time."""
    history(ledger)
    assert ledger.spent("p1", since_millis=0) == spent
    with closing(connected(database_url)) as connection:
        assert ledger.spent("p1", since_millis=0, connection=connection) == spent
    assert spent.net_loss_cents == spent.wagered_cents - spent.won_cents - spent.refunded_cents
    assert ledger.spent("p1", since_millis=2**63) == NONE
    assert ledger.spent("nobody", since_millis=-(2**63)) == NONE


def test_what_of_it_came_since(ledger: SqlLedger, database_url: str) -> None:
    """A bet counts by when it was opened, with all that came for it later; a claim by when it was credited."""
    for number in range(3):
        ledger.apply(withdraw(f"b{number}", amount_cents=10 ** (number + 1)))
        ledger.apply(claim(f"c{number}", amount_cents=10 ** (number + 1)))
    ledger.apply(deposit("b0", amount_cents=5))
    bets, claims = (
        [row[0] for row in rows(database_url, sql)]
        for sql in (
            "SELECT opened_at_millis FROM {p}bets ORDER BY bet_id",
            "SELECT at_millis FROM {p}calls WHERE tx_id LIKE 'c%' ORDER BY tx_id",
        )
    )
    assert ledger.spent("p1", since_millis=bets[0]) == Spent(1_110, 5, 0, 1_100, 1_110)
    assert ledger.spent("p1", since_millis=bets[0] + 1) == Spent(1_100, 0, 0, 1_100, 1_110)
    assert ledger.spent("p1", since_millis=claims[2]) == Spent(0, 0, 0, 0, 1_000)
    assert ledger.spent("p1", since_millis=claims[2] + 1) == NONE


def test_a_payment_counts_with_its_bet(ledger: SqlLedger, database_url: str) -> None:
    """Not by when it was paid, nor with a bet of the same id under another source."""
    settled(won(100), WIN)(ledger)
    ledger.add_source("other")
    ledger.apply(withdraw("b1", amount_cents=200), terms=Terms(source="other"))
    ((since,),) = rows(database_url, "SELECT opened_at_millis FROM {p}bets WHERE source = 'other'")
    ((paid,),) = rows(database_url, "SELECT at_millis FROM {p}calls WHERE operation = 'pay'")
    assert ledger.spent("p1", since_millis=paid) == Spent(200, 0, 0, 200, 0)
    assert ledger.spent("p1", since_millis=since) == Spent(200, 0, 0, 200, 0)
    assert ledger.spent("p1", since_millis=0) == Spent(700, 700, 0, 200, 0)


def test_indexes_lead_to_it(sqlite_url: str) -> None:
    """Bets before the time are not read, nor those of others."""
    SqlLedger(sqlite_url).close()
    sql = sql_texts("game_operator.ledger.staff", "limits.sql", prefix="{p}")["sqlite_spent"]
    plan = " ".join(str(row[-1]) for row in rows(sqlite_url, f"EXPLAIN QUERY PLAN {sql}", *["p1", 0] * 3, 0))
    assert "bets_of_account (account=? AND opened_at_millis>?)" in plan
    assert plan.count("calls_beside_bets (account=? AND at_millis>?)") == 2
