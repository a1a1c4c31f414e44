"""The ledger's connection in the operator's hands: whatever is done with it, an answer is true, and the next is too."""

import contextlib
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from game_operator.errors import LedgerError, LedgerUnavailableError
from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.ledger.api import Terms
from game_operator.money import Cents
from tests.support.calls import deposit, withdraw
from tests.support.ledgers import funded
from tests.support.raw_sql import run

pytestmark = [pytest.mark.outside, pytest.mark.drawn(5, database_url=("postgres",))]

Misuse = Callable[[Any], None]  # Any: a connection of either database.


#: How the operator's code ends the transaction.
ENDS = {"it rolls back": ["ROLLBACK"], "it begins anew": ["ROLLBACK", "BEGIN"], "it commits": ["COMMIT"]}


def _after(misuse: Misuse) -> Terms:
    return Terms(after=lambda _call, _outcome, connection: misuse(connection))


def _books(ledger: SqlLedger) -> tuple[int, bool]:
    return ledger.balance("p1"), ledger.bet("b1") is not None


def test_after_closes_the_connection_on_sqlite(sqlite_url: str) -> None:
    """The call is undone, and the next one finds a connection."""
    with funded(sqlite_url) as ledger:
        with pytest.raises(LedgerError, match=r"after ran in.*close"):
            ledger.apply(withdraw(), terms=_after(lambda connection: connection.close()))
        assert _books(ledger) == (1_000, False)
        assert ledger.apply(withdraw()).balance_cents == 500


class _Purses:
    """Accounts that misuse the connection in one of their methods."""

    def __init__(self, misuse: Misuse, method: str) -> None:
        self.misuse, self.method = misuse, method

    def lock(self, connection: Any, account: str) -> Cents | None:
        row = connection.execute("SELECT cash FROM purses").fetchone()
        if self.method == "lock":
            self.misuse(connection)
        return Cents(row[0])

    def move(self, connection: Any, account: str, delta_cents: int) -> Cents:
        connection.execute(f"UPDATE purses SET cash = cash + {int(delta_cents)}")
        cents = connection.execute("SELECT cash FROM purses").fetchone()[0]
        if self.method == "move":
            self.misuse(connection)
        return Cents(cents)


@pytest.mark.parametrize(("where", "how"), [*product(["after", "lock", "move"], [*ENDS][:2]), ("after", "it commits")])
def test_whoever_ends_the_transaction(database_url: str, where: str, how: str) -> None:
    """Never a SUCCESS for what was not kept; the repeat is answered by what was."""
    run(database_url, "CREATE TABLE purses (cash bigint)")
    run(database_url, "INSERT INTO purses VALUES (1000)")

    def misuse(connection: Any) -> None:
        for statement in ENDS[how]:
            connection.execute(statement)

    purses = _Purses(misuse, where)
    with SqlLedger(database_url, accounts=purses) as ledger:
        with pytest.raises(LedgerError, match=rf"{where} ran in"):
            ledger.apply(withdraw(), terms=_after(misuse) if where == "after" else Terms())
        purses.method = ""
        assert _books(ledger) == ((500, True) if how == "it commits" else (1_000, False))
        assert ledger.apply(withdraw()).balance_cents == 500


def _dictionaries(connection: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.row_factory = lambda cursor, row: dict(
            zip([each[0] for each in cursor.description], row, strict=True)
        )
    else:
        connection.row_factory = dict_row


def _bytes(connection: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.text_factory = bytes
    else:
        connection.cursor_factory = psycopg.RawCursor


def _elsewhere(connection: Any) -> None:
    if not isinstance(connection, sqlite3.Connection):
        connection.execute("CREATE SCHEMA IF NOT EXISTS elsewhere")
        connection.execute("SET search_path TO elsewhere")


@pytest.mark.parametrize("leaves", [_dictionaries, _bytes, _elsewhere])
def test_what_within_leaves_on_the_connection(database_url: str, leaves: Misuse) -> None:
    """Later calls, with an after and without, read and write as before."""
    with funded(database_url, 100) as ledger:
        for number, terms in enumerate([_after(leaves), Terms(), _after(leaves), _after(lambda _connection: None)]):
            bet_id = f"b{number}"
            assert ledger.apply(withdraw(bet_id), terms=terms).balance_cents == 9_500
            assert ledger.apply(deposit(bet_id, amount_cents=500), terms=terms).balance_cents == 10_000


def test_another_database_of_the_operators_is_down(database_url: str) -> None:
    """What after raises of something else is no reason to try again, nor to say that the ledger is down."""
    asked = []

    def after(*_args: object) -> None:
        asked.append(1)
        if database_url.startswith("sqlite:///"):
            with contextlib.closing(sqlite3.connect("file:/nowhere/else.db?mode=ro", uri=True)):
                pass
        raise psycopg.OperationalError("another database is down")

    error = sqlite3.OperationalError if database_url.startswith("sqlite:///") else psycopg.OperationalError
    with funded(database_url) as ledger:
        with pytest.raises(error, match=r"another database is down|unable to open"):
            ledger.apply(withdraw(), terms=Terms(after=after))
        assert len(asked) == 1
        assert ledger.apply(withdraw()).balance_cents == 500


@pytest.mark.parametrize("told", ["?client_encoding=LATIN1", ""])
def test_ids_have_one_spelling_in_bytes(postgres_url: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever encoding the address, the database or the environment prefers: a repeat is a repeat."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET client_encoding = 'LATIN1'")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    url = postgres_url + (told.replace("?", "&") if "?" in postgres_url else told)
    with funded(url) as ledger:
        for replayed in (False, True, True):
            outcome = ledger.apply(withdraw("bét 🂡"))
            assert (outcome.balance_cents, outcome.replayed) == (500, replayed)
        assert [bet.bet_id for bet in ledger.bets()] == ["bét 🂡"]
        assert ledger.history("bét 🂡").bet is not None


def test_a_closed_ledger(database_url: str) -> None:
    """It does not open again by itself, and says so."""
    ledger = funded(database_url)
    ledger.close()
    for use in (lambda: ledger.apply(withdraw()), lambda: ledger.balance("p1")):
        with pytest.raises(LedgerUnavailableError, match="is closed"):
            use()


async def test_a_closed_async_ledger(database_url: str) -> None:
    """What waits when it is closed is told; it is opened again only by async with."""
    ledger = AsyncSqlLedger(database_url)
    async with ledger:
        await ledger.open_account("p1", Decimal(10))
    await ledger.close()  # Again, which changes nothing.
    with pytest.raises(LedgerUnavailableError, match="is closed"):
        await ledger.apply(withdraw())
    async with ledger:
        assert (await ledger.apply(withdraw())).balance_cents == 500
