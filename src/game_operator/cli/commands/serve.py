"""``game-operator serve``: the ready wallet behind a port, until it is stopped."""

import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.resource_tracker import ensure_running
from multiprocessing.sharedctypes import RawValue
from typing import TYPE_CHECKING, Any, Final

from game_operator.cli.database import LedgerOptions, address_of, check_file
from game_operator.cli.errors import ExitCode, StoppedError
from game_operator.cli.options import check_extra, read_profile
from game_operator.cli.output import answer, remark, say
from game_operator.cli.serve_options import (
    CallersOptions,
    GamesOptions,
    ListeningOptions,
    ServedOptions,
    new_telemetry,
)
from game_operator.errors import (
    AccountNotFoundError,
    ConfigurationError,
    LedgerUnavailableError,
    one_line,
)

if TYPE_CHECKING:
    from game_operator.webhooks.asgi import AsgiApp, Receive, Scope, Send

#: So that /readyz answers within a second, whatever the network does.
_LOOK_SECONDS: Final = 0.8
_LOG = logging.getLogger("game_operator.serve")


@dataclass(frozen=True)
class _Service:
    """A wallet as it is asked for. Each process makes its application of it, from the files as they are then."""

    place: LedgerOptions
    served: ServedOptions
    callers: CallersOptions
    listening: ListeningOptions
    games: GamesOptions
    url: str
    #: A flag that all processes see: whether a worker that is told to stop is replaced.
    is_replaced: Any

    @property
    def of_ledger(self) -> dict[str, Any]:  # Any: options of different types.
        """What opens the ledger."""
        place = self.place
        settings = {"migrate": self.served.migrate, "table_prefix": place.table_prefix, "name": place.ledger_name}
        return {"url": address_of(place.database), "accounts": place.accounts(), **settings}

    def announce(self) -> None:
        """Say where it answers."""
        from game_operator.ledger.engine.address import shown_address

        answer(
            {"url": self.url, "pid": os.getpid()},
            f"The wallet answers at {self.url}, process {os.getpid()}, until Ctrl-C.",
            f"Its ledger is in {one_line(shown_address(address_of(self.place.database)))}.",
        )

    def __call__(self) -> "AsgiApp":
        """Return the application of this process, which its lifespan makes."""
        answered: AsgiApp

        async def live(receive: "Receive", send: "Send") -> None:
            nonlocal answered
            await receive()
            async with self._opened() as answered:
                await send({"type": "lifespan.startup.complete"})
                if self.listening.workers is None:
                    self.announce()
                await receive()
            await send({"type": "lifespan.shutdown.complete"})

        def application(scope: "Scope", receive: "Receive", send: "Send") -> Awaitable[None]:
            return live(receive, send) if scope["type"] == "lifespan" else answered(scope, receive, send)

        return application

    @asynccontextmanager
    async def _opened(self) -> "AsyncIterator[AsgiApp]":
        """Yield what answers; if the database is missing, and nothing else, it answers SYSTEM_ERROR for now."""
        from game_operator.cli.health import Health
        from game_operator.cli.serve_connections import Connections, ServeProtocol, most_connections
        from game_operator.cli.serve_processes import logging_to_stderr, or_end, stop_gently
        from game_operator.ledger import AsyncSqlLedger, SqlLedger
        from game_operator.wallet import AsyncWallet
        from game_operator.webhooks import WebhookReceiver, asgi_app

        async with AsyncExitStack() as life:
            if self.listening.workers is not None:
                life.enter_context(logging_to_stderr(access_log=self.served.access_log))
            life.enter_context(or_end())
            # Who opened the same ledger first has said what there was to see.
            logging.getLogger("game_operator.ledger.opening").setLevel(logging.ERROR)
            ServeProtocol.open_connections = Connections(most_connections(self.listening.max_connections))
            telemetry = new_telemetry() if self.served.telemetry else None
            profile = read_profile(self.served.profile)
            instances, currency_of = life.enter_context(self.games.known(lambda: SqlLedger(**self.of_ledger)))
            receiver = WebhookReceiver(
                authenticator=self.callers.authenticator(self.listening.host),
                profile=profile,
                instances=instances,
                telemetry=telemetry,
            )
            ledger = AsyncSqlLedger(**self.of_ledger, telemetry=telemetry)
            life.push_async_callback(ledger.close)
            wallet = AsyncWallet(ledger, profile=profile, source=self.served.source, currency_of=currency_of)
            health = Health(partial(ledger.ping, timeout_seconds=_LOOK_SECONDS))
            stop_gently(health.drain, self.listening.drain_seconds, self.is_replaced)
            application = health.beside(asgi_app(receiver, wallet, prefix=self.listening.prefix))
            is_successor = self.is_replaced.value
            try:
                await ledger.__aenter__()
            except LedgerUnavailableError as away:
                if is_successor:  # Those that have the database go on.
                    raise
                extra = {"event": "serve.database_away"}
                _LOG.warning("Calls are answered SYSTEM_ERROR for now: %s", away.what, extra=extra)
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
            workers=self.listening.workers,
            http=ServeProtocol,
            interface="asgi3",
            loop="uvloop",
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
        if self.listening.workers is None:
            uvicorn.Server(config).run([listener])
            return
        supervisor = Supervisor(config, listener, self.announce, self.listening.drain_seconds, self.is_replaced)
        supervisor.run()
        if supervisor.has_failed:
            what = "The first worker ended before it took calls. What it wrote says why."
            raise StoppedError(ExitCode.UNREACHABLE, what, name="WorkersEnded")


def serve(
    *,
    place: LedgerOptions,
    served: ServedOptions,
    callers: CallersOptions,
    listening: ListeningOptions,
    games: GamesOptions,
) -> int:
    """
    Answer the service's webhooks from a ledger, until Ctrl-C or SIGTERM.

    Calls under way are answered before it stops. The reason of a refusal is logged on stderr, and never sent to
    the caller. One process uses one core: --workers starts several, and SIGHUP replaces them one after another.
    GET /healthz and /readyz say whether it lives and how its database is.
    """
    if sys.platform == "win32":
        raise ConfigurationError("game-operator serve needs Unix. Serve from a program of yours under uvicorn.")
    callers.authenticator(listening.host)
    read_profile(served.profile)
    games.check()
    if len(place.columns) > 1:
        raise ConfigurationError(
            f"--accounts-key names {len(place.columns)} columns, and serve cannot know the account of a call: it "
            "names a player alone. Serve such a table from a program, whose account_of returns the values of all "
            "columns (docs/how-to/own-transaction.md)."
        )
    # Without --no-migrate the file is made.
    missing = "" if served.migrate else "Is --database right? (`game-operator ledger open` makes a new ledger.)"
    listening.check(check_file(address_of(place.database), missing))
    check_extra("game-operator serve", "serve", ("uvicorn", "httptools", "uvloop"))
    if served.telemetry:
        new_telemetry()
    from game_operator.cli.serve_connections import most_connections
    from game_operator.cli.serve_processes import logging_to_stderr
    from game_operator.ledger import SqlLedger

    most_connections(listening.max_connections)

    if callers.accept_unsigned:
        say("WARNING: calls are accepted WITHOUT A SIGNATURE.", style="bold red", error=True)
        warning = "Anybody who reaches this port can move your players' money. Use it for test money only."
        say(warning, style="bold red", error=True)
    with logging_to_stderr(access_log=served.access_log), listening.listener() as listener:
        options = (place, served, callers, listening, games)
        service = _Service(*options, url=listening.url(listener), is_replaced=RawValue("b", False))
        if listening.workers is not None:
            # A request for a restart that comes too early must not end the command, nor Python's process that
            # tidies up after it, if it is sent to all processes of a service.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            ensure_running()
        # What would end each process ends the command here, with its message and exit code; balances in the
        # operator's own table too, which would be an error for every call.
        with SqlLedger(**service.of_ledger) as ledger, suppress(AccountNotFoundError):
            ledger.balance("-")
        service.run(listener)
    remark("The wallet has stopped.")
    return ExitCode.FINE
