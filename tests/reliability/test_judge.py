"""The judge of the books finds what is wrong: otherwise it would prove nothing that it finds nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from game_operator.ledger import SqlLedger
from tests.support.books import Books, problems, read_books
from tests.support.crowds import open_accounts
from tests.support.traffic import Answer, Log, Traffic, deliver, openings

TRAFFIC = Traffic(1, ["p1", "p2"], 60)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Books, Log]:
    """Sound books, and the answers that were given."""
    folder: Path = tmp_path_factory.mktemp("judge")
    url = f"sqlite:///{folder / 'wallet.db'}"
    open_accounts(url, openings(TRAFFIC.players))
    log: Log = []
    with SqlLedger(url) as ledger:
        deliver(ledger.apply, [*TRAFFIC.arrivals(), *TRAFFIC.in_order()], log)
    return read_books(url), log


def test_sound_books(run: tuple[Books, Log]) -> None:
    """Beside each of the faults below."""
    books, log = run
    assert problems(books, TRAFFIC.stories, log) == []
    assert {bet.state for bet in books.bets.values()} > {"OPEN", "CLOSED", "ROLLED_BACK", "DECLINED"}


def _last_movement(books: Books, times: int) -> Books:
    """Return the books with the last movement made so many times, balance and all."""
    *others, last = books.postings
    account = last.from_account or last.to_account or ""
    moved = (times - 1) * (last.amount_cents if last.to_account else -last.amount_cents)
    made = [last._replace(at_millis=last.at_millis + number) for number in range(times)]
    return books._replace(accounts={**books.accounts, account: books.accounts[account] + moved}, postings=others + made)


def _in_state(books: Books, state: str, other: str) -> Books:
    bet_id = next(key for key, bet in books.bets.items() if bet.state == state)
    return books._replace(bets={**books.bets, bet_id: books.bets[bet_id]._replace(state=other)})


def _of_nobody(books: Books) -> Books:
    known = {key: call for key, call in books.calls.items() if key[1] != books.postings[-1].tx_id}
    return books._replace(calls=known)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda books: books._replace(accounts={**books.accounts, "p1": 1}), id="a balance of its own"),
        pytest.param(lambda books: _last_movement(books, 2), id="a movement twice"),
        pytest.param(lambda books: _last_movement(books, 0), id="a movement lost"),
        pytest.param(_of_nobody, id="a movement of no call"),
        pytest.param(lambda books: _in_state(books, "CLOSED", "OPEN"), id="credited and OPEN"),
        pytest.param(lambda books: _in_state(books, "ROLLED_BACK", "TOMBSTONE"), id="debited and a tombstone"),
        pytest.param(lambda books: _in_state(books, "DECLINED", "OPEN"), id="OPEN and not debited"),
        pytest.param(lambda books: books._replace(bets=dict(list(books.bets.items())[1:])), id="a bet lost"),
    ],
)
def test_unsound_books(run: tuple[Books, Log], change: Callable[[Books], Books]) -> None:
    """Each fault is found without the answers."""
    assert problems(change(run[0]), TRAFFIC.stories) != []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda answer: answer._replace(balance_cents=answer.balance_cents + 1), id="another balance"),
        pytest.param(lambda answer: answer._replace(at_millis=answer.at_millis - 3_600_000), id="an earlier time"),
        pytest.param(lambda answer: answer._replace(code="BET_ROLLED_BACK"), id="another code"),
    ],
)
def test_dishonest_answers(run: tuple[Books, Log], change: Callable[[Answer], Answer]) -> None:
    """An answer that the books do not bear out is found among all others."""
    books, log = run
    chosen = next(
        number
        for number, answer in enumerate(log)
        if answer.code is None
        and answer.call.operation == "withdraw"
        and books.bets[answer.call.bet_id].state == "CLOSED"
    )
    changed = [*log[:chosen], change(log[chosen]), *log[chosen + 1 :]]
    assert len(problems(books, TRAFFIC.stories, changed)) == 1
