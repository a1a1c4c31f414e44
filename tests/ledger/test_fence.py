"""
The fence: once a later version has raised ``oldest_writer``, a program that runs already writes nothing any more.

It answers SYSTEM_ERROR from the next call on, whichever way the call takes. Each way to write is tried by itself.
"""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import anyio
import psycopg
import pytest

from game_operator.backoffice.journal import Journal
from game_operator.backoffice.journal_records import Chunk, ItemResult, NewItem, Run
from game_operator.backoffice.reconcile.by_hand import resolve
from game_operator.errors import SchemaError, UnknownSourceError
from game_operator.ledger import SqlLedger, Terms
from game_operator.ledger.api import DEFAULT_TERMS
from game_operator.ledger.engine.address import path_of
from game_operator.ledger.engine.tables import VERSION, table_names
from game_operator.ledger.office import Office
from game_operator.ledger.rules.book import Item, NewFinding
from game_operator.ledger.staff.repairs import Repair
from game_operator.ledger.steps import run as run_steps
from game_operator.models.webhooks import WebhookCall
from game_operator.wallet import JoinedWallet
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.joined_wallets import of_sqlite3
from tests.support.ledgers import funded, funded_async, store_of
from tests.support.next_version import NEXT, raise_fence, run_next_migration
from tests.support.raw_sql import DEFAULT_PREFIX, is_sqlite, rows, run, wait_for_a_lock
from tests.support.repairs import lost, nothing, pay, repair
from tests.support.retention import drop

P = DEFAULT_PREFIX
REFUSED = f"older than version {NEXT} may not write any more.*upgrade it and repeat the call"
_FAR_MILLIS = 4_102_444_800_000


class Stage(NamedTuple):
    """A ledger that runs, with something for each way to write."""

    url: str
    ledger: SqlLedger
    journal: Journal
    run: Run
    chunk: Chunk

    def together(self, *calls: WebhookCall) -> None:
        """Apply calls that share a commit."""
        for result in together(self.ledger, *calls):
            if isinstance(result, Exception):
                raise result

    def joined(self, write: Callable[[SqlLedger, Any], object]) -> None:
        """Write in a transaction of the caller's, and commit it."""
        with closing(connected(self.url)) as connection:
            write(self.ledger, connection)
            connection.commit()

    def in_joined_wallet(self, write: Callable[[JoinedWallet], object]) -> None:
        """Write by a JoinedWallet, which opens and commits the transactions."""
        transaction = partial(of_sqlite3 if is_sqlite(self.url) else psycopg.connect, self.url)
        write(JoinedWallet(self.ledger, transaction))


def together(ledger: SqlLedger, *calls: WebhookCall) -> list[Any]:
    """Apply calls that share a commit."""
    return run_steps(ledger._applied([Item(call, DEFAULT_TERMS) for call in calls]))


def connected(url: str) -> Any:
    """Return a connection of the operator's with a transaction open."""
    if not is_sqlite(url):
        return psycopg.connect(url)
    connection = sqlite3.connect(path_of(url), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:
    """The tables are migrated, which only adds; the fence is where it was."""
    with SqlLedger(database_url) as ledger:
        for player_id in ("p1", "p2", "later"):
            ledger.open_account(player_id, Decimal(100))
        for bet_id in ("b1", "b5"):
            assert ledger.apply(withdraw(bet_id)).applied
        assert ledger.apply(deposit("b5", amount_cents=500)).applied
        ledger.keep_anomaly("deposit", "unreadable", b"[")
        owed: dict[str, Any] = {"player_id": "p1", "account": "p1", "at_stake_cents": 700, "owed_cents": 200}
        found = [NewFinding("amount_differs", "b1", "d"), NewFinding("late_deposit", "b5", "d", "t", **owed)]
        Office(ledger).write(lambda dialect: dialect.store_findings("", found))
        run(database_url, "UPDATE {p}accounts SET at_millis = at_millis + 1000000 WHERE account = 'later'")
        journal = Journal(ledger)
        begun = journal.begin("campaign", source="", service="s", parameters={}, interval_micros=0, name="summer")
        journal.add_page(begun, [NewItem("a", {}, 100), NewItem("b", {}, 100)], cursor="", ready=True)
        chunk = journal.claim(begun.id, "one")
        assert chunk is not None
        run_next_migration(database_url)
        yield Stage(database_url, ledger, journal, begun, chunk)


#: In the caller's transaction, over its connection.
JOINED: dict[str, Callable[[SqlLedger, Any], object]] = {
    "a withdraw": lambda ledger, on: ledger.apply(withdraw("b2"), connection=on),
    "a deposit": lambda ledger, on: ledger.apply(deposit("b1"), connection=on),
    "an early deposit": lambda ledger, on: ledger.apply(deposit("b9"), connection=on),
    "a declined withdraw": lambda ledger, on: ledger.apply(withdraw("b2", amount_cents=99_999), connection=on),
    "a rollback": lambda ledger, on: ledger.apply(rollback("b1"), connection=on),
    "an anomaly": lambda ledger, on: ledger.keep_anomaly("deposit", "unreadable", b"{", connection=on),
}
WRITING: dict[str, Callable[[Stage], object]] = {
    **{f"joined: {name}": partial(Stage.joined, write=write) for name, write in JOINED.items()},
    # The lone form of the express statement, and its set-based form.
    "a withdraw": lambda on: on.ledger.apply(withdraw("b2")),
    "withdraws together": lambda on: on.together(withdraw("b2"), withdraw("b3", "p2")),
    "a deposit": lambda on: on.ledger.apply(deposit("b1")),
    # The long way.
    "an early deposit": lambda on: on.ledger.apply(deposit("b9")),
    "a declined withdraw": lambda on: on.ledger.apply(withdraw("b2", amount_cents=99_999)),
    "a rollback": lambda on: on.ledger.apply(rollback("b1")),
    "a tombstone": lambda on: on.ledger.apply(rollback("b9", tx_id="withdraw:bet:b9")),
    "a claim": lambda on: on.ledger.apply(claim()),
    "a withdraw with after": lambda on: on.ledger.apply(withdraw("b2"), terms=Terms(after=lambda *_: None)),
    "an unknown source": lambda on: on.ledger.apply(deposit("b1"), terms=Terms(source="other")),
    "an anomaly": lambda on: on.ledger.keep_anomaly("deposit", "unreadable", b"{"),
    "a joined wallet": lambda on: on.in_joined_wallet(lambda wallet: wallet.withdraw(withdraw("b2"))),
    "a joined repair": lambda on: on.in_joined_wallet(
        lambda wallet: wallet.repair(Repair(lost("b1"), "reconcile", nothing))
    ),
    # Staff.
    "opening": lambda on: on.ledger.open_account("p3"),
    "adjusting": lambda on: on.ledger.adjust("p1", Decimal(1), reference="r"),
    "resolving": lambda on: on.ledger.resolve(1),
    "adding a source": lambda on: on.ledger.add_source("new"),
    "stopping bets": lambda on: on.ledger.stop_bets(actor="ann", reason="r"),
    "correcting the time": lambda on: on.ledger.correct_time("later"),
    "closing totals": lambda on: on.ledger.close_totals(now_millis=_FAR_MILLIS),
    "dropping": lambda on: drop(on.ledger, _FAR_MILLIS),
    "maintaining": lambda on: on.ledger.maintain(),
    # The back office.
    "a repair": lambda on: repair(on.ledger, lost("b1")),
    "a payment": lambda on: pay(on.ledger, 2),
    "resolving a finding": lambda on: resolve(on.ledger, 1, actor="ann", reason="looked"),
    "keeping a document": lambda on: Journal(on.ledger).keep_document("games", b"[]", before=None),
    "beginning a run": lambda on: on.journal.begin(
        "reconcile", source="", service="s", parameters={}, interval_micros=0
    ),
    "pausing a run": lambda on: on.journal.set_state(on.run.id, "paused", "by hand"),
    "beginning an item": lambda on: on.journal.begin_item(on.chunk, "a", "sending"),
    "saving an item": lambda on: on.journal.save(on.chunk, [ItemResult("a", "granted", {})]),
    "saving a finding": lambda on: on.journal.save(on.chunk, [], findings=[NewFinding("amount_differs", "b", "No.")]),
}


def content(url: str) -> dict[str, list[Any]]:
    """Return all rows of all tables, and on PostgreSQL the partitions."""
    if is_sqlite(url):
        return {name: sorted(rows(url, f"SELECT * FROM {name}"), key=repr) for name in table_names("sqlite", P)}
    # One statement, for each has a connection of its own.
    each = [f"SELECT '{name}', CAST(whole AS text) FROM {name} whole" for name in table_names("postgres", P)]
    each.append("SELECT 'partitions', relname::text FROM pg_class WHERE relkind = 'r'")
    found = dict[str, list[Any]]()
    for name, row in rows(url, f"{' UNION ALL '.join(each)} ORDER BY 1, 2"):
        found.setdefault(name, []).append(row)
    return found


@pytest.mark.parametrize("writing", WRITING)
@pytest.mark.drawn(8, database_url=("postgres",))
def test_nothing_is_written_behind_the_fence(stage: Stage, writing: str) -> None:
    """The very next write is refused. With the fence where it was, the same write is done."""
    raise_fence(stage.url)
    before = content(stage.url)
    with pytest.raises(SchemaError, match=REFUSED):
        WRITING[writing](stage)
    assert content(stage.url) == before
    assert stage.ledger.balance("p1") == 9_500 - 500 + 500
    raise_fence(stage.url, VERSION)
    with suppress(UnknownSourceError):  # An anomaly of it is kept.
        WRITING[writing](stage)
    after = content(stage.url)
    assert after != before | {f"{P}meta": after[f"{P}meta"]}


async def test_an_awaited_ledger_stops_too(database_url: str) -> None:
    """Calls that wait for the same commit, one by itself, one that joins, and what staff does."""
    async with funded_async(database_url, 100) as ledger:
        await ledger.apply(withdraw("b1"))
        await ledger.keep_anomaly("deposit", "unreadable", b"[")
        run_next_migration(database_url)
        await ledger.apply(withdraw("b0"))
        raise_fence(database_url)
        before = content(database_url)

        async def refuse(write: Callable[[], Any]) -> None:
            with pytest.raises(SchemaError, match=REFUSED):
                await write()

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(refuse, lambda number=number: ledger.apply(withdraw(f"c{number}")))
        await refuse(lambda: ledger.apply(deposit("b1")))
        await refuse(lambda: ledger.apply(deposit("b9")))
        await refuse(lambda: ledger.adjust("p1", Decimal(1), reference="r"))
        await refuse(lambda: ledger.keep_anomaly("deposit", "unreadable", b"{"))
        if not is_sqlite(database_url):
            async with await psycopg.AsyncConnection.connect(database_url) as connection:
                await refuse(lambda: ledger.apply(withdraw("b2"), connection=connection))
        assert content(database_url) == before


@pytest.mark.outside
@pytest.mark.parametrize("write", [lambda ledger: ledger.add_source("late"), lambda ledger: ledger.correct_time("p1")])
def test_a_migration_that_commits_while_staff_wait_for_it(
    postgres_url: str, write: Callable[[SqlLedger], object]
) -> None:
    """The fence was open when they asked first; they ask again before they commit."""
    with funded(postgres_url, 1) as ledger, psycopg.connect(postgres_url) as migration, ThreadPoolExecutor(1) as beside:
        run(postgres_url, "UPDATE {p}accounts SET at_millis = ?", _FAR_MILLIS)
        before = content(postgres_url)
        migration.execute(f"LOCK TABLE {P}sources, {P}accounts IN ACCESS EXCLUSIVE MODE".encode())
        waiting = beside.submit(write, ledger)
        wait_for_a_lock(postgres_url)
        migration.execute(f"UPDATE {P}meta SET value = {NEXT} WHERE name = 'oldest_writer'".encode())
        migration.commit()
        with pytest.raises(SchemaError, match=REFUSED):
            waiting.result()
    assert {name: found for name, found in content(postgres_url).items() if name != f"{P}meta"} == {
        name: found for name, found in before.items() if name != f"{P}meta"
    }


@pytest.mark.parametrize("is_fenced", [True, False])
@pytest.mark.parametrize("isolation", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
@pytest.mark.parametrize("writing", JOINED)
@pytest.mark.drawn(8)
def test_a_transaction_that_sees_an_old_state_writes_nothing(
    postgres_url: str, writing: str, isolation: psycopg.IsolationLevel, is_fenced: bool
) -> None:
    """Its own first statement came before the fence, which it cannot see: it cannot go on, and is repeated."""
    with funded(postgres_url, 100) as ledger, psycopg.connect(postgres_url) as connection:
        assert ledger.apply(withdraw("b1")).applied
        with connection.transaction(force_rollback=True):
            ledger.apply(withdraw("known"), connection=connection)
        connection.isolation_level = isolation
        connection.execute("SELECT 1")
        if is_fenced:
            run_next_migration(postgres_url)
            raise_fence(postgres_url)
        before = content(postgres_url)
        if not is_fenced:
            JOINED[writing](ledger, connection)
            connection.commit()
            assert content(postgres_url) != before
            return
        with pytest.raises(Exception, match=f"concurrent update|{REFUSED}"):
            JOINED[writing](ledger, connection)
        connection.rollback()
        assert content(postgres_url) == before


def test_a_program_that_connects_again_goes_on(database_url: str) -> None:
    """After a lost connection, on tables that a newer program has added to; not once it is shut out."""
    with funded(database_url, 100) as ledger:
        run_next_migration(database_url)
        _disconnect(ledger)
        assert ledger.apply(withdraw("b1")).applied
        raise_fence(database_url)
        _disconnect(ledger)
        with pytest.raises(SchemaError, match=REFUSED):
            ledger.apply(withdraw("b2"))
    with pytest.raises(SchemaError, match="upgrade this one"):
        SqlLedger(database_url)


def _disconnect(ledger: SqlLedger) -> None:
    if is_sqlite(ledger._url):
        store_of(ledger)._discard()
    else:
        store_of(ledger)._connection.close()
