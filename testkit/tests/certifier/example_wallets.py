"""
The wallets of examples/, as the certifier reaches them.

Of each program runs what makes the wallet, and not the story that follows. Where an example shows a transaction and no
wallet, the four calls are answered as it shows. Django can be set up only once in a process, so
``python -m testkit.tests.certifier.example_wallets webhooks_django`` certifies one and prints what is wrong.
"""

import logging
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from anyio.from_thread import start_blocking_portal

from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.wallet import AsyncJoinedWallet, JoinedWallet, Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver
from game_operator_testkit.certifier import Report
from game_operator_testkit.provider.in_process import asgi_wallet, wsgi_wallet
from testkit.tests.certifier.harness import certified_by, service_key

__all__ = ["ALONE", "EXAMPLES", "ON_POSTGRES", "WITH_LIMITS", "ExampleWallet", "certified_example", "import_example"]

_FOLDER = Path(__file__).parents[3] / "examples"


@dataclass(frozen=True)
class ExampleWallet:
    """
    A wallet of an example.

    Attributes:
        deliver: Takes path, headers and body.
        players: Both, with money.
        instance_id: What is played, if it knows.
        only: What the example may do otherwise than the same wallet without its framework, or with a table and a
            transaction of ours: groups and scenarios.
    """

    deliver: Callable[..., Any]
    players: tuple[str, str] = ("p1", "p2")
    instance_id: str | None = None
    only: str = "A E F"


Opened = Iterator[ExampleWallet]
Opening = Callable[[str], AbstractContextManager[ExampleWallet]]


def import_example(name: str) -> Any:  # Any: as below.
    """Return an example that keeps its story under ``if __name__``, as a module."""
    spec = spec_from_file_location(f"example_{name}", _FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _beginning(name: str, end: str, *arguments: str) -> Iterator[Any]:  # Any: a module that nobody knows by its type.
    """Run what stands in the example before the line *end*, with *arguments*, and yield it as a module."""
    file = _FOLDER / f"{name}.py"
    text, found, _ = file.read_text().partition(f"\n{end}")
    assert found, f"{file.name} has no line that begins with {end!r}"
    # One key for all, whose signatures are remembered.
    text = text.replace("= generate_private_key(65537, 2048)", "= KEY_OF_ALL")
    module = ModuleType(f"certified_{name}")
    vars(module)["KEY_OF_ALL"] = service_key()
    sys.modules[module.__name__] = module
    before, sys.argv = sys.argv, [str(file), *arguments]
    try:
        exec(compile(text, str(file), "exec"), vars(module))
        yield module
    finally:
        sys.argv = before
        del sys.modules[module.__name__]
        if isinstance(folder := vars(module).get("folder"), TemporaryDirectory):
            folder.cleanup()


def _second_player(example: Any) -> None:
    """Open an account for a second player: the examples have one."""
    with SqlLedger(f"sqlite:///{example.folder.name}/wallet.db") as ledger:
        ledger.open_account("p2", Decimal("100.00"))


@contextmanager
def _asgi(name: str, _: str) -> Opened:
    with _beginning(name, "with TestClient(app) as client:") as example:
        _second_player(example)
        with _serving(example.TestClient(example.app), example.app) as deliver:
            yield ExampleWallet(deliver)


@contextmanager
def _serving(client: Any, app: Any) -> Iterator[Callable[..., Any]]:  # Any: two frameworks' own.
    """Run *app* with its lifespan, as its test client does; calls go to it without the client, which takes its time."""
    deliver = asgi_wallet(app, prefix="/wallet")
    with client:
        portal = client.blocking_portal if hasattr(client, "blocking_portal") else client.portal
        yield lambda *request: portal.call(deliver, *request)


@contextmanager
def _wsgi(name: str, app: str, _: str) -> Opened:
    with _beginning(name, "client = ") as example, closing(example.ledger):
        _second_player(example)
        yield ExampleWallet(wsgi_wallet(getattr(example, app), prefix="/wallet"))


@contextmanager
def _own_wallet(_: str) -> Opened:
    from fastapi.testclient import TestClient

    end = "with TemporaryDirectory() as folder:"
    with _beginning("own_wallet_fastapi", end) as example, TemporaryDirectory() as folder:
        file = Path(folder, "casino.db")
        with closing(sqlite3.connect(file)) as casino:
            casino.execute("CREATE TABLE players (id TEXT PRIMARY KEY, cents INTEGER NOT NULL, bets INTEGER DEFAULT 0)")
            casino.execute("INSERT INTO players (id, cents) VALUES ('p1', 10000), ('p2', 10000)")
            casino.commit()
        app = example.application(file, service_key().public_key())
        with _serving(TestClient(app), app) as deliver:
            yield ExampleWallet(deliver, instance_id="i1", only="A B D02 E")


@contextmanager
def _table(_: str) -> Opened:
    """Thousandths of the unit, and ids that are numbers."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "casino.db")
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE players (id INTEGER PRIMARY KEY, name TEXT, fils INTEGER NOT NULL)")
            connection.execute("INSERT INTO players VALUES (7, 'Ann', 100009), (8, 'Ben', 100000)")
            connection.commit()
        players = TableAccounts(table="players", key="id", balance="fils", unit="thousandths")
        with SqlLedger(f"sqlite:///{file}", accounts=players) as ledger:
            yield ExampleWallet(_received(Wallet(ledger)), ("7", "8"), only="A B C G")


@contextmanager
def _limits(_: str) -> Opened:
    """Ann may bet 10.00 at most, and the certifier learns of it by a refusal."""
    with _beginning("wallet_with_limits", 'tell("10.00 is within') as example:
        example.wallet.ledger.open_account("p2", Decimal("100.00"))
        yield ExampleWallet(_received(example.wallet), ("ann", "p2"), only="A B C")


@contextmanager
def _sqlalchemy(url: str) -> Opened:
    arguments = [url] if url else []
    with _beginning("own_transaction_sqlalchemy", "call = ", *arguments) as example:
        sessions: Any = partial(example.Session, example.engine)
        with sessions() as session, session.begin():
            session.add_all([example.Player(id=each, balance=Decimal("100.00")) for each in ("p1", "p2")])
        players = TableAccounts(table="players", key="id", balance="balance", unit="units")
        with SqlLedger(example.url, accounts=players) as ledger:
            yield ExampleWallet(_received(JoinedWallet(ledger, example.sessions.begin)), only="B D02")
        example.engine.dispose()


@contextmanager
def _django_transaction(_: str) -> Opened:
    with _beginning("own_transaction_django", "call = ") as example:
        for each in ("p1", "p2"):
            example.Player.objects.create(id=each, balance=Decimal("100.00"))
        players = TableAccounts(table="players", key="id", balance="balance", unit="units")
        with SqlLedger(example.url, accounts=players) as ledger:
            durable = partial(example.transaction.atomic, durable=True)
            yield ExampleWallet(_received(JoinedWallet(ledger, durable)), only="B D02")
        example.connection.close()


@contextmanager
def _psycopg(url: str) -> Opened:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE players (id bigint PRIMARY KEY, balance_cents bigint NOT NULL)")
        connection.execute("INSERT INTO players VALUES (7, 10000), (8, 10000)")
    players = TableAccounts(table="players", key="id", balance="balance_cents", unit="cents")
    with SqlLedger(url, accounts=players) as ledger:
        wallet = JoinedWallet(ledger, lambda: psycopg.connect(url))
        yield ExampleWallet(_received(wallet), ("7", "8"), only="B D02")


def _with_legal_limits(url: str) -> Any:
    """Return the example of legal limits, its tables made, with players who may lose anything."""
    import psycopg

    example = import_example("limits_and_self_exclusion")
    with psycopg.connect(url) as connection:
        connection.execute(example.TABLES)
        connection.execute("INSERT INTO players VALUES ('p1', 10000), ('p2', 10000)")
        connection.execute(f"INSERT INTO protection SELECT id, '-infinity', {10**15}, {10**15} FROM players")
    return example


@contextmanager
def _legal_limits(url: str) -> Opened:
    example = _with_legal_limits(url)
    with SqlLedger(url, accounts=example.PLAYERS) as ledger:
        yield ExampleWallet(_received(example.wallet_of(ledger, url)), only="A B C D02 G")


@contextmanager
def _legal_limits_async(url: str) -> Opened:
    example = _with_legal_limits(url)
    with start_blocking_portal("asyncio") as portal:
        ledger = portal.call(example.AsyncSqlLedger(url, accounts=example.PLAYERS).__aenter__)
        receiver, handler = _receiver(), example.async_wallet_of(ledger, url)
        deliver = partial(_called_in, portal, receiver, handler)
        yield ExampleWallet(deliver, only="A B C D02 G")
        portal.call(ledger.close)


def _called_in(portal: Any, receiver: WebhookReceiver, handler: Any, path: str, headers: Any, body: bytes) -> Any:
    return portal.call(partial(receiver.handle_async, path, headers, body, handler))


@contextmanager
def _sqlalchemy_async(_: str) -> Opened:
    with (
        _beginning("own_transaction_sqlalchemy_async", "call = ") as example,
        TemporaryDirectory() as folder,
        start_blocking_portal("asyncio") as portal,
    ):
        url = f"sqlite:///{folder}/casino.db"
        engine = example.create_async_engine(url.replace("sqlite", "sqlite+aiosqlite"))
        sessions = example.async_sessionmaker(engine)
        players = TableAccounts(table="players", key="id", balance="balance", unit="units")

        async def opened() -> Any:
            async with engine.begin() as connection:
                await connection.run_sync(example.Base.metadata.create_all)
            async with sessions.begin() as session:
                session.add_all([example.Player(id=each, balance=Decimal("100.00")) for each in ("p1", "p2")])
            return await example.AsyncSqlLedger(url, accounts=players).__aenter__()

        ledger = portal.call(opened)
        receiver, handler = _receiver(), AsyncJoinedWallet(ledger, sessions.begin)
        yield ExampleWallet(partial(_called_in, portal, receiver, handler), only="B D02")
        portal.call(ledger.close)
        portal.call(engine.dispose)


def _receiver() -> WebhookReceiver:
    return WebhookReceiver(authenticator=RsaSignature(service_key().public_key()))


def _received(handler: Any) -> Callable[..., Any]:
    receiver = _receiver()
    return lambda path, headers, body: receiver.handle(path, headers, body, handler)


#: Each takes the URL of an empty PostgreSQL, or "".
EXAMPLES: dict[str, Opening] = {
    "webhooks_fastapi": partial(_asgi, "webhooks_fastapi"),
    "webhooks_starlette": partial(_asgi, "webhooks_starlette"),
    "webhooks_litestar": partial(_asgi, "webhooks_litestar"),
    "webhooks_flask": partial(_wsgi, "webhooks_flask", "app"),
    "own_wallet_fastapi": _own_wallet,
    "table_accounts": _table,
    "own_transaction_sqlalchemy": _sqlalchemy,
    "own_transaction_sqlalchemy_async": _sqlalchemy_async,
}
WITH_LIMITS: Opening = _limits
ON_POSTGRES: dict[str, Opening] = {
    "own_transaction_psycopg": _psycopg,
    "limits_and_self_exclusion": _legal_limits,
    "limits_and_self_exclusion, awaited": _legal_limits_async,
}
ALONE: dict[str, Opening] = {
    "webhooks_django": partial(_wsgi, "webhooks_django", "application"),
    "own_transaction_django": _django_transaction,
}


def certified_example(opening: Opening, url: str = "") -> Report:
    """Return what the certifier finds of an example, with nothing supplied."""
    with opening(url) as wallet:
        return certified_by(
            wallet.deliver,
            player_id=wallet.players[0],
            other_player_id=wallet.players[1],
            instance_id=wallet.instance_id,
            only=wallet.only.split(),
        )


if __name__ == "__main__":
    logging.disable()
    found = certified_example(ALONE[sys.argv[1]])
    for each in (*found.failures, *found.advice):
        print(each.id, each.reason)  # noqa: T201 - for whoever started us
    print(f"{len(found.verdicts) - len(found.skipped)} tried, {len(found.skipped)} skipped")  # noqa: T201
    sys.exit(not found.passed)
