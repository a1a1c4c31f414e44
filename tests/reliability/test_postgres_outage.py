"""PostgreSQL killed under load, sessions ended, locks held by others, deadlocks: bounded, and mended unaided."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random

import psycopg
import pytest

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import SqlLedger
from game_operator.ledger.api import Terms
from game_operator.models.webhooks import WebhookCall
from tests.support.books import PREFIX, execute, problems, read_books
from tests.support.calls import ask_balance, deposit, rollback, withdraw
from tests.support.crowds import in_threads, open_accounts
from tests.support.leftovers import assert_idle, nothing_grows
from tests.support.postgres import PostgresServer
from tests.support.seeds import random_of
from tests.support.times import wait_until
from tests.support.traffic import Answer, Log, Traffic, deliver, openings, shares

pytestmark = pytest.mark.outside

PLAYERS = [f"p{number}" for number in range(6)]
PATIENCE_SECONDS = 0.5
#: What a loaded machine may add to any wait.
SLACK_SECONDS = 15.0


_BUSY = (
    "SELECT pid FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
)


def _kill_and_restart(server: PostgresServer, url: str, times: int, random: Random) -> list[float]:
    """Return when it was killed, each time with a call under way."""
    killed: list[float] = []
    for _ in range(times):
        time.sleep(random.uniform(0.05, 0.4))
        wait_until(lambda: execute(url, _BUSY))
        killed.append(time.monotonic())
        server.kill()
        time.sleep(random.uniform(0.0, 0.3))
        server.start()
    return killed


def _under_way(answers: Log, moment: float) -> int:
    """Return how many calls had been sent and not been answered."""
    return sum(answer.asked_at < moment < answer.answered_at for answer in answers)


def _survives_kills(server: PostgresServer, *, kills: int, seed: int, bets: int) -> str:
    url = server.create_database()
    open_accounts(url, openings(PLAYERS))
    traffic = Traffic(seed, PLAYERS, bets)
    with SqlLedger(url, patience_seconds=PATIENCE_SECONDS) as ledger, ThreadPoolExecutor(1) as pool:
        killing = pool.submit(_kill_and_restart, server, url, kills, random_of(seed))
        answers: Log = []
        while not killing.done():
            # All over again until the last kill: repeats are load too, and must change nothing.
            answers += in_threads(ledger.apply, shares(traffic.arrivals(), 8), seconds=600)
        killed = killing.result()
        deliver(ledger.apply, traffic.in_order(), answers)
    assert len(killed) == kills
    assert any(_under_way(answers, moment) for moment in killed), "no call was under way when the server was killed"
    assert problems(read_books(url), traffic.stories, answers) == []
    assert_idle(url)
    doubts = sum(not answer.definite for answer in answers)
    server.drop_database(url)
    return f"{kills} kills of PostgreSQL, {bets} bets and claims, {len(answers)} calls, {doubts} answered SYSTEM_ERROR"


@pytest.mark.timeout(300)
def test_postgres_is_killed_under_load(durable: PostgresServer) -> None:
    """H02: killed with SIGKILL twice under eight threads: recovered unaided, nothing lost, nothing doubled."""
    with nothing_grows():
        _survives_kills(durable, kills=2, seed=1, bets=50)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_postgres_is_killed_100_times(durable: PostgresServer, record_property: Callable[[str, object], None]) -> None:
    """H02: a hundred times."""
    record_property("figures", _survives_kills(durable, kills=100, seed=2, bets=600))


def test_postgres_is_down(durable: PostgresServer) -> None:
    """H02: while it is down each call fails within bounded time; the same ledger goes on when it is back."""
    url = durable.create_database()
    open_accounts(url, {"p1": 10_000})
    with SqlLedger(url, patience_seconds=PATIENCE_SECONDS) as ledger:
        durable.stop()
        started = time.monotonic()
        for attempt in (lambda: ledger.apply(withdraw()), lambda: ledger.balance("p1")):
            with pytest.raises(LedgerUnavailableError):
                attempt()
        assert time.monotonic() - started < 4 * PATIENCE_SECONDS + SLACK_SECONDS
        with pytest.raises(LedgerUnavailableError):
            SqlLedger(url, patience_seconds=0.1)
        durable.start()
        assert ledger.apply(withdraw()).applied
    assert problems(read_books(url)) == []
    durable.drop_database(url)


def _end_sessions(url: str, function: str, until: threading.Event, ended: list[int], random: Random) -> None:
    """End what our sessions do, at random moments."""
    statement = _BUSY.replace("pid", f"{function}(pid)", 1)
    with psycopg.connect(url, autocommit=True) as connection:
        while not until.wait(random.uniform(0.01, 0.1)):
            ended += [1 for _ in connection.execute(statement.encode()).fetchall()]


@pytest.mark.parametrize("function", ["pg_terminate_backend", "pg_cancel_backend"])
@pytest.mark.drawn(1)
def test_sessions_are_ended(postgres_url: str, function: str) -> None:
    """H02: an administrator ends our sessions or statements in the middle of transactions: nothing lost or doubled."""
    open_accounts(postgres_url, openings(PLAYERS))
    traffic, until = Traffic(4, PLAYERS, 80), threading.Event()
    ended: list[int] = []
    with SqlLedger(postgres_url, patience_seconds=30) as ledger, ThreadPoolExecutor(1) as pool:
        ending = pool.submit(_end_sessions, postgres_url, function, until, ended, random_of(4))
        answers: Log = []
        while len(ended) < 5 and not ending.done():
            answers += in_threads(ledger.apply, shares(traffic.arrivals(), 8))
        until.set()
        ending.result()
        deliver(ledger.apply, traffic.in_order(), answers)
    assert problems(read_books(postgres_url), traffic.stories, answers) == []
    assert_idle(postgres_url)


@contextlib.contextmanager
def _locked(url: str, account: str) -> Iterator[None]:
    """Hold the lock of an account's row, as a forgotten session of staff does."""
    with psycopg.connect(url) as connection:
        connection.execute(f"SELECT 1 FROM {PREFIX}accounts WHERE account = %s FOR UPDATE".encode(), (account,))
        yield
        connection.rollback()


def test_a_lock_held_for_longer_than_our_patience(postgres_url: str) -> None:
    """H03: LedgerUnavailableError in bounded time, nothing kept; recovery when the lock is gone."""
    calls: list[WebhookCall] = [withdraw(), deposit(), rollback(), ask_balance()]
    open_accounts(postgres_url, {"p1": 10_000})
    with SqlLedger(postgres_url, patience_seconds=PATIENCE_SECONDS) as ledger:
        with _locked(postgres_url, "p1"):
            for call in random_of(7).sample(calls, 2):
                started = time.monotonic()
                with pytest.raises(LedgerUnavailableError):
                    ledger.apply(call)
                assert time.monotonic() - started < 4 * PATIENCE_SECONDS + SLACK_SECONDS
        assert_idle(postgres_url, sessions=1)
        assert read_books(postgres_url).bets == {}
        assert ledger.apply(withdraw()).applied
    assert problems(read_books(postgres_url)) == []


_FAULTY = f"""
CREATE SEQUENCE faults;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('faults') <= current_setting('faults.times')::bigint THEN
        RAISE EXCEPTION 'injected' USING ERRCODE = current_setting('faults.code');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fail AFTER INSERT ON {PREFIX}calls FOR EACH ROW EXECUTE FUNCTION fail();
"""


def _inject(url: str, code: str, times: int) -> None:
    """Let the next *times* stored calls fail with *code*, in whatever session. A sequence rolls not back."""
    database = execute(url, "SELECT current_database()")[0][0]
    execute(url, f"ALTER DATABASE {database} SET faults.code = '{code}'")
    execute(url, f"ALTER DATABASE {database} SET faults.times = '{times}'")
    execute(url, _FAULTY)


FAULTS = [
    pytest.param("40001", id="serialization failure"),
    pytest.param("40P01", id="deadlock"),
    pytest.param("55P03", id="lock not available"),
    pytest.param("57014", id="statement cancelled"),
    pytest.param("53100", id="disk full"),
    pytest.param("53200", id="out of memory"),
    pytest.param("25006", id="read-only, as a standby is"),
    pytest.param("58030", id="I/O error"),
]


@pytest.mark.parametrize("code", FAULTS)
@pytest.mark.drawn(4)
def test_a_failure_that_passes(postgres_url: str, code: str) -> None:
    """H03: what the server refuses a few times is tried again, and applied once."""
    open_accounts(postgres_url, {"p1": 10_000})
    _inject(postgres_url, code, 3)
    with SqlLedger(postgres_url, patience_seconds=30) as ledger:
        for call in (withdraw(), deposit()):
            assert ledger.apply(call).code is None
    books = read_books(postgres_url)
    assert books.accounts == {"p1": 10_000 - 500 + 1250}
    assert problems(books) == []


@pytest.mark.parametrize("code", FAULTS)
@pytest.mark.drawn(3)
def test_a_failure_that_stays(postgres_url: str, code: str) -> None:
    """H03: what the server refuses for ever is tried for so long and no longer, then LedgerUnavailableError."""
    open_accounts(postgres_url, {"p1": 10_000})
    _inject(postgres_url, code, 10**9)
    with SqlLedger(postgres_url, patience_seconds=PATIENCE_SECONDS) as ledger:
        started = time.monotonic()
        with pytest.raises(LedgerUnavailableError):
            ledger.apply(withdraw())
        assert time.monotonic() - started < 4 * PATIENCE_SECONDS + SLACK_SECONDS
        assert_idle(postgres_url, sessions=1)
        assert read_books(postgres_url).bets == {}
        execute(postgres_url, f"DROP TRIGGER fail ON {PREFIX}calls")
        assert ledger.apply(withdraw()).applied
    assert problems(read_books(postgres_url)) == []


def _locks_the_other_way(url: str, stop: threading.Event) -> None:
    """Lock p2, then p1, over and over; whoever waits for a lock with us finds the deadlock first."""
    statement = f"SELECT 1 FROM {PREFIX}accounts WHERE account = %s FOR UPDATE".encode()
    with psycopg.connect(url) as connection:
        connection.execute("SET deadlock_timeout = '60s'")
        connection.commit()
        while not stop.wait(0.01):
            connection.execute(statement, ("p2",))
            time.sleep(0.05)  # Until a batch of ours has p1 and waits for p2.
            connection.execute(statement, ("p1",))
            connection.rollback()


def _deadlocks(url: str) -> int:
    """Return how many deadlocks ended a transaction, by what sessions have told that are closed."""
    return int(execute(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0][0])


def test_a_true_deadlock(postgres_url: str) -> None:
    """H03: another session locks two players in the other order, again and again; our transaction is repeated."""
    open_accounts(postgres_url, {"p1": 10**6, "p2": 10**6})
    database = execute(postgres_url, "SELECT current_database()")[0][0]
    execute(postgres_url, f"ALTER DATABASE {database} SET deadlock_timeout = '200ms'")
    stop, until, answers = threading.Event(), time.monotonic() + 30, list[Answer]()
    with ThreadPoolExecutor(1) as pool:
        locking = pool.submit(_locks_the_other_way, postgres_url, stop)
        try:
            for attempt in count():
                with SqlLedger(postgres_url, patience_seconds=30) as ledger:
                    # By batches, or we would never hold both.
                    answers += in_threads(ledger.apply, _for_two(attempt))
                if _deadlocks(postgres_url) or time.monotonic() > until:
                    break
        finally:
            stop.set()
        locking.result()
    assert _deadlocks(postgres_url), "there was no deadlock"
    assert problems(read_books(postgres_url), (), answers) == []
    assert {answer.code for answer in answers} == {None}
    assert_idle(postgres_url)


def _for_two(attempt: int) -> list[list[WebhookCall]]:
    return [[withdraw(f"b{attempt}-{n}-{m}", f"p{1 + n % 2}", 1) for m in range(10)] for n in range(12)]


def test_the_operators_own_statement_breaks_a_constraint(postgres_url: str) -> None:
    """What after breaks is no failure of ours: raised at once, not tried again for as long as we have patience."""
    open_accounts(postgres_url, {"p1": 10_000})
    execute(postgres_url, "CREATE TABLE seen (id int PRIMARY KEY)")
    execute(postgres_url, "INSERT INTO seen VALUES (1)")
    terms = Terms(after=lambda call, outcome, connection: connection.execute("INSERT INTO seen VALUES (1)").fetchall())
    with SqlLedger(postgres_url, patience_seconds=60) as ledger:
        started = time.monotonic()
        with pytest.raises(psycopg.errors.UniqueViolation):
            ledger.apply(withdraw(), terms=terms)
        assert time.monotonic() - started < SLACK_SECONDS
        assert read_books(postgres_url).bets == {}
        assert ledger.apply(withdraw()).applied
    assert problems(read_books(postgres_url)) == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param("", {"tcp_user_timeout": "7000", "keepalives_idle": "7", "connect_timeout": "3"}, id="ours"),
        pytest.param("&tcp_user_timeout=1234&connect_timeout=3", {"tcp_user_timeout": "1234"}, id="the address says"),
    ],
)
def test_a_silent_network_is_not_waited_for_for_hours(postgres_url: str, more: str, expected: dict[str, str]) -> None:
    """The client library is told when to give a silent connection up, unless the address tells it otherwise."""
    with SqlLedger(postgres_url + more, patience_seconds=7) as ledger:
        connection = ledger._store._connection
        assert isinstance(connection, psycopg.Connection)
        told = connection.info.get_parameters()
        assert {name: told[name] for name in expected} == expected
