"""Races of tasks of one event loop, and callers that give up at random moments: the queue goes on."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from game_operator.ledger import AsyncSqlLedger, Outcome, SqlLedger
from game_operator.ledger.api import Account, Terms
from game_operator.models.webhooks import BalanceCall, WebhookCall, WithdrawCall
from tests.support.books import problems, read_books
from tests.support.calls import withdraw
from tests.support.crowds import open_accounts
from tests.support.leftovers import assert_idle, nothing_grows
from tests.support.seeds import random_of
from tests.support.traffic import Answer, Log, Traffic, answer_of, deliver, deliver_async, openings, shares

PLAYERS = [f"p{number}" for number in range(5)]


async def _together(apply: Callable[[WebhookCall], Awaitable[Outcome]], parts: Sequence[Sequence[WebhookCall]]) -> Log:
    log: Log = []
    await asyncio.gather(*(deliver_async(apply, part, log) for part in parts))
    return log


@pytest.mark.parametrize(
    "players", [pytest.param(["p0"], id="one hot player"), pytest.param(PLAYERS, id="many players")]
)
@pytest.mark.drawn(2)
async def test_64_tasks_of_two_ledgers(url: str, players: list[str]) -> None:
    """D05: 32 tasks each on two ledgers of one database: the books bear out every answer."""
    open_accounts(url, openings(players))
    traffic = Traffic(11, players, 150)
    parts = shares(traffic.arrivals(), 64)
    with nothing_grows():
        async with AsyncSqlLedger(url, patience_seconds=30) as one, AsyncSqlLedger(url, patience_seconds=30) as other:
            halves = await asyncio.gather(_together(one.apply, parts[:32]), _together(other.apply, parts[32:]))
            answers = halves[0] + halves[1]
            await deliver_async(one.apply, traffic.in_order(), answers)
    assert problems(read_books(url), traffic.stories, answers) == []
    assert_idle(url)


async def _impatient(
    apply: Callable[[WebhookCall], Awaitable[Outcome]], calls: Sequence[WebhookCall], log: Log, random: Random
) -> int:
    """Send *calls*, giving most of them up at a random moment; return how many were given up."""
    given_up = 0
    for call in calls:
        asked_at = time.monotonic()
        task = asyncio.ensure_future(apply(call))
        if random.random() < 0.7:
            await asyncio.sleep(random.choice((0.0, 0.0, 0.001, 0.004, 0.01)))
            task.cancel()
        try:
            log.append(answer_of(call, await task, asked_at))
        except asyncio.CancelledError:
            given_up += 1
            log.append(Answer(call, "SYSTEM_ERROR", None, None, asked_at, time.monotonic()))
    return given_up


@pytest.mark.slow
async def test_callers_that_give_up(url: str) -> None:
    """A cancelled call is applied or not, and its repeat tells; the queue goes on, and no lock is left."""
    open_accounts(url, openings(PLAYERS))
    traffic = Traffic(12, PLAYERS, 120)
    answers: Log = []
    with nothing_grows():
        async with AsyncSqlLedger(url, patience_seconds=30) as ledger:
            parts = shares(traffic.arrivals(), 16)
            callers = (_impatient(ledger.apply, part, answers, random_of(n)) for n, part in enumerate(parts))
            given_up = sum(await asyncio.gather(*callers))
            assert given_up > 50
            await deliver_async(ledger.apply, traffic.in_order(), answers)
            assert_idle(url, sessions=1)
    assert problems(read_books(url), traffic.stories, answers) == []
    assert_idle(url)


async def test_staff_that_gives_up(url: str) -> None:
    """adjust, balance and open_account run in the caller's task: cancelled at any moment they are applied or not."""
    open_accounts(url, {"p0": 0})
    random = random_of(13)
    async with AsyncSqlLedger(url, patience_seconds=30) as ledger:
        for number in range(40):
            task = asyncio.create_task(ledger.adjust("p0", Decimal("0.01"), reference=f"r{number}"))
            playing = asyncio.create_task(ledger.apply(BalanceCall(player_id="p0")))
            await asyncio.sleep(random.choice((0.0, 0.0005, 0.001, 0.002, 0.005)))
            task.cancel()
            await asyncio.wait([task])
            assert (await playing).code is None
        for number in range(40):
            await ledger.adjust("p0", Decimal("0.01"), reference=f"r{number}")
        assert await ledger.balance("p0") == 40
    assert problems(read_books(url)) == []
    assert_idle(url)


async def test_a_loop_that_ends_in_the_middle(url: str) -> None:
    """The loop is closed with calls under way, as by Ctrl-C: no lock is left, and the repeats tell the rest."""
    open_accounts(url, openings(PLAYERS))
    traffic = Traffic(14, PLAYERS, 100)

    async def interrupted() -> None:
        ledger = AsyncSqlLedger(url, patience_seconds=30)
        async with ledger:
            for call in traffic.arrivals():
                asyncio.ensure_future(ledger.apply(call)).add_done_callback(
                    lambda task: task.cancelled() or task.exception()
                )
            await asyncio.sleep(0.01)

    await asyncio.to_thread(asyncio.run, interrupted())
    assert_idle(url)
    answers: Log = []
    with SqlLedger(url) as ledger:
        deliver(ledger.apply, traffic.in_order(), answers)
    assert problems(read_books(url), traffic.stories, answers) == []


async def test_a_question_to_the_operator_that_fails(url: str) -> None:
    """B07: may_bet raises for some calls of a batch: those alone fail, nothing of them is kept, their repeat passes."""
    open_accounts(url, {"p1": 10_000})
    broken = True

    def may_bet(call: WithdrawCall, _account: Account, _connection: Any) -> str | None:
        if broken and call.bet_id in ("b1", "b3"):
            raise StopIteration(call.bet_id) if call.bet_id == "b1" else LookupError(call.bet_id)
        return None

    terms = Terms(may_bet=may_bet)
    async with AsyncSqlLedger(url) as ledger:
        calls = [ledger.apply(withdraw(f"b{number}", amount_cents=1), terms=terms) for number in range(5)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(end, Outcome) for end in ends] == [True, False, True, False, True]
        assert set(read_books(url).bets) == {"b0", "b2", "b4"}
        broken = False
        assert (await ledger.apply(withdraw("b1", amount_cents=1), terms=terms)).applied
        assert (await ledger.apply(withdraw("b3", amount_cents=1), terms=terms)).applied
    assert problems(read_books(url)) == []
