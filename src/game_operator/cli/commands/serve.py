"""``game-operator serve``: the ready wallet behind a port, until it is stopped."""

import asyncio
import logging
import multiprocessing
import os
import platform
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.sharedctypes import RawValue
from typing import TYPE_CHECKING, Any, Final

from game_operator.cli.database import BalancesOptions, address_of, check_file
from game_operator.cli.errors import ExitCode, StoppedError
from game_operator.cli.options import check_extra, read_profile
from game_operator.cli.output import answer, remark, say
from game_operator.cli.serve_options import (
    CallersOptions,
    GamesOptions,
    ListeningOptions,
    ProcessesOptions,
    ServedOptions,
    new_telemetry,
)
from game_operator.errors import (
    AccountNotFoundError,
    ConfigurationError,
    LedgerUnavailableError,
    SchemaError,
    one_line,
    shown,
)

if TYPE_CHECKING:
    from game_operator.ledger import AsyncSqlLedger
    from game_operator.webhooks.asgi import AsgiApp, Receive, Scope, Send

#: Where uvloop exists; elsewhere the loop of the standard library does.
_HAS_UVLOOP: Final = sys.platform != "win32" and platform.python_implementation() != "PyPy"
#: So that /readyz answers within a second, whatever the network does.
_LOOK_SECONDS: Final = 0.8
_LOG = logging.getLogger("game_operator.serve")


@dataclass(frozen=True)
class _Service:
    """A wallet as it is asked for. Each process makes its application of it, from the files as they are then."""

    served: ServedOptions
    callers: CallersOptions
    listening: ListeningOptions
    processes: ProcessesOptions
    games: GamesOptions
    balances: BalancesOptions
    url: str
    #: A flag that all processes see: whether a worker that is told to stop is replaced.
    is_replaced: Any
    #: The process of the command.
    pid: int

    @property
    def is_worker(self) -> bool:
        """Whether this process has a supervisor, which announces it."""
        return self.pid != os.getpid()

    @property
    def address(self) -> str:
        """The database's address."""
        return address_of(self.served.database)

    @property
    def of_ledger(self) -> dict[str, Any]:  # Any: options of different types.
        """Options of the ledger."""
        served, accounts = self.served, self.balances.accounts()
        settings = {"migrate": served.migrate, "table_prefix": served.table_prefix, "name": served.ledger_name}
        return {"accounts": accounts, **settings}

    def announce(self) -> None:
        """Say where it answers."""
        from game_operator.ledger.engine.address import shown_address

        answer(
            {"url": self.url, "pid": self.pid},
            f"The wallet answers at {self.url}, process {self.pid}, until Ctrl-C.",
            f"Its ledger is in {one_line(shown_address(self.address))}.",
        )

    def __call__(self) -> "AsgiApp":
        """Return the application of this process, which its lifespan makes."""
        answered: AsgiApp

        async def live(receive: "Receive", send: "Send") -> None:
            nonlocal answered
            await receive()
            async with self._opened() as answered:
                await send({"type": "lifespan.startup.complete"})
                if not self.is_worker:
                    self.announce()
                await receive()
            await send({"type": "lifespan.shutdown.complete"})

        def application(scope: "Scope", receive: "Receive", send: "Send") -> Awaitable[None]:
            return live(receive, send) if scope["type"] == "lifespan" else answered(scope, receive, send)

        return application

    @asynccontextmanager
    async def _opened(self) -> "AsyncIterator[AsgiApp]":
        """Yield what answers; if the database is missing, and nothing else, it answers SYSTEM_ERROR for now."""
        from game_operator.cli.serve_processes import logging_to_stderr, or_end, stop_gently

        with ExitStack() as life:
            if self.is_worker:
                life.enter_context(logging_to_stderr(access_log=self.served.access_log, is_worker=True))
            life.enter_context(or_end())
            from game_operator.cli.health import Health
            from game_operator.cli.serve_connections import Connections, ServeProtocol, most_connections
            from game_operator.ledger import AsyncSqlLedger, SqlLedger
            from game_operator.wallet import AsyncWallet
            from game_operator.webhooks import asgi_app

            # Who opened the same ledger first has said what there was to see.
            logging.getLogger("game_operator.ledger.opening").setLevel(logging.ERROR)
            ServeProtocol.open_connections = Connections(most_connections(self.listening.max_connections))
            ServeProtocol.head_seconds = self.listening.request_timeout
            telemetry = new_telemetry() if self.served.telemetry else None
            catalogue = life.enter_context(self.games.followed(lambda: SqlLedger(self.address, **self.of_ledger)))
            receiver = self.callers.receiver(
                read_profile(self.served.profile), self.listening.host, catalogue, telemetry
            )
            ledger = AsyncSqlLedger(self.address, **self.of_ledger, telemetry=telemetry)
            wallet = AsyncWallet(
                ledger,
                profile=receiver.profile,
                source=self.served.source,
                currency_of=self.games.currency_of(catalogue),
            )
            health = Health(partial(ledger.ping, timeout_seconds=_LOOK_SECONDS))
            supervisor = multiprocessing.parent_process() if self.is_worker else None
            stop_gently(health.drain, self.processes.drain_seconds, self.is_replaced, supervisor)
            application = health.beside(asgi_app(receiver, wallet, prefix=self.listening.prefix))
            # While workers are replaced, those that have the database go on.
            async with _opening(ledger, may_lack=not self.is_replaced.value):
                yield telemetry.measured(application, self.listening.routes) if telemetry else application

    def run(self, listener: socket.socket) -> None:
        """
        Answer calls, in this process or in workers, until a signal says to stop.

        Raises:
            StoppedError: The first worker ended before it took calls.
        """
        import uvicorn

        from game_operator.cli.serve_connections import ServeProtocol
        from game_operator.cli.serve_processes import ANSWER_SECONDS, START_SECONDS, Supervisor

        config = uvicorn.Config(
            self,
            factory=True,
            workers=self.processes.workers,
            http=ServeProtocol,
            interface="asgi3",
            loop="uvloop" if _HAS_UVLOOP else "asyncio",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=self.served.access_log,
            proxy_headers=False,  # X-Forwarded-For is read by IpAllowList alone, from proxies that were named.
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,  # The service's connections should live: a new one costs more than a call.
            timeout_graceful_shutdown=ANSWER_SECONDS,
            timeout_worker_healthcheck=START_SECONDS,
        )
        if self.processes.workers is None:
            uvicorn.Server(config).run([listener])
            return
        supervisor = Supervisor(config, listener, self.announce, self.processes.drain_seconds, self.is_replaced)
        supervisor.run()
        if supervisor.has_failed:
            what = "The first worker ended before it took calls. What it wrote says why."
            raise StoppedError(ExitCode.UNREACHABLE, what, name="WorkersEnded")


def serve(
    *,
    served: ServedOptions,
    callers: CallersOptions,
    listening: ListeningOptions,
    processes: ProcessesOptions,
    games: GamesOptions,
    balances: BalancesOptions,
) -> int:
    """
    Answer the service's webhooks from a ledger, until Ctrl-C or SIGTERM.

    Calls under way are answered before it stops. The reason of a refusal is logged on stderr, and never sent to
    the caller. One process uses one core: --workers starts several, and SIGHUP replaces them one after another.
    GET /healthz and /readyz say whether it lives and how its database is.
    """
    callers.receiver(read_profile(served.profile), listening.host)
    games.check(callers)
    if len(balances.columns) > 1:
        raise ConfigurationError(
            f"--accounts-key names {len(balances.columns)} columns, and serve cannot know the account of a call: it "
            "names a player alone. Serve such a table from a program, whose account_of returns the values of all "
            "columns (docs/how-to/own-transaction.md)."
        )
    balances.accounts()
    file = check_file(address_of(served.database))
    processes.check(file)
    check_extra("game-operator serve", "serve", ("uvicorn", "httptools", *(["uvloop"] if _HAS_UVLOOP else [])))
    if served.telemetry:
        check_extra("game-operator serve --telemetry", "otel", ("opentelemetry",))
        new_telemetry()
    from multiprocessing.resource_tracker import ensure_running

    from game_operator.cli.serve_connections import most_connections
    from game_operator.cli.serve_processes import logging_to_stderr
    from game_operator.ledger import AsyncSqlLedger
    from game_operator.ledger.engine.tables import check_prefix, ddl

    prefix = check_prefix(served.table_prefix)
    if callers.accept_unsigned:
        say("WARNING: calls are accepted WITHOUT A SIGNATURE.", style="bold red", error=True)
        warning = "Anybody who reaches this port can move your players' money. Use it for test money only."
        say(warning, style="bold red", error=True)
    try:
        if not served.migrate and file is not None and not file.exists():  # Opening would make it.
            what = f"There is no file {shown(str(file))}. Is --database right?"
            raise SchemaError(what, statements=ddl("sqlite", prefix))
        most_connections(listening.max_connections)
        with logging_to_stderr(access_log=served.access_log), listening.listener() as listener:
            options = (served, callers, listening, processes, games, balances)
            service = _Service(*options, url=listening.url(listener), is_replaced=RawValue("b", False), pid=os.getpid())
            if processes.workers is not None:
                # A request for a restart that comes too early must not end the command, nor Python's process that
                # tidies up after it, if it is sent to all processes of a service.
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                ensure_running()
            # What would end each process ends the command here, with its message and exit code.
            asyncio.run(_tried(AsyncSqlLedger(service.address, **service.of_ledger)))
            service.run(listener)
    except SchemaError as missing:
        if not missing.statements:
            raise
        for line in missing.statements.splitlines():
            say(line)
        what = f"{missing.what} Is --table-prefix right?" if missing.version == 0 else missing.what
        remedy = "Run the statements, or let serve make them without --no-migrate."
        raise SchemaError(what, remedy=remedy, statements=missing.statements) from None
    remark("The wallet has stopped.")
    return ExitCode.FINE


async def _tried(ledger: "AsyncSqlLedger") -> None:
    async with _opening(ledger, may_lack=False):
        pass


@asynccontextmanager
async def _opening(ledger: "AsyncSqlLedger", *, may_lack: bool) -> AsyncIterator[None]:
    """Open *ledger*, and close it at the end; without its database only if it *may_lack* that."""
    try:
        try:
            await ledger.__aenter__()
            # Balances in the operator's own table are an error now, which is better than one for every call.
            with suppress(AccountNotFoundError):
                await ledger.balance("-")
        except LedgerUnavailableError as away:
            if not may_lack:
                raise
            extra = {"event": "serve.database_away"}
            _LOG.warning("Calls are answered SYSTEM_ERROR for now: %s", away.what, extra=extra)
        yield
    finally:
        await ledger.close()
