"""Limits and self-exclusion as the example has them: no race passes them, and open bets are paid."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.models.webhooks import Reply
from testkit.tests.certifier.example_wallets import import_example
from tests.support.calls import deposit, rollback, withdraw

pytestmark = [pytest.mark.artefact, pytest.mark.outside]

_FILE = Path(__file__).parents[3] / "examples" / "limits_and_self_exclusion.py"
_BETS, _WAGER = 64, 100


@pytest.fixture
def example(postgres_url: str) -> Any:  # Any: a module that nobody knows by its type.
    """The example, and a player who may lose ten wagers a day and place twenty a week."""
    module = import_example(_FILE.stem)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(module.TABLES)
        connection.execute("INSERT INTO players VALUES ('p1', 100000)")
        connection.execute(f"INSERT INTO protection VALUES ('p1', '-infinity', {10 * _WAGER}, {20 * _WAGER})")
    return module


def _in_threads(example: ModuleType, url: str, calls: list[Any]) -> list[Reply]:
    with SqlLedger(url, accounts=example.PLAYERS) as ledger, ThreadPoolExecutor(16) as pool:
        wallet = example.wallet_of(ledger, url)
        replies: list[Reply] = list(pool.map(lambda call: getattr(wallet, call.operation)(call), calls))
        return replies


def _in_asyncio(example: ModuleType, url: str, calls: list[Any]) -> list[Reply]:
    async def replies() -> list[Reply]:
        async with AsyncSqlLedger(url, accounts=example.PLAYERS) as ledger:
            wallet = example.async_wallet_of(ledger, url)
            replies: list[Reply] = await asyncio.gather(*(getattr(wallet, call.operation)(call) for call in calls))
            return replies

    return asyncio.run(replies())


@pytest.fixture(params=[_in_threads, _in_asyncio], ids=["threads", "asyncio"])
def replies_to(request: pytest.FixtureRequest, example: ModuleType, postgres_url: str) -> Any:
    """Send calls at once, and return their replies."""
    chosen: Callable[..., list[Reply]] = request.param
    return lambda *calls: chosen(example, postgres_url, list(calls))


def _codes(replies: list[Reply]) -> dict[str | None, int]:
    codes = [reply.code for reply in replies]
    return {code: codes.count(code) for code in set(codes)}


def test_many_bets_at_once_stay_within_the_day(replies_to: Any) -> None:
    """Sixty-four bets under a limit that ten fill: ten."""
    found = replies_to(*(withdraw(f"b{number}", amount_cents=_WAGER) for number in range(_BETS)))
    assert _codes(found) == {None: 10, "LIMIT_EXCEEDED": _BETS - 10}


def test_the_limit_counts_to_the_cent(replies_to: Any) -> None:
    """Both sides of it."""
    assert _codes(replies_to(withdraw("b1", amount_cents=10 * _WAGER + 1))) == {"LIMIT_EXCEEDED": 1}
    assert _codes(replies_to(withdraw("b2", amount_cents=10 * _WAGER))) == {None: 1}
    assert _codes(replies_to(withdraw("b3", amount_cents=1))) == {"LIMIT_EXCEEDED": 1}
    assert _codes(replies_to(withdraw("r1", amount_cents=1, action="RAIN"))) == {None: 1}, "it is no wager"


def test_what_comes_back_makes_room_for_a_day_and_not_for_the_week(replies_to: Any) -> None:
    """A win reduces the loss; the wagers of the week stay. A rollback takes the wager out of both."""
    replies_to(withdraw("b1", amount_cents=1_000))
    replies_to(deposit("b1", amount_cents=1_000))
    assert _codes(replies_to(withdraw("b2", amount_cents=1_000))) == {None: 1}
    replies_to(deposit("b2", amount_cents=1_000))
    assert _codes(replies_to(withdraw("b3", amount_cents=1))) == {"LIMIT_EXCEEDED": 1}
    replies_to(withdraw("b4", "p1", amount_cents=1))  # Declined for good: its rollback makes no room.
    replies_to(rollback("b4"))
    assert _codes(replies_to(withdraw("b5", amount_cents=1))) == {"LIMIT_EXCEEDED": 1}


def test_an_excluded_player_is_paid_and_bets_no_more(example: ModuleType, postgres_url: str, replies_to: Any) -> None:
    """From the commit of the exclusion on, with bets under way; it never gets shorter."""
    replies_to(withdraw("b1", amount_cents=_WAGER))
    with psycopg.connect(postgres_url) as connection:
        assert example.may_play(connection, "p1")
        example.exclude(connection, "p1")
    with psycopg.connect(postgres_url) as connection:
        example.exclude(connection, "p1", "2020-01-01")
    assert _codes(replies_to(*(withdraw(f"c{number}", amount_cents=1) for number in range(8)))) == {"PLAYER_BLOCKED": 8}
    assert _codes(replies_to(withdraw("r1", amount_cents=1, action="RAIN"))) == {"PLAYER_BLOCKED": 1}
    assert _codes(replies_to(deposit("b1", amount_cents=5))) == {None: 1}
    with psycopg.connect(postgres_url) as connection:
        assert not example.may_play(connection, "p1")


def test_an_exclusion_waits_for_the_bets_under_way(example: ModuleType, postgres_url: str) -> None:
    """Bets that hold the row come first; none that comes after the commit debits."""
    with SqlLedger(postgres_url, accounts=example.PLAYERS) as ledger, ThreadPoolExecutor(9) as pool:
        wallet = example.wallet_of(ledger, postgres_url)
        before = [pool.submit(wallet.withdraw, withdraw(f"a{number}", amount_cents=1)) for number in range(8)]
        with psycopg.connect(postgres_url) as connection:
            example.exclude(connection, "p1")
        after = [pool.submit(wallet.withdraw, withdraw(f"b{number}", amount_cents=1)) for number in range(8)]
        assert {each.result().code for each in before} <= {None, "PLAYER_BLOCKED"}
        assert {each.result().code for each in after} == {"PLAYER_BLOCKED"}
