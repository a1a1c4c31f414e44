"""DjangoLedger: in Django's database, wherever that is at the moment, and connected no longer than needed."""

import json
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from game_operator.errors import ConfigurationError, LedgerUnavailableError, SchemaError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts
from game_operator.ledger.django import DjangoLedger, address_in_django
from tests.support.calls import deposit, withdraw
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import is_sqlite, path_in, rows, run

Settings = dict[str, Any]
SECRET = "p@ss/w0rd %41+&x"
_ALIASES = count(1)


def settings_of(url: str) -> Settings:
    """Return the entry of DATABASES for the database at *url*."""
    if is_sqlite(url):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path_in(url)}
    parts = urlsplit(url)
    server = {name.upper(): values[0] for name, values in parse_qs(parts.query).items()}
    return {"ENGINE": "django.db.backends.postgresql", "NAME": parts.path.lstrip("/"), **server}


@pytest.fixture
def added() -> Iterator[Callable[[Settings], str]]:
    """Adds a database to Django's settings, and returns its alias."""
    from django.apps import apps
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure()
    apps.populate(settings.INSTALLED_APPS)
    aliases = []

    def add(entry: Settings) -> str:
        aliases.append(alias := f"ledger_{next(_ALIASES)}")
        connections.settings[alias] = connections.configure_settings({"default": {}, alias: entry})[alias]
        return alias

    yield add
    for alias in aliases:
        connections[alias].close()
        del connections.settings[alias]


@pytest.fixture
def alias(added: Callable[[Settings], str], database_url: str) -> str:
    """Django's name of an empty database of each kind."""
    return added(settings_of(database_url))


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


def test_the_first_question_may_be_any(alias: str, database_url: str) -> None:
    """The tables are made by it, for a survey too."""
    assert DjangoLedger(alias).verify().sound
    assert list(DjangoLedger(alias).bets()) == []


def test_a_failure_leaves_no_connection(alias: str, database_url: str) -> None:
    """Not even one in the middle of a transaction."""
    ledger = DjangoLedger(alias)
    ledger.open_account("p1", Decimal(100))

    def fail(*_: object) -> None:
        raise RuntimeError("the operator's own")

    from game_operator.ledger import Terms

    with pytest.raises(RuntimeError):
        ledger.apply(withdraw("b1"), terms=Terms(after=fail))
    assert (connected(database_url), ledger.balance("p1")) == (0, 10_000)


def test_threads_share_it(alias: str, database_url: str) -> None:
    """Each call once, and no connection is left over."""
    ledger = DjangoLedger(alias)
    ledger.open_account("p1", Decimal(100))
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(lambda number: ledger.apply(withdraw(f"b{number}")), range(12)))
    assert all(outcome.applied for outcome in outcomes)
    assert (ledger.balance("p1"), connected(database_url)) == (10_000 - 12 * 500, 0)


def test_it_follows_django_to_another_database(
    alias: str, database_url: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    """As a test run does: the name changes in the settings, and the tables are made where there are none."""
    ledger = DjangoLedger(alias)
    ledger.open_account("p1", Decimal(100))
    other = f"sqlite:///{tmp_path / 'test.sqlite3'}" if is_sqlite(database_url) else postgres.create_database()
    django(alias).settings_dict["NAME"] = settings_of(other)["NAME"]
    assert ledger.open_account("p1", Decimal(7)) == 700
    django(alias).settings_dict["NAME"] = settings_of(database_url)["NAME"]
    assert ledger.balance("p1") == 10_000
    if not is_sqlite(other):
        postgres.drop_database(other)


def test_a_database_that_is_not_there_yet(added: Callable[[Settings], str], postgres: PostgresServer) -> None:
    """A module that makes the ledger is imported all the same; its password is in nothing that is said."""
    entry = settings_of(postgres.url) | {"NAME": "not_there_yet", "PASSWORD": SECRET}
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


def test_tables_are_made_in_that_database_alone(
    alias: str, database_url: str, added: Callable[[Settings], str], tmp_path: Path, postgres: PostgresServer
) -> None:
    """A call that joins another one is refused, as ever: its bets would be in two places."""
    other_url = f"sqlite:///{tmp_path / 'other.db'}" if is_sqlite(database_url) else postgres.create_database()
    other = added(settings_of(other_url))
    with pytest.raises(SchemaError, match=r"are not in the database of connection="):
        joined(DjangoLedger(alias), other)
    tables = "information_schema.tables WHERE table_name" if not is_sqlite(other_url) else "sqlite_master WHERE name"
    assert rows(other_url, f"SELECT count(*) FROM {tables} LIKE 'game_operator%'") == [(0,)]
    django(other).close()
    if not is_sqlite(other_url):
        postgres.drop_database(other_url)


@pytest.mark.bare
def test_a_ledger_with_an_address_names_the_one_that_follows_django(alias: str, tmp_path: Path) -> None:
    """Under `manage.py test` its tables are in another database than the one that a call joins."""
    from django.db import transaction

    named = pytest.raises(SchemaError, match=r"Open a ledger on that database .* DjangoLedger\(alias\)")
    with SqlLedger(f"sqlite:///{tmp_path / 'real.db'}") as ledger, named, transaction.atomic(using=alias):
        ledger.apply(withdraw("b1"), connection=django(alias))


@pytest.mark.bare
def test_without_migrate_nothing_is_made(alias: str) -> None:
    """Neither by a call that joins, nor by another; the statements are told."""
    ledger = DjangoLedger(alias, migrate=False)
    with pytest.raises(SchemaError, match="are not in the database of connection="):
        joined(ledger, alias)
    with pytest.raises(SchemaError, match="CREATE TABLE game_operator_meta"):
        ledger.balance("p1")


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
            {"NAME": "shop", "HOST": "/run/postgresql", "PORT": ""},
            {"dbname": "shop", "host": "/run/postgresql"},
            id="a socket's folder",
        ),
        pytest.param(
            {"NAME": "", "OPTIONS": {"service": "shop", "passfile": "/etc/my pass"}},
            {"service": "shop", "passfile": "/etc/my pass"},
            id="a service and a file of passwords",
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
        pytest.param({"NAME": None}, {"dbname": "postgres"}, id="no name"),
    ],
)
def test_settings_of_postgresql(added: Callable[[Settings], str], entry: Settings, expected: Settings) -> None:
    """Each reaches libpq as it stands."""
    assert conninfo_to_dict(address_in_django(added(_PG | entry))) == expected


@pytest.mark.bare
def test_a_role_is_assumed(added: Callable[[Settings], str], postgres_url: str) -> None:
    """Tables belong to whom Django's belong to."""
    run(postgres_url, "CREATE ROLE shop_owner")
    try:
        run(postgres_url, "GRANT ALL ON SCHEMA public TO shop_owner")
        ledger = DjangoLedger(added(settings_of(postgres_url) | {"OPTIONS": {"assume_role": "shop_owner"}}))
        ledger.open_account("p1", Decimal(1))
        assert rows(postgres_url, "SELECT tableowner FROM pg_tables WHERE tablename = '{p}bets'") == [("shop_owner",)]
    finally:
        run(postgres_url, "DROP OWNED BY shop_owner")
        run(postgres_url, "DROP ROLE shop_owner")


def test_what_cannot_be_a_ledgers_database(added: Callable[[Settings], str]) -> None:
    """Told when the ledger is made."""
    alias = added({"ENGINE": "django.db.backends.dummy"})
    with pytest.raises(ConfigurationError, match=r"of the kind unknown. A ledger needs PostgreSQL"):
        DjangoLedger(alias)


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


# --- a project --------------------------------------------------------------------------------------------------------

PROJECT = {
    "settings.py": """
import json, os
SECRET_KEY = "of this test alone"
INSTALLED_APPS = ["casino"]
DATABASES = json.loads(os.environ["DATABASES"])
WALLET_CONFIRM = "never"
""",
    "casino/__init__.py": "",
    "casino/migrations/__init__.py": "",
    "casino/migrations/0001_initial.py": """
from django.db import migrations, models
class Migration(migrations.Migration):
    operations = [migrations.CreateModel("Player", [
        ("id", models.CharField(max_length=40, primary_key=True)), ("balance", models.BigIntegerField()),
    ], options={"db_table": "players"})]
""",
    "casino/models.py": """
from django.db import models
class Player(models.Model):
    id = models.CharField(max_length=40, primary_key=True)
    balance = models.BigIntegerField()
    class Meta:
        db_table = "players"
""",
    "casino/wallet.py": """
from functools import partial
from django.conf import settings
from django.db import transaction
from game_operator.ledger import TableAccounts
from game_operator.ledger.django import DjangoLedger
from game_operator.wallet import JoinedWallet
ledger = DjangoLedger(accounts=TableAccounts(table="players", key="id", balance="balance", unit="cents"))
wallet = JoinedWallet(ledger, partial(transaction.atomic, durable=True), confirm=settings.WALLET_CONFIRM)
""",
    "casino/tests.py": """
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from casino.models import Player
from casino.wallet import ledger, wallet
from game_operator import WithdrawCall

class Joined(TestCase):
    @classmethod
    def setUpTestData(cls):
        Player.objects.create(id="ann", balance=10_000)
    def place(self):
        with transaction.atomic():
            bet = WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500)
            assert ledger.apply(bet, connection=connection).applied
        assert Player.objects.get(id="ann").balance == 9_500
    def test_one(self):
        self.place()
    def test_two(self):
        self.place()
    def test_a_joined_wallet(self):
        bet = WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500)
        for _ in range(2):
            reply = wallet.withdraw(bet)
            assert (reply.code, str(reply.balance)) == (None, "95.00")

class OverItsOwnConnection(TransactionTestCase):
    def test_own(self):
        Player.objects.create(id="ann", balance=10_000)
        assert ledger.apply(WithdrawCall(player_id="ann", bet_id="b2", amount_cents=500)).applied
        assert ledger.balance("ann") == 9_500
        assert ledger.verify().sound
""",
}
RUNS = {
    "manage.py test": ("-m", "django", "test", "--noinput"),
    "pytest-django": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_django.plugin", "--rootdir=."),
}


@pytest.mark.parametrize(
    ("database", "runner"),
    [
        ("postgres", "manage.py test"),
        ("postgres", "pytest-django"),
        ("file", "manage.py test"),
    ],
)
@pytest.mark.drawn(1)
def test_the_tests_of_a_project(tmp_path: Path, postgres: PostgresServer, database: str, runner: str) -> None:
    """They pass, and the run ends with its database dropped: nobody is connected to it any more."""
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    entry: Settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": "dev.sqlite3", "TEST": {"NAME": "test.sqlite3"}}
    if database == "postgres":
        entry = settings_of(postgres.url) | {"TEST": {"NAME": f"test_of_{runner[:3]}"}}
    environment = {**os.environ, "DATABASES": json.dumps({"default": entry}), "DJANGO_SETTINGS_MODULE": "settings"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, *RUNS[runner], *(["casino/tests.py"] if runner == "pytest-django" else [])]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50, check=False
    )
    told = ended.stdout + ended.stderr
    assert ended.returncode == 0, told
    assert ("OK" if runner == "manage.py test" else "4 passed") in told
    assert not (tmp_path / "test.sqlite3").exists()
    assert rows(postgres.url, "SELECT count(*) FROM pg_database WHERE datname LIKE 'test_of_%'") == [(0,)]
