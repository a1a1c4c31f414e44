"""What all tests share: keys and a database server, made once, for each costs a good part of a second."""

import ast
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import settings

from game_operator.ledger import SqlLedger
from tests.support.keys import make_and_check_once
from tests.support.postgres import PostgresServer
from tests.support.sources import sources
from tests.support.sqlite_tables import sqlite_url_in

# For `make torture`; tests that set their own number of examples keep it.
settings.register_profile("torture", max_examples=2_000, deadline=None)


def pytest_configure() -> None:
    """Let Ctrl-C be heard, here and in what we start: a shell's background process has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Whoever takes a signal gives it back."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.fixture(scope="session", autouse=True)
def _keys_are_cheap() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        make_and_check_once(patch)
        yield


@pytest.fixture(scope="session")
def private_key() -> RSAPrivateKey:
    """The operator's key in the tests."""
    return generate_private_key(65537, 2048)


@pytest.fixture(scope="session")
def other_key() -> RSAPrivateKey:
    """Somebody else's key."""
    return generate_private_key(65537, 2048)


@pytest.fixture(scope="session")
def public_key(private_key: RSAPrivateKey) -> RSAPublicKey:
    """What the operator has registered with the service."""
    return private_key.public_key()


@pytest.fixture(scope="session")
def private_pem(private_key: RSAPrivateKey) -> bytes:
    """The operator's key as PKCS#8 PEM."""
    return private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.fixture(scope="session")
def public_pem(public_key: RSAPublicKey) -> bytes:
    """The registered key as PEM."""
    return public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Our modules as they are parsed. They have 300,000 nodes, so they go with the tests of a file."""
    return {name: ast.parse(file.read_bytes()) for name, file in sources().items()}


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, started by the first test that asks; its commits wait for no disk."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def _durable() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as server:
        yield server


@pytest.fixture(scope="module")
def durable(_durable: PostgresServer) -> PostgresServer:
    """A server to kill and stop; a module that finds it stopped starts it. Its commits reach the disk."""
    if not _durable.is_running:
        _durable.start()
    return _durable


@pytest.fixture(scope="session")
def postgres_tables(postgres: PostgresServer) -> str:
    """The URL of a database with the tables of a new ledger, to be copied."""
    url = postgres.create_database()
    SqlLedger(url).close()
    return url


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, postgres: PostgresServer, postgres_tables: str) -> Iterator[str]:
    """The URL of a database with the tables of a new ledger; for a test with the mark ``bare``, of an empty one."""
    is_bare = request.node.get_closest_marker("bare") is not None
    with postgres.lent_database(template=None if is_bare else postgres_tables) as url:
        yield url


@pytest.fixture
def url_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Gives the URL of a database of a kind, "sqlite" or "postgres"."""

    def url_of(database: str) -> str:
        url = sqlite_url_in(tmp_path, request) if database == "sqlite" else request.getfixturevalue("postgres_url")
        return str(url)

    return url_of


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> str:
    """The URL of a database of each kind."""
    return url_of(request.param)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> str:
    """The same."""
    return url_of(request.param)


@pytest.fixture
def sqlite_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database in a file, for what no database decides."""
    return sqlite_url_in(tmp_path, request)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell the figures that long tests have recorded, for docs/explanation/guarantees.md."""
    for report in terminalreporter.getreports("passed"):
        for name, figures in report.user_properties:
            if name == "figures":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {figures}")
