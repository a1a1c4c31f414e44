"""What the operator's own statements raise in the transaction of a call comes out unchanged, and undoes the call."""

import asyncio
import sqlite3
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from game_operator.errors import LedgerError
from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.ledger.api import Outcome, Terms
from game_operator.models.webhooks import MovingCall
from game_operator.webhooks import WithdrawCall
from tests.support.raw_sql import run

pytestmark = pytest.mark.outside


@pytest.mark.parametrize(("table", "error"), [("own", sqlite3.IntegrityError), ("nowhere", sqlite3.OperationalError)])
def test_errors_of_own_statements_on_sqlite(sqlite_url: str, table: str, error: type[Exception]) -> None:
    """They are not taken for a file that cannot be used, and not tried again until our patience ends."""
    run(sqlite_url, "CREATE TABLE own (id TEXT PRIMARY KEY)")
    tries: list[object] = []

    def after(_call: MovingCall, _outcome: Outcome, connection: Any) -> None:
        tries.append(connection)
        for _ in range(2):
            connection.execute(f"INSERT INTO {table} VALUES ('same')")

    with SqlLedger(sqlite_url) as ledger:
        ledger.open_account("p1", Decimal("10.00"))
        call = WithdrawCall(player_id="p1", bet_id="b1", amount_cents=500)
        with pytest.raises(error):
            ledger.apply(call, terms=Terms(after=after))
        assert (len(tries), ledger.balance("p1"), ledger.bet("b1")) == (1, 1000, None)
        assert ledger.apply(call).applied


@pytest.mark.parametrize("terms", [Terms(), Terms(may_bet=lambda *_: None)], ids=["express", "the long way"])
async def test_a_call_that_is_given_up_is_cancelled_in_the_database(postgres_url: str, terms: Terms) -> None:
    """H01: at its time budget a call is cancelled, and its statement with it: unless repeated, it never debits."""
    async with AsyncSqlLedger(postgres_url) as ledger:
        await ledger.open_account("p1", Decimal("10.00"))
        call = WithdrawCall(player_id="p1", bet_id="b1", amount_cents=500)
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT 1 FROM game_operator_accounts WHERE account = 'p1' FOR UPDATE")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ledger.apply(call, terms=terms), 0.3)
            await asyncio.sleep(0.5)  # What is cancelled in the server takes a moment.
        assert (await ledger.balance("p1"), await ledger.bet("b1")) == (1000, None)
        outcome = await ledger.apply(call, terms=terms)
        assert (outcome.applied, outcome.balance_cents) == (True, 500)


async def test_an_after_that_hangs_or_is_cancelled_stops_no_other_call(database_url: str) -> None:
    """One awaits for ever until its caller gives up, one awaits a task that somebody cancelled; the others go on."""

    async def after(call: MovingCall, _outcome: Outcome, _connection: Any) -> None:
        if call.bet_id == "hangs":
            await asyncio.Event().wait()
        if call.bet_id == "cancelled":
            other = asyncio.create_task(asyncio.sleep(3600))
            other.cancel()
            await other

    async with AsyncSqlLedger(database_url) as ledger:
        await ledger.open_account("p1", Decimal("100.00"))

        async def bet(bet_id: str) -> object:
            call = WithdrawCall(player_id="p1", bet_id=bet_id, tx_id=bet_id, amount_cents=100)
            try:
                return (await asyncio.wait_for(ledger.apply(call, terms=Terms(after=after)), 1)).applied
            except (TimeoutError, LedgerError) as failed:
                return type(failed)

        ends = await asyncio.gather(*map(bet, ["first", "cancelled", "second", "hangs", "third"]))
        assert ends[:4] == [True, LedgerError, True, TimeoutError]
        # The third waited behind the one that hung, and may have been given up with it.
        assert await asyncio.wait_for(bet("later"), 30) is True
        assert await asyncio.wait_for(ledger.balance("p1"), 30) in (9_700, 9_600)
