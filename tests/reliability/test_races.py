"""
Races: threads and processes on one database, hot players and many, and pairs of calls that must not both win.

What is asserted is never who wins, but that the books bear out every answer (spec §3, §6 promise no order).
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest

from game_operator.ledger import SqlLedger
from game_operator.ledger.api import DEFAULT_TERMS
from game_operator.ledger.rules.book import Item
from game_operator.models.webhooks import BalanceCall, DepositCall, WebhookCall, WithdrawCall
from tests.support.books import problems, read_books
from tests.support.calls import deposit, rollback, withdraw
from tests.support.crowds import Processes, codes, in_threads, open_accounts
from tests.support.filled_books import fill_players
from tests.support.leftovers import assert_idle, nothing_grows
from tests.support.traffic import TOO_DEAR_CENTS, Log, Traffic, deliver, openings, shares

pytestmark = pytest.mark.outside

THREADS = 16


def _by_process(calls: Sequence[WebhookCall], crowd: Processes, threads: int) -> list[list[list[WebhookCall]]]:
    return [shares(share, threads) for share in shares(calls, crowd.count)]


def _mixed(url: str, here: Traffic, there: Traffic, cents: int, crowd: Processes, *, seconds: float = 60.0) -> Log:
    """Send from 4 threads in each process and from 16 here; assert that the books bear out every answer."""
    open_accounts(url, openings(here.players, cents))
    with SqlLedger(url, patience_seconds=seconds / 2) as ledger, ThreadPoolExecutor(1) as beside:
        elsewhere = beside.submit(crowd.send, url, _by_process(there.arrivals(), crowd, 4))
        answers = in_threads(ledger.apply, shares(here.arrivals(), THREADS), seconds=seconds) + elsewhere.result()
        deliver(ledger.apply, [*here.in_order(), *there.in_order()], answers, seconds=seconds)
    assert problems(read_books(url), [*here.stories, *there.stories], answers) == []
    assert_idle(url)
    return answers


@pytest.mark.parametrize(
    ("players", "cents"),
    [pytest.param(1, 10**9, id="one hot player, rich"), pytest.param(100, 500, id="a hundred players, poor")],
)
@pytest.mark.drawn(2)
def test_16_threads_and_4_processes_conserve_money(url: str, players: int, cents: int, crowd: Processes) -> None:
    """D05, D06: mixed traffic from 4 threads in each of 4 processes and 16 here; the books bear out every answer."""
    names, poor = [f"p{number}" for number in range(players)], cents < 10**9
    here, there = Traffic(1, names, 60, poor=poor, name="here"), Traffic(2, names, 100, poor=poor, name="there")
    with nothing_grows():
        answers = _mixed(url, here, there, cents, crowd)
    # The rich decline no more than the wagers that nobody can pay.
    declined = {answer.code for answer in answers if answer.call.operation == "withdraw" and _is_usual(answer.call)}
    assert ("INSUFFICIENT_BALANCE" in declined) == poor


def _is_usual(call: WebhookCall) -> bool:
    return isinstance(call, WithdrawCall) and call.amount_cents < TOO_DEAR_CENTS


def test_identical_calls_from_all_threads_and_processes(url: str, crowd: Processes) -> None:
    """D02, D06: the same withdraw from everybody at once, then the same deposit: one debit, one credit, all SUCCESS."""
    open_accounts(url, {"p1": 10_000})
    with SqlLedger(url, patience_seconds=30) as ledger, ThreadPoolExecutor(1) as beside:
        for call in (withdraw(), deposit()):
            elsewhere = beside.submit(crowd.send, url, [[[call]] * 4] * crowd.count)
            answers = in_threads(ledger.apply, [[call]] * THREADS) + elsewhere.result()
            assert codes(answers, call.operation) == [None] * 32
    books = read_books(url)
    assert books.accounts == {"p1": 10_000 - 500 + 1250}
    assert len(books.postings) == 3
    assert problems(books) == []


@contextmanager
def _two_machines(url: str) -> Iterator[Callable[[WebhookCall, WebhookCall], list[str | None]]]:
    """Yield what sends two calls at the same moment, by a ledger each, and returns their codes."""
    start = Barrier(2)

    def send(ledger: SqlLedger, call: WebhookCall) -> str | None:
        start.wait()
        return ledger.apply(call).code

    opened = (SqlLedger(url, patience_seconds=30) for _ in range(2))
    with next(opened) as one, next(opened) as other, ThreadPoolExecutor(2) as pool:
        yield lambda *calls: list(pool.map(send, (one, other), calls))


def test_withdraw_against_its_rollback_on_an_unseen_bet(url: str) -> None:
    """D08, D03: 200 times at once from two machines: refunded or never debited, and no debit beside a tombstone."""
    open_accounts(url, {"p1": 100_000})
    with _two_machines(url) as race:
        for number in range(200):
            bet_id = f"b{number}"
            one, other = withdraw(bet_id), rollback(bet_id, tx_id=f"withdraw:bet:{bet_id}")
            ends = race(one, other)
            assert ends in ([None, None], ["BET_ROLLED_BACK", "BET_NOT_FOUND"]), f"{bet_id}: {ends}"
    books = read_books(url)
    assert books.accounts == {"p1": 100_000}
    assert {bet.state for bet in books.bets.values()} <= {"TOMBSTONE", "ROLLED_BACK"}
    assert problems(books) == []


def test_withdraw_against_its_rollback_of_an_unknown_player(url: str) -> None:
    """Without an account there is no row to lock, and the constraints alone decide: declined, or a tombstone."""
    open_accounts(url, {})
    with _two_machines(url) as race:
        for number in range(50):
            bet_id = f"b{number}"
            ends = race(withdraw(bet_id), rollback(bet_id, tx_id=f"withdraw:bet:{bet_id}"))
            assert ends == ["PLAYER_NOT_FOUND", "PLAYER_NOT_FOUND"]
    books = read_books(url)
    assert len(books.bets) == 50
    assert {bet.state for bet in books.bets.values()} <= {"TOMBSTONE", "DECLINED"}
    assert problems(books) == []


def test_deposit_against_rollback(url: str) -> None:
    """D04: of the deposit and the rollback of one bet exactly one wins, and the other is told so."""
    open_accounts(url, {"p1": 100_000})
    with SqlLedger(url) as ledger, _two_machines(url) as race:
        for number in range(50):
            bet_id = f"b{number}"
            assert ledger.apply(withdraw(bet_id)).applied
            ends = race(deposit(bet_id), rollback(bet_id, tx_id=f"withdraw:bet:{bet_id}"))
            assert ends in ([None, "BET_ALREADY_CLOSED"], ["BET_ROLLED_BACK", None]), f"{bet_id}: {ends}"
    assert problems(read_books(url)) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(withdraw(), withdraw("b2", tx_id="withdraw:bet:b1"), id="one identity, two bets"),
        pytest.param(withdraw(), withdraw(tx_id="other"), id="one bet, two identities"),
        pytest.param(withdraw(), withdraw(amount_cents=501), id="one identity, two amounts"),
        pytest.param(withdraw(), withdraw(player_id="p2"), id="one identity, two players"),
        pytest.param(withdraw(tx_id="w1"), withdraw(player_id="p2", tx_id="w2"), id="one bet, two players"),
    ],
)
@pytest.mark.drawn(5)
def test_conflicting_withdraws(url: str, first: WithdrawCall, second: WithdrawCall) -> None:
    """B04, B12, B13 as a race: what has no lock in common is kept apart by the constraints: one debit."""
    with _two_machines(url) as race:
        for number in range(15):
            open_accounts(url, {f"p1.{number}": 10_000, f"p2.{number}": 10_000})
            ends = race(_renamed(first, number), _renamed(second, number))
            assert sorted(ends, key=str) == ["DUPLICATE_TRANSACTION", None]
    assert problems(read_books(url)) == []


def _renamed(call: WithdrawCall, number: int) -> WithdrawCall:
    """Return the same call of another world: no player, bet or identity of it is in any other."""
    player_id, bet_id, tx_id = (f"{name}.{number}" for name in (call.player_id, call.bet_id, call.tx_id))
    return WithdrawCall(player_id=player_id, bet_id=bet_id, tx_id=tx_id, amount_cents=call.amount_cents)


def test_same_call_twice_in_one_commit(url: str) -> None:
    """D09: a batch that holds the same calls several times moves each once, and answers all."""
    open_accounts(url, {"p1": 600, "p2": 1_000})
    claim = DepositCall(player_id="p2", amount_cents=70, action="JACKPOT", tx_id="j1")
    calls: list[WebhookCall] = [withdraw(), withdraw(), claim, deposit(), deposit(), claim, withdraw(), withdraw("b2")]
    calls += [
        rollback("b2", tx_id="withdraw:bet:b2"),
        rollback("b2", tx_id="withdraw:bet:b2"),
        BalanceCall(player_id="p1"),
    ]
    with SqlLedger(url) as ledger:
        results = ledger._apply_all([Item(call, DEFAULT_TERMS) for call in calls])
    assert [getattr(result, "code", result) for result in results] == [None] * len(calls)
    books = read_books(url)
    assert books.accounts == {"p1": 600 - 500 + 1250, "p2": 1_070}
    assert problems(books) == []


def test_a_batch_cannot_overdraw(url: str) -> None:
    """D09: two withdraws in one commit, money for one: one is taken, the other declined, also when sent twice."""
    open_accounts(url, {"p1": 600})
    calls = [withdraw("b1"), withdraw("b2"), withdraw("b1"), withdraw("b2")]
    with SqlLedger(url) as ledger:
        results = ledger._apply_all([Item(call, DEFAULT_TERMS) for call in calls])
    answered = [getattr(result, "code", result) for result in results]
    assert answered in ([None, "INSUFFICIENT_BALANCE"] * 2, ["INSUFFICIENT_BALANCE", None] * 2)
    assert problems(read_books(url)) == []


@pytest.mark.drawn(1)
def test_timestamps_of_one_player_over_two_machines(url: str, crowd: Processes) -> None:
    """D07: with player-balance and several processes, a later answer never carries an older balance."""
    open_accounts(url, {"p1": 10**9})
    ask = BalanceCall(player_id="p1")
    calls = [
        [call for number in range(25) for call in (withdraw(f"{name}-{number}", amount_cents=1), ask)]
        for name in range(crowd.count)
    ]
    answers = crowd.send(url, [[share, [ask] * 50] for share in calls])
    assert problems(read_books(url), (), answers) == []
    in_time = sorted(answers, key=lambda answer: (answer.at_millis, -(answer.balance_cents or 0)))
    balances = [answer.balance_cents or 0 for answer in in_time]
    # Every call is a withdraw or a question: by time, the balance only falls.
    assert balances == sorted(balances, reverse=True)


@pytest.mark.drawn(1)
def test_a_thousand_players(url: str, crowd: Processes) -> None:
    """D05: a thousand players, mixed traffic, four processes: no deadlock that is not resolved, no lost update."""
    fill_players(url, 1000)
    traffic = Traffic(5, [f"p{number}" for number in range(1, 1001)], 200)
    answers = crowd.send(url, _by_process(traffic.arrivals(), crowd, 4))
    with SqlLedger(url, patience_seconds=30) as ledger:
        deliver(ledger.apply, traffic.in_order(), answers)
    assert problems(read_books(url), traffic.stories, answers) == []


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10))
def test_long_histories(url: str, seed: int, crowd: Processes, record_property: Callable[[str, object], None]) -> None:
    """What 16 threads and 4 processes did above, ten times over and ten times as long."""
    names = [f"p{number}" for number in range(1 if seed % 2 else 100)]
    here, there = (Traffic(seed, names, 1000, poor=seed % 3 == 0, name=name) for name in ("here", "there"))
    answers = _mixed(url, here, there, 10**9 if seed % 3 else 30_000, crowd, seconds=600)
    record_property("figures", f"{len(names)} players, {len(here.stories) * 2} bets and claims, {len(answers)} calls")
