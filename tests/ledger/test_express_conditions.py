"""
What the express statement takes, and what it leaves to the long way: one row for each of its conditions.

The contract says that the answer is the same either way. Here a call is handed to the statement alone, so that a
condition that is missing or turned round shows, even where a constraint would have caught it.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

import psycopg
import pytest

from game_operator.codes import BetState
from game_operator.ledger import SqlLedger
from game_operator.ledger.api import DEFAULT_TERMS, Terms
from game_operator.ledger.postgres.express import Express
from game_operator.ledger.rules.book import Item
from game_operator.models.webhooks import MovingCall
from game_operator.webhooks import DepositCall, WithdrawCall
from tests.support.ledgers import store_of

pytestmark = pytest.mark.outside

ELSEWHERE = Terms(source="elsewhere")
#: A player whose bets may be of another account.
OF_ACCOUNT = Terms(account_of=lambda call: "savings")


def withdraw(bet_id: str, cents: int = 100, *, player_id: str = "player-1", tx_id: str = "") -> WithdrawCall:
    return WithdrawCall(player_id=player_id, bet_id=bet_id, amount_cents=cents, tx_id=tx_id, body=bet_id.encode())


def deposit(bet_id: str, cents: int = 50, *, player_id: str = "player-1", tx_id: str = "") -> DepositCall:
    return DepositCall(player_id=player_id, bet_id=bet_id, amount_cents=cents, tx_id=tx_id)


@pytest.fixture
def ledger(postgres_url: str) -> Iterator[SqlLedger]:
    """player-1 has 10.00 after an open bet and a closed one; "held" is a bet of player-1 by the account "savings"."""
    ledger = SqlLedger(postgres_url)
    for account, units in (("player-1", "11.00"), ("player-2", "10.00"), ("savings", "10.00")):
        ledger.open_account(account, Decimal(units))
    ledger.add_source("")
    ledger.add_source("elsewhere")
    ledger.apply(withdraw("open", tx_id="t-open"))
    ledger.apply(withdraw("closed", tx_id="t-closed"))
    ledger.apply(deposit("closed", 100, tx_id="t-paid"))
    ledger.apply(withdraw("other", tx_id="t-other"), terms=ELSEWHERE)
    ledger.apply(deposit("other", 100, tx_id="t-other-paid"), terms=ELSEWHERE)
    ledger.apply(withdraw("far", player_id="player-2", tx_id="t-far"), terms=ELSEWHERE)
    ledger.apply(withdraw("held", tx_id="t-held"), terms=OF_ACCOUNT)
    yield ledger
    ledger.close()


#: Beside each call in a batch, so that the statement for a lone withdraw is not the one that is tried.
BESIDE = withdraw("beside", 1, player_id="player-2")


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
        pytest.param(deposit("far", player_id="player-2"), False, id="an open bet elsewhere"),
        pytest.param(deposit("open", player_id="player-2"), False, id="another player's bet"),
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
    spent = WithdrawCall(player_id="player-1", bet_id="rain", amount_cents=100, action="RAIN", body=b"rain")
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
        other.execute("SELECT FROM game_operator_accounts WHERE account = 'player-2' FOR UPDATE")
        assert len(store_of(ledger).express([Item(call, DEFAULT_TERMS) for call in calls])) == len(calls)
