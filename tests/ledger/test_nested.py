"""A ledger used from within its own transaction would wait for itself: it is refused, whatever asks, and goes on."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from game_operator.errors import LedgerError
from game_operator.ledger import AsyncSqlLedger, MemoryLedger, SqlLedger
from game_operator.ledger.api import DEFAULT_TERMS, Outcome, Terms
from tests.support.calls import ask_balance, claim, withdraw
from tests.support.sqlite_tables import sqlite_url_in

CALLBACKS = ("after", "may_bet", "account_of")
MOVES: dict[str, Callable[[Any], Any]] = {  # Any: a ledger of any kind.
    "apply": lambda ledger: ledger.apply(claim()),
    "player-balance": lambda ledger: ledger.apply(ask_balance("p1")),
    "adjust": lambda ledger: ledger.adjust("p1", Decimal(1), reference="a"),
    "open_account": lambda ledger: ledger.open_account("p2", Decimal(1)),
    "balance": lambda ledger: ledger.balance("p1"),
    "bet": lambda ledger: ledger.bet("b1"),
    "bets": lambda ledger: list(ledger.bets()),
}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    """A ledger of each kind, where p1 has 10.00."""
    if request.param == "memory":
        ledger: Any = MemoryLedger()
    elif request.param == "sqlite":
        ledger = SqlLedger(sqlite_url_in(tmp_path, request))
    else:
        ledger = SqlLedger(request.getfixturevalue("postgres_url"))
    with ledger:
        ledger.open_account("p1", Decimal(10))
        yield ledger


def _terms(what: str, callback: Callable[..., Any]) -> Terms:
    terms: Any = {what: callback}  # Any: one of the callables of Terms.
    return replace(DEFAULT_TERMS, **terms)


def test_a_callback_cannot_use_its_ledger(ledger: Any) -> None:
    """Each callback with each method: nothing hangs, nothing of the call remains, and the ledger goes on."""
    for what, how in itertools.product(CALLBACKS, MOVES):
        with pytest.raises(LedgerError, match=r"would wait for itself.*ledger\.spent\(.*connection=connection"):
            ledger.apply(withdraw(), terms=_terms(what, lambda *_args, move=MOVES[how]: move(ledger)))
        assert (ledger.balance("p1"), ledger.bet("b1")) == (1_000, None), (what, how)
    assert ledger.apply(withdraw()).balance_cents == 500


async def test_an_async_callback_cannot_use_its_ledger(postgres_url: str) -> None:
    """Each callback with each method: neither itself, nor through a task that it awaits."""
    moves = {how: move for how, move in MOVES.items() if how != "bets"} | {"close": lambda ledger: ledger.close()}
    async with AsyncSqlLedger(postgres_url) as ledger:
        await ledger.open_account("p1", Decimal(10))
        for what, how in itertools.product(("after", "may_bet"), moves):

            async def directly(*_args: object, move: Any = moves[how]) -> None:
                await move(ledger)

            async def in_a_task(*_args: object, move: Any = moves[how]) -> None:
                await asyncio.gather(move(ledger))

            for callback in (directly, in_a_task):
                with pytest.raises(LedgerError, match="would wait for itself"):
                    await asyncio.wait_for(ledger.apply(withdraw(), terms=_terms(what, callback)), 30)
            assert (await ledger.balance("p1"), await ledger.bet("b1")) == (1_000, None), (what, how)
        assert (await ledger.apply(withdraw())).balance_cents == 500


async def test_a_task_that_outlives_the_transaction_goes_on(database_url: str) -> None:
    """What after starts without awaiting it may use the ledger once the call is committed."""
    async with AsyncSqlLedger(database_url) as ledger:
        await ledger.open_account("p1", Decimal(10))
        committed = asyncio.Event()
        later: list[Awaitable[Outcome]] = []

        async def after_the_commit() -> Outcome:
            await committed.wait()
            return await ledger.apply(claim())

        def after(*_args: object) -> None:
            later.append(asyncio.ensure_future(after_the_commit()))

        await ledger.apply(withdraw(), terms=Terms(after=after))
        committed.set()
        assert (await later[0]).balance_cents == 800


def test_account_of_answers_something_else_each_time(ledger: Any) -> None:
    """It would be asked for ever, with the write lock held."""
    numbers = itertools.count()
    with pytest.raises(LedgerError, match="something else each time"):
        ledger.apply(withdraw(), terms=_terms("account_of", lambda _call: f"account-{next(numbers)}"))
    assert ledger.apply(withdraw()).balance_cents == 500
