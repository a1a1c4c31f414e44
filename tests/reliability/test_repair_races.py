"""Races of repairs with the calls they stand for and with each other, and of payments: one movement, whoever wins."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.errors import RepairRefusedError
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import DepositCall, RollbackCall
from tests.support.calls import deposit, rollback, withdraw
from tests.support.crowds import PATIENCE_SECONDS, Processes
from tests.support.raw_sql import rows
from tests.support.repairs import findings, lost, pay_there, repair, repair_there, won

pytestmark = pytest.mark.outside

ROUNDS = 6


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    """A ledger in which p1 has 100.00."""
    with SqlLedger(url, patience_seconds=PATIENCE_SECONDS) as ledger:
        ledger.open_account("p1", Decimal("100.00"))
        yield ledger


def _open_bets(ledger: SqlLedger) -> Iterator[tuple[str, int]]:
    """Open a bet for each round; yield it, and what p1 then holds."""
    for number in range(ROUNDS):
        ledger.apply(withdraw(f"b{number}"))
        yield f"b{number}", ledger.balance("p1")


def _settled(url: str, bet_id: str) -> list[tuple[str, int]]:
    """Return the postings that a bet has beside its wager."""
    return rows(
        url,
        "SELECT p.operation, p.amount_cents FROM {p}postings AS p JOIN {p}calls AS c "
        "ON c.source = p.source AND c.operation = p.operation AND c.tx_id = p.tx_id "
        "WHERE c.bet_id = ? AND p.operation <> 'withdraw'",
        bet_id,
    )


def _raced(url: str, works: Sequence[Callable[[SqlLedger], Any]]) -> list[Any]:
    """Do each in a thread with a separate ledger, all at the same moment; a refused repair is None."""
    start = Barrier(len(works))

    def run(work: Callable[[SqlLedger], Any]) -> Any:
        with SqlLedger(url, migrate=False, patience_seconds=PATIENCE_SECONDS) as mine:
            start.wait()
            try:
                return work(mine)
            except RepairRefusedError:
                return None

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


@pytest.mark.parametrize(
    ("stands_for", "cents"),
    [
        pytest.param(won(700), 700, id="a win"),
        pytest.param(won(0), 0, id="a loss"),
        pytest.param(lost(), 500, id="a refund"),
    ],
)
@pytest.mark.drawn(2)
def test_a_repair_and_the_call_it_stands_for(
    ledger: SqlLedger, url: str, stands_for: DepositCall | RollbackCall, cents: int
) -> None:
    """In threads: the call is answered SUCCESS either way, and the money moves once."""
    for bet_id, before in _open_bets(ledger):
        is_win = isinstance(stands_for, DepositCall)
        ours = won(cents, bet_id) if is_win else lost(bet_id)
        theirs = deposit(bet_id, amount_cents=cents) if is_win else rollback(bet_id, tx_id=None)
        repaired, outcome = _raced(url, [lambda mine: repair(mine, ours), lambda mine: mine.apply(theirs)])  # noqa: B023 - run at once
        assert outcome.code is None
        assert outcome.applied is (repaired is None)
        assert ledger.balance("p1") == before + cents
        bet = ledger.bet(bet_id)
        assert bet is not None
        assert (bet.settled_by is None) is (repaired is None)
        assert bet.deposit_tx_id == (theirs.tx_id if is_win else None)
        assert len(_settled(url, bet_id)) == (1 if cents else 0)
    assert findings(ledger) == []
    assert ledger.verify().findings == ()


def test_a_repair_and_a_call_that_says_something_else(ledger: SqlLedger, url: str) -> None:
    """Who comes first settles; what the other says moves nothing, and is owed if it is the call."""
    for bet_id, before in _open_bets(ledger):
        ours, theirs = lost(bet_id), deposit(bet_id, amount_cents=900)
        repaired, outcome = _raced(url, [lambda mine: repair(mine, ours), lambda mine: mine.apply(theirs)])  # noqa: B023 - run at once
        owed = [found.owed_cents for found in findings(ledger) if found.subject == bet_id]
        if repaired is None:
            assert (outcome.applied, owed, ledger.balance("p1")) == (True, [], before + 900)
        else:
            assert (outcome.code, owed, ledger.balance("p1")) == ("BET_ROLLED_BACK", [400], before + 500)
        assert len(_settled(url, bet_id)) == 1
    assert ledger.verify().findings == ()


def _done_by_one(crowd: Processes, does: Callable[..., str], url: str, works: Sequence[object], refusal: str) -> bool:
    """Do each of *works* in a process, all at the same moment; return whether one did it; the others say why not."""
    first, *others = sorted(str(each.result()) for each in [crowd.submit(does, url, work) for work in works])
    return first == "" and all(f"{refusal}. Nothing was moved." in each for each in others)


def test_processes_repair_once(ledger: SqlLedger, url: str, crowd: Processes) -> None:
    """Of four, of which some refund, one settles the bet, each time."""
    for bet_id, before in _open_bets(ledger):
        assert _done_by_one(crowd, repair_there, url, [won(700, bet_id), lost(bet_id)] * 2, "an OPEN bet is settled")
        bet = ledger.bet(bet_id)
        assert bet is not None
        cents = 700 if bet.state is BetState.CLOSED else 500
        assert _settled(url, bet_id) == [("reconcile", cents)]
        assert ledger.balance("p1") == before + cents
    assert ledger.verify().findings == ()


def test_processes_pay_once(ledger: SqlLedger, url: str, crowd: Processes) -> None:
    """Of four, one pays what a late call says is owed, each time."""
    for bet_id, before in _open_bets(ledger):
        repair(ledger, won(0, bet_id))
        ledger.apply(deposit(bet_id, amount_cents=700))
        assert _done_by_one(crowd, pay_there, url, [findings(ledger)[-1].id] * 4, "by ann already")
        assert ledger.balance("p1") == before + 700
    assert ledger.verify().findings == ()
