"""The reader that stays on the event loop between calls: real loops, a real PostgreSQL, and its connections' ends."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.ledger.postgres.sessions import Prepared
from game_operator.ledger.postgres.socket_reader import SocketReader
from game_operator.webhooks import WithdrawCall
from tests.support.books import execute
from tests.support.ledgers import store_of
from tests.support.leftovers import assert_idle, nothing_grows

pytestmark = pytest.mark.outside


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Loops of both kinds."""
    return "asyncio", {"use_uvloop": request.param}


def _withdraw(number: int) -> WithdrawCall:
    return WithdrawCall(player_id="p0", bet_id=f"bet-{number}", amount_cents=100)


def _reader(ledger: AsyncSqlLedger) -> SocketReader:
    reader: SocketReader = store_of(ledger)._reader
    return reader


@pytest.fixture
def url(postgres_url: str) -> str:
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("p0", Decimal(1000))
        ledger.add_source("")  # Else the first call, which registers its source, goes the long way.
    return postgres_url


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[AsyncSqlLedger]:
    """Yield a ledger whose reader is on the loop."""
    async with AsyncSqlLedger(url, patience_seconds=20) as ledger:
        await ledger.apply(_withdraw(0))
        await ledger.apply(_withdraw(1))
        assert _reader(ledger)._loop is asyncio.get_running_loop()
        yield ledger


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def _end_sessions(url: str, which: str = "pid <> pg_backend_pid()") -> None:
    ours = f"FROM pg_stat_activity WHERE datname = current_database() AND {which}"
    execute(url, f"SELECT pg_terminate_backend(pid, 5000) {ours}")


async def test_one_reader_serves_many_calls(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is added once; a call that goes the long way, by psycopg's own reader, lets it be added once more."""
    added, stands = [], SocketReader._stands

    def watched(reader: SocketReader) -> bool:
        added.append(reader._loop is None)
        return stands(reader)

    with nothing_grows():
        async with _opened(url) as ledger:
            monkeypatch.setattr(SocketReader, "_stands", watched)
            for number in range(2, 22):
                await ledger.apply(_withdraw(number))
            assert len(added) >= 20
            assert not any(added)
            assert await ledger.balance("p0") == 100_000 - 22 * 100
            for number in range(22, 42):
                await ledger.apply(_withdraw(number))
            assert sum(added) <= 1


async def test_the_server_goes_while_nobody_waits(url: str) -> None:
    """A closed socket can always be read: the reader leaves, so that the loop can sleep; the next call connects."""
    async with _opened(url) as ledger:
        await asyncio.to_thread(_end_sessions, url)
        await _until(lambda: _reader(ledger)._loop is None)
        assert (await ledger.apply(_withdraw(2))).balance_cents == 100_000 - 300
        assert (await ledger.apply(_withdraw(3))).balance_cents == 100_000 - 400
        assert _reader(ledger)._loop is asyncio.get_running_loop()
    assert_idle(url)


_WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@asynccontextmanager
async def _held_up(ledger: AsyncSqlLedger, url: str) -> AsyncIterator[tuple["asyncio.Task[Any]", Any]]:
    """Yield a call that waits for a lock, and the connection that has it."""
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("SELECT FROM game_operator_accounts FOR UPDATE")
        call = asyncio.create_task(ledger.apply(_withdraw(2)))
        await _until(lambda: execute(url, _WAITING))
        yield call, other


async def test_the_server_goes_in_the_middle(url: str) -> None:
    """The call goes the long way on another connection, and is applied once."""
    async with _opened(url) as ledger, _held_up(ledger, url) as (call, other):
        await asyncio.to_thread(_end_sessions, url, "wait_event_type = 'Lock'")
        await other.rollback()
        assert (await call).balance_cents == 100_000 - 300
    assert_idle(url)


async def test_cancelled_in_the_middle(url: str) -> None:
    """The server stops the statement, the connection is dropped, and the next call is the next call's alone."""
    with nothing_grows():
        async with _opened(url) as ledger, _held_up(ledger, url) as (call, other):
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert store_of(ledger)._connection is None
            # With the lock still held.
            await _until(lambda: not execute(url, _WAITING))
            await other.rollback()
            assert (await ledger.apply(_withdraw(3))).balance_cents == 100_000 - 300
            assert await ledger.bet("bet-2") is None
    assert_idle(url)


async def test_a_loop_that_forgets_the_reader_delays_a_call_and_no_more(url: str) -> None:
    """As uvloop forgets that of a connection that was reset: it tells nobody, and every call waited for its budget."""
    async with _opened(url) as ledger:
        read_socket = _reader(ledger)._socket
        assert read_socket is not None
        asyncio.get_running_loop().remove_reader(read_socket.fileno())
        assert (await asyncio.wait_for(ledger.apply(_withdraw(2)), 5)).applied


def test_the_ledger_goes_on_in_another_loop(url: str) -> None:
    """The reader leaves a loop that is closed, or was left without an end, for the one that runs."""
    ledger = AsyncSqlLedger(url)
    loops = [asyncio.new_event_loop() for _ in range(3)]
    for number, loop in enumerate(loops):
        loop.run_until_complete(ledger.apply(_withdraw(2 * number)))
        loop.run_until_complete(ledger.apply(_withdraw(2 * number + 1)))
        assert _reader(ledger)._loop is loop
        if number:
            loop.close()
    with asyncio.Runner() as runner:
        assert runner.run(ledger.apply(_withdraw(6))).balance_cents == 100_000 - 700
        runner.run(ledger.close())
    loops[0].close()
    assert_idle(url)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fails", [False, True], ids=["a descriptor", "no descriptor left"])
async def test_what_the_socket_does_not_take_at_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """Megabytes go out in parts and come back in parts; psycopg waits where the reader cannot."""
    if fails:

        def refused(_descriptor: int) -> int:
            raise OSError(24, "Too many open files")

        monkeypatch.setattr(os, "dup", refused)
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        reader, prepared = SocketReader(connection), Prepared(connection.pgconn)
        text = "é" * 4_000_000
        assert await reader.wait(prepared.execution(("SELECT $1, $1", [text]))) == [[text, text]]
        assert (reader._socket is None) is fails
        with pytest.raises(psycopg.errors.DivisionByZero):
            await reader.wait(prepared.execution(("SELECT 1 / length($1)", [""])))
        await connection.execute("DEALLOCATE ALL")
        assert await reader.wait(prepared.execution(("SELECT $1, $1", ["a"]))) == [["a", "a"]]
        reader.close()
