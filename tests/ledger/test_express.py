"""
The express statement in PostgreSQL: what it takes and leaves to the long way, and what libpq itself takes care of not.

The contract says that the answer is the same either way. Here a call is handed to the statement alone, so that a
condition that is missing or turned round shows, even where a constraint would have caught it.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal

import psycopg
import pytest

from game_operator.codes import BetState
from game_operator.ledger import SqlLedger
from game_operator.ledger.api import DEFAULT_TERMS, Outcome, Terms
from game_operator.ledger.engine.tables import CLOCK
from game_operator.ledger.postgres.express import Express
from game_operator.ledger.postgres.sessions import Prepared
from game_operator.ledger.rules.book import Item
from game_operator.models.webhooks import MovingCall
from game_operator.webhooks import BalanceCall, DepositCall, WithdrawCall
from tests.support.ledgers import funded, funded_async, store_of
from tests.support.raw_sql import wait_for_a_lock

pytestmark = pytest.mark.outside

ELSEWHERE = Terms(source="elsewhere")
#: A player whose bets may be of another account.
OF_ACCOUNT = Terms(account_of=lambda call: "savings")


def withdraw(bet_id: str, cents: int = 100, *, player_id: str = "p1", tx_id: str = "") -> WithdrawCall:
    return WithdrawCall(player_id=player_id, bet_id=bet_id, amount_cents=cents, tx_id=tx_id, body=bet_id.encode())


def deposit(bet_id: str, cents: int = 50, *, player_id: str = "p1", tx_id: str = "") -> DepositCall:
    return DepositCall(player_id=player_id, bet_id=bet_id, amount_cents=cents, tx_id=tx_id)


@pytest.fixture
def ledger(postgres_url: str) -> Iterator[SqlLedger]:
    """p1 has 10.00 after an open bet and a closed one; "held" is a bet of p1 by the account "savings"."""
    ledger = funded(postgres_url, 11)
    for account in ("p2", "savings"):
        ledger.open_account(account, Decimal(10))
    ledger.add_source("")
    ledger.add_source("elsewhere")
    ledger.apply(withdraw("open", tx_id="t-open"))
    ledger.apply(withdraw("closed", tx_id="t-closed"))
    ledger.apply(deposit("closed", 100, tx_id="t-paid"))
    ledger.apply(withdraw("other", tx_id="t-other"), terms=ELSEWHERE)
    ledger.apply(deposit("other", 100, tx_id="t-other-paid"), terms=ELSEWHERE)
    ledger.apply(withdraw("far", player_id="p2", tx_id="t-far"), terms=ELSEWHERE)
    ledger.apply(withdraw("held", tx_id="t-held"), terms=OF_ACCOUNT)
    yield ledger
    ledger.close()


#: Beside each call in a batch, so that the statement for a lone withdraw is not the one that is tried.
BESIDE = withdraw("beside", 1, player_id="p2")


@pytest.mark.parametrize("beside", [pytest.param([], id="alone"), pytest.param([BESIDE], id="in a batch")])
@pytest.mark.parametrize(
    ("call", "is_taken"),
    [
        pytest.param(withdraw("new"), True, id="a new bet"),
        pytest.param(withdraw("new", 1_000), True, id="all of the balance"),
        pytest.param(withdraw("new", 1_001), False, id="a cent more than the balance"),
        pytest.param(withdraw("new", player_id="nobody"), False, id="an unknown account"),
        pytest.param(withdraw("new", tx_id="t-open"), False, id="the identity of another withdraw"),
        pytest.param(withdraw("new", tx_id="t-paid"), True, id="the tx_id of a deposit"),
        pytest.param(withdraw("new", tx_id="t-far"), True, id="the identity of a withdraw elsewhere"),
        pytest.param(withdraw("open", tx_id="t-new"), False, id="a bet that is known"),
        pytest.param(withdraw("far", tx_id="t-new"), True, id="the bet id of a bet elsewhere"),
        pytest.param(deposit("open"), True, id="an open bet"),
        pytest.param(deposit("open", tx_id="t-open"), True, id="the tx_id of a withdraw"),
        pytest.param(deposit("open", tx_id="t-other-paid"), True, id="the identity of a deposit elsewhere"),
        pytest.param(deposit("open", tx_id="t-paid"), False, id="the identity of another deposit"),
        pytest.param(deposit("closed", tx_id="t-new"), False, id="a closed bet"),
        pytest.param(deposit("nowhere"), False, id="an unknown bet"),
        pytest.param(deposit("far", player_id="p2"), False, id="an open bet elsewhere"),
        pytest.param(deposit("open", player_id="p2"), False, id="another player's bet"),
        pytest.param(deposit("held"), False, id="a bet of another account"),
        pytest.param(deposit("held", player_id="savings"), False, id="an account's bet of another player"),
    ],
)
def test_what_is_taken(ledger: SqlLedger, call: MovingCall, is_taken: bool, beside: list[MovingCall]) -> None:
    """A new bet that the account can pay, and a deposit on the player's own open bet; neither identity is known."""
    taken = store_of(ledger).express([Item(each, DEFAULT_TERMS) for each in (call, *beside)])
    assert sorted(taken) == [0] * is_taken + [1] * len(beside)


@pytest.mark.parametrize(
    ("calls", "taken"),
    [
        pytest.param([withdraw("a", 600), withdraw("b", 401)], [], id="withdraws that cannot all be paid"),
        pytest.param([withdraw("a", 600), withdraw("b", 400)], [0, 1], id="withdraws that can"),
        pytest.param([withdraw("a", 1_001), deposit("open", 500)], [1], id="a deposit pays for nothing beside it"),
        pytest.param([withdraw("a"), withdraw("a", tx_id="t-more")], [0], id="one bet twice"),
        pytest.param([withdraw("a", tx_id="t"), withdraw("b", tx_id="t")], [0], id="one identity twice"),
        pytest.param([withdraw("a", tx_id="t"), deposit("open", tx_id="t")], [0, 1], id="one tx_id, two operations"),
        pytest.param([withdraw("a"), deposit("open", 0)], [0, 1], id="a lost bet"),
    ],
)
def test_what_is_taken_of_a_batch(ledger: SqlLedger, calls: Sequence[MovingCall], taken: list[int]) -> None:
    """Each bet and each identity once, and of one account's withdraws all or none."""
    assert sorted(store_of(ledger).express([Item(call, DEFAULT_TERMS) for call in calls])) == taken
    assert ledger.verify().sound


def test_all_of_a_batch_is_stored(ledger: SqlLedger) -> None:
    """The bet keeps its deposit's identity, and a bet that no deposit settles keeps its body's digest."""
    spent = WithdrawCall(player_id="p1", bet_id="rain", amount_cents=100, action="RAIN", body=b"rain")
    store_of(ledger).express([Item(call, DEFAULT_TERMS) for call in (deposit("open", tx_id="t-won"), spent)])
    won, rain = ledger.bet("open"), ledger.bet("rain")
    assert won is not None
    assert rain is not None
    assert (won.state, won.won_cents, won.deposit_tx_id) == (BetState.CLOSED, 50, "t-won")
    assert (rain.state, rain.withdraw_digest) == (BetState.SPENT, spent.body_digest)


@pytest.mark.parametrize("terms", [Terms(may_bet=lambda *_: None), OF_ACCOUNT, Terms(after=lambda *_: None)])
def test_whoever_asks_the_operator_goes_the_long_way(terms: Terms) -> None:
    """The statement knows no callbacks."""
    express = Express("game_operator_", "0")
    assert express.statement([Item(withdraw("a"), terms)]) is None
    assert express.statement([Item(withdraw("a"), DEFAULT_TERMS)]) is not None


@pytest.mark.parametrize(
    "calls",
    [pytest.param([withdraw("a")], id="alone"), pytest.param([withdraw("a"), deposit("open")], id="in a batch")],
)
def test_no_other_account_is_locked(ledger: SqlLedger, postgres_url: str, calls: Sequence[MovingCall]) -> None:
    """A player who is at work elsewhere holds up nobody else."""
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT FROM game_operator_accounts WHERE account = 'p2' FOR UPDATE")
        assert len(store_of(ledger).express([Item(call, DEFAULT_TERMS) for call in calls])) == len(calls)


def test_a_nul_is_refused_and_not_cut_off(postgres_url: str) -> None:
    """As text libpq would end the value at the NUL, and two games would become one."""
    with funded(postgres_url) as ledger:
        with pytest.raises(psycopg.DataError):
            ledger.apply(replace(withdraw("bet-1"), game="avia\0tor"))
        assert ledger.bet("bet-1") is None
        assert ledger.balance("p1") == 1000


async def test_after_a_rollback_tasks_go_on_by_express(postgres_url: str) -> None:
    """A call that fails rolls back, and the next one is applied as if nothing had been."""

    def fails(*_told: object) -> None:
        raise ZeroDivisionError

    async with funded_async(postgres_url) as ledger:
        await ledger.apply(withdraw("bet-1"))
        with pytest.raises(ZeroDivisionError):
            await ledger.apply(withdraw("bet-2"), terms=Terms(after=fails))
        assert (await ledger.apply(withdraw("bet-3"))).balance_cents == 800
        assert (await ledger.apply(deposit("bet-3"))).balance_cents == 850


def test_only_what_leaves_nothing_to_decide_goes_by_express() -> None:
    """A withdraw of nothing, and a deposit that says it won another amount, are left to the long way."""
    express = Express("game_operator_", "0")
    for won_cents, goes in ((None, True), (50, True), (49, False)):
        told = replace(deposit("b"), won_cents=won_cents)
        assert (express.statement([Item(told, DEFAULT_TERMS)]) is not None) == goes
    for cents, goes in ((0, False), (1, True)):
        assert (express.statement([Item(withdraw("b", cents), DEFAULT_TERMS)]) is not None) == goes


def test_no_deposit_pays_for_a_withdraw_beside_it(postgres_url: str) -> None:
    """Of a batch, only what is there pays: its deposits may turn out to be of no bet."""
    with funded(postgres_url) as ledger:
        ledger.apply(withdraw("bet-1"))
        calls = (withdraw("bet-2", 1_000), deposit("nowhere", 5_000), deposit("bet-1"))
        items = [Item(call, DEFAULT_TERMS) for call in calls]
        assert list(store_of(ledger).express(items)) == [2]
        assert ledger.balance("p1") == 950
        outcomes = ledger._apply_all(items)
        codes = [outcome.code for outcome in outcomes if isinstance(outcome, Outcome)]
        assert codes == ["INSUFFICIENT_BALANCE", "BET_NOT_FOUND", None]
        assert ledger.balance("p1") == 950


@pytest.mark.parametrize("count", [pytest.param(1, id="a lone withdraw"), pytest.param(3, id="three in a batch")])
def test_each_movement_is_later_than_the_one_before(postgres_url: str, count: int) -> None:
    """Also where the account's time is the clock's or past it: no two movements of an account share a millisecond."""
    late = 9_999_999_999_000
    with funded(postgres_url) as ledger:
        with psycopg.connect(postgres_url) as connection:
            connection.execute("UPDATE game_operator_accounts SET at_millis = %s", (late,))
        items = [Item(withdraw(f"bet-{number}"), DEFAULT_TERMS) for number in range(count)]
        outcomes = store_of(ledger).express(items)
        assert [outcomes[index].at_millis for index in range(count)] == [late + 1 + index for index in range(count)]
        asked = ledger.apply(BalanceCall(player_id="p1"))
        assert (asked.balance_cents, asked.at_millis) == (1000 - 100 * count, late + count)
        ledger.add_source("")  # As the first call does, which this one has not come through.
        assert ledger.verify().sound


@pytest.mark.parametrize("count", [pytest.param(1, id="a lone withdraw"), pytest.param(2, id="two in a batch")])
def test_the_clock_is_read_once_the_account_is_locked(postgres_url: str, count: int) -> None:
    """
    A balance told while a withdraw waits for the account's lock was told before it, and so must its time be.

    Whoever only tells a balance locks the row and changes nothing, so PostgreSQL does not compute the update again.
    """
    clock = f"SELECT {CLOCK} FROM game_operator_accounts WHERE account = 'p1' FOR UPDATE"
    with funded(postgres_url) as ledger, psycopg.connect(postgres_url) as teller, ThreadPoolExecutor(1) as beside:
        teller.execute(clock)
        items = [Item(withdraw(f"bet-{number}"), DEFAULT_TERMS) for number in range(count)]
        withdrawn = beside.submit(store_of(ledger).express, items)
        wait_for_a_lock(postgres_url)
        time.sleep(0.02)
        (told_at,) = teller.execute(clock).fetchone() or (0,)
        teller.commit()
        outcomes = withdrawn.result()
    assert len(outcomes) == count
    assert all(outcome.at_millis >= told_at for outcome in outcomes.values())


# --- through libpq: what psycopg's cursors would otherwise take care of -----------------------------------------------


def test_what_a_rollback_has_dropped_is_prepared_again(postgres_url: str) -> None:
    """Psycopg drops whatever is prepared after a rollback; the statement is prepared anew and done once."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        prepared = Prepared(connection.pgconn)
        statement = ("SELECT 'a' || $1", ["b"])
        assert connection.wait(prepared.execution(statement)) == [["ab"]]
        connection.execute("DEALLOCATE ALL")
        assert connection.wait(prepared.execution(statement)) == [["ab"]]


def test_a_name_leads_to_no_statement_of_another(postgres_url: str) -> None:
    """As behind a pooler that we did not recognise: the server connection changes, and another has prepared there."""
    with psycopg.connect(postgres_url, autocommit=True) as one, psycopg.connect(postgres_url, autocommit=True) as other:
        theirs, ours = Prepared(one.pgconn), Prepared(other.pgconn)
        one.wait(theirs.execution(("SELECT 'theirs ' || $1", ["a"])))
        statement = ("SELECT 'ours ' || $1", ["b"])
        other.wait(ours.execution(statement))
        ours._pgconn = one.pgconn
        assert one.wait(ours.execution(statement)) == [["ours b"]]


def test_what_the_server_refuses_is_raised_as_psycopg_would(postgres_url: str) -> None:
    """The ledger tells a race lost from a broken server by the class; the connection can be used afterwards."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        prepared = Prepared(connection.pgconn)
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.wait(prepared.execution(("SELECT 1 / CAST(CAST($1 AS text) AS bigint)", ["0"])))
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.wait(prepared.execution(("SELEKT $1", ["0"])))
        assert connection.wait(prepared.execution(("SELECT $1", ["é"]))) == [["é"]]
        connection.close()
        with pytest.raises(psycopg.OperationalError):
            connection.wait(prepared.execution(("SELECT $1", ["é"])))
