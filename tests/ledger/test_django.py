"""DjangoLedger: in Django's database, wherever that is at the moment, and connected no longer than needed."""

import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from game_operator.errors import ConfigurationError, LedgerUnavailableError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts
from game_operator.ledger.django import DjangoLedger, address_in_django
from tests.support.callers import django_alias, django_settings
from tests.support.calls import deposit, withdraw
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import is_sqlite, path_in, rows

Settings = dict[str, Any]
SECRET = "p@ss/w0rd %41+&x"


@pytest.fixture
def added() -> Iterator[Callable[[Settings], str]]:
    """Adds a database to Django's settings, and returns its alias."""
    with ExitStack() as aliases:
        yield lambda entry: aliases.enter_context(django_alias(entry))


@pytest.fixture
def alias(added: Callable[[Settings], str], database_url: str) -> str:
    """Django's name of an empty database of each kind."""
    return added(django_settings(database_url))


def django(alias: str) -> Any:  # Any: Django has no types.
    """Return Django's connection."""
    from django.db import connections

    return connections[alias]


def connected(url: str) -> int:
    """Return how many connections there are to the database at *url*."""
    if is_sqlite(url):
        links = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
        return links.count(os.path.realpath(path_in(url)))
    mine = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as postgres:
        # A server process is gone a moment after its connection.
        for _ in range(200):
            (number,) = postgres.execute(mine).fetchone() or (0,)
            if not number:
                break
            postgres.execute("SELECT pg_sleep(0.01)")
    return int(number)


# --- when it is connected ---------------------------------------------------------------------------------------------


def test_it_is_connected_for_as_long_as_it_works(alias: str, database_url: str) -> None:
    """Nothing before the first use, and nothing after each: whatever is asked of it."""
    ledger = DjangoLedger(alias)
    assert connected(database_url) == 0
    assert ledger.open_account("p1", Decimal(100)) == 10_000
    assert connected(database_url) == 0
    assert ledger.apply(withdraw("b1")).applied
    ledger.apply(deposit("early"))
    assert [bet.bet_id for bet in ledger.bets()] == ["b1"]
    assert ledger.balance("p1") == 9_500
    assert ledger.history("b1").bet is not None
    assert ledger.verify().sound
    (early,) = ledger.anomalies()
    ledger.resolve(early.id)
    assert connected(database_url) == 0
    ledger.close()
    with pytest.raises(LedgerUnavailableError, match="is closed"):
        ledger.balance("p1")


def test_it_follows_django_to_another_database(
    alias: str, database_url: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    """As a test run does: the name changes in the settings, and the tables are made where there are none."""
    ledger = DjangoLedger(alias)
    ledger.open_account("p1", Decimal(100))
    other = f"sqlite:///{tmp_path / 'test.sqlite3'}" if is_sqlite(database_url) else postgres.create_database()
    django(alias).settings_dict["NAME"] = django_settings(other)["NAME"]
    assert ledger.open_account("p1", Decimal(7)) == 700
    django(alias).settings_dict["NAME"] = django_settings(database_url)["NAME"]
    assert ledger.balance("p1") == 10_000
    if not is_sqlite(other):
        postgres.drop_database(other)


def test_a_database_that_is_not_there_yet(added: Callable[[Settings], str], postgres: PostgresServer) -> None:
    """A module that makes the ledger is imported all the same; its password is in nothing that is said."""
    entry = django_settings(postgres.url) | {"NAME": "not_there_yet", "PASSWORD": SECRET}
    ledger = DjangoLedger(added(entry), patience_seconds=0.01)
    with pytest.raises(LedgerUnavailableError, match="not_there_yet") as failed:
        ledger.balance("p1")
    told = "".join(traceback.format_exception(failed.value)) + pickle.dumps(failed.value).decode("latin-1")
    assert "w0rd" not in told + repr(ledger) + repr(vars(ledger))


# --- calls that join --------------------------------------------------------------------------------------------------


def joined(ledger: SqlLedger, alias: str, bet_id: str = "b1") -> Any:
    """Apply a call in a transaction of Django's."""
    from django.db import transaction

    with transaction.atomic(using=alias):
        return ledger.apply(withdraw(bet_id), connection=django(alias))


def with_players(alias: str) -> TableAccounts:
    """Make the operator's table, by Django."""
    with django(alias).cursor() as cursor:
        cursor.execute("CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint NOT NULL)")
        cursor.execute("INSERT INTO players VALUES ('p1', 10000)")
    return TableAccounts(table="players", key="id", balance="balance")


def test_a_joined_call_makes_the_tables(alias: str, database_url: str) -> None:
    """Where there are none yet, after a read and a write of the caller's; and they stay."""
    from django.db import transaction

    ledger = DjangoLedger(alias, accounts=with_players(alias))
    with transaction.atomic(using=alias):
        with django(alias).cursor() as cursor:
            cursor.execute("UPDATE players SET balance = balance + 100")
        assert ledger.apply(withdraw("b1"), connection=django(alias)).balance_cents == 9_600
    assert rows(database_url, "SELECT balance FROM players") == [(9_600,)]
    assert joined(ledger, alias, "b2").balance_cents == 9_100
    assert ledger.balance("p1") == 9_100


def test_what_a_test_case_rolls_back_is_made_again(alias: str) -> None:
    """A TestCase's transaction ends in a rollback, tables and all in SQLite."""
    from django.db import transaction

    ledger = DjangoLedger(alias, accounts=with_players(alias))
    for _ in range(2):
        with transaction.atomic(using=alias):
            assert joined(ledger, alias).balance_cents == 9_500
            assert joined(ledger, alias).replayed
            transaction.set_rollback(True, using=alias)


def test_a_database_in_memory(added: Callable[[Settings], str]) -> None:
    """Calls join it; what needs a connection of the ledger's own says why it has none, and what to write."""
    alias = added({"ENGINE": "django.db.backends.sqlite3", "NAME": "file:m1?mode=memory&cache=shared"})
    ledger = DjangoLedger(alias, accounts=with_players(alias))
    assert joined(ledger, alias).balance_cents == 9_500
    for ask in (lambda: ledger.balance("p1"), lambda: list(ledger.bets()), ledger.verify):
        with pytest.raises(ConfigurationError, match=r"is in memory.*\['TEST'\] = \{'NAME': BASE_DIR"):
            ask()


# --- settings ---------------------------------------------------------------------------------------------------------

_PG = {"ENGINE": "django.db.backends.postgresql"}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param({"NAME": "shop"}, {"dbname": "shop"}, id="a socket, by default"),
        pytest.param(
            {"NAME": "s h/op", "USER": "u@x", "PASSWORD": SECRET, "HOST": "db.example", "PORT": 5433},
            {"dbname": "s h/op", "user": "u@x", "password": SECRET, "host": "db.example", "port": "5433"},
            id="a server",
        ),
        pytest.param(
            {"NAME": "shop", "OPTIONS": {"sslmode": "verify-full", "sslrootcert": "/ca.pem", "connect_timeout": 3}},
            {"dbname": "shop", "sslmode": "verify-full", "sslrootcert": "/ca.pem", "connect_timeout": "3"},
            id="options of libpq",
        ),
        pytest.param(
            {"NAME": "shop", "OPTIONS": {"pool": True, "isolation_level": 3, "server_side_binding": True}},
            {"dbname": "shop"},
            id="options of Django's own",
        ),
        pytest.param(
            {"NAME": "shop", "OPTIONS": {"assume_role": "shop owner", "options": "-c search_path=shop"}},
            {"dbname": "shop", "options": r"-c search_path=shop -c role=shop\ owner"},
            id="a role",
        ),
    ],
)
def test_settings_of_postgresql(added: Callable[[Settings], str], entry: Settings, expected: Settings) -> None:
    """Each reaches libpq as it stands."""
    assert conninfo_to_dict(address_in_django(added(_PG | entry))) == expected


@pytest.mark.parametrize("make", ["django", "asyncpg"])
def test_psycopg_is_missed_at_once(
    added: Callable[[Settings], str], monkeypatch: pytest.MonkeyPatch, make: str
) -> None:
    """And not in the middle of the first call: Django may use psycopg2, and an application asyncpg."""
    alias = added(_PG | {"NAME": "shop"})
    assert django(alias).vendor == "postgresql"
    monkeypatch.delitem(sys.modules, "game_operator.ledger.postgres.store", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"(?s)psycopg 3, also where .* asyncpg .*game-operator\[postgres\]"):
        DjangoLedger(alias) if make == "django" else AsyncSqlLedger("postgresql+asyncpg://u@h/d")
