"""A database whose balances are the operator's own says so to whoever opens it without them."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import anyio
import psycopg
import pytest

from game_operator.errors import ConfigurationError, SchemaError
from game_operator.ledger import AsyncSqlLedger, Outcome, SqlLedger, TableAccounts
from game_operator.models.webhooks import WebhookCall
from tests.support.callers import KINDS, CallerKind
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.raw_sql import is_sqlite, with_players

pytestmark = [pytest.mark.outside, pytest.mark.drawn(7, database_url=("postgres",))]

Run = Callable[..., list[tuple[Any, ...]]]

TABLE = TableAccounts(table="players", key="id", balance="balance")
REFUSED = r"keeps its balances in your own table, and it was opened without accounts=.*Nothing was moved"
MARKED = "SELECT value FROM game_operator_meta WHERE name = 'balances_elsewhere'"


@pytest.fixture
def run(database_url: str) -> Run:
    """Run a statement of the operator's, committed at once, in a database with their players."""
    return with_players(database_url)


@pytest.fixture
def joins(database_url: str) -> CallerKind:
    """The driver's own connection, for calls that join."""
    return next(kind for kind in KINDS if (kind.database == "sqlite") == is_sqlite(database_url))


def applied(url: str, call: WebhookCall, **options: Any) -> Outcome:
    """Apply a call by a ledger that is opened for it."""
    with SqlLedger(url, **options) as ledger:
        return ledger.apply(call)


def awaited(url: str, call: WebhookCall, **options: Any) -> Outcome:
    """Do the same in asyncio."""

    async def apply() -> Outcome:
        async with AsyncSqlLedger(url, **options) as ledger:
            return await ledger.apply(call)

    return anyio.run(apply)


WAYS = pytest.mark.parametrize("apply", [applied, awaited])
CALLS = [
    pytest.param(withdraw("b2"), id="a withdraw"),
    pytest.param(deposit("b1"), id="a deposit"),
    pytest.param(claim("c1"), id="a claim"),
    pytest.param(rollback("b1", tx_id=None), id="a rollback"),
    pytest.param(ask_balance(), id="a question for the balance"),
]


@pytest.mark.parametrize("call", CALLS)
@WAYS
@pytest.mark.drawn(4, database_url=("postgres",))
def test_calls_are_refused_without_the_operators_accounts(
    database_url: str, run: Run, joins: CallerKind, apply: Callable[..., Outcome], call: WebhookCall
) -> None:
    """Alone and joined; even where a phantom account was left by somebody, which must not be paid."""
    assert apply(database_url, withdraw("b1"), accounts=TABLE).balance_cents == 500
    run("INSERT INTO game_operator_accounts VALUES ('p1', 100000, 1)")
    with pytest.raises(ConfigurationError, match=REFUSED):
        apply(database_url, call)
    with joins.open(database_url) as caller:
        caller.begin()
        with pytest.raises(ConfigurationError, match=REFUSED):
            caller.apply(call)
        caller.commit()
    assert run("SELECT balance FROM players") == [(500,)]
    assert run("SELECT balance_cents FROM game_operator_accounts") == [(100_000,)]
    with SqlLedger(database_url) as ledger:
        assert len(list(ledger.bets())) == 1
        assert list(ledger.anomalies()) == []


@WAYS
def test_balances_of_our_own_leave_no_mark(database_url: str, run: Run, apply: Callable[..., Outcome]) -> None:
    """Nor does a table that cannot be used: whoever meant our own goes on as before."""
    with SqlLedger(database_url) as ledger:
        assert ledger.open_account("p1", Decimal(1)) == 100
    with pytest.raises(SchemaError):
        apply(database_url, ask_balance(), accounts=TableAccounts(table="players", key="nope", balance="balance"))
    assert apply(database_url, withdraw(amount_cents=40)).balance_cents == 60
    assert run(MARKED) == []


def test_a_ledger_that_only_joins_leaves_the_mark_too(database_url: str, run: Run, joins: CallerKind) -> None:
    """With the call that is committed first: what is rolled back takes the mark along, and the next leaves it anew."""
    with joins.open(database_url, accounts=TABLE) as caller:
        run("DELETE FROM game_operator_meta WHERE name = 'balances_elsewhere'")  # As if it had only joined.
        for ends, marked in ((caller.rollback, []), (caller.commit, [(1,)])):
            caller.begin()
            assert caller.apply(withdraw("b1")).applied
            ends()
            assert run(MARKED) == marked
        caller.begin()
        assert caller.apply(deposit("b1", amount_cents=100)).balance_cents == 600
        caller.commit()


def test_nobody_waits_for_a_mark_that_is_not_committed(postgres_url: str) -> None:
    """A caller who waited, with locks of their own, for another who wants those would be in a deadlock."""
    run = with_players(postgres_url)
    run("INSERT INTO players VALUES ('p2', 1000)")
    with SqlLedger(postgres_url, accounts=TABLE) as ledger:
        run("DELETE FROM game_operator_meta WHERE name = 'balances_elsewhere'")
        with psycopg.connect(postgres_url) as one, psycopg.connect(postgres_url) as other:
            for connection, player in ((one, "p1"), (other, "p2")):
                connection.execute("SET lock_timeout = '2s'")
                ledger.apply(withdraw(f"b-{player}", player_id=player), connection=connection)
        assert run(MARKED) == [(1,)]
