"""A call in the operator's own transaction, over every kind of connection and both databases."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Any

import pytest

from game_operator.errors import TransactionRequiredError
from game_operator.ledger import TableAccounts, Terms
from game_operator.models.webhooks import MovingCall
from tests.support.callers import KINDS, CallerKind, Joining
from tests.support.calls import deposit, rollback, withdraw
from tests.support.raw_sql import run, wait_for_a_lock

pytestmark = [
    pytest.mark.drawn(36, kind=[str(kind) for kind in KINDS if kind.name not in ("sqlite3", "psycopg async")]),
]

PLAYERS = TableAccounts(table="players", key="id", balance="balance", unit="units")

_PSYCOPG = next(kind for kind in KINDS if kind.name == "psycopg")

_TABLES = (
    "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance numeric(14, 2) NOT NULL)",
    "CREATE TABLE journal (entry varchar(40) PRIMARY KEY)",
    "INSERT INTO players VALUES ('p1', 10.00)",
    "INSERT INTO players VALUES ('p2', 10.00)",
)


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> CallerKind:
    """Each kind of connection."""
    chosen: CallerKind = request.param
    return chosen


@pytest.fixture
def url(kind: CallerKind, url_of: Callable[[str], str]) -> str:
    """A database with the operator's tables, of the kind that the connection is for."""
    address = url_of(kind.database)
    for statement in _TABLES:
        run(address, statement)
    return address


@pytest.fixture
def caller(kind: CallerKind, url: str) -> Iterator[Joining]:
    """A caller with no transaction yet."""
    with kind.open(url, accounts=PLAYERS) as joining:
        yield joining


def _left(caller: Joining) -> dict[str, int]:
    """Return how many rows there are; the transaction it reads in is over afterwards."""
    caller.begin()
    tables = ("calls", "bets", "postings", "anomalies", "clocks")
    counts = {name: caller.scalar(f"SELECT count(*) FROM game_operator_{name}") for name in tables}
    counts["journal"] = caller.scalar("SELECT count(*) FROM journal")
    counts["cents"] = int(caller.scalar("SELECT sum(balance) FROM players") * 100)
    caller.rollback()
    return {name: number for name, number in counts.items() if number}


def test_nothing_is_left_when_the_second_statement_fails(caller: Joining) -> None:
    """A statement of the caller's that fails after the call leaves neither debit nor bet; the repeat is applied."""
    caller.begin()
    caller.execute("INSERT INTO journal VALUES ('taken')")
    caller.commit()
    caller.begin()
    assert caller.apply(withdraw()).applied
    with pytest.raises(Exception, match=r"(?i)unique"):
        caller.execute("INSERT INTO journal VALUES ('taken')")
    caller.rollback()
    assert _left(caller) == {"journal": 1, "cents": 2000}
    caller.begin()
    assert caller.apply(withdraw()).applied
    caller.commit()
    assert _left(caller)["cents"] == 1500


def test_a_round_of_calls_in_one_and_in_several_transactions(caller: Joining) -> None:
    """A repeat is known inside the transaction and in the next; deposit and rollback move on (spec §3)."""
    caller.begin()
    assert caller.apply(withdraw()).applied
    again = caller.apply(withdraw())
    assert (again.replayed, again.applied, again.balance_cents) == (True, False, 500)
    caller.commit()
    caller.begin()
    assert caller.apply(withdraw()).replayed
    assert caller.apply(deposit()).balance_cents == 1750
    assert caller.apply(rollback()).code == "BET_ALREADY_CLOSED"
    caller.commit()
    assert _left(caller)["cents"] == 2750


def test_without_a_transaction(caller: Joining, kind: CallerKind) -> None:
    """Where each statement would commit by itself the call is refused; where the driver begins, it is the caller's."""
    if kind.begins_by_itself:
        assert caller.apply(withdraw()).applied
        caller.rollback()
    else:
        with pytest.raises(TransactionRequiredError, match=r"no open transaction.*begin"):
            caller.apply(withdraw())
    assert _left(caller) == {"cents": 2000}


def test_after_is_given_the_callers_own_connection(caller: Joining) -> None:
    """``after`` and ``may_bet`` of the terms work here too, with the very object that was passed."""
    seen: list[Any] = []
    terms = Terms(
        may_bet=lambda call, account, connection: seen.extend([account.balance_cents, connection]),
        after=lambda call, outcome, connection: seen.extend([outcome.code, connection]),
    )
    caller.begin()
    caller.apply(withdraw(), terms)
    caller.commit()
    assert seen[::2] == [1000, None]
    assert all(each is caller.connection for each in seen[1::2])


def test_what_fails_in_a_call_does_not_abort_the_callers_transaction(caller: Joining) -> None:
    """An error of the operator's own code passes through as it is, and only the call is undone."""

    class OddError(Exception):
        pass

    def fail(*_: object) -> str:
        raise OddError

    caller.begin()
    caller.execute("INSERT INTO journal VALUES ('before')")
    for terms in (Terms(after=fail), Terms(may_bet=fail), Terms(account_of=fail)):
        with pytest.raises(OddError):
            caller.apply(withdraw(), terms)
    caller.execute("INSERT INTO journal VALUES ('after')")
    caller.commit()
    assert _left(caller) == {"journal": 2, "cents": 2000}


#: What another machine has begun, what is applied meanwhile, its code, and what the players hold in the end.
_RACES: dict[str, tuple[MovingCall, MovingCall, str | None, int]] = {
    # Calls of two players lock different rows: the second meets the first's bet, and is no error.
    "one bet id": (withdraw(player_id="p2"), withdraw(), "DUPLICATE_TRANSACTION", 1500),
    "the same call": (withdraw(), withdraw(), None, 1500),
    "unknown player": (withdraw(player_id="p9"), withdraw(player_id="p9"), "PLAYER_NOT_FOUND", 2000),
    "its rollback": (rollback(), withdraw(), "BET_ROLLED_BACK", 2000),
    "money for one": (withdraw("b2", amount_cents=900), withdraw(), "INSUFFICIENT_BALANCE", 1100),
    "a declined bet": (withdraw(player_id="p9"), rollback(), "BET_NOT_FOUND", 2000),
}
_RACED = [(kind, race) for race in _RACES for kind in KINDS if race == "one bet id" or kind in (KINDS[0], _PSYCOPG)]


@pytest.mark.parametrize(("kind", "race"), _RACED, ids=str, indirect=["kind"])
def test_a_race_with_another_machine_is_decided_from_what_it_committed(
    caller: Joining, url: str, kind: CallerKind, race: str
) -> None:
    """While theirs is not committed ours waits; it is answered, moves nothing, and its transaction goes on."""
    theirs, ours, code, cents = _RACES[race]

    def second() -> tuple[str | None, bool]:
        caller.begin()
        outcome = caller.apply(ours)
        caller.execute("INSERT INTO journal VALUES ('second')")
        caller.commit()
        return outcome.code, outcome.applied

    maker = KINDS[0] if kind.database == "sqlite" else _PSYCOPG
    with maker.open(url, accounts=PLAYERS) as first, ThreadPoolExecutor(1) as threads:
        first.begin()
        first.apply(theirs)
        running = threads.submit(second)
        sleep(0.05) if kind.database == "sqlite" else wait_for_a_lock(url)  # On SQLite BEGIN waits already.
        assert not running.done()
        first.commit()
        assert running.result(timeout=30) == (code, False)
    left = _left(caller)
    assert (left["journal"], left["cents"]) == (1, cents)


@pytest.mark.parametrize(
    "kind",
    [
        each
        for each in KINDS
        if each.name in ("sqlite3", "psycopg", "sqlalchemy async session, asyncpg", "django, postgres")
    ],
    ids=str,
    indirect=True,
)
def test_callers_on_one_hot_player(kind: CallerKind, url: str) -> None:
    """Two callers play the same bets of one player at once, and roll back now and then: each bet is debited once."""

    def play(caller: Joining, number: int) -> int:
        applied = 0
        for bet in range(12):
            for repeat in range(2):
                caller.begin()
                outcome = caller.apply(withdraw(f"b{bet}", amount_cents=10))
                if not outcome.replayed:
                    caller.execute(f"INSERT INTO journal VALUES ('b{bet}')")
                undo = repeat == 0 and bet % 3 == number
                (caller.rollback if undo else caller.commit)()
                applied += outcome.applied and not undo
        return applied

    with (
        kind.open(url, accounts=PLAYERS) as one,
        kind.open(url, accounts=PLAYERS) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        assert sum(pool.map(play, (one, two), (0, 1))) == 12
        assert _left(one) == {"calls": 12, "bets": 12, "postings": 12, "clocks": 1, "journal": 12, "cents": 1880}
