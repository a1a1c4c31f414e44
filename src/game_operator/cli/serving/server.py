"""The receiver over a ledger under uvicorn, from the first call to the last."""

import asyncio
import logging
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from game_operator.cli.process import STOP_SIGNALS, on_signals, when_stdin_ends
from game_operator.errors import AccountNotFoundError, ConfigurationError, shown
from game_operator.ledger.api import TableAccounts
from game_operator.ledger.async_sql import AsyncSqlLedger
from game_operator.ledger.engine.address import shown_address
from game_operator.wallet import AsyncWallet
from game_operator.webhooks import WebhookReceiver, asgi_app

if TYPE_CHECKING:
    import uvicorn

    from game_operator.cli.serving.http_connections import Connections

__all__ = ["Plan", "serve_until_stopped"]

_BACKLOG: Final = 2048
#: The service's connections should live as long as they are used now and then: a new one costs more than a call.
_KEEP_ALIVE_SECONDS: Final = 75
#: What a call may take beyond its budget before a stop no longer waits for it.
_LAST_WORDS_SECONDS: Final = 5
_LOG_LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: Where uvloop exists; elsewhere the loop of the standard library does.
_HAS_UVLOOP: Final = sys.platform != "win32" and platform.python_implementation() != "PyPy"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is served, from which database, and where."""

    database: str
    receiver: WebhookReceiver
    source: str
    host: str
    port: int
    prefix: str
    migrate: bool
    table_prefix: str
    access_log: bool
    stop_with_stdin: bool
    max_connections: int | None
    request_seconds: float
    accounts: TableAccounts | None = None


def serve_until_stopped(plan: Plan, announce: Callable[[str, str], object]) -> None:
    """
    Serve until SIGINT or SIGTERM; *announce* is told the url and the database, without its password.

    Raises:
        ConfigurationError: The extra is missing, the address cannot be had, or the database's cannot be used.
        LedgerError: The database cannot be reached, or its tables are not what they should be.
    """
    _check_extra()
    from game_operator.cli.serving.http_connections import Connections, most_connections

    connections = Connections(most_connections(plan.max_connections), plan.request_seconds)
    with _logging(plan.access_log), _listener(plan.host, plan.port) as listener:
        ledger = AsyncSqlLedger(
            plan.database, accounts=plan.accounts, migrate=plan.migrate, table_prefix=plan.table_prefix
        )
        wallet = AsyncWallet(ledger, profile=plan.receiver.profile, source=plan.source)
        application = asgi_app(plan.receiver, wallet, prefix=plan.prefix)
        config = _config(application, plan, connections)
        url = _url(listener, plan.prefix)
        server = _server(config, lambda: announce(url, shown_address(plan.database)))
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_serve(server, ledger, listener, connections, plan))


async def _serve(
    server: "uvicorn.Server", ledger: AsyncSqlLedger, listener: socket.socket, connections: "Connections", plan: Plan
) -> None:
    async with ledger:
        await _check_balances_here(ledger)
        if plan.stop_with_stdin:
            when_stdin_ends(lambda: setattr(server, "should_exit", True))
        watching = asyncio.create_task(connections.watch())
        try:
            await server.serve([listener])
        finally:
            watching.cancel()


async def _check_balances_here(ledger: AsyncSqlLedger) -> None:
    """Raise ConfigurationError if balances are in the operator's own table: better now than for every call."""
    with suppress(AccountNotFoundError):
        await ledger.balance("-")


def _check_extra() -> None:
    needed = ("uvicorn", "httptools", *(("uvloop",) if _HAS_UVLOOP else ()))
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"game-operator serve needs the package {missing[0]}. Install the extra: pip install 'game-operator[serve]'"
        )


def _config(
    application: Any, plan: Plan, connections: "Connections"
) -> "uvicorn.Config":  # Any: uvicorn has a type of its own for it.
    import uvicorn

    return uvicorn.Config(
        application,
        loop="uvloop" if _HAS_UVLOOP else "asyncio",
        http=connections.protocol_class(),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=plan.access_log,
        proxy_headers=False,  # X-Forwarded-For is read by IpAllowList alone, from proxies that were named.
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(plan.receiver.budget_seconds) + _LAST_WORDS_SECONDS,
    )


def _server(config: "uvicorn.Config", ready: Callable[[], object]) -> "uvicorn.Server":
    import uvicorn

    class Server(uvicorn.Server):
        """uvicorn that says when it is ready, and for which a signal to stop is a good end."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            ready()

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn's own raises the signal again when all is done, which would kill us on our way out.
            with on_signals(STOP_SIGNALS, self.handle_exit):
                yield

    return Server(config)


@contextmanager
def _logging(access_log: bool) -> Iterator[None]:
    """Let warnings and errors, replies that refuse a call, and the access log if it is wanted, go to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_LOG_LINE))
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    refusals = logging.getLogger("game_operator.webhooks.refusals")
    level = refusals.level
    root.addHandler(handler)
    refusals.setLevel(logging.INFO)
    if access_log:
        access.setLevel(logging.INFO)
    try:
        yield
    finally:
        refusals.setLevel(level)
        root.removeHandler(handler)


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server((str(address[0]), port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as failed:
        problem = getattr(failed, "strerror", None) or failed
        raise ConfigurationError(
            f"The wallet cannot listen on port {port} of {shown(host)}: {problem}. Stop what uses the port, or pass "
            "another --host or --port."
        ) from None
    # Inherited by its connections: else an answer could wait 40 ms for the caller to acknowledge the one before.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _url(listener: socket.socket, prefix: str) -> str:
    host, port = listener.getsockname()[:2]
    place = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    return "/".join(filter(None, (place, prefix.strip("/"))))
