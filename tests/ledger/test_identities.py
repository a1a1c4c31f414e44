"""Sequences that are behind their ids, as after a switchover by logical replication: found and set before they hurt."""

from urllib.parse import quote

import pytest

from game_operator.ledger import SqlLedger
from game_operator.ledger.office import Office
from game_operator.ledger.rules.book import NewFinding
from tests.support.books import execute, problems, read_books
from tests.support.callers import KINDS, CallerKind
from tests.support.calls import deposit, withdraw
from tests.support.ledgers import funded

pytestmark = pytest.mark.outside

TABLES = ["postings", "anomalies", "findings"]


@pytest.fixture
def url(postgres_url: str) -> str:
    """A ledger with forty postings, forty anomalies and forty findings."""
    with funded(postgres_url, 1000) as ledger:
        for number in range(39):
            ledger.apply(withdraw(f"old-{number}", amount_cents=1))
        for number in range(40):
            ledger.keep_anomaly("deposit", "unreadable", b"%d" % number)
            _find(ledger, f"old-{number}")
    return postgres_url


def _find(ledger: SqlLedger, bet_id: str) -> None:
    found = NewFinding("missing_there", bet_id, "It is missing.")
    Office(ledger).write(lambda dialect: dialect.store_findings("", [found]))


def _set_back(url: str, value: int = 1) -> None:
    for table in TABLES:
        execute(url, f"SELECT setval('game_operator_{table}_id_seq', {value}, false)")


def _ids(url: str, table: str) -> list[int]:
    return [row[0] for row in execute(url, f"SELECT id FROM game_operator_{table} ORDER BY id")]


def _use(ledger: SqlLedger) -> None:
    """Store a posting by the express lane, one the long way, an anomaly and a finding."""
    assert ledger.apply(withdraw("new")).applied
    assert ledger.apply(deposit("new", amount_cents=5, round_id="r1")).applied
    ledger.keep_anomaly("deposit", "unreadable", b"new")
    _find(ledger, "new")


def test_a_sequence_set_back_before_we_connect(url: str) -> None:
    """It is set above the highest id before the first row is stored."""
    _set_back(url)
    with SqlLedger(url) as ledger:
        _use(ledger)
    assert _ids(url, "postings")[40:] == [1041, 1042]
    assert _ids(url, "anomalies")[40:] == _ids(url, "findings")[40:] == [1041]
    assert problems(read_books(url)) == []


def test_a_sequence_set_back_while_we_are_connected(url: str) -> None:
    """Ids of postings are unique within a partition alone; a new connection sets both sequences, or a taken id does."""
    with SqlLedger(url) as ledger:
        _set_back(url)
        ours = "datname = current_database() AND pid <> pg_backend_pid()"
        execute(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")
        _use(ledger)
        _set_back(url)
        ledger.keep_anomaly("deposit", "unreadable", b"newer")
        _find(ledger, "newer")
        assert ledger.apply(withdraw("newer")).applied
    assert min(_ids(url, "postings")[40:]) > 1000
    assert min(_ids(url, "anomalies")[40:] + _ids(url, "findings")[40:]) > 1000
    assert len(_ids(url, "findings")) == 42
    assert problems(read_books(url)) == []


JOINED = ["psycopg", "psycopg async", "sqlalchemy connection, psycopg", "sqlalchemy async connection, asyncpg"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in [*JOINED, "django, postgres"]], ids=str)
@pytest.mark.drawn(2)
def test_joined_calls(url: str, kind: CallerKind) -> None:
    """In a caller's transaction the sequence is set and the call applied; the transaction goes on."""
    with kind.open(url) as joining:
        _set_back(url)
        joining.begin()
        assert joining.apply(withdraw("new")).applied
        assert joining.scalar("SELECT 1") == 1
        joining.commit()
    assert min(_ids(url, "postings")[40:]) > 1000
    assert problems(read_books(url)) == []


def test_without_the_right_to_set(url: str, clerk: str, caplog: pytest.LogCaptureFixture) -> None:
    """One error for each sequence names the command, before any row is stored; with the right it is set."""
    caplog.set_level("WARNING", "game_operator.ledger")
    execute(url, f'GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO "{clerk}"')
    execute(url, f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO "{clerk}"')
    limited = url.replace("user=postgres", f"user={quote(clerk)}")
    _set_back(url)
    with SqlLedger(limited, migrate=False):
        pass
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == len(TABLES)
    for table, text in zip(TABLES, told, strict=True):
        assert f"SELECT setval('public.game_operator_{table}_id_seq', 1040)" in text
    execute(url, f'GRANT UPDATE ON ALL SEQUENCES IN SCHEMA public TO "{clerk}"')
    with SqlLedger(limited, migrate=False) as ledger:
        assert ledger.apply(withdraw("new")).applied
