"""Behind PgBouncer: nothing is lost, no statement is mixed up, and nothing of ours stays on what others use."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from game_operator.errors import LedgerError, LedgerUnavailableError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, Terms
from game_operator.ledger.postgres.sessions import InOneQuery
from tests.support.books import execute, problems, read_books
from tests.support.callers import KINDS, CallerKind, sqlalchemy_url
from tests.support.calls import ask_balance, deposit, rollback, withdraw
from tests.support.crowds import in_threads, open_accounts
from tests.support.ledgers import store_of
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresServer
from tests.support.traffic import Log, Traffic, deliver, deliver_async, openings, shares

pytestmark = [pytest.mark.outside, pytest.mark.drawn(12)]

PLAYERS = [f"p{number}" for number in range(6)]
HUNDRED = Decimal(100)
OURS = re.compile(r"game_operator_[0-9a-f]{16}_[0-9a-f]{16}")


@pytest.fixture(scope="module", params=["transaction", "session"])
def bouncer(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[PgBouncer]:
    """A PgBouncer of each mode; with transactions, fewer connections to the server than ledgers use."""
    size = 2 if request.param == "transaction" else 20
    with PgBouncer(postgres, pool_mode=request.param, pool_size=size) as started:
        yield started


@pytest.fixture(scope="module")
def narrow(postgres: PostgresServer) -> Iterator[PgBouncer]:
    """A PgBouncer with one connection to the server for each database, so that whatever stays there is seen."""
    with PgBouncer(postgres, pool_size=1) as started:
        yield started


@pytest.mark.drawn(1)
def test_traffic_of_threads_and_tasks(bouncer: PgBouncer, postgres_url: str) -> None:
    """Three ledgers of threads and one of tasks at once: each call is answered, and the books are sound."""
    url = bouncer.url(postgres_url)
    open_accounts(url, openings(PLAYERS))
    traffics = [Traffic(seed, PLAYERS, 25, name=f"t{seed}") for seed in range(4)]
    answers: Log = []

    async def tasks(traffic: Traffic) -> None:
        async with AsyncSqlLedger(url, patience_seconds=30) as ledger:
            await asyncio.gather(
                *(deliver_async(ledger.apply, part, answers) for part in shares(traffic.arrivals(), 4))
            )
            await deliver_async(ledger.apply, traffic.in_order(), answers)

    def threads(traffic: Traffic) -> None:
        with SqlLedger(url, patience_seconds=30) as ledger:
            answers.extend(in_threads(ledger.apply, shares(traffic.arrivals(), 4)))
            deliver(ledger.apply, traffic.in_order(), answers)

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(threads, traffic) for traffic in traffics[:3]]
        done.append(pool.submit(lambda: asyncio.run(tasks(traffics[3]))))
        for each in done:
            each.result()
    stories = [story for traffic in traffics for story in traffic.stories]
    assert all(answer.definite for answer in answers)
    assert problems(read_books(postgres_url), stories, answers) == []


def test_the_pooler_drops_its_connections(narrow: PgBouncer, postgres_url: str) -> None:
    """As when it is restarted: the same ledger goes on, and loses nothing."""
    database = execute(postgres_url, "SELECT current_database()")[0][0]
    admin = narrow.url("postgresql:///pgbouncer")
    with SqlLedger(narrow.url(postgres_url)) as ledger:
        ledger.open_account("p1", HUNDRED)
        assert ledger.apply(withdraw("b1")).applied
        for command in ("KILL", "RESUME"):
            execute(admin, f"{command} {database}")
        assert ledger.apply(withdraw("b2")).applied
        execute(admin, f"RECONNECT {database}")
        assert ledger.apply(withdraw("b1")).replayed
    assert problems(read_books(postgres_url)) == []


def test_no_server_connection_is_free(postgres: PostgresServer, postgres_url: str) -> None:
    """A call waits for as long as PgBouncer lets it, and is then refused in our words; later the ledger goes on."""
    with PgBouncer(postgres, pool_size=1, settings={"query_wait_timeout": "1"}) as bouncer:
        url = bouncer.url(postgres_url)
        with SqlLedger(url, patience_seconds=0.2) as ledger, psycopg.connect(url) as other:
            ledger.open_account("p1", HUNDRED)
            other.execute("SELECT 1")
            with pytest.raises(LedgerUnavailableError, match="query_wait_timeout"):
                ledger.apply(withdraw("b1"))
            other.rollback()
            assert ledger.apply(withdraw("b1")).applied


_LEFT = """
SELECT 'setting', name FROM pg_settings WHERE source = 'session'
UNION ALL SELECT 'statement', name FROM pg_prepared_statements
UNION ALL SELECT 'lock', CAST(objid AS text) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
"""


def _left_on(url: str) -> list[Any]:
    """Return what stays on the one connection to the server; PgBouncer sets the client's encoding and times itself."""
    known = {"client_encoding", "DateStyle", "TimeZone", "application_name", "standard_conforming_strings"}
    with psycopg.connect(url, autocommit=True, client_encoding="utf8", prepare_threshold=None) as other:
        return [row for row in other.execute(_LEFT).fetchall() if row[1] not in known]


def _after(_call: object, _outcome: object, connection: Any) -> None:
    connection.execute("SET LOCAL search_path = elsewhere")


def test_nothing_stays_on_the_server_connection(narrow: PgBouncer, postgres_url: str) -> None:
    """
    Opening, calls of all ways, surveys and pruning leave no setting, no statement and no lock to others.

    Where the operator's statements change the search path, ours find the tables all the same.
    """
    url = narrow.url(postgres_url)
    with SqlLedger(url) as ledger:
        ledger.open_account("p1")
        ledger.adjust("p1", HUNDRED, reference="r1")
        for number in range(7):
            assert ledger.apply(withdraw(f"b{number}")).applied
            assert ledger.apply(withdraw(f"w{number}"), terms=Terms(after=_after)).applied
        ledger.apply(deposit("b0"))
        ledger.apply(rollback("b1", tx_id="withdraw:bet:b1"))
        ledger.apply(deposit("unseen"))
        for _ in range(7):
            ledger.apply(ask_balance())
            ledger.history("b0")
        assert ledger.verify().sound
        ledger.maintain(drop_after=timedelta(days=90))
        assert _left_on(url) == []
    assert _left_on(url) == []


@pytest.mark.parametrize("through_pooler", [False, True], ids=["direct", "pooled"])
@pytest.mark.parametrize(
    ("configured", "expected"), [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
)
@pytest.mark.drawn(3)
def test_commits_wait_for_the_disk_at_least(
    narrow: PgBouncer, postgres_url: str, configured: str, expected: str, *, through_pooler: bool
) -> None:
    """Whatever role or database prefer: a weaker commit is raised, and a stronger one is not lowered."""
    database = execute(postgres_url, "SELECT current_database()")[0][0]
    execute(postgres_url, f"ALTER DATABASE {database} SET synchronous_commit = '{configured}'")
    seen: list[str] = []

    def after(_call: object, _outcome: object, connection: Any) -> None:
        seen.append(connection.execute("SHOW synchronous_commit").fetchone()[0])

    with SqlLedger(narrow.url(postgres_url) if through_pooler else postgres_url) as ledger:
        ledger.open_account("p1", HUNDRED)
        assert ledger.apply(withdraw(), terms=Terms(after=after)).applied
    assert seen == [expected]


def test_a_setting_of_others_does_not_weaken_a_commit(narrow: PgBouncer, postgres_url: str) -> None:
    """An application that sets synchronous_commit behind the pooler sets it for whoever comes next, but not for us."""
    url, seen = narrow.url(postgres_url), list[str]()

    def after(_call: object, _outcome: object, connection: Any) -> None:
        seen.append(connection.execute("SHOW synchronous_commit").fetchone()[0])

    with SqlLedger(url) as ledger, psycopg.connect(url, autocommit=True) as other:
        ledger.open_account("p1", HUNDRED)
        other.execute("SET synchronous_commit = off")
        assert ledger.apply(withdraw(), terms=Terms(after=after)).applied
        assert other.execute("SHOW synchronous_commit").fetchone() == ("off",)
    assert seen == ["on"]


@pytest.mark.parametrize(
    ("pooler", "through", "expected"),
    [
        pytest.param(None, False, False, id="a direct connection is recognised"),
        pytest.param(None, True, True, id="a pooler is recognised"),
        pytest.param(True, False, True, id="the operator says that one is there"),
        pytest.param(False, True, False, id="the operator says that none is there"),
    ],
)
def test_how_a_pooler_is_recognised(
    narrow: PgBouncer, postgres_url: str, *, pooler: bool | None, through: bool, expected: bool
) -> None:
    """By the process id that a connection announces; pooler= decides otherwise. Behind one, nothing is set for long."""
    url = narrow.url(postgres_url) if through else postgres_url
    with SqlLedger(url, pooler=pooler) as ledger:
        connection = ledger._store._connection
        assert isinstance(connection, psycopg.Connection)
        kept = connection.execute("SELECT count(*) FROM pg_settings WHERE source = 'session' AND name = 'lock_timeout'")
        assert kept.fetchone() == (0 if expected else 1,)
        assert (connection.prepare_threshold is None) == expected


def test_names_of_prepared_statements_are_nobody_elses(postgres_url: str) -> None:
    """Each carries a digest of its text and a random token, psycopg's own too; two connections share none."""
    names: list[str] = []
    for opened in range(2):
        with SqlLedger(postgres_url) as ledger:
            ledger.open_account(f"p{opened}", HUNDRED)
            for number in range(3):
                ledger.apply(withdraw(f"b{opened}-{number}", f"p{opened}"))
                ledger.apply(ask_balance(f"p{opened}"))
            connection = ledger._store._connection
            assert isinstance(connection, psycopg.Connection)
            found = connection.execute("SELECT name FROM pg_prepared_statements", prepare=False).fetchall()
            names += [row[0] for row in found]
    assert len(names) > 8
    assert len(set(names)) == len(names)
    assert [name for name in names if not OURS.fullmatch(name)] == []


def test_an_unrecognised_pooler_runs_no_statement_of_another_ledger(narrow: PgBouncer, postgres_url: str) -> None:
    """With pooler=False behind one, calls may fail; none is answered SUCCESS that was not stored."""
    url = narrow.url(postgres_url)
    prefixes = ["one_", "two_"]
    with ExitStack() as stack:
        ledgers = [stack.enter_context(SqlLedger(url, pooler=False, table_prefix=each)) for each in prefixes]
        for prefix in prefixes:  # Straight to the server: behind the pooler any statement may fail.
            with SqlLedger(postgres_url, table_prefix=prefix) as straight:
                straight.open_account("p1", HUNDRED)
        applied: list[set[str]] = [set(), set()]

        def play(which: int) -> None:
            for number in range(60):
                try:
                    outcome = ledgers[which].apply(withdraw(f"{prefixes[which]}{number}", amount_cents=1))
                except Exception:  # That is for whoever said pooler=False.
                    continue
                if outcome.applied:
                    applied[which].add(f"{prefixes[which]}{number}")

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(play, which) for which in range(2)]:
                done.result()
    for which, prefix in enumerate(prefixes):
        stored = {row[0] for row in execute(postgres_url, f"SELECT bet_id FROM {prefix}bets")}
        assert applied[which] <= stored
        assert all(bet.startswith(prefix) for bet in stored)


JOINED = ["psycopg", "psycopg async", "sqlalchemy connection, psycopg", "sqlalchemy async connection, psycopg"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in [*JOINED, "django, postgres"]], ids=str)
@pytest.mark.drawn(2)
def test_joined_connections(narrow: PgBouncer, postgres_url: str, kind: CallerKind) -> None:
    """Two callers share one server connection, with their drivers as they come: no name meets another's."""
    url = narrow.url(postgres_url)
    open_accounts(url, {"p1": 100_000, "p2": 100_000})
    with kind.open(url) as one, kind.open(url) as other:
        for number in range(8):
            for name, joining in (("p1", one), ("p2", other)):
                joining.begin()
                assert joining.apply(withdraw(f"{name}-{number}", name, 100)).applied
                joining.commit()
    books = read_books(postgres_url)
    assert len(books.bets) == 16
    assert books.accounts == {"p1": 100_000 - 800, "p2": 100_000 - 800}
    assert problems(books) == []


async def test_joined_connections_of_asyncpg(narrow: PgBouncer, postgres_url: str) -> None:
    """What SQLAlchemy keeps prepared on asyncpg is refused; with the settings that the error names, it works."""
    url = narrow.url(postgres_url)
    open_accounts(url, {"p1": 100_000})
    ledger = AsyncSqlLedger(url)
    as_it_comes, as_advised = create_async_engine(sqlalchemy_url(url, "asyncpg")), _advised_engine(url)
    for number in range(3):
        async with as_advised.begin() as connection:
            assert (await ledger.apply(withdraw(f"b{number}"), connection=connection)).applied
    async with as_it_comes.begin() as connection:
        assert (await ledger.apply(withdraw("b3"), connection=connection)).applied
    for _ in range(2):
        async with as_it_comes.connect() as connection, connection.begin():
            with pytest.raises(LedgerError, match=r"Nothing was applied.*prepared_statement_cache_size"):
                await ledger.apply(withdraw("b4"), connection=connection)
    await as_it_comes.dispose()
    await as_advised.dispose()
    assert sorted(read_books(postgres_url).bets) == ["b0", "b1", "b2", "b3"]


def _advised_engine(url: str) -> AsyncEngine:
    names = {"prepared_statement_name_func": lambda: f"__asyncpg_{uuid4()}__"}
    sizes = {"statement_cache_size": 0, "prepared_statement_cache_size": 0}
    return create_async_engine(sqlalchemy_url(url, "asyncpg"), connect_args=names | sizes)


@pytest.mark.parametrize(
    "text", ["it's", "\\", "\\'; DELETE FROM game_operator_bets; --", "$1 $2 %s {0}", "é\u0101\U0001f3b2"]
)
def test_plain_bets_take_one_message(
    narrow: PgBouncer, postgres_url: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A withdraw, a batch and a deposit go without a transaction of several messages, whatever their texts hold."""
    open_accounts(postgres_url, {text: 1000})
    with SqlLedger(postgres_url) as direct:
        direct.add_source("")
    with SqlLedger(narrow.url(postgres_url)) as ledger:
        assert store_of(ledger)._session.pooled
        monkeypatch.setattr(ledger._store, "_attempt", None)
        assert ledger.apply(withdraw("bet-0" + text, text, 100)).balance_cents == 900
        assert ledger.apply(deposit("bet-0" + text, text, 50)).balance_cents == 950
        monkeypatch.undo()
        bet = ledger.bet("bet-0" + text)
        assert bet is not None
        assert (bet.player_id, bet.won_cents) == (text, 50)
    assert problems(read_books(postgres_url)) == []


def test_one_message_is_one_transaction_as_we_set_it(narrow: PgBouncer, postgres_url: str) -> None:
    """Its isolation is ours, a NUL is refused and cuts nothing off, and a failure leaves no transaction open."""
    name = urlsplit(postgres_url).path[1:]
    execute(postgres_url, f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    with psycopg.connect(narrow.url(postgres_url), autocommit=True, prepare_threshold=None) as connection:
        message = InOneQuery(connection.pgconn, 5)
        asked = "SELECT current_setting('transaction_isolation'), current_setting('lock_timeout'), $1"
        assert connection.wait(message.execution((asked, ["a'b"]))) == [["read committed", "5s", "a'b"]]
        with pytest.raises(psycopg.DataError):
            connection.wait(message.execution(("SELECT $1", ["a\0b"])))
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.wait(message.execution(("SELECT 1 / length($1)", [""])))
        assert connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
        assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)
