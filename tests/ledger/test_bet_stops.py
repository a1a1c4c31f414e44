"""Stops of bets: no withdraw debits in any process, and everything else goes on (docs/decisions/0014, question 5)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.ledger import SqlLedger, Terms
from game_operator.ledger.api import Outcome
from game_operator.models.webhooks import WebhookCall
from tests.ledger.test_fence import connected, together
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.crowds import Processes
from tests.support.ledgers import funded, funded_async
from tests.support.raw_sql import rows

STOP: dict[str, str] = {"actor": "ann", "reason": "game pays too much"}
NO_TERMS = Terms(account_of=lambda call: call.player_id)


def joined(ledger: SqlLedger, url: str, call: WebhookCall) -> Outcome:
    """Apply a call in a transaction of the caller's, and commit it."""
    with closing(connected(url)) as connection:
        outcome = ledger.apply(call, connection=connection)
        connection.commit()
    return outcome


Way = Callable[[SqlLedger, str, WebhookCall], Outcome]
WAYS: dict[str, Way] = {
    # The lone form of the express statement, and its set-based form.
    "alone": lambda ledger, _, call: ledger.apply(call),
    "in a batch": lambda ledger, _, call: together(ledger, deposit("none"), call)[1],
    "the long way": lambda ledger, _, call: ledger.apply(call, terms=NO_TERMS),
    "joined": joined,
}


@pytest.fixture
def ledger(database_url: str) -> Any:
    """A ledger with bets in each state."""
    with funded(database_url, 100) as ledger:
        for bet_id in ("open", "won", "lost", "back"):
            assert ledger.apply(withdraw(bet_id, amount_cents=500)).applied
        ledger.apply(withdraw("short", amount_cents=99_999))
        yield ledger


@pytest.mark.parametrize("way", WAYS)
def test_a_withdraw_that_would_debit_is_declined_for_good(ledger: SqlLedger, database_url: str, way: str) -> None:
    """Its bet keeps the code also after bets are taken again; a new bet debits then."""
    apply = WAYS[way]
    assert ledger.stop_bets(**STOP, code="MAINTENANCE").code == "MAINTENANCE"
    outcome = apply(ledger, database_url, withdraw("new"))
    assert (outcome.code, outcome.balance_cents, outcome.applied) == ("MAINTENANCE", 8_000, False)
    bet = ledger.bet("new")
    assert bet is not None
    assert bet.state is BetState.DECLINED
    ended = ledger.start_bets(actor="bob", reason="fixed")
    assert ended is not None
    assert (ended.actor, ended.reason) == ("ann", "game pays too much")
    assert apply(ledger, database_url, withdraw("new")).code == "MAINTENANCE"
    assert apply(ledger, database_url, withdraw("newer")).applied
    assert ledger.verify().sound


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("call", "code", "balance_cents"),
    [
        pytest.param(withdraw("open", amount_cents=500), None, 8_000, id="a known withdraw"),
        pytest.param(withdraw("short", amount_cents=99_999), "INSUFFICIENT_BALANCE", 8_000, id="a declined withdraw"),
        pytest.param(withdraw("open", amount_cents=1), "DUPLICATE_TRANSACTION", 8_000, id="a conflict"),
        pytest.param(withdraw("rain", action="RAIN"), "LIMIT_EXCEEDED", 8_000, id="a RAIN"),
        pytest.param(withdraw("dear", amount_cents=99_999), "LIMIT_EXCEEDED", 8_000, id="before funds"),
        pytest.param(withdraw("b", "nobody"), "PLAYER_NOT_FOUND", None, id="after the player"),
        pytest.param(deposit("won", amount_cents=700), None, 8_700, id="a win"),
        pytest.param(deposit("lost", amount_cents=0), None, 8_000, id="a loss"),
        pytest.param(rollback("back", tx_id=None), None, 8_500, id="a refund"),
        pytest.param(claim(amount_cents=300), None, 8_300, id="a claim"),
    ],
)
@pytest.mark.drawn(16, database_url=("postgres",))
def test_everything_else_goes_on(
    ledger: SqlLedger, database_url: str, way: str, call: WebhookCall, code: str | None, balance_cents: int | None
) -> None:
    """Only question 5 asks for the stop, before the operator and before funds."""
    ledger.stop_bets(**STOP)
    outcome = WAYS[way](ledger, database_url, call)
    assert (outcome.code, outcome.balance_cents) == (code, balance_cents)


@pytest.mark.parametrize(
    "code", ["", "limit", "SYSTEM_ERROR", "INVALID_SIGNATURE", "PLAYER_NOT_FOUND", "INSUFFICIENT_BALANCE", "A" * 65, 5]
)
def test_codes_that_refuse_no_withdraw(ledger: SqlLedger, code: Any) -> None:
    """With them bets go on."""
    with pytest.raises(ValueError, match=r"cannot refuse a withdraw\. Pass LIMIT_EXCEEDED"):
        ledger.stop_bets(**STOP, code=code)
    assert ledger.apply(withdraw("new")).applied
    assert ledger.stop_bets(**STOP, code="A" * 64).code == "A" * 64


def test_who_and_why_are_kept(ledger: SqlLedger, database_url: str) -> None:
    """A second stop takes the place of the first, and to start twice changes nothing."""
    first = ledger.stop_bets(**STOP)
    second = ledger.stop_bets(actor="bob", reason="other code", code="CLOSED")
    assert ledger.apply(withdraw("new")).code == "CLOSED"
    assert ledger.start_bets(actor="cyd", reason="fixed") == second
    assert ledger.start_bets(actor="cyd", reason="again") is None
    columns = "code, stopped_by, stop_reason, started_by, start_reason"
    assert rows(database_url, f"SELECT {columns} FROM {{p}}bet_stops ORDER BY number") == [
        ("LIMIT_EXCEEDED", "ann", "game pays too much", "bob", "other code"),
        ("CLOSED", "bob", "other code", "cyd", "fixed"),
    ]
    assert rows(database_url, "SELECT stopped_at_millis FROM {p}bet_stops WHERE number = 1") == [(first.at_millis,)]


def test_stops_at_once_leave_one(ledger: SqlLedger, database_url: str) -> None:
    """They wait for each other."""
    ledgers = [SqlLedger(database_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        stops = list(pool.map(lambda each: each.stop_bets(**STOP), ledgers))
    for each in ledgers:
        each.close()
    assert len(stops) == 4
    assert rows(database_url, "SELECT COUNT(*) FROM {p}bet_stops WHERE started_at_millis IS NULL") == [(1,)]
    assert ledger.apply(withdraw("new")).code == "LIMIT_EXCEEDED"


async def test_awaited(database_url: str) -> None:
    """The same names, awaited."""
    async with funded_async(database_url, 100) as ledger:
        await ledger.apply(withdraw("first"))
        await ledger.stop_bets(**STOP)
        assert (await ledger.apply(withdraw("new"))).code == "LIMIT_EXCEEDED"
        assert await ledger.start_bets(actor="bob", reason="fixed")
        assert (await ledger.apply(withdraw("newer"))).applied


def stop_there(url: str) -> None:
    with SqlLedger(url) as other:
        other.stop_bets(**STOP)


def start_there(url: str) -> None:
    with SqlLedger(url) as other:
        other.start_bets(actor="bob", reason="fixed")


@pytest.mark.outside
@pytest.mark.drawn(4, database_url=("postgres",))
def test_nothing_debits_after_a_stop_under_load(ledger: SqlLedger, database_url: str, crowd: Processes) -> None:
    """Of bets from eight threads, none that began after another process's stop has debited; its start is heard, too."""
    go_on = True

    def play(worker: int) -> list[str]:
        late = []
        for number in range(400):
            began_after = stopped
            outcome = ledger.apply(withdraw(f"w{worker}-{number}", amount_cents=1))
            if began_after and outcome.applied:
                late.append(outcome.code or "debited")
            if not go_on:
                break
        return late

    stopped = False
    with ThreadPoolExecutor(8) as pool:
        players = [pool.submit(play, worker) for worker in range(8)]
        crowd.submit(stop_there, database_url).result()
        stopped = True
        for number in range(20):
            assert ledger.apply(withdraw(f"x{number}", amount_cents=1)).code == "LIMIT_EXCEEDED"
        go_on = False
        assert [late for player in players for late in player.result()] == []
        crowd.submit(start_there, database_url).result()
        assert ledger.apply(withdraw("after")).applied
