"""Clocks that step: a later time never goes with an older balance (H04)."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import cast

import pytest

from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import BalanceCall, WebhookCall
from tests.support.books import problems, read_books
from tests.support.calls import withdraw
from tests.support.crowds import in_threads, open_accounts, processes
from tests.support.seeds import random_of
from tests.support.traffic import Log, Traffic, answer_of, deliver, openings, shares

pytestmark = pytest.mark.slow

START_MILLIS = 1_800_000_000_000
TEN_MINUTES = 600_000


class _Clock:
    """A clock that is set as told, step by step; then it stands."""

    def __init__(self, steps: Sequence[int]) -> None:
        self._steps = iter(steps)
        self.now = START_MILLIS

    def __call__(self) -> int:
        self.now += next(self._steps, 0)
        return self.now


def _ask_and_bet(number: int) -> list[WebhookCall]:
    return [BalanceCall(player_id="p1"), withdraw(f"b{number}", amount_cents=7)]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([0] * 200, id="stands still"),
        pytest.param([-1] * 200, id="backwards"),
        pytest.param([1000, -999] * 100, id="back and forth"),
        pytest.param([*[5] * 20, -TEN_MINUTES, *[5] * 20, TEN_MINUTES, *[5] * 20], id="ten minutes back, then on"),
    ],
)
def test_later_times_never_go_with_older_balances(sqlite_url: str, steps: list[int]) -> None:
    """H04: the machine's clock is set while money moves and balances are asked for: by time, the balance only falls."""
    _open_early(sqlite_url)
    log: Log = []
    with SqlLedger(sqlite_url, clock_millis=_Clock(steps)) as ledger:
        for number in range(60):
            log += [answer_of(call, ledger.apply(call), 0) for call in _ask_and_bet(number)]
    told = [(answer.at_millis, -(answer.balance_cents or 0)) for answer in log]
    assert told == sorted(told)
    assert all(answer.code is None for answer in log)
    assert problems(read_books(sqlite_url), (), log) == []


def _open_early(url: str) -> None:
    """Open the account at the clock's first time, and not today's."""
    with SqlLedger(url, clock_millis=lambda: START_MILLIS - TEN_MINUTES) as ledger:
        ledger.open_account("p1", Decimal(10000))


def _told(url: str, now_millis: int, number: int) -> Log:
    """Ask and bet as a process whose clock stands at *now_millis*."""
    with SqlLedger(url, clock_millis=lambda: now_millis) as ledger:
        return [answer_of(call, ledger.apply(call), 0) for call in _ask_and_bet(number)]


def test_two_clocks_ten_minutes_apart(sqlite_url: str) -> None:
    """H04: two processes whose clocks disagree: what moves money is in order all the same, and flows work."""
    _open_early(sqlite_url)
    log: Log = []
    with processes(1) as other:
        for number in range(0, 20, 2):
            log += _told(sqlite_url, START_MILLIS, number)
            # A Log, from the other side of a pipe.
            log += cast("Log", other.submit(_told, sqlite_url, START_MILLIS + TEN_MINUTES, number + 1).result())
    assert [answer.code for answer in log] == [None] * 40
    left = [1_000_000 - 7 * number for number in range(21)]
    assert [answer.balance_cents for answer in log] == [cents for pair in pairwise(left) for cents in pair]
    moved = [answer.at_millis or 0 for answer in log if answer.call.operation == "withdraw"]
    assert moved == sorted(set(moved))
    assert max(moved) >= START_MILLIS + TEN_MINUTES
    # A balance that was told before the next movement, with a time after it, is what nobody can promise.
    assert problems(read_books(sqlite_url), (), [answer for answer in log if answer.call.operation == "withdraw"]) == []


def test_a_clock_that_steps_under_load(sqlite_url: str) -> None:
    """H04: eight threads while the clock is set to and fro at random: the books bear out every time that was told."""
    random = random_of(4)
    names = ["p1", "p2", "p3"]
    open_accounts(sqlite_url, openings(names))
    traffic = Traffic(4, names, 120)
    steps = [random.choice((1, 1, 1, 2_000, -2_000, 60_000, -60_000)) for _ in range(5_000)]
    clock = _Clock(steps)
    clock.now += TEN_MINUTES
    with SqlLedger(sqlite_url, clock_millis=clock) as ledger:
        answers = in_threads(ledger.apply, shares(traffic.arrivals(), 8))
        deliver(ledger.apply, traffic.in_order(), answers)
    assert problems(read_books(sqlite_url), traffic.stories, answers) == []
