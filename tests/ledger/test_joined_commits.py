"""Transactions that do not commit, or not to the disk, although a joined call was answered: each is found out."""

import pickle
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import anyio
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import sessionmaker

from game_operator.errors import LedgerError, TransactionRequiredError
from game_operator.ledger import SqlLedger, Terms, joined_block
from game_operator.ledger.engine.address import path_of
from game_operator.wallet import AsyncJoinedWallet, JoinedWallet
from tests.support.callers import KINDS, CallerKind, django_alias, sqlalchemy_url
from tests.support.calls import ask_balance, deposit, rollback, withdraw
from tests.support.ledgers import funded, funded_async

pytestmark = pytest.mark.drawn(10, url=("postgres",))


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    """A ledger with an account of 10.00."""
    with funded(url) as opened:
        yield opened


@pytest.fixture
def engine(url: str) -> Iterator[Any]:
    """SQLAlchemy's engine on that database."""
    made = create_engine(sqlalchemy_url(url, "pysqlite" if url.startswith("sqlite") else "psycopg"))
    yield made
    made.dispose()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody commits later here."""
    monkeypatch.setattr(joined_block, "_CONFIRM_SECONDS", 0.01)


@contextmanager
def _only_a_savepoint(engine: Any) -> Iterator[Any]:
    with engine.connect() as connection, connection.begin() as outer:
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS outside (entry integer)")
        connection.exec_driver_sql("INSERT INTO outside VALUES (1)")
        with connection.begin_nested():
            yield connection
        outer.rollback()


@contextmanager
def _begun(engine: Any) -> Iterator[Any]:
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
        yield connection


#: What users pass by mistake; none of it commits.
_NEVER_COMMITS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "engine.connect": lambda engine: engine.connect,
    "a connection that has begun": lambda engine: partial(_begun, engine),
    "a sessionmaker itself": sessionmaker,
    "a savepoint of an outer transaction": lambda engine: partial(_only_a_savepoint, engine),
}


@pytest.mark.parametrize("make", _NEVER_COMMITS.values(), ids=_NEVER_COMMITS)
def test_a_transaction_that_never_commits(ledger: SqlLedger, engine: Any, make: Callable[[Any], Any]) -> None:
    """The first applied call is looked up over the ledger's own connection; the error names what to pass."""
    wallet = JoinedWallet(ledger, make(engine))
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"engine\.begin \(not engine\.connect\).*durable=True") as failed:
            wallet.withdraw(withdraw())
        opened_none = isinstance(failed.value, TransactionRequiredError)
        assert opened_none is (make is _NEVER_COMMITS["engine.connect"])
        advice = ("is not committed", "non_atomic_requests", "TestCase")
        assert opened_none or all(each in str(failed.value) for each in advice)
    assert ledger.bet("b1") is None
    right = JoinedWallet(ledger, engine.begin)
    assert right.withdraw(withdraw()).balance_cents == 500


#: Each is refused, and stores what later calls are decided by.
_REFUSED: dict[str, Callable[[JoinedWallet], object]] = {
    "a tombstone": lambda wallet: wallet.rollback(rollback("b9")),
    "a decline": lambda wallet: wallet.withdraw(withdraw("b9", amount_cents=10**6)),
    "an early deposit": lambda wallet: wallet.deposit(deposit("b9")),
}


@pytest.mark.parametrize("ask", _REFUSED.values(), ids=_REFUSED)
@pytest.mark.parametrize("confirm", ["first", "always"])
def test_a_refusal_that_is_not_committed_is_no_answer(
    ledger: SqlLedger, engine: Any, confirm: Any, ask: Callable[[JoinedWallet], object]
) -> None:
    """A lost tombstone would let the late withdraw debit (spec §3); where it is committed, the refusal is answered."""
    switch = _Switched(engine)
    wallet = JoinedWallet(ledger, switch, confirm=confirm)
    if confirm == "always":
        assert wallet.withdraw(withdraw(amount_cents=1)).code is None
    switch.commits = False
    with pytest.raises(LedgerError, match="is not committed"):
        ask(wallet)
    switch.commits = True
    ask(wallet)
    assert [each.kind for each in ledger.anomalies()] or ledger.bet("b9")


class _Switched:
    """A transaction that commits while it is switched on."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.commits = engine, True

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        with self.engine.connect() as connection, connection.begin() as transaction:
            yield connection
            if not self.commits:
                transaction.rollback()


@pytest.mark.parametrize(
    ("confirm", "fails_first", "fails_later"),
    [("first", True, False), ("always", True, True), ("never", False, False)],
)
def test_how_long_calls_are_looked_up(
    ledger: SqlLedger, engine: Any, confirm: Any, fails_first: bool, fails_later: bool
) -> None:
    """Until one applied call was found, always, or never; a repeat that is found says nothing of its transaction."""
    switch = _Switched(engine)
    assert JoinedWallet(ledger, switch).withdraw(withdraw("known")).code is None
    wallet = JoinedWallet(ledger, switch, confirm=confirm)

    def fails(bet_id: str) -> bool:
        switch.commits = False
        try:
            return wallet.withdraw(withdraw(bet_id, amount_cents=1)).code is not None
        except LedgerError:
            return True
        finally:
            switch.commits = True

    assert wallet.withdraw(withdraw("known")).code is None  # a repeat
    assert fails("b1") is fails_first
    assert wallet.withdraw(withdraw("b2", amount_cents=1)).code is None
    assert fails("b3") is fails_later
    assert ledger.balance("p1") == 499


def test_what_another_process_has_refused_is_no_success(ledger: SqlLedger, engine: Any) -> None:
    """Our debit was undone after its block, and the repeat that came elsewhere was declined: SUCCESS would be wrong."""

    @contextmanager
    def lost() -> Iterator[Any]:
        with _begun(engine) as connection:
            yield connection
        with SqlLedger(ledger._url) as other:
            blocked = Terms(may_bet=lambda *_: "PLAYER_BLOCKED")
            assert other.apply(withdraw(amount_cents=1), terms=blocked).code == "PLAYER_BLOCKED"

    with pytest.raises(LedgerError, match="is not committed"):
        JoinedWallet(ledger, lost, confirm="always").withdraw(withdraw(amount_cents=1))
    assert ledger.balance("p1") == 1_000


def test_what_another_process_has_stored_proves_nothing(ledger: SqlLedger, engine: Any) -> None:
    """The same call was repeated to a sound process meanwhile: stored at another time, it is not ours."""
    clock = iter(range(1, 100))

    @contextmanager
    def repeated_elsewhere() -> Iterator[Any]:
        with _begun(engine) as connection:
            yield connection
        if next(clock) == 1:
            # Ahead of ours: a clock behind it would store the millisecond after the account's last, which may be ours.
            with SqlLedger(ledger._url, clock_millis=lambda: time.time_ns() // 1_000_000 + 60_000) as other:
                assert other.apply(withdraw(amount_cents=1)).applied

    wallet = JoinedWallet(ledger, repeated_elsewhere)
    with pytest.raises(LedgerError, match="is not committed"):
        wallet.withdraw(withdraw(amount_cents=1))
    with pytest.raises(LedgerError, match="is not committed"):
        wallet.withdraw(withdraw("b2", amount_cents=1))
    assert ledger.balance("p1") == 999


def test_a_commit_that_is_seen_a_little_later_is_found(
    ledger: SqlLedger, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-up is repeated for a while."""
    monkeypatch.setattr(joined_block, "_CONFIRM_SECONDS", 2.0)
    with engine.connect() as connection:

        @contextmanager
        def late() -> Iterator[Any]:
            connection.begin()
            yield connection

        naps: list[float] = []

        def nap(seconds: float) -> None:
            naps.append(seconds)
            if len(naps) == 2:
                connection.commit()

        monkeypatch.setattr(SqlLedger, "_nap", lambda _, seconds: partial(nap, seconds))
        assert JoinedWallet(ledger, late).withdraw(withdraw()).balance_cents == 500
    assert len(naps) == 2


def test_a_durable_atomic_block_inside_another_is_refused(ledger: SqlLedger, url: str) -> None:
    """Under ATOMIC_REQUESTS the view's own block would decide after the answer."""
    from django.db import connections, transaction

    with django_alias(url) as alias:
        durable = partial(transaction.atomic, using=alias, durable=True)

        @contextmanager
        def own() -> Iterator[Any]:
            with durable():
                yield connections[alias]

        for opens in (durable, own):
            with transaction.atomic(using=alias), pytest.raises(RuntimeError, match="durable atomic block"):
                JoinedWallet(ledger, opens).withdraw(withdraw())
        with pytest.raises(LedgerError, match="without durable=True"):
            JoinedWallet(ledger, partial(transaction.atomic, using=alias)).withdraw(withdraw())
        assert ledger.bet("b1") is None
        for opens in (durable, own):
            assert JoinedWallet(ledger, opens).withdraw(withdraw()).balance_cents == 500


@pytest.mark.parametrize("driver", ["asyncpg", "aiosqlite"])
async def test_a_call_that_is_cancelled_leaves_nothing(driver: str, url_of: Callable[[str], str]) -> None:
    """At its budget the receiver cancels a call: the transaction is rolled back, and the repeat is applied."""
    url = url_of("sqlite" if driver == "aiosqlite" else "postgres")
    # SQLAlchemy up to 2.1.4 keeps a connection in its pool that asyncpg has closed.
    engine = create_async_engine(sqlalchemy_url(url, driver), pool_pre_ping=True)
    scopes = [anyio.CancelScope()]

    async def after(*_: Any) -> None:
        if scopes:
            scopes.pop().cancel()
            await anyio.sleep_forever()

    async with funded_async(url) as ledger:
        wallet = AsyncJoinedWallet(ledger, engine.begin, after)
        with scopes[0]:
            await wallet.withdraw(withdraw())
        assert (await ledger.balance("p1"), await ledger.bet("b1")) == (1000, None)
        assert (await wallet.withdraw(withdraw())).balance_cents == 500
    await engine.dispose()


_TELLS = [kind for kind in KINDS if "psycopg" in kind.name or kind.name == "django, postgres"]
_TELLS_NOT = [kind for kind in KINDS if kind.database == "sqlite" or "asyncpg" in kind.name]


@pytest.mark.parametrize("kind", [*_TELLS, *_TELLS_NOT], ids=str)
@pytest.mark.drawn(6)
def test_a_reply_is_refused_where_the_driver_shows_that_the_transaction_failed(
    kind: CallerKind, url_of: Callable[[str], str]
) -> None:
    """Of ``apply(connection=)`` in a handler of the operator's own: the last moment to find out, before the commit."""
    url = url_of(kind.database)
    funded(url).close()
    with kind.open(url) as joining:
        joining.begin()
        outcome = joining.apply(withdraw())
        assert outcome.reply().balance_cents == 500
        with pytest.raises(Exception, match="nowhere"):
            joining.execute("SELECT * FROM nowhere")
        if kind in _TELLS:
            with pytest.raises(LedgerError, match="COMMIT will roll the call back"):
                outcome.reply()
        else:  # SQLite's transaction is sound; asyncpg does not know.
            assert outcome.reply().balance_cents == 500
        assert pickle.loads(pickle.dumps(outcome)).reply().balance_cents == 500
        joining.rollback()
        assert outcome.reply().balance_cents == 500  # The transaction is over: nobody can tell.


def _settings_of(connection: Any) -> Any:
    return connection.execute("SHOW synchronous_commit").fetchone()[0]


@pytest.mark.parametrize(
    ("before", "during"),
    [("off", "on"), ("local", "on"), ("on", "on"), ("remote_write", "remote_write"), ("remote_apply", "remote_apply")],
)
def test_a_joined_call_waits_for_the_disk(postgres_url: str, before: str, during: str) -> None:
    """Whatever it does, for this transaction alone; nothing is lowered."""
    with funded(postgres_url) as ledger, psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"SET synchronous_commit = {before}".encode())
        stages: list[tuple[str, Any]] = [
            ("applied", lambda: ledger.apply(withdraw(), connection=connection)),
            ("replayed", lambda: ledger.apply(withdraw(), connection=connection)),
            ("refused", lambda: ledger.apply(withdraw("b2", amount_cents=9_999), connection=connection)),
            ("an early deposit", lambda: ledger.apply(deposit("b9"), connection=connection)),
            ("a tombstone", lambda: ledger.apply(rollback("b8", tx_id=None), connection=connection)),
            ("an anomaly", lambda: ledger.keep_anomaly("deposit", "unreadable", b"{", connection=connection)),
        ]
        for name, does in stages:
            with connection.transaction():
                does()
                assert (name, _settings_of(connection)) == (name, during)
            assert _settings_of(connection) == before
        with connection.transaction():  # It stores nothing.
            ledger.apply(ask_balance(), connection=connection)
            assert _settings_of(connection) == before


@pytest.mark.parametrize(
    ("pragmas", "is_refused"),
    [
        (["PRAGMA synchronous = OFF"], True),
        (["PRAGMA synchronous = NORMAL"], True),
        (["PRAGMA synchronous = FULL"], False),
        (["PRAGMA synchronous = EXTRA"], False),
        (["PRAGMA journal_mode = DELETE", "PRAGMA synchronous = NORMAL"], False),
    ],
    ids=str,
)
def test_sqlite_waits_for_the_disk(sqlite_url: str, pragmas: list[str], is_refused: bool) -> None:
    """Below FULL a commit in WAL mode is lost with the power; the error has the line that sets it."""
    ledger = funded(sqlite_url)
    ledger.close()
    with closing(sqlite3.connect(path_of(sqlite_url), isolation_level=None)) as connection:
        for pragma in pragmas:
            connection.execute(pragma)
        connection.execute("BEGIN IMMEDIATE")
        if is_refused:
            with pytest.raises(LedgerError, match=r'connection\.execute\("PRAGMA synchronous = FULL"\)'):
                ledger.apply(withdraw(), connection=connection)
            with pytest.raises(LedgerError, match="PRAGMA synchronous"):
                ledger.keep_anomaly("deposit", "unreadable", b"{", connection=connection)
            assert connection.execute("SELECT count(*) FROM game_operator_bets").fetchone() == (0,)
        else:
            assert ledger.apply(withdraw(), connection=connection).applied
        connection.execute("COMMIT")
