"""The operator's own code in the transaction of a call: what it raises, where it is interrupted, what it cannot use."""

import asyncio
import gc
import itertools
import sqlite3
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

from game_operator.errors import LedgerError
from game_operator.ledger import MemoryLedger, Outcome, Terms
from game_operator.ledger.steps import Execute, Steps
from game_operator.models.webhooks import MovingCall
from tests.support.calls import ask_balance, claim, withdraw
from tests.support.ledgers import funded, funded_async, store_of
from tests.support.raw_sql import rows, run

# --- what it raises ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "error"), [("own", sqlite3.IntegrityError), ("nowhere", sqlite3.OperationalError)])
def test_errors_of_own_statements_on_sqlite(sqlite_url: str, table: str, error: type[Exception]) -> None:
    """They are not taken for a file that cannot be used, and not tried again until our patience ends."""
    run(sqlite_url, "CREATE TABLE own (id TEXT PRIMARY KEY)")
    tries: list[object] = []

    def after(_call: MovingCall, _outcome: Outcome, connection: Any) -> None:
        tries.append(connection)
        for _ in range(2):
            connection.execute(f"INSERT INTO {table} VALUES ('same')")

    with funded(sqlite_url) as ledger:
        with pytest.raises(error):
            ledger.apply(withdraw(), terms=Terms(after=after))
        assert (len(tries), ledger.balance("p1"), ledger.bet("b1")) == (1, 1000, None)
        assert ledger.apply(withdraw()).applied


@pytest.mark.parametrize("terms", [Terms(), Terms(may_bet=lambda *_: None)], ids=["express", "the long way"])
async def test_a_call_that_is_given_up_is_cancelled_in_the_database(postgres_url: str, terms: Terms) -> None:
    """H01: at its time budget a call is cancelled, and its statement with it: unless repeated, it never debits."""
    async with funded_async(postgres_url) as ledger:
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT 1 FROM game_operator_accounts WHERE account = 'p1' FOR UPDATE")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ledger.apply(withdraw(), terms=terms), 0.3)
            await asyncio.sleep(0.5)  # What is cancelled in the server takes a moment.
        assert (await ledger.balance("p1"), await ledger.bet("b1")) == (1000, None)
        outcome = await ledger.apply(withdraw(), terms=terms)
        assert (outcome.applied, outcome.balance_cents) == (True, 500)


@pytest.mark.slow
async def test_an_after_that_hangs_or_is_cancelled_stops_no_other_call(database_url: str) -> None:
    """One awaits for ever until its caller gives up, one awaits a task that somebody cancelled; the others go on."""

    async def after(call: MovingCall, _outcome: Outcome, _connection: Any) -> None:
        if call.bet_id == "hangs":
            await asyncio.Event().wait()
        if call.bet_id == "cancelled":
            other = asyncio.create_task(asyncio.sleep(3600))
            other.cancel()
            await other

    async with funded_async(database_url, 100) as ledger:

        async def bet(bet_id: str) -> object:
            call = withdraw(bet_id, amount_cents=100)
            try:
                return (await asyncio.wait_for(ledger.apply(call, terms=Terms(after=after)), 1)).applied
            except (TimeoutError, LedgerError) as failed:
                return type(failed)

        ends = await asyncio.gather(*map(bet, ["first", "cancelled", "second", "hangs", "third"]))
        assert ends[:4] == [True, LedgerError, True, TimeoutError]
        # The third waited behind the one that hung, and may have been given up with it.
        assert await asyncio.wait_for(bet("later"), 30) is True
        assert await asyncio.wait_for(ledger.balance("p1"), 30) in (9_700, 9_600)


# --- where it is interrupted: no open transaction is left, which the next call would commit ---------------------------


@pytest.mark.parametrize("error", [GeneratorExit, KeyboardInterrupt, SystemExit, StopIteration, RuntimeError])
def test_whatever_the_operators_code_raises_undoes_its_call(database_url: str, error: type[BaseException]) -> None:
    """And the next call commits nothing of it."""
    with funded(database_url) as ledger:
        with pytest.raises((error, RuntimeError)):
            ledger.apply(withdraw("b1", "p1", 100), terms=Terms(after=Mock(side_effect=error)))
        outcome = ledger.apply(withdraw("b2", "p1", 100), terms=Terms(after=lambda *_: None))
        assert (outcome.balance_cents, ledger.bet("b1")) == (900, None)
        assert ledger.verify(full=True).sound


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_steps_that_were_left_in_the_middle_commit_nothing(postgres_url: str) -> None:
    """As by an exception of a signal handler between two steps: the next call gives the connection up."""
    with funded(postgres_url) as ledger:
        store = store_of(ledger)

        def left() -> Steps[None]:
            yield Execute("UPDATE game_operator_accounts SET balance_cents = 5", ())
            raise KeyboardInterrupt

        store._roll_back = lambda _: iter(())
        with pytest.raises(KeyboardInterrupt):
            store.run(left)
        del store._roll_back
        gc.collect()
        assert ledger.balance("p1") == 1_000
        assert ledger.apply(withdraw("b2", "p1", 100)).balance_cents == 900


def test_a_begun_transaction_in_sqlite_is_undone_first(sqlite_url: str) -> None:
    """Ctrl-C may come right after BEGIN; neither this ledger nor another process waits for it for ever."""
    with funded(sqlite_url) as ledger:
        store_of(ledger)._connection.execute("BEGIN IMMEDIATE")
        assert ledger.balance("p1") == 1_000
        store_of(ledger)._connection.execute("BEGIN IMMEDIATE")
        assert ledger.apply(withdraw("b1", "p1", 100)).balance_cents == 900
    assert rows(sqlite_url, "SELECT count(*) FROM {p}bets") == [(1,)]


# --- its own ledger, which would wait for itself: it is refused, whatever asks, and goes on ---------------------------

CALLBACKS = ("after", "may_bet", "account_of")
MOVES: dict[str, Callable[[Any], Any]] = {  # Any: a ledger of any kind.
    "apply": lambda ledger: ledger.apply(claim()),
    "player-balance": lambda ledger: ledger.apply(ask_balance("p1")),
    "adjust": lambda ledger: ledger.adjust("p1", Decimal(1), reference="a"),
    "open_account": lambda ledger: ledger.open_account("p2", Decimal(1)),
    "balance": lambda ledger: ledger.balance("p1"),
    "bet": lambda ledger: ledger.bet("b1"),
    "bets": lambda ledger: list(ledger.bets()),
}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> Any:
    """A ledger of each kind, where p1 has 10.00."""
    with MemoryLedger({"p1": 1_000}) if request.param == "memory" else funded(url_of(request.param)) as ledger:
        yield ledger


def _terms(what: str, callback: Callable[..., Any]) -> Terms:
    named: Any = {what: callback}  # Any: one of the callables of Terms.
    return Terms(**named)


def test_a_callback_cannot_use_its_ledger(ledger: Any) -> None:
    """Each callback with each method: nothing hangs, nothing of the call remains, and the ledger goes on."""
    for what, how in itertools.product(CALLBACKS, MOVES):
        with pytest.raises(LedgerError, match=r"would wait for itself.*ledger\.spent\(.*connection=connection"):
            ledger.apply(withdraw(), terms=_terms(what, lambda *_args, move=MOVES[how]: move(ledger)))
        assert (ledger.balance("p1"), ledger.bet("b1")) == (1_000, None), (what, how)
    assert ledger.apply(withdraw()).balance_cents == 500


async def test_an_async_callback_cannot_use_its_ledger(postgres_url: str) -> None:
    """Each callback with each method: neither itself, nor through a task that it awaits."""
    moves = {how: move for how, move in MOVES.items() if how != "bets"} | {"close": lambda ledger: ledger.close()}
    async with funded_async(postgres_url) as ledger:
        for what, how in itertools.product(("after", "may_bet"), moves):

            async def directly(*_args: object, move: Any = moves[how]) -> None:
                await move(ledger)

            async def in_a_task(*_args: object, move: Any = moves[how]) -> None:
                await asyncio.gather(move(ledger))

            for callback in (directly, in_a_task):
                with pytest.raises(LedgerError, match="would wait for itself"):
                    await asyncio.wait_for(ledger.apply(withdraw(), terms=_terms(what, callback)), 30)
            assert (await ledger.balance("p1"), await ledger.bet("b1")) == (1_000, None), (what, how)
        assert (await ledger.apply(withdraw())).balance_cents == 500


async def test_a_task_that_outlives_the_transaction_goes_on(database_url: str) -> None:
    """What after starts without awaiting it may use the ledger once the call is committed."""
    async with funded_async(database_url) as ledger:
        committed = asyncio.Event()
        later: list[Awaitable[Outcome]] = []

        async def after_the_commit() -> Outcome:
            await committed.wait()
            return await ledger.apply(claim())

        def after(*_args: object) -> None:
            later.append(asyncio.ensure_future(after_the_commit()))

        await ledger.apply(withdraw(), terms=Terms(after=after))
        committed.set()
        assert (await later[0]).balance_cents == 800


def test_account_of_answers_something_else_each_time(ledger: Any) -> None:
    """It would be asked for ever, with the write lock held."""
    numbers = itertools.count()
    with pytest.raises(LedgerError, match="something else each time"):
        ledger.apply(withdraw(), terms=_terms("account_of", lambda _call: f"account-{next(numbers)}"))
    assert ledger.apply(withdraw()).balance_cents == 500
