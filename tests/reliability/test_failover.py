"""A standby that does not confirm, and a former primary that runs again: doubt is never answered SUCCESS."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest
from django.db import connections

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import Outcome, SqlLedger, Terms
from game_operator.ledger.postgres.hazards import SHOW_WARNINGS, CommitWarnings, CommitWatch, psycopg_of
from game_operator.models.webhooks import WithdrawCall
from tests.support.books import execute
from tests.support.callers import KINDS, CallerKind
from tests.support.calls import withdraw
from tests.support.crowds import open_accounts
from tests.support.joined_wallets import WALLETS, WalletKind
from tests.support.ledgers import AsyncInDatabase, InDatabase
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresServer
from tests.support.postgres_binaries import give_to_server_user
from tests.support.times import wait_until

_bets = count(1)


@pytest.fixture(scope="module")
def lonely() -> Iterator[PostgresServer]:
    """A primary whose standby does not exist, with a ledger and an account in the database ``postgres``."""
    with PostgresServer() as server:
        open_accounts(server.url, {"p1": 10**9})
        _leave_alone(server)
        yield server


def _leave_alone(server: PostgresServer) -> None:
    """Let commits wait for a standby that is not there."""
    _set_standby(server, "nowhere")
    waits = False
    while not waits:  # Until the server's processes have all read it.
        with ThreadPoolExecutor(1) as pool:
            probe = pool.submit(execute, server.url, "SET synchronous_commit = on; CREATE TABLE IF NOT EXISTS t ()")
            waits = _waits(server.url, probe)
            probe.result()
        execute(server.url, "DROP TABLE IF EXISTS t")


def _set_standby(server: PostgresServer, name: str) -> None:
    execute(server.url, f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    execute(server.url, "SELECT pg_reload_conf()")


def _waits(url: str, done: "Future[Any]", end: str = "pg_cancel_backend") -> bool:
    """End the wait for the standby with the function *end* as soon as somebody waits; return whether anybody did."""
    until = time.monotonic() + 30
    with psycopg.connect(url, autocommit=True) as connection:
        while not done.done():
            assert time.monotonic() < until
            sql = f"SELECT {end}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            if connection.execute(sql.encode()).fetchall():
                return True
            time.sleep(0.002)
    return False


def _in_doubt(url: str, apply: Callable[[WithdrawCall], object], end: str = "pg_cancel_backend") -> WithdrawCall:
    """Assert that a withdraw whose wait is ended is in doubt, though it is stored on this server; return it."""
    call = withdraw(f"b{next(_bets)}", amount_cents=1)
    with ThreadPoolExecutor(1) as pool:
        applied = pool.submit(apply, call)
        assert _waits(url, applied, end)
        with pytest.raises(LedgerUnavailableError, match="Repeat"):
            applied.result()
    assert execute(url, f"SELECT state FROM game_operator_bets WHERE bet_id = '{call.bet_id}'") == [("OPEN",)]
    return call


def _after(_call: object, _outcome: object, connection: Any) -> None:
    connection.execute("SELECT 1").fetchall()


async def _after_awaited(_call: object, _outcome: object, connection: Any) -> None:
    await connection.execute("SELECT 1")


WAYS = [pytest.param(Terms(), id="express"), pytest.param(Terms(after=_after), id="the long way")]
ENDS = ["pg_cancel_backend", "pg_terminate_backend"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("kind", "terms"),
    [
        pytest.param(InDatabase, Terms(), id="express"),
        pytest.param(InDatabase, Terms(after=_after), id="the long way"),
        pytest.param(AsyncInDatabase, Terms(), id="express, awaited"),
        pytest.param(AsyncInDatabase, Terms(after=_after_awaited), id="the long way, awaited"),
    ],
)
@pytest.mark.drawn(3)
def test_a_cancelled_wait_for_the_standby(lonely: PostgresServer, kind: Any, terms: Terms, end: str) -> None:
    """PostgreSQL acknowledges such a commit with a warning alone; a failover would lose the call."""
    with closing(kind(lonely.url)) as ledger:
        _in_doubt(lonely.url, lambda call: ledger.apply(call, terms), end)


def test_a_cancelled_wait_behind_a_pooler(lonely: PostgresServer) -> None:
    """PgBouncer passes the warning on."""
    with PgBouncer(lonely) as bouncer, SqlLedger(bouncer.url(lonely.url)) as ledger:
        _in_doubt(lonely.url, ledger.apply)


@contextmanager
def _without_warnings(url: str) -> Iterator[None]:
    execute(url, "ALTER ROLE postgres SET client_min_messages = 'error'")
    try:
        yield
    finally:
        execute(url, "ALTER ROLE postgres RESET client_min_messages")


def test_a_role_that_asks_for_no_warnings(lonely: PostgresServer) -> None:
    """What the role is set to does not hide the doubt from us."""
    with _without_warnings(lonely.url), SqlLedger(lonely.url) as ledger:
        _in_doubt(lonely.url, ledger.apply)


@pytest.mark.parametrize("terms", WAYS)
@pytest.mark.drawn(1)
def test_the_repeat_finds_the_truth(lonely: PostgresServer, terms: Terms) -> None:
    """It waits for the standby as the call did, and is answered once the standby has all that came before."""
    with SqlLedger(lonely.url) as ledger, ThreadPoolExecutor(1) as pool:
        call = _in_doubt(lonely.url, lambda call: ledger.apply(call, terms=terms))
        repeated = pool.submit(ledger.apply, call, terms=terms)
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        wait_until(lambda: execute(lonely.url, waiting))
        _set_standby(lonely, "")
        assert repeated.result().replayed
    _leave_alone(lonely)


WATCHED = ["psycopg", "psycopg async", "sqlalchemy connection, psycopg", "sqlalchemy session, psycopg"]
WATCHED += ["sqlalchemy async connection, psycopg", "django, postgres"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in WATCHED], ids=str)
def test_a_watched_commit_of_a_caller(lonely: PostgresServer, kind: CallerKind) -> None:
    """CommitWatch raises after the caller's own commit was acknowledged with a warning; without one it is silent."""
    with _without_warnings(lonely.url), kind.open(lonely.url) as joining:

        def apply(call: WithdrawCall) -> Outcome:
            with CommitWatch() as watch:
                joining.begin()
                joining.execute(f"SELECT {SHOW_WARNINGS}, set_config('synchronous_commit', 'on', true)")
                outcome = joining.apply(call)
                watch.observe(joining.connection)
                joining.commit()
            return outcome

        _in_doubt(lonely.url, apply)
        handlers = _handlers(joining.connection)
        assert CommitWarnings.notice not in [getattr(each, "__func__", None) for each in handlers]


@pytest.mark.parametrize("kind", [kind for kind in WALLETS if kind.name in WATCHED], ids=str)
def test_a_joined_wallet_answers_no_success(lonely: PostgresServer, kind: WalletKind) -> None:
    """The operator's commit was acknowledged with a warning, by a role that asks for none: that is doubt as well."""
    with _without_warnings(lonely.url), kind.open(lonely.url) as opened:
        wallet = opened.wallet()

        def ask(call: WithdrawCall) -> object:
            try:
                return opened.call(wallet, call)
            finally:
                if "django" in kind.name:  # Its connections belong to threads, and this thread ends.
                    connections.close_all()

        _in_doubt(lonely.url, ask)


def _handlers(connection: Any) -> list[Any]:
    driver = psycopg_of(connection)
    return list(driver._notice_handlers) if driver is not None else []


def test_what_the_block_raises_passes_the_watch(lonely: PostgresServer) -> None:
    """An error of the block is not replaced, and nothing is left on the connection."""
    with psycopg.connect(lonely.url) as connection:
        with pytest.raises(ZeroDivisionError):
            _fail_while_watched(connection)
        assert _handlers(connection) == []


def _fail_while_watched(connection: Any) -> None:
    with CommitWatch() as watch:
        watch.observe(connection)
        raise ZeroDivisionError


class _Diag:
    """A notice as psycopg describes it."""

    def __init__(self, sqlstate: str, source: str | None, severity: str = "WARNING") -> None:
        self.severity_nonlocalized, self.severity = severity, severity
        self.sqlstate, self.source_function, self.message_primary = sqlstate, source, "it says so"


@pytest.mark.parametrize(
    ("diag", "doubt"),
    [
        pytest.param(_Diag("01000", "SyncRepWaitForLSN"), True, id="the wait was cancelled"),
        pytest.param(_Diag("57P01", "SyncRepWaitForLSN"), True, id="the session was ended while it waited"),
        pytest.param(_Diag("25P01", "EndTransactionBlock"), True, id="COMMIT found no transaction"),
        pytest.param(_Diag("57P01", None), True, id="ended, without a source"),
        pytest.param(_Diag("01000", None), True, id="a plain warning without a source"),
        pytest.param(_Diag("01000", "exec_stmt_raise"), False, id="a trigger of the operator's"),
        pytest.param(_Diag("57P01", "ProcessInterrupts", "FATAL"), False, id="the session was ended while idle"),
        pytest.param(_Diag("00000", None, "NOTICE"), False, id="a notice"),
    ],
)
def test_which_notices_are_doubt(diag: _Diag, caplog: pytest.LogCaptureFixture, *, doubt: bool) -> None:
    """Doubt is raised once; other warnings are logged, and notices are not."""
    caplog.set_level("WARNING", "game_operator.ledger")
    noticed = CommitWarnings()
    noticed.notice(diag)
    if doubt:
        with pytest.raises(LedgerUnavailableError, match="it says so"):
            noticed.check()
    noticed.check()
    assert ("it says so" in caplog.text) == (diag.severity == "WARNING" and not doubt)


@pytest.mark.outside
def test_a_former_primary_is_refused() -> None:
    """A process that has seen a standby take over does not go back to what runs again on the old timeline."""
    with PostgresServer() as server:
        open_accounts(server.url, {"p1": 10_000})
        server.stop()
        data, former = server.folder / "data", server.folder / "former"
        shutil.copytree(data, former)
        give_to_server_user(former)
        (data / "standby.signal").touch()
        server.start()
        execute(server.url, "SELECT pg_promote()")
        with SqlLedger(server.url, patience_seconds=0.3) as ledger:
            assert ledger.apply(withdraw()).applied
            server.stop()
            data.rename(server.folder / "promoted")
            former.rename(data)
            server.start()
            for attempt in (lambda: ledger.apply(withdraw("b2")), lambda: ledger.balance("p1")):
                with pytest.raises(LedgerUnavailableError, match=r"timeline 1, and .* timeline 2.* former primary"):
                    attempt()
            with pytest.raises(LedgerUnavailableError, match="former primary"):
                SqlLedger(server.url, patience_seconds=0.1)
            assert execute(server.url, "SELECT count(*) FROM game_operator_bets") == [(0,)]
            server.stop()
            data.rename(former)
            (server.folder / "promoted").rename(data)
            server.start()
            assert ledger.apply(withdraw("b2")).applied


@pytest.mark.bare
@pytest.mark.parametrize("hidden", ["pg_walfile_name(pg_lsn)", "pg_control_system()"])
def test_where_the_timeline_is_hidden_nothing_is_refused(postgres_url: str, hidden: str) -> None:
    """As on Aurora and some managed servers: the ledger opens and works."""
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        execute(postgres_url, "CREATE ROLE wallet LOGIN")
    execute(postgres_url, "GRANT ALL ON SCHEMA public TO wallet")
    execute(postgres_url, f"REVOKE EXECUTE ON FUNCTION {hidden} FROM PUBLIC")
    with SqlLedger(postgres_url.replace("user=postgres", "user=wallet")) as ledger:
        ledger.open_account("p1")
        assert ledger.balance("p1") == 0
